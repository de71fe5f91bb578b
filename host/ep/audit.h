/* A context's books, recomputed from its lists: the check functions of the equations above the
 * structs in internal.h, and the state tables as the tests and docs/ordering.md read them. */
#ifndef MEMBRANE_HOST_EP_AUDIT_H
#define MEMBRANE_HOST_EP_AUDIT_H

#include "host/ep/context.h"

/* NULL if every equation holds, else the first one that does not. Walks everything, under the
 * context's lock. */
const char *mbr_context_audit(mbr_context *context);

/* Whether a stream with this id is attached now. */
bool mbr_context_knows_stream(mbr_context *context, uint64_t stream_id);

/* The names of the states, in the order of their table; NULL past the last. */
const char *mbr_context_state_name(uint32_t state); /* MBR_CONTEXT_… */
bool mbr_context_may_move(uint32_t from, uint32_t to);
const char *mbr_line_state_name(uint32_t state);
bool mbr_line_may_move(uint32_t from, uint32_t to);
const char *mbr_graph_state_name(uint32_t state);
bool mbr_graph_may_move(uint32_t from, uint32_t to);

#endif
