/* Responsible for slabs: cutting them from spans, the bits that say which blocks are here, the
 * lists by class, and idle slabs, the longest idle of which leave first. Never touches the memory
 * of a block, never moves a word except that it attaches records to new blocks. */
#include "host/alloc/payer.h"

#include <utlist.h>

#define BITS_OF_WORD 64
#define RECORDS_OF_LINE ((uint32_t)(MBR_LINE_BYTES / sizeof(mbr_record)))
#define LINE_WORDS 16 /* of bits that are looked at for whole lines */

/* ---- Bits: blocks that are here */
static bool has_blocks(const mbr_slab *slab)
{
    return slab->here_count != 0 ||
        slab->carved_count < atomic_load_explicit(&slab->block_count, memory_order_relaxed);
}

/* Blocks that were never touched count as here. */
static bool is_idle(const mbr_slab *slab)
{
    return slab->here_count + slab->worn_count == slab->carved_count;
}

static uint32_t first_block(const mbr_slab *slab)
{
    return atomic_load_explicit(&slab->first_index, memory_order_relaxed);
}

static mbr_record *first_record(const mbr_slab *slab)
{
    return mbr_table_record(slab->arena->table, first_block(slab));
}

/* Attaches the records of the next word of blocks. A record's line is touched first here, so a slab
 * of thousands of blocks costs nothing until they are used. */
static void carve(mbr_slab *slab)
{
    uint32_t begin = slab->carved_count;
    uint32_t count = atomic_load_explicit(&slab->block_count, memory_order_relaxed) - begin;
    count = count < BITS_OF_WORD ? count : BITS_OF_WORD;
    mbr_record *records = first_record(slab);
    for (uint32_t nth = begin; nth < begin + count; nth++)
        mbr_record_attach(&records[nth], slab->span.content);
    slab->bits[begin / BITS_OF_WORD] = UINT64_MAX >> (BITS_OF_WORD - count);
    slab->carved_count += count;
    slab->here_count += count;
    slab->first_word = begin / BITS_OF_WORD;
}

/* Of the bits, those of whole lines of records: every byte that is full. */
static uint64_t whole_lines(uint64_t bits)
{
    uint64_t full = bits & bits >> 1;
    full &= full >> 2;
    full &= full >> 4;
    return (full & UINT64_C(0x0101010101010101)) * 0xFF;
}

/* Takes the lowest of `chosen`, which are bits of the word. */
static uint32_t take_of_word(
    mbr_slab *slab, uint32_t word, uint64_t chosen, uint32_t *blocks, uint32_t count)
{
    const mbr_record *records = first_record(slab);
    uint32_t taken = 0;
    for (; chosen != 0 && taken < count; chosen &= chosen - 1) {
        uint32_t nth = word * BITS_OF_WORD + (uint32_t)__builtin_ctzll(chosen);
        __builtin_prefetch(&records[nth], 1);
        blocks[taken++] = first_block(slab) + nth;
        slab->bits[word] &= ~(chosen & -chosen);
    }
    slab->here_count -= taken;
    return taken;
}

/* Who takes many takes whole lines of records where they are near, so that threads that take from
 * one slab in turns do not write to the same lines. */
static uint32_t take_lines(mbr_slab *slab, uint32_t *blocks, uint32_t count)
{
    uint32_t taken = 0, carved = (slab->carved_count + BITS_OF_WORD - 1) / BITS_OF_WORD;
    uint32_t end = carved - slab->first_word < LINE_WORDS ? carved : slab->first_word + LINE_WORDS;
    count -= count % RECORDS_OF_LINE;
    for (uint32_t word = slab->first_word; word < end && taken < count; word++)
        taken +=
            take_of_word(slab, word, whole_lines(slab->bits[word]), blocks + taken, count - taken);
    return taken;
}

