/* Arenas: plain allocations of one binding. Size classes up to MBR_CLASS_MAX_BYTES are cut from
 * slabs over spans of the backing; threads keep blocks of their own; a block's record lives outside
 * the memory it describes and is attached to it for the slab's life. Larger ones take a span each.
 *
 * Bytes: a span is paid by the backing's cache. A block that is handed out moves its class's bytes
 * to its holder in the thread's own tally, which only its thread writes and which is folded into
 * the books at slab edges and before figures are read:
 *
 *     charge of a holder here = sum over threads (allocated - freed) of that holder
 *     cache pays              = span bytes - sum of the above
 *
 * A holder with an allowance takes the exact path instead. */
#ifndef MEMBRANE_HOST_ALLOC_ARENA_H
#define MEMBRANE_HOST_ALLOC_ARENA_H

#include "host/backing/backing.h"
#include "membrane/memory.h"

#define MBR_CLASS_MAX_BYTES (UINT64_C(64) << 20)
#define MBR_ALLOCATION_LIMIT_COUNT (UINT64_C(1) << 26) /* live allocations of one table */

/* All records of one manager: handle -> record, address -> record. */
typedef struct mbr_alloc_table mbr_alloc_table;
typedef struct mbr_arena mbr_arena;

extern const mbr_state_table mbr_allocation_states;

mbr_status mbr_alloc_table_create(const mbr_heap *heap, mbr_alloc_table **table, mbr_error *error);
void mbr_alloc_table_destroy(mbr_alloc_table *table);

typedef struct mbr_arena_options {
    mbr_alloc_table *table;
    mbr_backing *backing;
    mbr_context *context; /* a span pins it */
    uint32_t isolation_group;
    const mbr_heap *heap;
} mbr_arena_options;

mbr_status mbr_arena_create(const mbr_arena_options *options, mbr_arena **arena, mbr_error *error);
/* Gives every idle slab back. MBR_IN_USE with counts while an allocation lives or is queued. */
mbr_status mbr_arena_destroy(mbr_arena *arena, mbr_error *error);

typedef struct mbr_arena_request {
    mbr_holder *holder;
    uint64_t stream_id;
    uint64_t bytes, align_bytes;
    uint32_t flags; /* MBR_ALLOC_… */
    uint64_t tag;
    mbr_refusal *refusal;
} mbr_arena_request;

/* Hot path: no malloc, no shared lock, no syscall (I20). */
mbr_status mbr_arena_alloc(
    mbr_arena *arena, const mbr_arena_request *request, mbr_alloc_result *result, mbr_error *error);

/* By handle, or by the allocation's start. now: the caller proves quiescence; otherwise after the
 * streams, or the allocation's own stream if there are none given. */
mbr_status mbr_alloc_free(mbr_alloc_table *table, mbr_allocation_handle allocation,
    uint64_t address, bool now, const uint64_t *stream_ids, uint32_t stream_count,
    mbr_error *error);
mbr_status mbr_alloc_table_read(mbr_alloc_table *table, mbr_allocation_handle allocation,
    uint64_t address, mbr_allocation_figures *figures, mbr_error *error);

/* Folds every thread's tally of the arena into the books. */
void mbr_arena_fold(mbr_arena *arena);
/* Gives idle slabs back to the backing until at most keep_bytes of them are cached. */
uint64_t mbr_arena_trim(mbr_arena *arena, uint64_t keep_bytes);

typedef struct mbr_arena_figures {
    uint64_t live_count, live_bytes; /* handed out, in class bytes */
    uint64_t queued_count, queued_bytes;
    uint64_t slab_bytes, idle_bytes;
    uint64_t quarantined_count;
} mbr_arena_figures;

void mbr_arena_read(mbr_arena *arena, mbr_arena_figures *figures);
mbr_status mbr_arena_audit(mbr_arena *arena, mbr_error *error);

#endif
