/* The records of the allocation table and of its arenas, for the files of this folder alone.
 *
 * A record stands for one block as long as its slab lives, and for one allocation at a time. It is
 * type-stable: a lookup by handle or address takes no lock and may find a record of any age. What
 * it finds is valid while the record's word, generation and state in one, is the one that it read:
 * a block changes its place, slab or owner only between two lives.
 *
 * Whoever names a block names it by its record's index, in handles, magazines and lists: from that
 * its slab is found without the record, which may be in no cache where millions live. So the loads
 * of both, and all that follows from the slab, need not wait for each other.
 *
 *     a block is in exactly one place:  its slab's bits | a thread's magazine | out
 *     out   = live (captured and given again, too) + queued + quarantined (lost, too)
 *     bin.out_count = blocks in magazines + out
 *     slab is idle <=> none of its blocks is in a magazine or out
 *
 * Which outsider may touch which field: words move in record.h only; bins, bits and lists in
 * slab.c; magazines in cache.h and cache.c; tallies and payers in payer.h and payer.c. */
#ifndef MEMBRANE_HOST_ALLOC_INTERNAL_H
#define MEMBRANE_HOST_ALLOC_INTERNAL_H

#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "abi/base/line.h"
#include "abi/base/lock.h"
#include "host/alloc/arena.h"
#include "host/alloc/class.h"
#include "host/alloc/map.h"

#include <stdalign.h>

/* Kept out of its caller, whose frame would otherwise grow for what rarely happens. */
#define MBR_RARE __attribute__((noinline, cold))

typedef struct mbr_slab mbr_slab;
typedef struct mbr_cache mbr_cache;

/* ---- Records ------------------------------------------------------------------------------------
 * Eight to a cache line. */
typedef struct mbr_record {
    _Atomic uint64_t word; /* record.h */
} mbr_record;

/* Written only where the word has no room for it. */
typedef struct mbr_note {
    _Atomic uint64_t stream_id;
    _Atomic uint64_t tag;
    _Atomic uint64_t slack_bytes; /* of the block, not asked for; not of a span of its own */
} mbr_note;

/* A place in the release queue; touched only by frees that wait. */
typedef struct mbr_waiting {
    mbr_deferred deferred; /* first: who finds it has found the entry */
    mbr_arena *arena;
    uint32_t block;
} mbr_waiting;

#define MBR_INDEX_BITS 26
#define MBR_CHUNK_BITS 13
#define MBR_CHUNK_COUNT (1u << (MBR_INDEX_BITS - MBR_CHUNK_BITS))
#define MBR_CHUNK_RECORDS (1u << MBR_CHUNK_BITS)
#define MBR_RUN_ORDERS (MBR_CHUNK_BITS + 1) /* a slab's run of records has 2^order of them */

_Static_assert(MBR_ALLOCATION_LIMIT_COUNT == UINT64_C(1) << MBR_INDEX_BITS, "handles hold indexes");
_Static_assert(MBR_SLAB_BLOCK_LIMIT_COUNT <= MBR_CHUNK_RECORDS, "a slab's records are one run");

/* Its runs have one order, so that an index gives the run. */
typedef struct mbr_chunk {
    alignas(MBR_LINE_BYTES) mbr_record records[MBR_CHUNK_RECORDS];
    _Atomic(mbr_slab *) slabs[MBR_CHUNK_RECORDS]; /* by run; fixed while the slab lives */
    mbr_note notes[MBR_CHUNK_RECORDS];
    mbr_waiting waiting[MBR_CHUNK_RECORDS];
    void *block; /* what is to be released */
} mbr_chunk;

struct mbr_alloc_table {
    mbr_heap heap;
    mbr_lock lock;
    uint32_t chunk_count; /* lock; the first is never made: index 0 names nothing */
    uint32_t
        cut[MBR_RUN_ORDERS]; /* lock; of each order, the next run that was never given; 0: none */
    uint32_t runs[MBR_RUN_ORDERS]; /* lock; free runs, linked through the notes' tags */
    mbr_slab *spare_slabs;         /* lock */
    void *slab_blocks; /* lock; what slabs were cut from, linked through the first word */
    _Atomic(mbr_chunk *) chunks[MBR_CHUNK_COUNT];
    _Atomic uint8_t orders[MBR_CHUNK_COUNT]; /* of chunks that are there */
    mbr_map map;                             /* changed under lock */
};

/* ---- Slabs --------------------------------------------------------------------------------------
 * Type-stable like the records: the first line is read without a lock. */