static uint32_t take_bits(mbr_slab *slab, uint32_t *blocks, uint32_t count)
{
    uint32_t taken = slab->here_count != 0 ? take_lines(slab, blocks, count) : 0;
    while (taken < count && has_blocks(slab)) {
        if (slab->here_count == 0)
            carve(slab);
        uint32_t word = slab->first_word;
        while (slab->bits[word] == 0)
            word++;
        slab->first_word = word;
        taken += take_of_word(slab, word, slab->bits[word], blocks + taken, count - taken);
    }
    return taken;
}

static void put_bit(mbr_slab *slab, uint32_t block)
{
    uint32_t bit = block - first_block(slab);
    uint32_t word = bit / BITS_OF_WORD;
    uint64_t mask = UINT64_C(1) << (bit % BITS_OF_WORD);
    MBR_CHECK((slab->bits[word] & mask) == 0); /* a block that came back twice */
    slab->bits[word] |= mask;
    slab->here_count++;
    if (word < slab->first_word)
        slab->first_word = word;
}

/* ---- Lists */
/* A slab with a worn block is never handed out again once it is idle: its run of records goes with
 * it, and what is worn would stay out of use for as long as the slab is used. */
static mbr_slab **idle_list(mbr_arena *arena, const mbr_slab *slab)
{
    return slab->worn_count != 0 ? &arena->worn : &arena->bins[slab->class_index].idle;
}

/* The backing counts the most that was idle since a slab last left, so that slabs that are used in
 * turn ask it nothing. */
static void tell_peak_locked(mbr_arena *arena) MBR_REQUIRES(&arena->lock)
{
    mbr_backing_count_idle(
        arena->backing, (int64_t)arena->idle_bytes - (int64_t)arena->idle_peak_bytes);
    arena->idle_peak_bytes = arena->idle_bytes;
}

static void enter_idle_locked(mbr_arena *arena, mbr_slab *slab) MBR_REQUIRES(&arena->lock)
{
    slab->idle = true;
    DL_PREPEND(*idle_list(arena, slab), slab);
    DL_APPEND2(arena->idle_slabs, slab, idle_prev, idle_next);
    arena->idle_bytes += slab->span.owned_bytes;
    if (arena->idle_bytes > arena->idle_peak_bytes) {
        tell_peak_locked(arena);
        arena->idle_rose = true;
    }
}

static void leave_idle_locked(mbr_arena *arena, mbr_slab *slab) MBR_REQUIRES(&arena->lock)
{
    slab->idle = false;
    DL_DELETE(*idle_list(arena, slab), slab);
    DL_DELETE2(arena->idle_slabs, slab, idle_prev, idle_next);
    arena->idle_bytes -= slab->span.owned_bytes;
}

/* Takes from one slab that has blocks and files it where it belongs then. */
static uint32_t take_from_locked(mbr_arena *arena, mbr_slab *slab, uint32_t *blocks, uint32_t count)
    MBR_REQUIRES(&arena->lock)
{
    mbr_bin *bin = &arena->bins[slab->class_index];
    bool was_partial = !slab->idle;
    if (slab->idle)
        leave_idle_locked(arena, slab);
    uint32_t taken = take_bits(slab, blocks, count);
    bin->out_count += taken;
    if (was_partial && !has_blocks(slab))
        DL_DELETE(bin->partial, slab);
    else if (!was_partial && has_blocks(slab))
        DL_PREPEND(bin->partial, slab);
    return taken;
}

/* A slab that fills up is used again only when those that were partly used before it are full, so
 * that slabs that empty can become idle. */
uint32_t mbr_slabs_take_locked(
    mbr_arena *arena, uint32_t class_index, uint32_t *blocks, uint32_t count)
{
    mbr_bin *bin = &arena->bins[class_index];
    uint32_t taken = 0;
    while (taken < count && (bin->partial != NULL || bin->idle != NULL)) {
        mbr_slab *slab = bin->partial != NULL ? bin->partial : bin->idle;
        taken += take_from_locked(arena, slab, blocks + taken, count - taken);
    }
    return taken;
}

