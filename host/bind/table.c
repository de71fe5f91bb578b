/* Handle tables. Knows nothing of the objects. */
#include "host/bind/table.h"

#include "abi/base/assert.h"
#include "abi/base/error.h"

_Static_assert(MBR_TABLE_CHUNK_COUNT *MBR_TABLE_CHUNK_ENTRIES == 1 << MBR_TABLE_INDEX_BITS,
    "the index bits cover the chunks exactly");

#define INDEX_MASK ((UINT64_C(1) << MBR_TABLE_INDEX_BITS) - 1)

static mbr_table_entry *entry_at(mbr_table *table, uint64_t index)
{
    mbr_table_entry *chunk =
        atomic_load_explicit(&table->chunks[index / MBR_TABLE_CHUNK_ENTRIES], memory_order_acquire);
    return chunk == NULL ? NULL : &chunk[index % MBR_TABLE_CHUNK_ENTRIES];
}

void mbr_table_init(mbr_table *table, const char *kind, const mbr_heap *heap)
{
    table->kind = kind;
    table->heap = heap;
    mbr_lock_init(&table->lock, MBR_RANK_TABLE);
}

void mbr_table_finish(mbr_table *table)
{
    uint32_t used_count = atomic_load(&table->used_count);
    for (uint32_t i = 0; i * MBR_TABLE_CHUNK_ENTRIES < used_count; i++)
        mbr_heap_release(table->heap, atomic_load(&table->chunks[i]));
    mbr_lock_finish(&table->lock);
}

/* Under the lock: the index of an unused entry, or UINT32_MAX without memory. */
static uint32_t take_index(mbr_table *table)
{
    if (table->first_free != 0) {
        uint32_t index = table->first_free - 1;
        table->first_free = entry_at(table, index)->next_free;
        return index;
    }
    uint32_t index = atomic_load_explicit(&table->used_count, memory_order_relaxed);
    if (index > INDEX_MASK)
        return UINT32_MAX;
    if (index % MBR_TABLE_CHUNK_ENTRIES == 0) {
        mbr_table_entry *chunk =
            mbr_heap_allocate(table->heap, MBR_TABLE_CHUNK_ENTRIES * sizeof(*chunk));
        if (chunk == NULL)
            return UINT32_MAX;
        atomic_store_explicit(
            &table->chunks[index / MBR_TABLE_CHUNK_ENTRIES], chunk, memory_order_release);
    }
    atomic_store_explicit(&table->used_count, index + 1, memory_order_release);
    return index;
}

mbr_status mbr_table_prepare(mbr_table *table, uint64_t *value, mbr_error *error)
{
    *value = 0;
    mbr_lock_take(&table->lock);
    uint32_t index = take_index(table);
    if (index != UINT32_MAX) {
        mbr_table_entry *entry = entry_at(table, index);
        entry->generation++;
        entry->unused = false;
        table->live_count++;
        *value = entry->generation << MBR_TABLE_INDEX_BITS | index;
    }
    mbr_lock_drop(&table->lock);
    if (*value == 0)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no room for another %s handle (%u at most)",
            table->kind, 1U << MBR_TABLE_INDEX_BITS);
    return MBR_OK;
}

void mbr_table_publish(mbr_table *table, uint64_t value, void *object)
{
    mbr_table_entry *entry = entry_at(table, value & INDEX_MASK);
    atomic_store_explicit(&entry->object, object, memory_order_release);
    atomic_store_explicit(&entry->value, value, memory_order_release);
}

void *mbr_table_take(mbr_table *table, uint64_t value)
{
    mbr_table_entry *entry = value == 0 ? NULL : entry_at(table, value & INDEX_MASK);
    if (entry == NULL)
        return NULL;
    mbr_lock_take(&table->lock);
    bool mine = entry->generation == value >> MBR_TABLE_INDEX_BITS && !entry->unused;
    void *object = NULL;
    if (mine) {
        object = atomic_load_explicit(&entry->object, memory_order_relaxed);
        atomic_store_explicit(&entry->value, 0, memory_order_release);
        atomic_store_explicit(&entry->object, NULL, memory_order_release);
        entry->next_free = table->first_free;
        entry->unused = true;
        table->first_free = (uint32_t)(value & INDEX_MASK) + 1;
        table->live_count--;
    }
    mbr_lock_drop(&table->lock);
    return object;
}

mbr_status mbr_table_explain(mbr_table *table, uint64_t value, mbr_error *error)
{
    mbr_table_entry *entry = value == 0 ? NULL : entry_at(table, value & INDEX_MASK);
    bool was = false;
    if (entry != NULL) {
        mbr_lock_take(&table->lock);
        was = value >> MBR_TABLE_INDEX_BITS <= entry->generation &&
            value >> MBR_TABLE_INDEX_BITS != 0;
        mbr_lock_drop(&table->lock);
    }
    if (was)
        return mbr_fail(error, MBR_STALE, "this %s handle (%llx) is superseded or released",
            table->kind, (unsigned long long)value);
    return mbr_fail(error, MBR_UNKNOWN_OBJECT, "%llx is no %s handle of this manager",
        (unsigned long long)value, table->kind);
}

void *mbr_table_next(mbr_table *table, uint32_t *cursor)
{
    while (*cursor < atomic_load_explicit(&table->used_count, memory_order_acquire)) {
        mbr_table_entry *entry = entry_at(table, (*cursor)++);
        if (atomic_load_explicit(&entry->value, memory_order_acquire) == 0)
            continue; /* unused, or prepared only */
        void *object = atomic_load_explicit(&entry->object, memory_order_acquire);
        if (object != NULL) /* NULL: taken out just now */
            return object;
    }
    return NULL;
}

uint64_t mbr_table_count(mbr_table *table)
{
    mbr_lock_take(&table->lock);
    uint64_t count = table->live_count;
    mbr_lock_drop(&table->lock);
    return count;
}