struct mbr_slab {
    alignas(MBR_LINE_BYTES) _Atomic uint64_t address;
    _Atomic uint64_t block_bytes;  /* charged for a block */
    _Atomic uint64_t usable_bytes; /* of a block */
    _Atomic uint64_t reciprocal;   /* of block_bytes, to divide by it */
    _Atomic uint64_t asked_bytes;  /* of the one block of a span of its own */
    _Atomic uint32_t first_index;  /* of the records, in the blocks' order */
    _Atomic uint32_t block_count;
    mbr_arena *arena;
    uint32_t class_index;         /* or MBR_CLASS_OWN_SPAN */
    _Atomic bool host_accessible; /* the processor reads and writes the blocks */

    alignas(MBR_LINE_BYTES) uint64_t *bits; /* the arena's lock, like all below: blocks here */
    uint32_t word_count;                    /* of bits */
    uint32_t first_word;                    /* no block is in the words before it */
    uint32_t here_count;                    /* bits that are set */
    uint32_t carved_count; /* blocks that have been in the bits; the rest were never touched */
    uint32_t worn_count;   /* blocks whose record is out of generations: here for ever */
    uint32_t order;        /* of the run of records */
    bool idle;
    mbr_span span;
    mbr_slab *next, *prev;           /* in the bin's partial or idle list */
    mbr_slab *idle_next, *idle_prev; /* in the arena's list, longest idle first; spare slabs */
    mbr_slab *all_next, *all_prev;   /* of the arena */
};

/* ---- Payers -------------------------------------------------------------------------------------
 * A holder as one arena knows it. Index 0 is the cache, for which nothing moves. */
#define MBR_PAYER_PAGE_BITS 4
#define MBR_PAYER_PAGE_COUNT (MBR_PAYER_LIMIT_COUNT >> MBR_PAYER_PAGE_BITS)
#define MBR_PAYERS_OF_PAGE (1u << MBR_PAYER_PAGE_BITS)

typedef struct mbr_payer {
    mbr_holder *holder; /* the arena's lock, like all below; NULL: free */
    uint64_t holder_id;
    bool exact;               /* has an allowance: pays at once */
    uint64_t allocated_bytes; /* by threads that are gone, or had no room for a tally */
    uint64_t freed_bytes;
    uint64_t folded_bytes; /* in the books */
} mbr_payer;

/* One thread's part of one payer. Only its thread writes; both only rise. */
typedef struct mbr_tally {
    _Atomic uint64_t allocated_bytes;
    _Atomic uint64_t freed_bytes;
} mbr_tally;

typedef struct mbr_tally_page {
    alignas(MBR_LINE_BYTES) mbr_tally tallies[MBR_PAYERS_OF_PAGE];
    void *block; /* what is to be released */
} mbr_tally_page;

/* ---- Threads' caches ----------------------------------------------------------------------------
 * A magazine is a stack of blocks. Its thread pushes and pops without a lock; whoever holds the
 * arena's lock may empty it at any moment, so a pop is an exchange. Entries at or above top_index
 * are 0, but for one that its thread pushes right now; those below may have been taken. */
typedef struct mbr_magazine {
    _Atomic uint32_t *blocks;
    _Atomic uint32_t top_index; /* written by its thread alone (mbr_magazine_top) */
    uint32_t limit_count;
    uint64_t counted_bytes; /* of a block of a large class; 0: small ones are not counted */
    void *block;            /* of a magazine that grew: what is to be released */
} mbr_magazine;

/* The last payers that a thread used. */
#define MBR_MEMO_COUNT 16 /* by the low bits of the holder's id */

typedef struct mbr_memo {
    const mbr_holder *holder;
    uint64_t holder_id;
    uint64_t bits;    /* of a word: the payer */
    mbr_tally *tally; /* NULL: an exact payer, or the cache */
} mbr_memo;

/* What one thread keeps of one arena: of small classes what their magazines hold, at most 4 MiB
 * each and 86 MiB together; of large ones at most this. */
#define MBR_CACHE_LARGE_LIMIT_BYTES (UINT64_C(256) << 20)

struct mbr_cache {
    alignas(MBR_LINE_BYTES) mbr_arena *arena;
    uint64_t large_bytes; /* at least what the magazines of large classes hold */
    mbr_memo memos[MBR_MEMO_COUNT];
    mbr_magazine magazines[MBR_CLASS_COUNT];
    _Atomic(mbr_tally_page *) pages[MBR_PAYER_PAGE_COUNT];
    mbr_cache *next, *prev;                              /* of the arena; its lock */
    mbr_cache *thread_next, *thread_prev, **thread_list; /* of the thread; the threads' lock */
    void *block;                                         /* what is to be released */
    _Atomic uint32_t entries[];                          /* of magazines that did not grow */
};

