/* Lets tests in C++ at the records of an arena. Decides nothing. */
#include "tests/unit/alloc/door.h"

#include "host/alloc/class.h"
#include "host/alloc/payer.h"
#include "host/alloc/record.h"

struct door_map {
    mbr_heap heap;
    mbr_map map;
};

door_map *door_map_create(const mbr_heap *heap)
{
    door_map *made = mbr_heap_allocate(heap, sizeof(*made));
    made->heap = *heap;
    made->map.heap = &made->heap;
    return made;
}

void door_map_destroy(door_map *map)
{
    mbr_map_finish(&map->map);
    mbr_heap heap = map->heap;
    mbr_heap_release(&heap, map);
}

int door_map_insert(door_map *map, uint64_t address, uint64_t bytes, void *slab)
{
    return (int)mbr_map_insert(&map->map, address, bytes, slab);
}

void door_map_remove(door_map *map, uint64_t address, uint64_t bytes)
{
    mbr_map_remove(&map->map, address, bytes);
}

void *door_map_find(const door_map *map, uint64_t address)
{
    return mbr_map_find(&map->map, address);
}

static mbr_record lone_record;
static uint64_t lone_word;

void door_record_set(uint32_t state)
{
    lone_word =
        MBR_WORD_GENERATION_STEP | state | (uint64_t)MBR_CONTENT_ZERO << MBR_WORD_CONTENT_SHIFT;
    atomic_store(&lone_record.word, lone_word);
}

uint32_t door_record_state(void)
{
    return mbr_word_state(mbr_record_word(&lone_record));
}

uint32_t door_record_content(void)
{
    return mbr_word_content(mbr_record_word(&lone_record));
}

bool door_record_try_move(uint32_t to)
{
    return mbr_record_try_move(&lone_record, &lone_word, to);
}

void door_record_disturb(uint32_t state)
{
    atomic_store(&lone_record.word, (lone_word & ~MBR_WORD_STATE) | state);
}

void door_record_begin(void)
{
    lone_word = mbr_record_begin(
        &lone_record, mbr_record_word(&lone_record), 0, MBR_CONTENT_UNDEFINED, MBR_ALLOCATION_LIVE);
}

static mbr_record *record_of(mbr_alloc_table *table, mbr_allocation_handle allocation)
{
    return mbr_table_record(table, (uint32_t)(allocation.value & (MBR_ALLOCATION_LIMIT_COUNT - 1)));
}

mbr_allocation_handle door_wear(
    mbr_alloc_table *table, mbr_allocation_handle allocation, uint64_t lives)
{
    mbr_record *record = record_of(table, allocation);
    uint64_t word = mbr_record_word(record);
    uint64_t generation = MBR_WORD_GENERATION - lives * MBR_WORD_GENERATION_STEP;
    atomic_store(&record->word, (word & ~MBR_WORD_GENERATION) | generation);
    return (mbr_allocation_handle){
        generation | (allocation.value & (MBR_ALLOCATION_LIMIT_COUNT - 1))};
}

_Static_assert(DOOR_LINE_RECORDS * sizeof(mbr_record) == MBR_LINE_BYTES, "a line's records");

uint32_t door_take(mbr_arena *arena, uint64_t bytes, uint32_t *blocks, uint32_t count)
{
    mbr_lock_take(&arena->lock);
    uint32_t taken =
        mbr_slabs_take_locked(arena, mbr_class_for(bytes, MBR_BLOCK_ALIGN_BYTES), blocks, count);
    mbr_lock_drop(&arena->lock);
    return taken;
}

void door_put(mbr_arena *arena, const uint32_t *blocks, uint32_t count)
{
    mbr_lock_take(&arena->lock);
    for (uint32_t i = 0; i < count; i++)
        mbr_slabs_put_locked(arena, blocks[i]);
    mbr_lock_drop(&arena->lock);
}

void door_corrupt(mbr_arena *arena, mbr_allocation_handle allocation, int figure, int by)
{
    mbr_slab *slab = mbr_table_slab(
        arena->table, (uint32_t)(allocation.value & (MBR_ALLOCATION_LIMIT_COUNT - 1)));
    uint64_t step = (uint64_t)(int64_t)by;
    mbr_lock_take(&arena->lock);
    switch (figure) {
    case DOOR_OUT_COUNT:
        arena->bins[slab->class_index].out_count += step;
        break;
    case DOOR_IDLE_BYTES:
        arena->idle_bytes += step;
        break;
    case DOOR_SLAB_BYTES:
        arena->slab_bytes += step;
        break;
    case DOOR_QUEUED_COUNT:
        atomic_fetch_add(&arena->queued_count, step);
        break;
    case DOOR_QUEUED_BYTES:
        atomic_fetch_add(&arena->queued_bytes, step);
        break;
    case DOOR_QUARANTINED_COUNT:
        arena->quarantined_count += step;
        break;
    case DOOR_QUARANTINED_BYTES:
        arena->quarantined_bytes += step;
        break;
    case DOOR_PAYER_BYTES:
        arena->payers[0][1].allocated_bytes += step;
        break;
    case DOOR_HERE_COUNT:
        slab->here_count += (uint32_t)by;
        break;
    default:
        atomic_fetch_add(&slab->address, step);
    }
    mbr_lock_drop(&arena->lock);
}
