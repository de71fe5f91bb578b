/* Who pays for a block, and how it is booked: in the thread's tally, or at once in the books for a
 * holder with an allowance. */
#ifndef MEMBRANE_HOST_ALLOC_PAYER_H
#define MEMBRANE_HOST_ALLOC_PAYER_H

#include "host/alloc/record.h"

/* Of an index below MBR_PAYER_LIMIT_COUNT whose page is there. */
mbr_payer *mbr_payer_at(const mbr_arena *arena, uint32_t index);

/* Finds or adds the holder and fills *memo. `cache` NULL: a thread without one. Errors:
 * MBR_INVALID_ARGUMENT (another authority), MBR_OUT_OF_HOST_MEMORY, MBR_OUT_OF_DESCRIPTORS. */
mbr_status mbr_payer_find(
    mbr_arena *arena, mbr_cache *cache, mbr_holder *holder, mbr_memo *memo, mbr_error *error);

/* A thread's tally of a payer; made if it is absent. NULL when the heap is exhausted. */
mbr_tally *mbr_payer_make_tally(mbr_cache *cache, uint32_t payer_index);

/* What is not booked in a tally. A charge may be refused; a refund never is. */
mbr_status mbr_payer_charge_slow(
    mbr_arena *arena, const mbr_memo *memo, uint64_t bytes, mbr_refusal *refusal);
MBR_RARE void mbr_payer_refund_slow(
    mbr_arena *arena, mbr_cache *cache, uint64_t word, uint64_t bytes);
/* The same with the lock held. */
void mbr_payer_refund_locked(mbr_arena *arena, uint64_t word, uint64_t bytes)
    MBR_REQUIRES(&arena->lock);

void mbr_payers_fold_locked(mbr_arena *arena) MBR_REQUIRES(&arena->lock);
/* A thread's tallies outlive it in the payers. */
void mbr_payers_absorb_locked(mbr_arena *arena, mbr_cache *cache) MBR_REQUIRES(&arena->lock);
/* Bytes that holders with tallies owe or have paid here. */
uint64_t mbr_payers_total_locked(const mbr_arena *arena) MBR_REQUIRES(&arena->lock);

/* The owner alone writes; the order of stores lets the folder never see a free without its
 * allocation (payer.c). */
static inline void mbr_tally_add(_Atomic uint64_t *counter, uint64_t bytes)
{
    atomic_store_explicit(
        counter, atomic_load_explicit(counter, memory_order_relaxed) + bytes, memory_order_release);
}

static inline mbr_status mbr_payer_charge(
    mbr_arena *arena, const mbr_memo *memo, uint64_t bytes, mbr_refusal *refusal)
{
    if (__builtin_expect(memo->tally == NULL, 0))
        return mbr_payer_charge_slow(arena, memo, bytes, refusal);
    mbr_tally_add(&memo->tally->allocated_bytes, bytes);
    return MBR_OK;
}

/* The thread's tally of the payer in a word; NULL: none, or it pays another way. */
static inline mbr_tally *mbr_payer_peek(const mbr_cache *cache, uint64_t word)
{
    uint32_t index = mbr_word_payer(word);
    if ((word & MBR_WORD_EXACT) != 0 || index == 0)
        return NULL;
    mbr_tally_page *page =
        atomic_load_explicit(&cache->pages[index >> MBR_PAYER_PAGE_BITS], memory_order_relaxed);
    return page == NULL ? NULL : &page->tallies[index & (MBR_PAYERS_OF_PAGE - 1)];
}

/* Before the block is anybody else's. `cache` may be NULL. */
static inline void mbr_payer_refund(
    mbr_arena *arena, mbr_cache *cache, uint64_t word, uint64_t bytes)
{
    mbr_tally *tally = cache != NULL ? mbr_payer_peek(cache, word) : NULL;
    if (__builtin_expect(tally != NULL, 1))
        mbr_tally_add(&tally->freed_bytes, bytes);
    else
        mbr_payer_refund_slow(arena, cache, word, bytes);
}

#endif
