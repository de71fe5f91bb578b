/* Loading a plugin in a child process, so that what its constructors do cannot hurt this one. */
#ifndef MEMBRANE_TOOLS_CLI_PROBE_H
#define MEMBRANE_TOOLS_CLI_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/* Loads and negotiates in a child of this very program; no mechanism is opened. *loads says whether
 * it went well, and `text` what happened: "loads", "refused: …", "killed by signal …", "timed out".
 * False when no child could be made. */
bool mbr_probe(const char *path, bool *loads, char *text, size_t room);

#endif