static void file_after_put_locked(mbr_arena *arena, mbr_slab *slab, bool was_partial)
    MBR_REQUIRES(&arena->lock)
{
    mbr_bin *bin = &arena->bins[slab->class_index];
    bin->out_count--;
    if (is_idle(slab)) {
        if (was_partial)
            DL_DELETE(bin->partial, slab);
        enter_idle_locked(arena, slab);
    } else if (!was_partial && has_blocks(slab)) {
        DL_APPEND(bin->partial, slab);
    }
}

void mbr_slabs_put_locked(mbr_arena *arena, uint32_t block)
{
    mbr_slab *slab = mbr_table_slab(arena->table, block);
    bool was_partial = has_blocks(slab);
    put_bit(slab, block);
    file_after_put_locked(arena, slab, was_partial);
}

void mbr_slabs_wear_locked(mbr_arena *arena, uint32_t block)
{
    mbr_slab *slab = mbr_table_slab(arena->table, block);
    bool was_partial = has_blocks(slab);
    slab->worn_count++;
    file_after_put_locked(arena, slab, was_partial);
}

/* ---- Slabs come and go */
/* Nothing leaves the arena, but what the backing keeps may have to: idle bytes rose. */
static mbr_slab no_slab;

mbr_slab *mbr_slabs_detach_locked(mbr_arena *arena, uint64_t keep_bytes)
{
    mbr_slab *detached = NULL;
    mbr_slab *own; /* goes whatever is kept */
    while ((own = arena->bins[MBR_CLASS_OWN_SPAN].idle) != NULL || (own = arena->worn) != NULL ||
        arena->idle_bytes > keep_bytes) {
        mbr_slab *slab = own != NULL ? own : arena->idle_slabs;
        leave_idle_locked(arena, slab);
        DL_DELETE2(arena->slabs, slab, all_prev, all_next);
        arena->slab_bytes -= slab->span.owned_bytes;
        slab->idle_next = detached;
        detached = slab;
    }
    if (detached != NULL) {
        tell_peak_locked(arena);
        mbr_payers_fold_locked(arena); /* the cache pays for these whole before they are given */
    } else if (arena->idle_rose) {
        detached = &no_slab;
    }
    arena->idle_rose = false;
    arena->giving_count += detached != NULL;
    return detached;
}

uint64_t mbr_slabs_give(mbr_arena *arena, mbr_slab *detached)
{
    if (detached == NULL)
        return 0;
    mbr_lock_assert_none_held();
    uint64_t given_bytes = 0;
    if (detached == &no_slab)
        detached = NULL;
    mbr_backing *backing = arena->backing;
    while (detached != NULL) {
        mbr_slab *slab = detached;
        detached = slab->idle_next;
        mbr_span span = slab->span;
        mbr_heap_release(&arena->heap, slab->bits);
        mbr_table_end_slab(arena->table, slab);
        given_bytes += span.owned_bytes;
        mbr_backing_give_span(backing, &span);
    }
    mbr_backing_keep_watermark(backing);
    mbr_lock_take(&arena->lock);
    arena->giving_count--;
    mbr_condition_signal_all(&arena->given);
    mbr_lock_drop(&arena->lock);
    return given_bytes;
}

uint64_t mbr_slabs_shed(mbr_arena *arena, uint64_t keep_bytes)
{
    mbr_lock_take(&arena->lock);
    mbr_slab *detached = mbr_slabs_detach_locked(arena, mbr_min(keep_bytes, arena->keep_bytes));
    mbr_lock_drop(&arena->lock);
    return mbr_slabs_give(arena, detached);
}

