/* The records of one sleeper, for the files of this folder alone.
 *
 *     arena_bytes = sum over chunks of what each is charged = sum of the tags' + free_bytes
 *     a tag's chunks hold its pieces, one behind the other   (asleep at level 1)
 *
 * A tag is moved by one call at a time; whoever set it to MOVING owns all of it but the links,
 * until it sets another state. Its ranges are kept (bind/kept.h) from the begin of a sleep to the
 * end of the wake.
 *
 * Locking: `lock` guards the lists and states; nothing of the client interface is called under it.
 */
#ifndef MEMBRANE_HOST_HOLDER_SLEEP_INTERNAL_H
#define MEMBRANE_HOST_HOLDER_SLEEP_INTERNAL_H

#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "abi/base/lock.h"
#include "abi/base/seam.h"
#include "host/backing/watch.h"
#include "host/bind/giver.h"
#include "membrane/ep.h"
#include "membrane/manager.h"
#include "membrane/memory.h"
#include "membrane/range.h"
#include "membrane/sleep.h"

typedef struct mbr_sleep_chunk {
    mbr_allocation_handle allocation;
    uint64_t address;
    uint64_t charged_bytes;
    struct mbr_sleep_chunk *next, *prev;
} mbr_sleep_chunk;

typedef struct mbr_sleep_range {
    mbr_range_handle range;
    uint64_t address;
    struct mbr_sleep_range *next, *prev;
} mbr_sleep_range;

typedef enum mbr_tag_state {
    MBR_TAG_AWAKE = 0,
    MBR_TAG_MOVING,
    MBR_TAG_ASLEEP,
} mbr_tag_state;

typedef struct mbr_tag {
    uint64_t tag;
    mbr_holder_handle holder; /* of all its ranges */
    mbr_tag_state state;
    uint32_t range_count;
    mbr_sleep_range *ranges;
    mbr_piece *pieces;   /* asleep: what was committed */
    uint64_t *addresses; /* of the pieces */
    uint32_t piece_count;
    bool keeps;              /* asleep at level 1 */
    uint64_t bytes;          /* of the pieces */
    mbr_sleep_chunk *chunks; /* its contents; awake: what late copies still write */
    mbr_stream_handle late;  /* copies of a call that timed out may still run on it; 0: none */
    struct mbr_tag *next, *prev;
} mbr_tag;

struct mbr_sleeper {
    mbr_manager *manager;
    mbr_heap heap;
    mbr_binding_handle arena;
    mbr_holder_handle holder;
    mbr_giver giver;
    uint64_t chunk_bytes, keep_bytes;
    mbr_lock lock;
    mbr_tag *tags;
    mbr_sleep_chunk *free; /* coldest first */
    uint64_t arena_bytes, free_bytes, copied_bytes;
};

/* ---- sleeper.c ---- */
/* The tag in `state`, now MOVING, until mbr_tag_end_move. NULL: *status. */
mbr_tag *mbr_tag_begin_move(
    mbr_sleeper *sleeper, uint64_t tag, mbr_tag_state *state, mbr_status *status, mbr_error *error);
void mbr_tag_end_move(mbr_sleeper *sleeper, mbr_tag *tag, mbr_tag_state state);

/* ---- arena.c ---- */
/* Chunks for the tag's bytes, behind those that it has; used first on the stream. All or none. */
mbr_status mbr_chunks_take(
    mbr_sleeper *sleeper, mbr_tag *tag, mbr_stream_handle stream, mbr_error *error);
/* The tag's chunks are free, but those that hold its first `kept_bytes`; above the watermark they
 * go. */
void mbr_chunks_return(mbr_sleeper *sleeper, mbr_tag *tag, uint64_t kept_bytes);
/* Frees free chunks until `bytes` are freed. Returns the bytes; less: the first refusal. */
uint64_t mbr_chunks_free(mbr_sleeper *sleeper, uint64_t bytes, mbr_error *error);
/* Copies of a call that timed out: they are done, or the deadline is reached. */
mbr_status mbr_chunks_await_late(
    mbr_sleeper *sleeper, mbr_tag *tag, uint64_t deadline_ns, mbr_error *error);

/* The copies of one call, out to the chunks or in from them, in the order of the pieces. Set
 * before: all up to `error`. */
typedef struct mbr_copies {
    mbr_sleeper *sleeper;
    mbr_tag *tag;
    bool out;
    mbr_stream_handle stream;
    mbr_error *error;
    uint64_t copied_bytes; /* since the begin, or the last new one */
    uint64_t done_bytes;   /* of the tag: the next copy begins there */
    uint32_t piece;        /* that holds it, and how much of it and of its chunk is done */
    uint64_t piece_bytes, chunk_bytes;
    const mbr_sleep_chunk *chunk;
    bool has_enqueued; /* or may have */
} mbr_copies;

/* Enqueues the copies of the tag's bytes [from, to). Where the last call did not stop at `from`,
 * this is a new begin. */
mbr_status mbr_chunks_copy(mbr_copies *copies, uint64_t from, uint64_t to);
/* Waits for what was enqueued, also after a failure, which is `status`. */
mbr_status mbr_chunks_await(mbr_copies *copies, uint64_t deadline_ns, mbr_status status);

#endif
