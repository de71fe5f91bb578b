/* The client's log sink, as plugins and the host reach it (rule 8): bounded lines, a bounded rate,
 * no lock held while the sink runs, nothing after the manager's end. */
#ifndef MEMBRANE_HOST_BIND_LOG_H
#define MEMBRANE_HOST_BIND_LOG_H

#include "abi/base/seam.h"
#include "membrane/plugin.h"

#define MBR_LOG_LINE_BYTES 512       /* of one line; the rest is cut */
#define MBR_LOG_LINES_PER_SECOND 500 /* more are dropped, and their number is said */

typedef struct mbr_log mbr_log;

/* With one reference, the manager's. Errors: MBR_OUT_OF_HOST_MEMORY. */
mbr_status mbr_log_create(const mbr_heap *heap, const mbr_clock *clock, mbr_log_function sink,
    void *context, mbr_log **log, mbr_error *error);

/* For whatever may write to it later: an opened plugin. NULL is no log, and nothing happens. */
void mbr_log_retain(mbr_log *log);
void mbr_log_release(mbr_log *log);
/* As release, for a plugin whose code stays with an instance that could not be closed: the log
 * stays, too. */
void mbr_log_keep(mbr_log *log);

/* After it the sink is not running and never runs again. Releases the manager's reference. */
void mbr_log_end(mbr_log *log);

/* An mbr_log_function whose context is the log. [any-thread] Lines are dropped while their thread
 * is in the sink, and after the end. */
void mbr_log_write(void *log, uint32_t level, const char *text, uint64_t text_bytes);

#endif
