/* MEMBRANE_TRACE=calls: one line for each call of a slot. Where it is off, the host's tables hold
 * the plugin's own functions and nothing of this is in their way. */
#ifndef MEMBRANE_HOST_LOADER_TRACE_H
#define MEMBRANE_HOST_LOADER_TRACE_H

#include "host/loader/loader.h"

/* Where a module's lines go. */
typedef struct mbr_trace_sink {
    int fd;       /* -1: off */
    bool is_file; /* opened here, and closed by finish */
} mbr_trace_sink;

/* On if the environment asks for it and the process has no more rights than its user. A file that
 * cannot be opened and a word that nobody knows are said on stderr; lines then go there, or
 * nowhere.
 */
void mbr_trace_sink_init(mbr_trace_sink *sink, const mbr_loader_environment *environment);
void mbr_trace_sink_finish(mbr_trace_sink *sink);

/* Around a call that is made before an instance is there: 0 where the trace is off. */
uint64_t mbr_trace_begin(const mbr_trace_sink *sink);
void mbr_trace_end(const mbr_trace_sink *sink, uint64_t began_ns, const char *plugin,
    const char *slot, const char *detail, mbr_status status);

/* Puts functions that trace in the place of every slot of an opened mechanism, and itself in the
 * place of its instance. Nothing where the sink is off. Errors: MBR_OUT_OF_HOST_MEMORY. */
mbr_status mbr_trace_attach(
    const mbr_trace_sink *sink, const mbr_heap *heap, mbr_mechanism *mechanism, mbr_error *error);
/* After the last call. */
void mbr_trace_detach(const mbr_heap *heap, mbr_mechanism *mechanism);

#endif
