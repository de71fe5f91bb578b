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

/* The widest entry that pages from `page` on fill, up to `end`. */
typedef struct place {
    _Atomic(struct mbr_slab *) *entry;
    uint64_t page_count;
    mbr_map_middle *middle;
    mbr_map_leaf *leaf; /* NULL: nothing in it was ever set, and the entry is the whole leaf's */
    uint64_t in_middle, in_leaf;
} place;

static bool fills(uint64_t page, uint64_t end, uint64_t page_count)
{
    return page % page_count == 0 && end - page >= page_count;
}

/* False: a node is absent and cannot be made. */
static bool find_place(mbr_map *map, uint64_t page, uint64_t end, bool make, place *at)
{
    *at =
        (place){.in_middle = page >> MBR_MAP_LEAF_BITS & MIDDLE_MASK, .in_leaf = page & LEAF_MASK};
    at->middle = node_at(map, &map->middles[page >> (MBR_MAP_LEAF_BITS + MBR_MAP_MIDDLE_BITS)],
        make ? sizeof(mbr_map_middle) : 0);
    if (at->middle == NULL)
        return false;
    bool whole = fills(page, end, LEAF_PAGES);
    at->leaf =
        node_at(map, &at->middle->leaves[at->in_middle], make && !whole ? sizeof(mbr_map_leaf) : 0);
    if (whole) {
        at->entry = &at->middle->wholes[at->in_middle];
        at->page_count = LEAF_PAGES;
    } else if (at->leaf == NULL) {
        return false;
    } else if (fills(page, end, RUN_PAGES)) {
        at->entry = &at->leaf->runs[at->in_leaf / RUN_PAGES];
        at->page_count = RUN_PAGES;
    } else {
        at->entry = &at->leaf->pages[at->in_leaf];
        at->page_count = 1;
    }
    return true;
}

static bool is_set(_Atomic(struct mbr_slab *) *entry)
{
    return atomic_load_explicit(entry, memory_order_relaxed) != NULL;
}

/* By itself, by what is wider, or by what is narrower. */
static bool is_taken(const place *at)
{
    if (is_set(&at->middle->wholes[at->in_middle]))
        return true;
    if (at->page_count == LEAF_PAGES)
        return at->leaf != NULL && at->leaf->set_count != 0;
    uint64_t run = at->in_leaf / RUN_PAGES;
    return is_set(at->entry) || is_set(&at->leaf->runs[run]) ||
        (at->page_count == RUN_PAGES && at->leaf->set_in_run[run] != 0);
}

/* From nothing to a slab, or back. */
static void set(const place *at, struct mbr_slab *slab)
{
    atomic_store_explicit(at->entry, slab, memory_order_release);
    if (at->page_count == LEAF_PAGES)
        return;
    at->leaf->set_count += slab != NULL ? 1u : -1u;
    if (at->page_count == 1)
        at->leaf->set_in_run[at->in_leaf / RUN_PAGES] += slab != NULL ? 1u : -1u;
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
    place at;
    for (uint64_t page = first; page < end; page += at.page_count) {
        bool found = find_place(map, page, end, false, &at);
        MBR_CHECK(found);
        set(&at, slab);
    }
}

/* Nodes that a failed insert made stay: they are empty, and the next insert uses them. */
mbr_map_answer mbr_map_insert(mbr_map *map, uint64_t address, uint64_t bytes, struct mbr_slab *slab)
{
    uint64_t first, end;
    if (!pages_of(address, bytes, &first, &end))
        return MBR_MAP_OUTSIDE;
    place at;
    for (uint64_t page = first; page < end; page += at.page_count) {
        if (!find_place(map, page, end, true, &at))
            return MBR_MAP_NO_HEAP;
        if (is_taken(&at))
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
