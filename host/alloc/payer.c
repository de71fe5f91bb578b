/* Responsible for the holders that an arena knows and for moving bytes between them and the cache:
 * exactly and at once for a holder with an allowance, for all others by folding the tallies of
 * threads into the books. Never decides whether a block may be had.
 *
 * A fold reads tallies while their threads write. It reads all `allocated` first, then all `freed`:
 * each release that it sees may belong to an allocation that it does not, never the other way
 * round, because a block's next allocation comes after its release. So what it computes is at most
 * what was really out when it had read the last `allocated`, and neither the holder nor the cache
 * is ever booked below zero. */
#include "host/alloc/payer.h"

mbr_payer *mbr_payer_at(const mbr_arena *arena, uint32_t index)
{
    return &arena->payers[index >> MBR_PAYER_PAGE_BITS][index & (MBR_PAYERS_OF_PAGE - 1)];
}

/* ---- Totals */
static uint64_t sum_locked(const mbr_arena *arena, uint32_t index, bool freed)
    MBR_REQUIRES(&arena->lock)
{
    const mbr_payer *payer = mbr_payer_at(arena, index);
    uint64_t sum = freed ? payer->freed_bytes : payer->allocated_bytes;
    for (mbr_cache *cache = arena->caches; cache != NULL; cache = cache->next) {
        mbr_tally_page *page =
            atomic_load_explicit(&cache->pages[index >> MBR_PAYER_PAGE_BITS], memory_order_acquire);
        if (page == NULL)
            continue;
        mbr_tally *tally = &page->tallies[index & (MBR_PAYERS_OF_PAGE - 1)];
        sum += atomic_load_explicit(
            freed ? &tally->freed_bytes : &tally->allocated_bytes, memory_order_acquire);
    }
    return sum;
}

static uint64_t total_locked(const mbr_arena *arena, uint32_t index) MBR_REQUIRES(&arena->lock)
{
    uint64_t allocated = sum_locked(arena, index, false);
    uint64_t freed = sum_locked(arena, index, true);
    return allocated > freed ? allocated - freed : 0;
}

uint64_t mbr_payers_total_locked(const mbr_arena *arena)
{
    uint64_t total = 0;
    for (uint32_t i = 1; i < arena->payer_count; i++)
        total += total_locked(arena, i);
    return total;
}

/* ---- The books */
static void move(mbr_holder *from, mbr_holder *to, uint64_t bytes)
{
    mbr_transfer(from, to, bytes);
    mbr_mapped_transfer(from, to, bytes);
}

void mbr_payers_fold_locked(mbr_arena *arena)
{
    for (uint32_t i = 1; i < arena->payer_count; i++) {
        mbr_payer *payer = mbr_payer_at(arena, i);
        if (payer->exact || payer->holder == NULL)
            continue;
        uint64_t total = total_locked(arena, i);
        if (total > payer->folded_bytes)
            move(arena->cache_holder, payer->holder, total - payer->folded_bytes);
        else if (total < payer->folded_bytes)
            move(payer->holder, arena->cache_holder, payer->folded_bytes - total);
        payer->folded_bytes = total;
    }
}

void mbr_payers_absorb_locked(mbr_arena *arena, mbr_cache *cache)
{
    for (uint32_t i = 1; i < arena->payer_count; i++) {
        mbr_tally_page *page =
            atomic_load_explicit(&cache->pages[i >> MBR_PAYER_PAGE_BITS], memory_order_relaxed);
        if (page == NULL)
            continue;
        mbr_tally *tally = &page->tallies[i & (MBR_PAYERS_OF_PAGE - 1)];
        mbr_payer_at(arena, i)->allocated_bytes +=
            atomic_load_explicit(&tally->allocated_bytes, memory_order_relaxed);
        mbr_payer_at(arena, i)->freed_bytes +=
            atomic_load_explicit(&tally->freed_bytes, memory_order_relaxed);
    }
}

/* ---- Bookings without a tally */
mbr_status mbr_payer_charge_slow(
    mbr_arena *arena, const mbr_memo *memo, uint64_t bytes, mbr_refusal *refusal)
{
    uint32_t index = mbr_word_payer(memo->bits);
    if (index == 0)
        return MBR_OK;
    if ((memo->bits & MBR_WORD_EXACT) != 0) {
        mbr_holder *holder = mbr_payer_at(arena, index)->holder;
        mbr_status status = mbr_try_transfer(arena->cache_holder, holder, bytes, refusal);
        if (status == MBR_OK)
            mbr_mapped_transfer(arena->cache_holder, holder, bytes);
        return status;
    }
    mbr_lock_take(&arena->lock);
    mbr_payer_at(arena, index)->allocated_bytes += bytes;
    mbr_lock_drop(&arena->lock);
    return MBR_OK;
}

void mbr_payer_refund_locked(mbr_arena *arena, uint64_t word, uint64_t bytes)
{
    uint32_t index = mbr_word_payer(word);
    if (index == 0)
        return;
    mbr_payer *payer = mbr_payer_at(arena, index);
    if (payer->exact)
        move(payer->holder, arena->cache_holder, bytes);
    else
        payer->freed_bytes += bytes;
}

/* ---- Finding */
/* The place of the holder, or one for it: of a holder that is gone (it stood at the same address,
 * or was forgotten), or a new one. MBR_PAYER_LIMIT_COUNT: there is none. */
