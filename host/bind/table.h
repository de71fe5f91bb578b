/* Handle tables: a handle is (generation, index) in one word, and names one object for ever.
 * Looking up takes no lock. Entries live until the table ends, so that a late lookup finds a newer
 * generation and never freed memory. */
#ifndef MEMBRANE_HOST_BIND_TABLE_H
#define MEMBRANE_HOST_BIND_TABLE_H

#include "abi/base/lock.h"
#include "abi/base/seam.h"
#include "membrane/base.h"

#include <stdatomic.h>

#define MBR_TABLE_CHUNK_COUNT 1024 /* chunks of one table */
#define MBR_TABLE_CHUNK_ENTRIES 1024
#define MBR_TABLE_INDEX_BITS 20 /* chunks * entries; the other 44 bits are the generation */

typedef struct mbr_table_entry {
    /* The object is stored before the value and cleared after it: who reads them in that order
     * never takes the object of one handle for another's. */
    _Atomic uint64_t value; /* the handle while it names an object, else 0 */
    _Atomic(void *) object;
    uint64_t generation;
    uint32_t next_free; /* index + 1 of the next unused entry; 0: the last */
    bool unused;        /* on the list of unused entries */
} mbr_table_entry;

typedef struct mbr_table {
    const char *kind; /* "range", for errors */
    const mbr_heap *heap;
    mbr_lock lock;
    _Atomic(mbr_table_entry *) chunks[MBR_TABLE_CHUNK_COUNT];
    _Atomic uint32_t used_count; /* entries ever used; written under the lock */
    uint32_t first_free;         /* index + 1; 0: none */
    uint64_t live_count;         /* prepared ones included */
} mbr_table;

void mbr_table_init(mbr_table *table, const char *kind, const mbr_heap *heap);
/* Every entry is gone already. */
void mbr_table_finish(mbr_table *table);

/* Reserves a handle, so that publishing it later cannot fail. MBR_OUT_OF_HOST_MEMORY,
 * MBR_OUT_OF_RANGE. */
mbr_status mbr_table_prepare(mbr_table *table, uint64_t *value, mbr_error *error);
void mbr_table_publish(mbr_table *table, uint64_t value, void *object);
/* Ends a handle, published or only prepared. NULL if it names nothing: of racing threads one gets
 * the object. */
void *mbr_table_take(mbr_table *table, uint64_t value);

static inline void *mbr_table_find(mbr_table *table, uint64_t value)
{
    uint64_t index = value & ((UINT64_C(1) << MBR_TABLE_INDEX_BITS) - 1);
    mbr_table_entry *chunk =
        atomic_load_explicit(&table->chunks[index / MBR_TABLE_CHUNK_ENTRIES], memory_order_acquire);
    if (chunk == NULL || value == 0)
        return NULL;
    mbr_table_entry *entry = &chunk[index % MBR_TABLE_CHUNK_ENTRIES];
    void *object = atomic_load_explicit(&entry->object, memory_order_acquire);
    return atomic_load_explicit(&entry->value, memory_order_acquire) == value ? object : NULL;
}

/* Why a lookup found nothing: MBR_STALE for a handle that once was, else MBR_UNKNOWN_OBJECT. */
mbr_status mbr_table_explain(mbr_table *table, uint64_t value, mbr_error *error);

/* Walks the objects: *cursor from 0; NULL at the end. Objects may come and go meanwhile; one that
 * is there all the time is found. */
void *mbr_table_next(mbr_table *table, uint32_t *cursor);
uint64_t mbr_table_count(mbr_table *table);

#endif
