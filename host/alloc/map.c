/* Responsible for the nodes of the address map: made when a page below them is first used, kept
 * until the map's end, because a lookup may stand in any of them. Never reads a slab. */
#include "host/alloc/map.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

#define PAGE_BYTES (UINT64_C(1) << MBR_MAP_PAGE_BITS)
#define LEAF_MASK ((UINT64_C(1) << MBR_MAP_LEAF_BITS) - 1)
#define MIDDLE_MASK ((UINT64_C(1) << MBR_MAP_MIDDLE_BITS) - 1)

/* The node at *place, made if it is absent and `make` is not 0 bytes. */
static void *node_at(const mbr_map *map, _Atomic(void *) *place, size_t make_bytes)
{
    void *node = atomic_load_explicit(place, memory_order_relaxed);
    if (node == NULL && make_bytes != 0) {
        node = mbr_heap_allocate(map->heap, make_bytes);
        atomic_store_explicit(place, node, memory_order_release);
    }
    return node;
}

/* The entry of a page; NULL if its leaf is absent and cannot be made. */
static _Atomic(struct mbr_slab *) *page_entry(mbr_map *map, uint64_t page, bool make)
{
    mbr_map_middle *middle =
        node_at(map, &map->middles[page >> (MBR_MAP_LEAF_BITS + MBR_MAP_MIDDLE_BITS)],
            make ? sizeof(mbr_map_middle) : 0);
    if (middle == NULL)
        return NULL;
    mbr_map_leaf *leaf = node_at(map, &middle->leaves[page >> MBR_MAP_LEAF_BITS & MIDDLE_MASK],
        make ? sizeof(mbr_map_leaf) : 0);
    return leaf == NULL ? NULL : &leaf->pages[page & LEAF_MASK];
}

/* The pages of [address, address + bytes), the last one possibly in part. */
static bool pages_of(uint64_t address, uint64_t bytes, uint64_t *first, uint64_t *end)
{
    uint64_t last;
    if (bytes == 0 || address % PAGE_BYTES != 0 || !mbr_add(address, bytes - 1, &last) ||
        last >> MBR_MAP_ADDRESS_BITS != 0)
        return false;
    *first = address >> MBR_MAP_PAGE_BITS;
    *end = (last >> MBR_MAP_PAGE_BITS) + 1;
    return true;
}

/* Nodes that a failed insert made stay: they are empty, and the next insert uses them. */
mbr_map_answer mbr_map_insert(mbr_map *map, uint64_t address, uint64_t bytes, struct mbr_slab *slab)
{
    uint64_t first, end;
    if (!pages_of(address, bytes, &first, &end))
        return MBR_MAP_OUTSIDE;
    for (uint64_t page = first; page < end; page++) {
        _Atomic(struct mbr_slab *) *entry = page_entry(map, page, true);
        if (entry == NULL)
            return MBR_MAP_NO_HEAP;
        if (atomic_load_explicit(entry, memory_order_relaxed) != NULL)
            return MBR_MAP_TAKEN;
    }
    for (uint64_t page = first; page < end; page++)
        atomic_store_explicit(page_entry(map, page, false), slab, memory_order_release);
    return MBR_MAP_DONE;
}

void mbr_map_remove(mbr_map *map, uint64_t address, uint64_t bytes)
{
    uint64_t first, end;
    bool known = pages_of(address, bytes, &first, &end);
    MBR_CHECK(known);
    for (uint64_t page = first; page < end; page++)
        atomic_store_explicit(page_entry(map, page, false), NULL, memory_order_release);
}

void mbr_map_finish(mbr_map *map)
{
    for (uint64_t i = 0; i <= (UINT64_C(1) << MBR_MAP_ROOT_BITS) - 1; i++) {
        mbr_map_middle *middle = atomic_load_explicit(&map->middles[i], memory_order_relaxed);
        if (middle == NULL)
            continue;
        for (uint64_t j = 0; j <= MIDDLE_MASK; j++)
            mbr_heap_release(
                map->heap, atomic_load_explicit(&middle->leaves[j], memory_order_relaxed));
        mbr_heap_release(map->heap, middle);
    }
}