static uint32_t find_place_locked(mbr_arena *arena, const mbr_holder *holder)
    MBR_REQUIRES(&arena->lock)
{
    uint32_t vacant = MBR_PAYER_LIMIT_COUNT;
    for (uint32_t i = 0; i < arena->payer_count; i++) {
        const mbr_payer *payer = mbr_payer_at(arena, i);
        if (payer->holder == holder && payer->holder_id == mbr_holder_id(holder))
            return i;
        bool gone = payer->holder == NULL || payer->holder == holder;
        if (gone && vacant == MBR_PAYER_LIMIT_COUNT && payer->folded_bytes == 0 &&
            total_locked(arena, i) == 0)
            vacant = i;
    }
    return vacant != MBR_PAYER_LIMIT_COUNT ? vacant : arena->payer_count;
}

static mbr_status add_locked(mbr_arena *arena, uint32_t index, mbr_holder *holder, mbr_error *error)
    MBR_REQUIRES(&arena->lock)
{
    if (index == MBR_PAYER_LIMIT_COUNT)
        return mbr_fail(error, MBR_OUT_OF_DESCRIPTORS,
            "one binding knows at most %d holders; destroy those that are not used any more",
            MBR_PAYER_LIMIT_COUNT - 1);
    mbr_payer **page = &arena->payers[index >> MBR_PAYER_PAGE_BITS];
    if (*page == NULL)
        *page = mbr_heap_allocate(&arena->heap, sizeof(mbr_payer) << MBR_PAYER_PAGE_BITS);
    if (*page == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for the place of a holder");
    mbr_holder_figures figures = {MBR_SIZED(mbr_holder_figures)};
    mbr_holder_figures_read(holder, &figures);
    mbr_payer *payer = mbr_payer_at(arena, index);
    payer->holder = holder;
    payer->holder_id = mbr_holder_id(holder);
    payer->exact = index != 0 && figures.allowance_bytes != MBR_NO_ALLOWANCE;
    arena->payer_count = (uint32_t)mbr_max(arena->payer_count, index + 1);
    return MBR_OK;
}

mbr_tally *mbr_payer_make_tally(mbr_cache *cache, uint32_t payer_index)
{
    _Atomic(mbr_tally_page *) *place = &cache->pages[payer_index >> MBR_PAYER_PAGE_BITS];
    mbr_tally_page *page = atomic_load_explicit(place, memory_order_relaxed);
    if (page == NULL) {
        void *block;
        page = mbr_line_allocate(&cache->arena->heap, sizeof(*page), &block);
        if (page == NULL)
            return NULL;
        page->block = block;
        atomic_store_explicit(place, page, memory_order_release);
    }
    return &page->tallies[payer_index & (MBR_PAYERS_OF_PAGE - 1)];
}

/* A thread that has not paid for this holder yet makes its tally here; without host memory for one
 * the payer itself counts. */
void mbr_payer_refund_slow(mbr_arena *arena, mbr_cache *cache, uint64_t word, uint64_t bytes)
{
    uint32_t index = mbr_word_payer(word);
    if (index == 0)
        return;
    if ((word & MBR_WORD_EXACT) != 0) {
        move(mbr_payer_at(arena, index)->holder, arena->cache_holder, bytes);
        return;
    }
    mbr_tally *tally = cache != NULL ? mbr_payer_make_tally(cache, index) : NULL;
    if (tally != NULL) {
        mbr_tally_add(&tally->freed_bytes, bytes);
        return;
    }
    mbr_lock_take(&arena->lock);
    mbr_payer_refund_locked(arena, word, bytes);
    mbr_lock_drop(&arena->lock);
}

mbr_status mbr_payer_find(
    mbr_arena *arena, mbr_cache *cache, mbr_holder *holder, mbr_memo *memo, mbr_error *error)
{
    if (mbr_holder_authority(holder) != mbr_holder_authority(arena->cache_holder))
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the holder is of another authority than the binding; create one under it");
    mbr_lock_take(&arena->lock);
    uint32_t index = find_place_locked(arena, holder);
    bool known = index < arena->payer_count && mbr_payer_at(arena, index)->holder == holder &&
        mbr_payer_at(arena, index)->holder_id == mbr_holder_id(holder);
    mbr_status status = known ? MBR_OK : add_locked(arena, index, holder, error);
    bool exact = status == MBR_OK && mbr_payer_at(arena, index)->exact;
    mbr_lock_drop(&arena->lock);
    if (status != MBR_OK)
        return status;
    mbr_tally *tally = NULL;
    if (cache != NULL && index != 0 && !exact) {
        tally = mbr_payer_make_tally(cache, index);
        if (tally == NULL)
            return mbr_fail(
                error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a thread's tally of a holder");
    }
    *memo = (mbr_memo){.holder = holder,
        .holder_id = mbr_holder_id(holder),
        .bits = (uint64_t)index << MBR_WORD_PAYER_SHIFT | (exact ? MBR_WORD_EXACT : 0),
        .tally = tally};
    return MBR_OK;
}

void mbr_arena_forget_holder(mbr_arena *arena, uint64_t holder_id)
{
    mbr_lock_take(&arena->lock);
    for (uint32_t i = 1; i < arena->payer_count; i++) {
        mbr_payer *payer = mbr_payer_at(arena, i);
        if (payer->holder != NULL && payer->holder_id == holder_id) {
            payer->holder = NULL;
            payer->holder_id = 0;
        }
    }
    mbr_lock_drop(&arena->lock);
}

void mbr_arena_fold(mbr_arena *arena)
{
    mbr_lock_take(&arena->lock);
    mbr_payers_fold_locked(arena);
    mbr_lock_drop(&arena->lock);
}
