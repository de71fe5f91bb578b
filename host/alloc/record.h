/* The word of a record: generation, payer, content and state of one allocation in 64 bits, so that
 * one exchange decides who releases it. The only place where words move.
 *
 *     63 ............ 26 | 25 .. 18 | 17 ..... 8 |   7   |   6   | 5 ... 4 | 3 ... 0
 *         generation     |  slack   |   payer    | exact | noted | content |  state
 *
 * Slack is what of the block was not asked for; where it is more than 255 bytes, or there is a
 * stream or a tag, all three are in the record's note.
 *
 * A handle is the generation over the record's index. A generation begins with the life of an
 * allocation and never comes back: a record that is out of generations is never used again. */
#ifndef MEMBRANE_HOST_ALLOC_RECORD_H
#define MEMBRANE_HOST_ALLOC_RECORD_H

#include "host/alloc/internal.h"

#define MBR_WORD_STATE UINT64_C(0xF)
#define MBR_WORD_CONTENT_SHIFT 4
#define MBR_WORD_CONTENT (UINT64_C(3) << MBR_WORD_CONTENT_SHIFT)
#define MBR_WORD_NOTED (UINT64_C(1) << 6) /* the record's note holds the rest */
#define MBR_WORD_EXACT (UINT64_C(1) << 7) /* the payer has an allowance */
#define MBR_WORD_PAYER_SHIFT 8
#define MBR_WORD_PAYER ((uint64_t)(MBR_PAYER_LIMIT_COUNT - 1) << MBR_WORD_PAYER_SHIFT)
#define MBR_WORD_SLACK_SHIFT 18
#define MBR_WORD_SLACK_MAX_BYTES UINT64_C(0xFF)
#define MBR_WORD_GENERATION_STEP (UINT64_C(1) << MBR_INDEX_BITS)
#define MBR_WORD_GENERATION (~(MBR_WORD_GENERATION_STEP - 1))

static inline uint32_t mbr_word_state(uint64_t word)
{
    return (uint32_t)(word & MBR_WORD_STATE);
}

static inline uint32_t mbr_word_content(uint64_t word)
{
    return (uint32_t)((word & MBR_WORD_CONTENT) >> MBR_WORD_CONTENT_SHIFT);
}

static inline uint32_t mbr_word_payer(uint64_t word)
{
    return (uint32_t)((word & MBR_WORD_PAYER) >> MBR_WORD_PAYER_SHIFT);
}

static inline uint64_t mbr_record_word(const mbr_record *record)
{
    return atomic_load_explicit(&record->word, memory_order_acquire);
}

/* What the word holds of it: 0 where the note does. */
static inline uint64_t mbr_word_slack_bytes(uint64_t word)
{
    return word >> MBR_WORD_SLACK_SHIFT & MBR_WORD_SLACK_MAX_BYTES;
}

/* Of a block of this slab. */
static inline uint64_t mbr_block_address(const mbr_slab *slab, uint32_t block)
{
    uint32_t nth = block - atomic_load_explicit(&slab->first_index, memory_order_relaxed);
    return atomic_load_explicit(&slab->address, memory_order_relaxed) +
        nth * atomic_load_explicit(&slab->block_bytes, memory_order_relaxed);
}

/* Ends or changes the life that *word is of. True for exactly one of several threads that race;
 * *word is then the new one. The content of what is released is what its last owner wrote. */
static inline bool mbr_record_try_move(mbr_record *record, uint64_t *word, uint32_t to)
{
    MBR_ASSERT(mbr_state_allows(&mbr_allocation_states, mbr_word_state(*word), to));
    uint64_t next = (*word & ~MBR_WORD_STATE) | to;
    if (to == MBR_ALLOCATION_RELEASED || to == MBR_ALLOCATION_REACTIVATED)
        next = (next & ~MBR_WORD_CONTENT) | MBR_CONTENT_STALE << MBR_WORD_CONTENT_SHIFT;
    if (!atomic_compare_exchange_strong_explicit(
            &record->word, word, next, memory_order_acq_rel, memory_order_acquire))
        return false;
    *word = next;
    return true;
}

/* The same where nobody may race. */
static inline void mbr_record_move(mbr_record *record, uint64_t *word, uint32_t to)
{
    bool moved = mbr_record_try_move(record, word, to);
    MBR_CHECK(moved);
}

static inline bool mbr_word_is_worn(uint64_t word)
{
    return (word & MBR_WORD_GENERATION) == MBR_WORD_GENERATION;
}

/* Begins the next life of a block that is the caller's alone; `before` is its word, `bits` are
 * payer, exact, noted, slack; `state` is live, captured or given again. Everything else about the
 * allocation is written before. */
static inline uint64_t mbr_record_begin(
    mbr_record *record, uint64_t before, uint64_t bits, uint32_t content, uint32_t state)
{
    MBR_ASSERT(mbr_word_state(before) == 0 || mbr_word_state(before) == MBR_ALLOCATION_RELEASED ||
        mbr_word_state(before) == MBR_ALLOCATION_REACTIVATED);
    uint64_t word = ((before & MBR_WORD_GENERATION) + MBR_WORD_GENERATION_STEP) | bits |
        (uint64_t)content << MBR_WORD_CONTENT_SHIFT | state;
    atomic_store_explicit(&record->word, word, memory_order_release);
    return word;
}

/* A record that nobody owns stands for a block of a new slab; its generation goes on. */
static inline void mbr_record_attach(mbr_record *record, uint32_t content)
{
    uint64_t before = atomic_load_explicit(&record->word, memory_order_relaxed);
    MBR_ASSERT(mbr_word_state(before) == 0 || mbr_word_state(before) == MBR_ALLOCATION_RELEASED);
    uint64_t word = (before & (MBR_WORD_GENERATION | MBR_WORD_STATE)) |
        (uint64_t)content << MBR_WORD_CONTENT_SHIFT;
    atomic_store_explicit(&record->word, word, memory_order_release);
}

static inline uint64_t mbr_word_handle(uint64_t word, uint32_t index)
{
    return (word & MBR_WORD_GENERATION) | index;
}

#endif
