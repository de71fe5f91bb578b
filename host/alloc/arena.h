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
 * A holder with an allowance takes the exact path instead. The cache itself may be the holder: then
 * nothing moves. */
#ifndef MEMBRANE_HOST_ALLOC_ARENA_H
#define MEMBRANE_HOST_ALLOC_ARENA_H

#include "host/backing/backing.h"
#include "membrane/memory.h"

#define MBR_CLASS_MAX_BYTES (UINT64_C(64) << 20)
#define MBR_ALLOCATION_LIMIT_COUNT (UINT64_C(1) << 26) /* live allocations of one table */
#define MBR_PAYER_LIMIT_COUNT 1024 /* holders of one arena, its cache included */

/* All records of one manager: handle -> record, address -> record. */
typedef struct mbr_alloc_table mbr_alloc_table;
typedef struct mbr_arena mbr_arena;

/* By MBR_ALLOCATION_…; state 0 is a block that was never handed out. */
extern const mbr_state_table mbr_allocation_states;

mbr_status mbr_alloc_table_create(const mbr_heap *heap, mbr_alloc_table **table, mbr_error *error);
/* NULL is allowed. Every arena of it is gone. */
void mbr_alloc_table_destroy(mbr_alloc_table *table);

typedef struct mbr_arena_options {
    mbr_alloc_table *table;
    mbr_backing *backing;
    mbr_context *context; /* a span pins it */
    uint32_t isolation_group;
    uint64_t keep_bytes;  /* idle slabs above it go back to the backing as they become idle */
    const mbr_heap *heap; /* copied; its context outlives the arena */
} mbr_arena_options;

mbr_status mbr_arena_create(const mbr_arena_options *options, mbr_arena **arena, mbr_error *error);
/* Gives every idle slab back. MBR_IN_USE with counts while an allocation lives, is queued or is
 * quarantined; the arena then goes on. Nobody else is in a call of the arena. */
mbr_status mbr_arena_destroy(mbr_arena *arena, mbr_error *error);

typedef struct mbr_arena_request {
    mbr_holder *holder;
    uint64_t stream_id;
    uint64_t bytes, align_bytes;
    uint32_t flags; /* MBR_ALLOC_… */
    uint64_t tag;
    mbr_refusal *refusal;
} mbr_arena_request;

/* Hot path: no malloc, no shared lock, no syscall (I20). result->struct_size is the caller's.
 *
 * Size 0 gives a block of the smallest class. Content is ZERO, as the backing said for a block that
 * was never handed out before, or STALE: bytes of an earlier allocation of this arena.
 *
 * Before a refusal completed releases are reaped, blocks that threads keep and idle slabs go back,
 * the backing evicts what is missing. Errors: MBR_OVER_BUDGET and the backing's; MBR_OVERFLOW;
 * MBR_INVALID_ARGUMENT (alignment, holder of another authority); MBR_UNSUPPORTED (a flag, or ZEROED
 * where nobody can fill); MBR_OUT_OF_HOST_MEMORY; MBR_OUT_OF_DESCRIPTORS (holders); MBR_BUSY
 * (context retiring), MBR_DEVICE_LOST. */
mbr_status mbr_arena_alloc(
    mbr_arena *arena, const mbr_arena_request *request, mbr_alloc_result *result, mbr_error *error);

/* The shortest way of the hot path: no stream, tag, flag or wish for an alignment. False: nothing
 * happened, *result is untouched, and mbr_arena_alloc decides. holder_id is the holder's own. */
bool mbr_arena_try_alloc(const mbr_arena *arena, const mbr_holder *holder, uint64_t holder_id,
    uint64_t bytes, mbr_alloc_result *result);

/* By handle, or by the allocation's start. now: the caller proves quiescence; otherwise after the
 * streams, or the allocation's own stream if there are none given; at once where it has none.
 *
 * One that was given again or is quarantined waits for its own stream in any case, while that is
 * attached.
 *
 * MBR_UNKNOWN_OBJECT: unknown, interior, or released or queued already: exactly one of racing
 * threads succeeds. MBR_STALE: none was given, and its own stream is detached. A failure of
 * mbr_context_defer is returned and the allocation is still live, except MBR_DEVICE_LOST: the free
 * is accepted; the allocation is lost and stays charged, or is released if the end of its context
 * is confirmed. */
mbr_status mbr_alloc_free(mbr_alloc_table *table, mbr_allocation_handle allocation,
    uint64_t address, bool now, const uint64_t *stream_ids, uint32_t stream_count,
    mbr_error *error);
/* The shortest way: by handle, and the caller proves quiescence. False: nothing happened, and
 * mbr_alloc_free says why. */
bool mbr_alloc_try_free(mbr_alloc_table *table, mbr_allocation_handle allocation);
/* By handle, or by any address inside. MBR_STALE: released, or its block belongs to a later
 * allocation; MBR_UNKNOWN_OBJECT. figures->struct_size is the caller's. */
mbr_status mbr_alloc_table_read(mbr_alloc_table *table, mbr_allocation_handle allocation,
    uint64_t address, mbr_allocation_figures *figures, mbr_error *error);

/* Folds every thread's tally of the arena into the books. */
void mbr_arena_fold(mbr_arena *arena);
/* The holder with this id was destroyed: its place is free for another one. A holder is folded
 * before it is destroyed. */
void mbr_arena_forget_holder(mbr_arena *arena, uint64_t holder_id);
/* Gives idle slabs back to the backing, longest idle first, until at most keep_bytes of them are
 * cached (the arena's own watermark where that is less); blocks that threads keep go back to their
 * slabs first. Returns the bytes given. */
uint64_t mbr_arena_trim(mbr_arena *arena, uint64_t keep_bytes);
/* What lives and is not freed is nobody's any more: quarantined, charged as before, until it is
 * freed after all or the end of its context is confirmed. Nobody allocates here any more; frees may
 * race. Returns how many are quarantined by it. */
uint64_t mbr_arena_abandon(mbr_arena *arena);
/* The end of the arena's lost context is confirmed from outside: its quarantined allocations are
 * released, and every idle slab goes to the backing, which is told the same after this. What lives
 * is released by its free, at once. Returns the bytes of the quarantined allocations. */
uint64_t mbr_arena_confirm_lost(mbr_arena *arena);

typedef struct mbr_arena_figures {
    uint64_t live_count, live_bytes; /* handed out, in class bytes */
    uint64_t queued_count, queued_bytes;
    uint64_t slab_bytes, idle_bytes; /* of all spans; of those with no block out */
    uint64_t quarantined_count;      /* lost with the device, or abandoned */
} mbr_arena_figures;

/* Exact for threads at rest. */
void mbr_arena_read(mbr_arena *arena, mbr_arena_figures *figures);
/* Recomputes the arena's totals from its records. MBR_OK, or MBR_INTERNAL with the first equation
 * that does not hold. Call it with threads at rest. */
mbr_status mbr_arena_audit(mbr_arena *arena, mbr_error *error);

#endif
