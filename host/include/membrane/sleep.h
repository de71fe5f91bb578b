/* Sleep and wake: growing memory that gives its device bytes back for a while and has them again,
 * at the same addresses, with the same contents.
 *
 * A sleeper keeps ranges by tags; a range belongs to at most one. A tag falls asleep and wakes as a
 * whole:
 *
 *     awake --sleep, level 1--> asleep, contents in the arena --wake--> awake
 *     awake --sleep, level 2--> asleep, contents dropped      --wake--> awake, undefined or zero
 *
 * The arena is memory that the host reaches (plain or pinned), taken in chunks, paid by a holder of
 * its own. Chunks are kept warm between cycles, up to a watermark, and are what the sleeper can
 * give under pressure; those that hold contents are not.
 *
 * While a tag sleeps, and on its way there and back, every call that would change one of its ranges
 * is MBR_BUSY and changes nothing: growth, decommit, release, pin, prefixes. Nobody touches what is
 * behind the addresses, and no graph that does is launched. Views of before are MBR_STALE: other
 * memory stands there since; a graph that captured addresses alone is right again after the wake.
 *
 * Ranges alone sleep, those of a KV cache's sequences (mbr_sequence_lend) among them. What is
 * refused, with MBR_BUSY and the reason: a range that is pinned, that a graph owns a part of, or of
 * whose device a stream is being captured. Plain allocations have no range.
 *
 * What a prefix or other ranges have, too, is no single range's to give back: it stays where it is,
 * contents and access with it, in the range that the prefix was made of and in those that share it.
 * Whoever pays goes on paying, and the sleeper is a user like others: the prefix may end meanwhile,
 * and if all others go, too, the bill is the holder's. Then it is like the rest when the tag falls
 * asleep the next time, or is told once more to sleep.
 *
 * Thread rule: any thread; calls on one tag exclude each other with MBR_BUSY. */
#ifndef MEMBRANE_SLEEP_H
#define MEMBRANE_SLEEP_H

#include "membrane/budget.h"
#include "membrane/handle.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_sleeper mbr_sleeper;

typedef struct mbr_sleeper_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    mbr_binding_handle arena; /* memory that the host reaches, with the EP of the ranges; 0:
                               * contents are never kept, level 1 is MBR_UNSUPPORTED */
    mbr_holder_handle holder; /* pays for the arena; role staging */
    uint64_t chunk_bytes;     /* of the arena; 0: 64 MiB. From 16 MiB on what is given of it is free
                               * for others at once, else with the other chunks of its slab */
    uint64_t keep_bytes;      /* of free chunks, kept between cycles; UINT64_MAX: all */
} mbr_sleeper_request;

/* Takes no bytes yet. Errors: MBR_OUT_OF_HOST_MEMORY, MBR_STALE (arena, holder),
 * MBR_OUT_OF_DESCRIPTORS (the holder cannot be asked for bytes: too many of its authority are). */
MBR_API mbr_status mbr_sleeper_create(mbr_manager *manager, const mbr_sleeper_request *request,
    mbr_sleeper **sleeper, mbr_error *error);
/* Forgets its ranges, which live on. MBR_IN_USE with the count while tags sleep: wake or drop them.
 * MBR_TIMED_OUT at deadline_ns: copies of a call that timed out still run; MBR_QUEUE_FULL: the
 * release queue has no room for a chunk. Then it lives on. */
MBR_API mbr_status mbr_sleeper_destroy(
    mbr_sleeper *sleeper, uint64_t deadline_ns, mbr_error *error);

/* The range belongs to the tag from now on. `holder` pays for it, asleep for nothing, and again
 * once it wakes; all of a tag have the same one, and are of one mechanism. Errors:
 * MBR_ALREADY_EXISTS (it belongs to a tag), MBR_INVALID_ARGUMENT (of another holder or mechanism
 * than the tag), MBR_BUSY (the tag is not awake), MBR_STALE, MBR_OUT_OF_HOST_MEMORY. */
MBR_API mbr_status mbr_sleeper_add(mbr_sleeper *sleeper, mbr_range_handle range,
    mbr_holder_handle holder, uint64_t tag, mbr_error *error);
/* Before the range is released. Errors: MBR_UNKNOWN_OBJECT (no tag has it), MBR_BUSY (not awake).
 */
MBR_API mbr_status mbr_sleeper_remove(
    mbr_sleeper *sleeper, mbr_range_handle range, mbr_error *error);

#define MBR_SLEEP_KEEP 1 /* level 1 */
#define MBR_SLEEP_DROP 2 /* level 2 */

typedef struct mbr_sleep_request {
    uint32_t struct_size;
    uint32_t level; /* MBR_SLEEP_… */
    uint64_t tag;
    mbr_stream_handle stream; /* runs the copies; level 2: may be 0 */
    const mbr_stream_handle *streams;
    uint32_t stream_count; /* others that may still touch the ranges: they are waited for */
    uint32_t reserved_0;
    uint64_t deadline_ns; /* of CLOCK_MONOTONIC, for all waits together; UINT64_MAX: none */
} mbr_sleep_request;

