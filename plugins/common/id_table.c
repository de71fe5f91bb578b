/* Keeps ids and what they stand for. Never owns an object, never locks. */
#include "plugins/common/id_table.h"

#include "abi/base/assert.h"

#define FIRST_SLOT_COUNT 64

static uint64_t home_of(const struct mbr_id_table *table, uint64_t id)
{
    /* Ids rise by one: a multiplication by the golden ratio spreads them over the high bits. */
    return ((id * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (table->slot_count - 1);
}

static uint64_t next_slot(const struct mbr_id_table *table, uint64_t index)
{
    return (index + 1) & (table->slot_count - 1);
}

bool mbr_id_table_reserve(struct mbr_id_table *table, const mbr_heap *heap)
{
    if ((table->id_count + 1) * 4 <= table->slot_count * 3)
        return true;
    struct mbr_id_table larger = {
        .slot_count = table->slot_count ? table->slot_count * 2 : FIRST_SLOT_COUNT,
    };
    larger.slots = mbr_heap_allocate(heap, larger.slot_count * sizeof(*larger.slots));
    if (!larger.slots)
        return false;
    for (uint64_t i = 0; i < table->slot_count; i++)
        if (table->slots[i].id)
            mbr_id_table_insert(&larger, table->slots[i].id, table->slots[i].object);
    mbr_heap_release(heap, table->slots);
    *table = larger;
    return true;
}

void mbr_id_table_insert(struct mbr_id_table *table, uint64_t id, void *object)
{
    MBR_ASSERT(id != 0 && table->id_count < table->slot_count);
    uint64_t index = home_of(table, id);
    while (table->slots[index].id)
        index = next_slot(table, index);
    table->slots[index] = (struct mbr_id_slot){id, object};
    table->id_count++;
}

/* The slot of `id`, or slot_count. */
static uint64_t slot_of(const struct mbr_id_table *table, uint64_t id)
{
    if (id == 0 || table->slot_count == 0)
        return table->slot_count;
    for (uint64_t index = home_of(table, id); table->slots[index].id;
         index = next_slot(table, index))
        if (table->slots[index].id == id)
            return index;
    return table->slot_count;
}

void *mbr_id_table_find(const struct mbr_id_table *table, uint64_t id)
{
    uint64_t index = slot_of(table, id);
    return index < table->slot_count ? table->slots[index].object : NULL;
}

void mbr_id_table_remove(struct mbr_id_table *table, uint64_t id)
{
    uint64_t hole = slot_of(table, id);
    MBR_CHECK(hole < table->slot_count);
    /* Moves later entries of the chain back, so that no tombstones are needed. */
    for (uint64_t index = next_slot(table, hole); table->slots[index].id;
         index = next_slot(table, index)) {
        uint64_t mask = table->slot_count - 1;
        uint64_t home = home_of(table, table->slots[index].id);
        if (((index - home) & mask) >= ((index - hole) & mask)) {
            table->slots[hole] = table->slots[index];
            hole = index;
        }
    }
    table->slots[hole] = (struct mbr_id_slot){0, NULL};
    table->id_count--;
}

void mbr_id_table_finish(struct mbr_id_table *table, const mbr_heap *heap)
{
    mbr_heap_release(heap, table->slots);
    *table = (struct mbr_id_table){NULL, 0, 0};
}