/* ---- Arenas ---------------------------------------------------------------------------------- */
typedef struct mbr_bin {
    mbr_slab *partial; /* have blocks here, are not idle */
    mbr_slab *idle;    /* last one first */
    uint64_t out_count;
    mbr_shelf queued; /* blocks in the release queue; the context's */
} mbr_bin;

struct mbr_arena {
    /* Written at creation only. */
    alignas(MBR_LINE_BYTES) uint64_t id; /* of the process; never used again */
    mbr_alloc_table *table;
    mbr_backing *backing;
    mbr_context *context;
    const mbr_fork_flag *serves; /* the context's: down in a forked child */
    mbr_holder *cache_holder;
    mbr_idle_keeper keeper; /* idle slabs, when the cache is asked */
    mbr_heap heap;
    const mbr_mechanism *mechanism; /* the backing's */
    uint32_t isolation_group;

    alignas(MBR_LINE_BYTES) _Atomic uint64_t queued_count;
    _Atomic uint64_t queued_bytes;

    alignas(MBR_LINE_BYTES) mbr_lock lock; /* guards all below */
    mbr_condition given;
    uint64_t giving_count; /* threads that give detached slabs to the backing */
    uint64_t keep_bytes;
    uint64_t quarantined_count, quarantined_bytes; /* lost with their device, or abandoned */
    uint64_t slab_bytes, idle_bytes;               /* owned by their spans */
    mbr_slab *slabs;                               /* all but detached ones */
    mbr_slab *idle_slabs;
    uint64_t idle_peak_bytes; /* since a slab last left; what the backing counts */
    bool idle_rose;           /* since the backing was last told to keep its watermark */
    mbr_slab *worn;           /* idle, with worn blocks: they leave next */
    mbr_cache *caches;
    uint32_t payer_count; /* places that were ever used */
    mbr_payer *payers[MBR_PAYER_PAGE_COUNT];
    mbr_bin bins[MBR_CLASS_COUNT + 1]; /* the last: spans of their own */
    void *block;
};

/* ---- table.c --------------------------------------------------------------------------------- */
static inline mbr_chunk *mbr_table_chunk(const mbr_alloc_table *table, uint32_t index)
{
    return atomic_load_explicit(
        &table->chunks[index >> MBR_CHUNK_BITS & (MBR_CHUNK_COUNT - 1)], memory_order_acquire);
}

/* Any index; NULL where no record was made yet. */
static inline mbr_record *mbr_table_record(const mbr_alloc_table *table, uint32_t index)
{
    mbr_chunk *chunk = mbr_table_chunk(table, index);
    return chunk == NULL ? NULL : &chunk->records[index & (MBR_CHUNK_RECORDS - 1)];
}

/* Of a record in this chunk; NULL where it never stood for a block. */
static inline mbr_slab *mbr_chunk_slab(
    const mbr_alloc_table *table, const mbr_chunk *chunk, uint32_t index)
{
    uint8_t order = atomic_load_explicit(
        &table->orders[index >> MBR_CHUNK_BITS & (MBR_CHUNK_COUNT - 1)], memory_order_relaxed);
    return atomic_load_explicit(
        &chunk->slabs[(index & (MBR_CHUNK_RECORDS - 1)) >> order], memory_order_relaxed);
}

/* Of a record that was made. */
static inline mbr_slab *mbr_table_slab(const mbr_alloc_table *table, uint32_t index)
{
    return mbr_chunk_slab(table, mbr_table_chunk(table, index), index);
}

/* The record's own note and place in the queue. */
static inline mbr_note *mbr_table_note(const mbr_alloc_table *table, uint32_t index)
{
    return &mbr_table_chunk(table, index)->notes[index & (MBR_CHUNK_RECORDS - 1)];
}

static inline mbr_waiting *mbr_table_waiting(const mbr_alloc_table *table, uint32_t index)
{
    return &mbr_table_chunk(table, index)->waiting[index & (MBR_CHUNK_RECORDS - 1)];
}

/* A slab with a run of records for block_count blocks at span's addresses, entered in the map; its
 * other fields are zero. MBR_OUT_OF_HOST_MEMORY, MBR_OUT_OF_DESCRIPTORS (records),
 * MBR_CONTRACT_BROKEN (addresses that are taken or no addresses). */
mbr_status mbr_table_make_slab(mbr_alloc_table *table, const mbr_span *span, uint32_t block_count,
    mbr_slab **slab, mbr_error *error);
