/* What tests reach of the arena's inside, behind functions because C++17 has no `_Atomic`. */
#ifndef MEMBRANE_TESTS_UNIT_ALLOC_DOOR_H
#define MEMBRANE_TESTS_UNIT_ALLOC_DOOR_H

#ifdef __cplusplus
extern "C" {
#endif

#include "host/alloc/arena.h"

/* ---- The address map, over the test's heap. */
typedef struct door_map door_map;
enum { DOOR_MAP_DONE, DOOR_MAP_OUTSIDE, DOOR_MAP_TAKEN, DOOR_MAP_NO_HEAP };

door_map *door_map_create(const mbr_heap *heap);
void door_map_destroy(door_map *map);
int door_map_insert(door_map *map, uint64_t address, uint64_t bytes, void *slab);
void door_map_remove(door_map *map, uint64_t address, uint64_t bytes);
void *door_map_find(const door_map *map, uint64_t address);

/* ---- One record that belongs to no table. */
void door_record_set(uint32_t state);
uint32_t door_record_state(void);
uint32_t door_record_content(void);
/* Moves from what was read last to `to`. */
bool door_record_try_move(uint32_t to);
/* Somebody else moves it meanwhile. */
void door_record_disturb(uint32_t state);
void door_record_begin(void);

/* ---- The record of a live allocation. */
/* Leaves `lives` more generations to it, after the present one. The old handle is not its own any
 * more; the new one is returned. */
mbr_allocation_handle door_wear(
    mbr_alloc_table *table, mbr_allocation_handle allocation, uint64_t lives);

/* ---- Blocks of the slabs, past all magazines. A line has DOOR_LINE_RECORDS records in a row. */
enum { DOOR_LINE_RECORDS = 8 };
uint32_t door_take(mbr_arena *arena, uint64_t bytes, uint32_t *blocks, uint32_t count);
void door_put(mbr_arena *arena, const uint32_t *blocks, uint32_t count);

/* Makes one figure wrong, and right again with the opposite sign: what the audit must notice. */
enum {
    DOOR_OUT_COUNT,
    DOOR_IDLE_BYTES,
    DOOR_SLAB_BYTES,
    DOOR_QUEUED_COUNT,
    DOOR_QUEUED_BYTES,
    DOOR_QUARANTINED_COUNT,
    DOOR_QUARANTINED_BYTES,
    DOOR_PAYER_BYTES,
    DOOR_HERE_COUNT,
    DOOR_ADDRESS,
    DOOR_FIGURE_COUNT
};
void door_corrupt(mbr_arena *arena, mbr_allocation_handle allocation, int figure, int by);

#ifdef __cplusplus
}
#endif

#endif
