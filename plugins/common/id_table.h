/* The host's 64-bit ids of live objects (rule 22): an id that is not here is unknown, released or
 * of another instance, and a plugin need not tell which.
 *
 * Open addressing with linear probing. Equation: each id stands at or after its home slot with no
 * empty slot between; at most 3/4 of the slots are taken. Not locked: the owner's lock covers it.
 */
#ifndef MEMBRANE_PLUGINS_COMMON_ID_TABLE_H
#define MEMBRANE_PLUGINS_COMMON_ID_TABLE_H

#include "abi/base/seam.h"

#include <stdbool.h>

struct mbr_id_slot {
    uint64_t id; /* 0: empty; the host gives no id 0 */
    void *object;
};

/* Zero-initialized, it is empty and holds no memory. */
struct mbr_id_table {
    struct mbr_id_slot *slots;
    uint64_t slot_count; /* 0 or a power of two */
    uint64_t id_count;
};

/* Makes room for one more id; false when the heap is exhausted (nothing changes then). */
bool mbr_id_table_reserve(struct mbr_id_table *table, const mbr_heap *heap);

/* Adds an id that is not there; room was reserved. */
void mbr_id_table_insert(struct mbr_id_table *table, uint64_t id, void *object);

void *mbr_id_table_find(const struct mbr_id_table *table, uint64_t id); /* NULL if it is not here */

/* Takes away an id that is there. Never fails, never allocates. */
void mbr_id_table_remove(struct mbr_id_table *table, uint64_t id);

/* Gives the table's own memory back; the objects are the owner's. */
void mbr_id_table_finish(struct mbr_id_table *table, const mbr_heap *heap);

#endif
