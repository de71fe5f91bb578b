/* Address -> slab: a radix map of pages of 64 KiB over 57 bits of address. What fills a run of 2
 * MiB or a leaf of 512 MiB has one entry for it, so that 66 GiB are entered as fast as 8 MiB in
 * pages. Lookups take no lock and may run beside every change: a page answers its slab or NULL.
 * Nodes are never freed before the map is. */
#ifndef MEMBRANE_HOST_ALLOC_MAP_H
#define MEMBRANE_HOST_ALLOC_MAP_H

#include "abi/base/seam.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MBR_MAP_ADDRESS_BITS 57
#define MBR_MAP_PAGE_BITS 16
#define MBR_MAP_RUN_BITS 5
#define MBR_MAP_LEAF_BITS 13
#define MBR_MAP_MIDDLE_BITS 14
#define MBR_MAP_ROOT_BITS                                                                          \
    (MBR_MAP_ADDRESS_BITS - MBR_MAP_PAGE_BITS - MBR_MAP_LEAF_BITS - MBR_MAP_MIDDLE_BITS)

struct mbr_slab;

typedef struct mbr_map_leaf {
    _Atomic(struct mbr_slab *) pages[1 << MBR_MAP_LEAF_BITS];
    _Atomic(struct mbr_slab *) runs[1 << (MBR_MAP_LEAF_BITS - MBR_MAP_RUN_BITS)];
    /* The writers': entries that are set, of each run's pages, and of pages and runs. */
    uint32_t set_in_run[1 << (MBR_MAP_LEAF_BITS - MBR_MAP_RUN_BITS)];
    uint32_t set_count;
} mbr_map_leaf;

typedef struct mbr_map_middle {
    _Atomic(void *) leaves[1 << MBR_MAP_MIDDLE_BITS];
    _Atomic(struct mbr_slab *) wholes[1 << MBR_MAP_MIDDLE_BITS]; /* leaves with one slab */
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

/* The slab of the page's run, or of all of its leaf. */
static inline struct mbr_slab *mbr_map_find_wide(
    const mbr_map_middle *middle, const mbr_map_leaf *leaf, uint64_t page)
{
    uint64_t run = (page & ((UINT64_C(1) << MBR_MAP_LEAF_BITS) - 1)) >> MBR_MAP_RUN_BITS;
    struct mbr_slab *slab =
        leaf == NULL ? NULL : atomic_load_explicit(&leaf->runs[run], memory_order_acquire);
    uint64_t nth = page >> MBR_MAP_LEAF_BITS & ((UINT64_C(1) << MBR_MAP_MIDDLE_BITS) - 1);
    return slab != NULL ? slab : atomic_load_explicit(&middle->wholes[nth], memory_order_acquire);
}

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
    struct mbr_slab *slab = leaf == NULL
        ? NULL
        : atomic_load_explicit(
              &leaf->pages[page & ((UINT64_C(1) << MBR_MAP_LEAF_BITS) - 1)], memory_order_acquire);
    return slab != NULL ? slab : mbr_map_find_wide(middle, leaf, page);
}

#endif