/* Nobody can find it by its addresses any more. The slab's memory is used for another one. */
void mbr_table_end_slab(mbr_alloc_table *table, mbr_slab *slab);

/* The block that holds address, and its record's word; 0 if there is none that is or was live. */
uint32_t mbr_table_find_address(
    const mbr_alloc_table *table, uint64_t address, bool interior, uint64_t *word);

/* ---- slab.c: bits, bins and idle slabs; `locked` is the arena's lock ------------------------- */
/* Up to `count` blocks of a class; returns how many. */
uint32_t mbr_slabs_take_locked(mbr_arena *arena, uint32_t class_index, uint32_t *blocks,
    uint32_t count) MBR_REQUIRES(&arena->lock);
void mbr_slabs_put_locked(mbr_arena *arena, uint32_t block) MBR_REQUIRES(&arena->lock);
/* The block's record is out of generations: it counts as here, but is never taken. */
void mbr_slabs_wear_locked(mbr_arena *arena, uint32_t block) MBR_REQUIRES(&arena->lock);

/* Idle slabs above keep_bytes leave the arena, in a list through idle_next; not NULL: the caller
 * gives them with mbr_slabs_give once it has dropped the lock. */
mbr_slab *mbr_slabs_detach_locked(mbr_arena *arena, uint64_t keep_bytes) MBR_REQUIRES(&arena->lock);
/* To the backing. Returns the bytes. NULL is allowed. */
uint64_t mbr_slabs_give(mbr_arena *arena, mbr_slab *detached);
/* Both, down to keep_bytes or the arena's own watermark, whichever is less. */
uint64_t mbr_slabs_shed(mbr_arena *arena, uint64_t keep_bytes);

/* Takes a span and adds a slab over it; its first blocks, up to `capacity`, are the caller's. The
 * books are folded. Errors: the backing's, MBR_OUT_OF_HOST_MEMORY, MBR_OUT_OF_DESCRIPTORS,
 * MBR_CONTRACT_BROKEN; the span is then given back. */
typedef struct mbr_slab_request {
    uint32_t class_index;
    uint64_t span_bytes, align_bytes;
    uint64_t stream_id;
    uint64_t asked_bytes; /* of a span of its own */
    mbr_refusal *refusal;
} mbr_slab_request;

mbr_status mbr_slabs_add(mbr_arena *arena, const mbr_slab_request *request, uint32_t *blocks,
    uint32_t capacity, uint32_t *count, mbr_error *error);

/* ---- reactivate.c ---------------------------------------------------------------------------- */
static inline void mbr_arena_count_queued(mbr_arena *arena, uint64_t bytes)
{
    atomic_fetch_add_explicit(&arena->queued_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&arena->queued_bytes, bytes, memory_order_relaxed);
}

/* Without the lock it is the caller's last look at the arena, whose end refuses until the count is
 * gone (mbr_arena_destroy). */
static inline void mbr_arena_uncount_queued(mbr_arena *arena, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&arena->queued_bytes, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&arena->queued_count, 1, memory_order_release);
}

typedef struct mbr_reactivation {
    uint32_t class_index;
    uint64_t stream_id; /* of the new work */
    uint64_t bytes, align_bytes;
    uint64_t payer_bits; /* of a word: who pays for it next */
    bool behind_others;
    bool is_paid; /* set: by who pays next, as before; else by nobody */
} mbr_reactivation;

/* A block in the release queue that the new work may have (mbr_context_reactivate). It is the
 * caller's, in the state reactivated. 0: there is none. */
uint32_t mbr_alloc_reactivate(mbr_arena *arena, mbr_cache *cache, mbr_reactivation *wanted);

/* ---- quarantine.c ---------------------------------------------------------------------------- */
/* A queued block, which is the caller's, goes to `to`: device lost or quarantined. Charged, and
 * never used again until it is confirmed or freed. */
void mbr_block_quarantine(mbr_arena *arena, uint32_t block, uint64_t word, uint32_t to);
/* One that its free has moved from quarantined to queued: the caller's, with the graphs that may
 * touch it. */
mbr_graphs mbr_block_take_back(mbr_arena *arena, uint32_t block, uint64_t word);

/* ---- cache.c --------------------------------------------------------------------------------- */
/* Every magazine of every thread goes back to the slabs. */
void mbr_caches_collect_locked(mbr_arena *arena) MBR_REQUIRES(&arena->lock);
/* Blocks in magazines, by class. */
void mbr_caches_count_locked(mbr_arena *arena, uint64_t *counts) MBR_REQUIRES(&arena->lock);
/* Ends every thread's cache of the arena; the magazines are empty. */
void mbr_caches_close(mbr_arena *arena);

#endif
