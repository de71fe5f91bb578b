/* Responsible for the memory of records and slabs, which is type-stable until the table's end, and
 * for finding a record by handle or address without a lock. Never moves a word and knows no arena.
 *
 * Records are given in runs of 2^order, cut from chunks of that order; a run is used again for the
 * same order only. Orders are few, so what is spare is at most what each order needed at its peak,
 * and less than a chunk of each. */
#include "host/alloc/record.h"

#define SLABS_OF_BLOCK 32

/* ---- Records */
/* A spare run's first note names the next one. */
static void push_run_locked(mbr_alloc_table *table, uint32_t first, uint32_t order)
    MBR_REQUIRES(&table->lock)
{
    atomic_store_explicit(
        &mbr_table_note(table, first)->tag, table->runs[order], memory_order_relaxed);
    table->runs[order] = first;
}

static bool make_chunk_locked(mbr_alloc_table *table, uint32_t order) MBR_REQUIRES(&table->lock)
{
    void *block;
    mbr_chunk *chunk = mbr_line_allocate(&table->heap, sizeof(*chunk), &block);
    if (chunk == NULL)
        return false;
    chunk->block = block;
    uint32_t number = table->chunk_count++;
    atomic_store_explicit(&table->orders[number], (uint8_t)order, memory_order_relaxed);
    atomic_store_explicit(&table->chunks[number], chunk, memory_order_release);
    table->cut[order] = number << MBR_CHUNK_BITS;
    return true;
}

/* 0: none. */
static uint32_t cut_run_locked(mbr_alloc_table *table, uint32_t order, mbr_status *status)
    MBR_REQUIRES(&table->lock)
{
    if (table->cut[order] == 0) {
        bool full = table->chunk_count == MBR_CHUNK_COUNT;
        *status = full ? MBR_OUT_OF_DESCRIPTORS : MBR_OUT_OF_HOST_MEMORY;
        if (full || !make_chunk_locked(table, order))
            return 0;
    }
    uint32_t first = table->cut[order];
    uint32_t next = first + (1u << order);
    table->cut[order] = next % MBR_CHUNK_RECORDS == 0 ? 0 : next;
    *status = MBR_OK;
    return first;
}

static uint32_t take_run_locked(mbr_alloc_table *table, uint32_t order, mbr_status *status)
    MBR_REQUIRES(&table->lock)
{
    uint32_t first = table->runs[order];
    if (first == 0)
        return cut_run_locked(table, order, status);
    table->runs[order] =
        (uint32_t)atomic_load_explicit(&mbr_table_note(table, first)->tag, memory_order_relaxed);
    *status = MBR_OK;
    return first;
}

static uint32_t order_of(uint32_t count)
{
    return count <= 1 ? 0 : 32 - (uint32_t)__builtin_clz(count - 1);
}

/* ---- Slabs */
static mbr_slab *take_slab_locked(mbr_alloc_table *table) MBR_REQUIRES(&table->lock)
{
    if (table->spare_slabs == NULL) {
        void *block;
        size_t bytes = SLABS_OF_BLOCK * sizeof(mbr_slab) + MBR_LINE_BYTES;
        char *memory = mbr_line_allocate(&table->heap, bytes, &block);
        if (memory == NULL)
            return NULL;
        *(void **)memory = table->slab_blocks;
        ((void **)memory)[1] = block;
        table->slab_blocks = memory;
        mbr_slab *slabs = (mbr_slab *)(memory + MBR_LINE_BYTES);
        for (uint32_t i = 0; i < SLABS_OF_BLOCK; i++) {
            slabs[i].idle_next = table->spare_slabs;
            table->spare_slabs = &slabs[i];
        }
    }
    mbr_slab *slab = table->spare_slabs;
    table->spare_slabs = slab->idle_next;
    slab->idle_next = NULL;
    return slab;
}

static void put_slab_locked(mbr_alloc_table *table, mbr_slab *slab) MBR_REQUIRES(&table->lock)
{
    slab->idle_next = table->spare_slabs;
    table->spare_slabs = slab;
}

static void describe(const mbr_alloc_table *table, mbr_slab *slab, const mbr_span *span,
    uint32_t first, uint32_t block_count)
{
    slab->span = *span;
    atomic_store_explicit(
        &mbr_table_chunk(table, first)->slabs[(first & (MBR_CHUNK_RECORDS - 1)) >> slab->order],
        slab, memory_order_relaxed);
    atomic_store_explicit(&slab->address, span->address, memory_order_relaxed);
    atomic_store_explicit(&slab->first_index, first, memory_order_relaxed);
    atomic_store_explicit(&slab->block_count, block_count, memory_order_relaxed);
}