/* Blocks of a span; 0: it has no room for one, or the mechanism owns less than one. */
static uint32_t block_count_of(const mbr_slab_request *request, const mbr_span *span)
{
    if (request->class_index == MBR_CLASS_OWN_SPAN)
        return span->bytes >= request->asked_bytes;
    uint64_t bytes = mbr_min(span->bytes, span->owned_bytes);
    uint64_t fit = bytes / mbr_class_bytes(request->class_index);
    return (uint32_t)mbr_min(fit, mbr_class_plan(request->class_index).most_blocks);
}

static void shape(mbr_slab *slab, mbr_arena *arena, const mbr_slab_request *request, uint64_t *bits,
    uint32_t word_count)
{
    bool own = request->class_index == MBR_CLASS_OWN_SPAN;
    uint64_t class_bytes = own ? 0 : mbr_class_bytes(request->class_index);
    uint64_t block_bytes = own ? slab->span.owned_bytes : class_bytes;
    slab->arena = arena;
    slab->class_index = request->class_index;
    atomic_store_explicit(
        &slab->host_accessible, arena->mechanism->host_accessible, memory_order_relaxed);
    slab->bits = bits;
    slab->word_count = word_count;
    slab->first_word = slab->here_count = slab->carved_count = slab->worn_count = 0;
    slab->idle = false;
    atomic_store_explicit(&slab->block_bytes, block_bytes, memory_order_relaxed);
    atomic_store_explicit(
        &slab->usable_bytes, own ? slab->span.bytes : class_bytes, memory_order_relaxed);
    atomic_store_explicit(
        &slab->reciprocal, own ? 0 : mbr_block_reciprocal(class_bytes), memory_order_relaxed);
    atomic_store_explicit(&slab->asked_bytes, request->asked_bytes, memory_order_relaxed);
}

static uint32_t publish_locked(mbr_arena *arena, mbr_slab *slab, uint32_t *blocks,
    uint32_t capacity) MBR_REQUIRES(&arena->lock)
{
    arena->slab_bytes += slab->span.owned_bytes;
    DL_APPEND2(arena->slabs, slab, all_prev, all_next);
    enter_idle_locked(arena, slab);
    uint32_t taken = take_from_locked(arena, slab, blocks, capacity);
    mbr_payers_fold_locked(arena);
    return taken;
}

mbr_status mbr_slabs_add(mbr_arena *arena, const mbr_slab_request *request, uint32_t *blocks,
    uint32_t capacity, uint32_t *count, mbr_error *error)
{
    *count = 0;
    mbr_span span;
    mbr_status status = mbr_backing_take_span(arena->backing, arena->context, request->stream_id,
        arena->isolation_group, request->span_bytes, request->align_bytes, &span, request->refusal,
        error);
    if (status != MBR_OK)
        return status;
    uint32_t block_count = block_count_of(request, &span);
    uint32_t word_count = (block_count + BITS_OF_WORD - 1) / BITS_OF_WORD;
    uint64_t *bits = NULL;
    mbr_slab *slab;
    if (block_count == 0) {
        status = mbr_fail(error, MBR_CONTRACT_BROKEN,
            "asked for a span of %llu bytes, the mechanism gave %llu and owns %llu for it",
            (unsigned long long)request->span_bytes, (unsigned long long)span.bytes,
            (unsigned long long)span.owned_bytes);
        goto give_span;
    }
    bits = mbr_heap_allocate(&arena->heap, word_count * sizeof(*bits));
    if (bits == NULL) {
        status = mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no host memory for the bits of %u blocks", block_count);
        goto give_span;
    }
    status = mbr_table_make_slab(arena->table, &span, block_count, &slab, error);
    if (status != MBR_OK)
        goto free_bits;
    shape(slab, arena, request, bits, word_count);
    mbr_lock_take(&arena->lock);
    *count = publish_locked(arena, slab, blocks, capacity);
    mbr_lock_drop(&arena->lock);
    return MBR_OK;
free_bits:
    mbr_heap_release(&arena->heap, bits);
give_span:
    mbr_backing_give_span(arena->backing, &span);
    return status;
}
