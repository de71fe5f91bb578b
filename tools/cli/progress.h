/* One line of progress on a terminal, drawn over itself. Nothing at all is written where the file
 * is no terminal, where TERM is absent, "dumb" or unknown, or where the terminal cannot clear a
 * line.
 *
 *   replay [===========>            ]  47 %  188 of 400 requests, 612 MiB owned
 *
 * Thread rule: one thread at a time; init reads the terminal description through libtinfo's global
 * state. */
#ifndef MEMBRANE_TOOLS_CLI_PROGRESS_H
#define MEMBRANE_TOOLS_CLI_PROGRESS_H

#include "abi/base/seam.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MBR_PROGRESS_MIN_GAP_NS UINT64_C(100000000) /* between two drawings */
#define MBR_PROGRESS_MAX_LINE_BYTES 256
#define MBR_PROGRESS_MAX_CLEAR_BYTES 16 /* of the terminal's clear-to-end-of-line */

typedef struct mbr_progress_options {
    int file;               /* the caller's, such as STDERR_FILENO; stays open */
    const char *term;       /* the terminal's type, such as getenv("TERM"); NULL draws nothing */
    const char *label;      /* what is going on, ASCII; lives as long as the progress */
    const char *unit;       /* what is counted, plural, ASCII; the same */
    uint64_t total_count;   /* 0: not known, and then there is no bar */
    const mbr_clock *clock; /* NULL: the monotonic one */
} mbr_progress_options;

typedef struct mbr_progress {
    mbr_progress_options options;
    bool is_on;
    bool is_drawn; /* there is a line to clear */
    uint64_t next_draw_ns;
    uint32_t fallback_columns_count;
    char clear[MBR_PROGRESS_MAX_CLEAR_BYTES + 1];
} mbr_progress;

void mbr_progress_init(mbr_progress *progress, const mbr_progress_options *options);

/* Shows how much is done, unless the last drawing was less than MBR_PROGRESS_MIN_GAP_NS ago. `note`
 * (NULL is allowed) is put behind the count. A terminal that is gone turns the display off. */
void mbr_progress_update(mbr_progress *progress, uint64_t done_count, const char *note);

/* Takes the line away. */
void mbr_progress_finish(mbr_progress *progress);

#endif