typedef struct mbr_sleep_result {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t slept_bytes;    /* that the ranges had committed, and nobody else had */
    uint64_t copied_bytes;   /* level 1: by this call */
    uint64_t released_bytes; /* went back to the system: others may take them at once */
    uint64_t deferred_bytes; /* of the ranges: on its way back behind streams of an earlier decommit
                              * or a capture that began meanwhile; charged until mbr_ep_drain */
    uint64_t residual_bytes; /* with MBR_RESIDUAL: still committed; sleeping again and the wake try
                              * once more */
    uint64_t shared_bytes;   /* of the ranges: stay committed, since others have them */
} mbr_sleep_result;

/* Waits for the streams, copies in one batch, gives back; and as many bytes go from the cache to
 * the system. A tag without committed bytes may sleep. One that sleeps already gives back what an
 * earlier call left and what others have stopped sharing since, which at level 1 is copied behind
 * the rest; at level 2 also its contents.
 *
 * Errors, and then the tag is as it was: MBR_UNKNOWN_OBJECT (no such tag), MBR_INVALID_ARGUMENT
 * (level 1 of one that sleeps without contents), MBR_BUSY (see above), MBR_OVER_BUDGET or the
 * arena's MBR_OUT_OF_… (no room for the contents; chunks that were made for it stay, free, up to
 * keep_bytes), MBR_TIMED_OUT (at the deadline; copies may still
 * run: the stream stays attached until a later call on the tag, or the sleeper's end, did not time
 * out), those of a copy, MBR_UNSUPPORTED (level 1 without an arena). MBR_RESIDUAL: it sleeps,
 * contents kept as the level says, but not all could be given back. */
MBR_API mbr_status mbr_sleeper_sleep(mbr_sleeper *sleeper, const mbr_sleep_request *request,
    mbr_sleep_result *result, mbr_error *error);

#define MBR_WAKE_ZEROED 1 /* critical: what has no contents, after level 2, is zero */

typedef struct mbr_wake_request {
    uint32_t struct_size;
    uint32_t flags; /* MBR_WAKE_… */
    uint64_t tag;
    mbr_stream_handle stream; /* runs the copies and fills; after level 2: may be 0 */
    uint64_t deadline_ns;
    mbr_refusal *refusal; /* filled with MBR_OVER_BUDGET; may be NULL */
} mbr_wake_request;

typedef struct mbr_wake_result {
    uint32_t struct_size;
    uint32_t content;      /* MBR_CONTENT_… of what has no contents, after level 2 */
    uint64_t woken_bytes;  /* committed again */
    uint64_t copied_bytes; /* after level 1; done when the call returns */
} mbr_wake_result;

/* One transaction over all ranges of the tag. All bytes are granted first; then copies into what
 * stands run while the rest is mapped. A refusal meanwhile waits for them, up to 10 s past any
 * deadline, before it gives back. What a sleep left committed (MBR_RESIDUAL) is given back before
 * all that. Errors, and then it still sleeps, its contents kept: those of mbr_range_grow, of a
 * decommit, of a copy, MBR_BUSY (residual bytes that are still refused), MBR_TIMED_OUT (as of
 * sleep), MBR_DEVICE_LOST, MBR_UNKNOWN_OBJECT (no such tag, or it is awake). */
MBR_API mbr_status mbr_sleeper_wake(mbr_sleeper *sleeper, const mbr_wake_request *request,
    mbr_wake_result *result, mbr_error *error);

/* Gives up the contents of a sleeping tag, whose ranges are awake then with nothing committed but
 * what others share and what a sleep left (MBR_RESIDUAL): they may be grown or released. The way
 * out after a loss of the device. Errors: MBR_UNKNOWN_OBJECT (no such tag, or it is awake),
 * MBR_TIMED_OUT (copies of a call that timed out still run). */
MBR_API mbr_status mbr_sleeper_drop(
    mbr_sleeper *sleeper, uint64_t tag, uint64_t deadline_ns, mbr_error *error);

/* The arena's holder is asked for bytes: without callbacks of the client's (mbr_holder_request) the
 * sleeper answers by itself, with these: free chunks, at most `wanted_bytes` in whole
 * chunks; and giving them, also to the cache of the arena's binding. Returns the bytes; both 0
 * while a capture is open on the arena's device. */
MBR_API uint64_t mbr_sleeper_could_give(mbr_sleeper *sleeper, uint64_t wanted_bytes);
MBR_API uint64_t mbr_sleeper_give(mbr_sleeper *sleeper, uint64_t wanted_bytes);

typedef struct mbr_sleeper_figures {
    uint32_t struct_size;
    uint32_t tag_count;
    uint32_t asleep_count; /* of tags */
    uint32_t range_count;
    uint64_t asleep_bytes; /* that sleeping ranges will commit again */
    uint64_t arena_bytes;  /* charged to the arena's holder */
    uint64_t free_bytes;   /* of arena: in chunks without contents */
    uint64_t copied_bytes; /* since create, both ways */
} mbr_sleeper_figures;

MBR_API void mbr_sleeper_read(mbr_sleeper *sleeper, mbr_sleeper_figures *figures);

#ifdef __cplusplus
}
#endif

#endif
