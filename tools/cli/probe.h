/* Loading a plugin in a child process, so that what its constructors do cannot hurt this one. */
#ifndef MEMBRANE_TOOLS_CLI_PROBE_H
#define MEMBRANE_TOOLS_CLI_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/* A child of this very program that runs `membrane inspect` with `arguments` (NULL at the end) in a
 * process group of its own. The inspection reports its exit code before it ends, so that a plugin
 * that ends the process cannot look like one that was inspected. */
typedef struct mbr_child {
    const char *const *arguments;
    int out, err; /* -1: /dev/null */
    int timeout_ms;
} mbr_child;

/* The child is gone afterwards, with what it started. *code: what it reported, -1 where it did not
 * end by itself; `text` then says how, "killed by signal …". False when no child could be made:
 * errno. */
bool mbr_child_run(const mbr_child *child, int *code, char *text, size_t room);

/* Loads and negotiates in a child of this very program; no mechanism is opened. *loads says whether
 * it went well, and `text` what happened: "loads", "refused: …", "killed by signal …", "timed out".
 * False when no child could be made. */
bool mbr_probe(const char *path, bool *loads, char *text, size_t room);

#endif
