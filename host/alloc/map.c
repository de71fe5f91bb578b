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

/* What a span has of one leaf: pages, runs that it fills, and pages again. */
typedef struct part {
    mbr_map_leaf *leaf; /* NULL: nothing in it was ever set, and all of it is the span's */
    _Atomic(struct mbr_slab *) *whole;
    uint64_t first, end; /* of the leaf's pages */
    uint64_t first_run, end_run;
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
    part->first_run = (part->first + RUN_PAGES - 1) / RUN_PAGES;
    part->end_run = part->end / RUN_PAGES;
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

/* Where the pages before the runs end, and those behind them begin. */
static uint64_t head_end(const part *part)
{
    return mbr_min(part->first_run * RUN_PAGES, part->end);
}

static uint64_t tail_first(const part *part)
{
    return mbr_max(part->end_run * RUN_PAGES, head_end(part));
}

static bool is_set(_Atomic(struct mbr_slab *) *entry)
{
    return atomic_load_explicit(entry, memory_order_relaxed) != NULL;
}

static bool has_taken_page(mbr_map_leaf *leaf, uint64_t first, uint64_t end)
{
    for (uint64_t page = first; page < end; page++)
        if (is_set(&leaf->pages[page]) || is_set(&leaf->runs[page / RUN_PAGES]))
            return true;
    return false;
}

static bool is_taken(const part *part)
{
    mbr_map_leaf *leaf = part->leaf;
    if (is_set(part->whole))
        return true;
    if (leaf == NULL || leaf->set_count == 0)
        return false;
    for (uint64_t run = part->first_run; run < part->end_run; run++)
        if (is_set(&leaf->runs[run]) || leaf->set_in_run[run] != 0)
            return true;
    return has_taken_page(leaf, part->first, head_end(part)) ||
        has_taken_page(leaf, tail_first(part), part->end);
}

static void store(_Atomic(struct mbr_slab *) *entry, struct mbr_slab *slab)
{
    atomic_store_explicit(entry, slab, memory_order_release);
}

/* From nothing to a slab, or back. */
static void set_pages(mbr_map_leaf *leaf, uint64_t first, uint64_t end, struct mbr_slab *slab)
{
    uint32_t one_more = slab != NULL ? 1u : -1u;
    for (uint64_t page = first; page < end; page++) {
        store(&leaf->pages[page], slab);
        leaf->set_in_run[page / RUN_PAGES] += one_more;
        leaf->set_count += one_more;
    }
}

static void set(const part *part, struct mbr_slab *slab)
{
    if (is_whole(part)) {
        store(part->whole, slab);
        return;
    }
    mbr_map_leaf *leaf = part->leaf;
    set_pages(leaf, part->first, head_end(part), slab);
    for (uint64_t run = part->first_run; run < part->end_run; run++) {
        store(&leaf->runs[run], slab);
        leaf->set_count += slab != NULL ? 1u : -1u;
    }
    set_pages(leaf, tail_first(part), part->end, slab);
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
