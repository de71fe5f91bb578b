/* Address -> slab: a radix map of pages of 64 KiB over 57 bits of address. Lookups take no lock and
 * may run beside every change: a page answers its slab or NULL. Nodes are never freed before the
 * map is. */
#ifndef MEMBRANE_HOST_ALLOC_MAP_H
#define MEMBRANE_HOST_ALLOC_MAP_H

#include "abi/base/seam.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MBR_MAP_ADDRESS_BITS 57
#define MBR_MAP_PAGE_BITS 16
#define MBR_MAP_LEAF_BITS 13
#define MBR_MAP_MIDDLE_BITS 14
#define MBR_MAP_ROOT_BITS                                                                          \
    (MBR_MAP_ADDRESS_BITS - MBR_MAP_PAGE_BITS - MBR_MAP_LEAF_BITS - MBR_MAP_MIDDLE_BITS)

struct mbr_slab;

typedef struct mbr_map_leaf {
    _Atomic(struct mbr_slab *) pages[1 << MBR_MAP_LEAF_BITS];
} mbr_map_leaf;

typedef struct mbr_map_middle {
    _Atomic(void *) leaves[1 << MBR_MAP_MIDDLE_BITS];
} mbr_map_middle;

typedef struct mbr_map {
    const mbr_heap *heap;
    _Atomic(void *) middles[1 << MBR_MAP_ROOT_BITS];
} mbr_map;

typedef enum mbr_map_answer {
    MBR_MAP_DONE = 0,
    MBR_MAP_OUTSIDE, /* not 57 bits, or not at the start of a page */
    MBR_MAP_TAKEN,   /* a page belongs to another slab */
    MBR_MAP_NO_HEAP,
} mbr_map_answer;

/* Writers exclude each other. All pages of [address, address + bytes), or none. */
mbr_map_answer mbr_map_insert(
    mbr_map *map, uint64_t address, uint64_t bytes, struct mbr_slab *slab);
void mbr_map_remove(mbr_map *map, uint64_t address, uint64_t bytes);
/* Frees the nodes; the map itself is the caller's. */
void mbr_map_finish(mbr_map *map);

static inline struct mbr_slab *mbr_map_find(const mbr_map *map, uint64_t address)
{
    if (address >> MBR_MAP_ADDRESS_BITS != 0)
        return NULL;
    uint64_t page = address >> MBR_MAP_PAGE_BITS;
    mbr_map_middle *middle = atomic_load_explicit(
        &map->middles[page >> (MBR_MAP_LEAF_BITS + MBR_MAP_MIDDLE_BITS)], memory_order_acquire);
    if (middle == NULL)
        return NULL;
    mbr_map_leaf *leaf = atomic_load_explicit(
        &middle->leaves[page >> MBR_MAP_LEAF_BITS & ((UINT64_C(1) << MBR_MAP_MIDDLE_BITS) - 1)],
        memory_order_acquire);
    if (leaf == NULL)
        return NULL;
    return atomic_load_explicit(
        &leaf->pages[page & ((UINT64_C(1) << MBR_MAP_LEAF_BITS) - 1)], memory_order_acquire);
}

#endif
