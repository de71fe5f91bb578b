/* Responsible for the nodes of the address map: made when an entry of theirs is first used, kept
 * until the map's end, because a lookup may stand in any of them. Never reads a slab. */
#include "host/alloc/map.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

#define PAGE_BYTES (UINT64_C(1) << MBR_MAP_PAGE_BITS)
#define LEAF_MASK ((UINT64_C(1) << MBR_MAP_LEAF_BITS) - 1)
#define LEAF_PAGES (UINT64_C(1) << MBR_MAP_LEAF_BITS)
#define RUN_PAGES (UINT64_C(1) << MBR_MAP_RUN_BITS)
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

/* What a span has of one leaf. */
typedef struct part {
    mbr_map_leaf *leaf; /* NULL: nothing in it was ever set, and all of it is the span's */
    _Atomic(struct mbr_slab *) *whole;
    uint64_t first, end; /* of the leaf's pages */
} part;

static bool is_whole(const part *part)
{
    return part->end - part->first == LEAF_PAGES;
}

/* The part that begins with a page of the span; its end is the next one's. False: a node is absent
 * and cannot be made. */
static bool find_part(mbr_map *map, uint64_t page, uint64_t span_end, bool make, part *part)
{
    uint64_t nth = page >> MBR_MAP_LEAF_BITS & MIDDLE_MASK;
    part->first = page & LEAF_MASK;
    part->end = mbr_min(part->first + (span_end - page), LEAF_PAGES);
    mbr_map_middle *middle =
        node_at(map, &map->middles[page >> (MBR_MAP_LEAF_BITS + MBR_MAP_MIDDLE_BITS)],
            make ? sizeof(mbr_map_middle) : 0);
    if (middle == NULL)
        return false;
    part->whole = &middle->wholes[nth];
    part->leaf =
        node_at(map, &middle->leaves[nth], make && !is_whole(part) ? sizeof(mbr_map_leaf) : 0);
    return part->leaf != NULL || is_whole(part);
}

/* Pages that the part's next entry is for: a run's, or one. */
static uint64_t width(const part *part, uint64_t page)
{
    return page % RUN_PAGES == 0 && part->end - page >= RUN_PAGES ? RUN_PAGES : 1;
}

static bool is_set(_Atomic(struct mbr_slab *) *entry)
{
    return atomic_load_explicit(entry, memory_order_relaxed) != NULL;
}

static bool is_taken(const part *part)
{
    mbr_map_leaf *leaf = part->leaf;
    if (is_set(part->whole))
        return true;
    if (is_whole(part))
        return leaf != NULL && leaf->set_count != 0;
    uint64_t pages;
    for (uint64_t page = part->first; page < part->end; page += pages) {
        uint64_t run = page / RUN_PAGES;
        pages = width(part, page);
        if (is_set(&leaf->runs[run]) ||
            (pages == 1 ? is_set(&leaf->pages[page]) : leaf->set_in_run[run] != 0))
            return true;
    }
    return false;
}

/* From nothing to a slab, or back. */
static void set(const part *part, struct mbr_slab *slab)
{
    mbr_map_leaf *leaf = part->leaf;
    uint32_t one_more = slab != NULL ? 1u : -1u;
    if (is_whole(part)) {
        atomic_store_explicit(part->whole, slab, memory_order_release);
        return;
    }
    uint64_t pages;
    for (uint64_t page = part->first; page < part->end; page += pages) {
        uint64_t run = page / RUN_PAGES;
        pages = width(part, page);
        atomic_store_explicit(
            pages == 1 ? &leaf->pages[page] : &leaf->runs[run], slab, memory_order_release);
        leaf->set_in_run[run] += pages == 1 ? one_more : 0;
        leaf->set_count += one_more;
    }
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

/* All nodes are there. */
static void set_all(mbr_map *map, uint64_t first, uint64_t end, struct mbr_slab *slab)
{
    part part;
    for (uint64_t page = first; page < end; page += part.end - part.first) {
        bool found = find_part(map, page, end, false, &part);
        MBR_CHECK(found);
        set(&part, slab);
    }
}

/* Nodes that a failed insert made stay: they are empty, and the next insert uses them. */
mbr_map_answer mbr_map_insert(mbr_map *map, uint64_t address, uint64_t bytes, struct mbr_slab *slab)
{
    uint64_t first, end;
    if (!pages_of(address, bytes, &first, &end))
        return MBR_MAP_OUTSIDE;
    part part;
    for (uint64_t page = first; page < end; page += part.end - part.first) {
        if (!find_part(map, page, end, true, &part))
            return MBR_MAP_NO_HEAP;
        if (is_taken(&part))
            return MBR_MAP_TAKEN;
    }
    set_all(map, first, end, slab);
    return MBR_MAP_DONE;
}

void mbr_map_remove(mbr_map *map, uint64_t address, uint64_t bytes)
{
    uint64_t first, end;
    bool known = pages_of(address, bytes, &first, &end);
    MBR_CHECK(known);
    set_all(map, first, end, NULL);
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