static mbr_status explain_map(mbr_map_answer answer, const mbr_span *span, mbr_error *error)
{
    if (answer == MBR_MAP_NO_HEAP)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for the address map");
    return mbr_fail(error, MBR_CONTRACT_BROKEN, "the mechanism gave %llu bytes at 0x%llx, %s",
        (unsigned long long)span->bytes, (unsigned long long)span->address,
        answer == MBR_MAP_TAKEN ? "where another allocation lives"
                                : "which is no multiple of 65536 below 2^57");
}

mbr_status mbr_table_make_slab(mbr_alloc_table *table, const mbr_span *span, uint32_t block_count,
    mbr_slab **slab, mbr_error *error)
{
    *slab = NULL;
    mbr_status status = MBR_OUT_OF_HOST_MEMORY;
    uint32_t order = order_of(block_count), first = 0;
    mbr_lock_take(&table->lock);
    mbr_slab *made = take_slab_locked(table);
    if (made != NULL)
        first = take_run_locked(table, order, &status);
    if (first == 0) {
        mbr_fail(error, status,
            status == MBR_OUT_OF_HOST_MEMORY
                ? "no host memory for the records of %u blocks"
                : "the records of %u blocks would be more than the table's 2^26",
            block_count);
        goto put_slab;
    }
    made->order = order;
    describe(table, made, span, first, block_count);
    mbr_map_answer answer = mbr_map_insert(&table->map, span->address, span->bytes, made);
    if (answer != MBR_MAP_DONE) {
        status = explain_map(answer, span, error);
        goto put_run;
    }
    mbr_lock_drop(&table->lock);
    *slab = made;
    return MBR_OK;
put_run:
    push_run_locked(table, first, order);
put_slab:
    if (made != NULL)
        put_slab_locked(table, made);
    mbr_lock_drop(&table->lock);
    return status;
}

/* A run with a worn record is never used again: its indexes are lost, its memory stays. */
void mbr_table_end_slab(mbr_alloc_table *table, mbr_slab *slab)
{
    mbr_lock_take(&table->lock);
    mbr_map_remove(&table->map, slab->span.address, slab->span.bytes);
    if (slab->worn_count == 0)
        push_run_locked(
            table, atomic_load_explicit(&slab->first_index, memory_order_relaxed), slab->order);
    put_slab_locked(table, slab);
    mbr_lock_drop(&table->lock);
}

/* ---- Finding by address */
/* Every value read here may be of any age; the caller's exchange of the word decides whether it
 * was right. What is checked after the word was read belongs to the word's life. */
uint32_t mbr_table_find_address(
    const mbr_alloc_table *table, uint64_t address, bool interior, uint64_t *word)
{
    const mbr_slab *slab = mbr_map_find(&table->map, address);
    if (slab == NULL)
        return 0;
    uint64_t start = atomic_load_explicit(&slab->address, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(&slab->block_count, memory_order_relaxed);
    if (address < start)
        return 0;
    uint64_t nth = count == 1 ? 0
                              : mbr_block_divide(address - start,
                                    atomic_load_explicit(&slab->reciprocal, memory_order_relaxed));
    if (nth >= count)
        return 0;
    uint32_t block = atomic_load_explicit(&slab->first_index, memory_order_relaxed) + (uint32_t)nth;
    const mbr_record *record = mbr_table_record(table, block);
    if (record == NULL)
        return 0;
    *word = mbr_record_word(record);
    if (mbr_table_slab(table, block) != slab)
        return 0;
    uint64_t offset = address - mbr_block_address(slab, block);
    uint64_t usable = atomic_load_explicit(&slab->usable_bytes, memory_order_relaxed);
    return (interior ? offset < usable : offset == 0) ? block : 0;
}

/* ---- The table */
mbr_status mbr_alloc_table_create(const mbr_heap *heap, mbr_alloc_table **table, mbr_error *error)
{
    *table = NULL;
    if (heap == NULL)
        heap = &mbr_heap_libc;
    mbr_alloc_table *made = mbr_heap_allocate(heap, sizeof(*made));
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for the allocation table");
    made->heap = *heap;
    made->map.heap = &made->heap;
    made->chunk_count = 1;
    mbr_lock_init(&made->lock, MBR_RANK_TABLE);
    *table = made;
    return MBR_OK;
}

void mbr_alloc_table_destroy(mbr_alloc_table *table)
{
    if (table == NULL)
        return;
    mbr_map_finish(&table->map);
    for (uint32_t i = 0; i < MBR_CHUNK_COUNT; i++) {
        mbr_chunk *chunk = atomic_load_explicit(&table->chunks[i], memory_order_relaxed);
        if (chunk != NULL)
            mbr_heap_release(&table->heap, chunk->block);
    }
    while (table->slab_blocks != NULL) {
        void **memory = table->slab_blocks;
        table->slab_blocks = memory[0];
        mbr_heap_release(&table->heap, memory[1]);
    }
    mbr_lock_finish(&table->lock);
    mbr_heap release = table->heap;
    mbr_heap_release(&release, table);
}
