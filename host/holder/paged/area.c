/* The extents of one area: committed when no free page is left, given back when they are empty.
 * Knows nothing of sequences. */
#include "host/holder/common/gone.h"
#include "host/holder/paged/internal.h"

#include <utlist.h>

#define PIECE_INLINE_COUNT 16 /* extents of one growth without the heap */

/* ---- Life */

static mbr_status reserve(mbr_paged *store, mbr_paged_area *area, mbr_error *error)
{
    mbr_range_reserve_request request = {MBR_SIZED(mbr_range_reserve_request),
        .binding = area->binding, .bytes = area->extent_count * area->extent_bytes,
        .growth = {area->extent_bytes, area->extent_bytes, 0}};
    mbr_range_reserve_result result = {MBR_SIZED(mbr_range_reserve_result)};
    mbr_status status = mbr_range_reserve(store->manager, &request, &result, error);
    area->range = result.range;
    area->address = result.address;
    return status;
}

mbr_status mbr_area_init(mbr_paged *store, mbr_paged_area *area, mbr_error *error)
{
    uint64_t pages = (uint64_t)area->extent_count * area->extent_pages;
    area->pages = mbr_heap_allocate(&store->heap, pages * sizeof(*area->pages));
    area->extents = mbr_heap_allocate(&store->heap, area->extent_count * sizeof(*area->extents));
    mbr_status status = MBR_OK;
    if (area->pages == NULL || area->extents == NULL)
        status = mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no host memory for the records of %lu pages", pages);
    if (status == MBR_OK)
        status = reserve(store, area, error);
    if (status != MBR_OK) {
        mbr_area_finish(store, area);
        return status;
    }
    for (uint32_t i = 0; i < area->extent_count; i++)
        DL_APPEND(area->absent, &area->extents[i]);
    area->absent_count = area->extent_count;
    return MBR_OK;
}

mbr_status mbr_area_release(mbr_paged *store, mbr_paged_area *area, mbr_error *error)
{
    if (area->range.value == 0)
        return MBR_OK;
    mbr_range_release_request request = {MBR_SIZED(mbr_range_release_request),
        .flags = MBR_FREE_NOW, .piece = {.range = area->range}};
    mbr_status status = mbr_range_release(store->manager, &request, error);
    if (status == MBR_OK)
        area->range.value = 0;
    return status;
}

void mbr_area_finish(mbr_paged *store, mbr_paged_area *area)
{
    mbr_heap_release(&store->heap, area->pages);
    mbr_heap_release(&store->heap, area->extents);
    area->pages = NULL;
    area->extents = NULL;
}

/* ---- Free pages */

static mbr_paged_extent *extent_of(mbr_paged_area *area, uint32_t page)
{
    return &area->extents[page / area->extent_pages];
}

static uint32_t pop_page_locked(mbr_paged *store, mbr_paged_area *area) MBR_REQUIRES(&store->lock)
{
    (void)store;
    mbr_paged_extent *extent = area->partial != NULL ? area->partial : area->empty;
    uint32_t page = extent->first_free - 1;
    if (extent->free_count == area->extent_pages) {
        DL_DELETE(area->empty, extent);
        area->empty_count--;
        DL_APPEND(area->partial, extent);
    }
    extent->first_free = area->pages[page].next_free;
    area->pages[page].next_free = 0;
    area->free_count--;
    if (--extent->free_count == 0)
        DL_DELETE(area->partial, extent);
    return page;
}

void mbr_area_put_locked(mbr_paged *store, mbr_paged_area *area, uint32_t page)
{
    (void)store;
    mbr_paged_extent *extent = extent_of(area, page);
    area->pages[page].next_free = extent->first_free;
    extent->first_free = page + 1;
    area->free_count++;
    if (extent->free_count++ == 0)
        DL_APPEND(area->partial, extent);
    if (extent->free_count == area->extent_pages) {
        DL_DELETE(area->partial, extent);
        DL_PREPEND(area->empty, extent);
        area->empty_count++;
    }
}

/* ---- Commitment */

/* All pages of a committed extent are free. The first ones are taken first. */
static void add_extent_locked(mbr_paged *store, mbr_paged_area *area, mbr_paged_extent *extent)
    MBR_REQUIRES(&store->lock)
{
    (void)store;
    uint32_t base = (uint32_t)(extent - area->extents) * area->extent_pages;
    for (uint32_t i = 0; i < area->extent_pages; i++)
        area->pages[base + i].next_free = i + 1 < area->extent_pages ? base + i + 2 : 0;
    extent->first_free = base + 1;
    extent->free_count = area->extent_pages;
    DL_APPEND(area->empty, extent);
    area->empty_count++;
    area->present_count++;
    area->free_count += area->extent_pages;
}

/* What has not gone, behind somebody or stuck, is taken last from now on. */
static void add_absent_locked(mbr_paged *store, mbr_paged_area *area, mbr_paged_extent *extent,
    bool gone) MBR_REQUIRES(&store->lock)
{
    (void)store;
    if (gone)
        DL_PREPEND(area->absent, extent);
    else
        DL_APPEND(area->absent, extent);
    area->absent_count++;
}

static void return_absent_locked(mbr_paged *store, mbr_paged_area *area, const mbr_piece *pieces,
    uint32_t count, bool stuck) MBR_REQUIRES(&store->lock)
{
    for (uint32_t i = count; i-- > 0;)
        add_absent_locked(
            store, area, &area->extents[pieces[i].offset_bytes / area->extent_bytes], !stuck);
}

static mbr_status grow(mbr_paged *store, const mbr_paged_area *area, const mbr_piece *pieces,
    uint32_t count, mbr_refusal *refusal, mbr_error *error)
{
    mbr_range_grow_request request = {MBR_SIZED(mbr_range_grow_request), .holder = area->holder,
        .pieces = pieces, .piece_count = count, .refusal = refusal};
    mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
    return mbr_range_grow(store->manager, &request, &result, error);
}

/* `count` extents more as one growth: granted, committed, and only then counted. */
static mbr_status commit_locked(mbr_paged *store, mbr_paged_area *area, uint32_t count,
    mbr_refusal *refusal, mbr_error *error) MBR_REQUIRES(&store->lock)
{
    mbr_piece inline_pieces[PIECE_INLINE_COUNT], *pieces = inline_pieces;
    if (count > area->absent_count)
        return mbr_fail(error, MBR_OUT_OF_ADDRESSES,
            "%u extents more are needed and %u are left of %u; end, drop or preempt sequences, or "
            "make the store larger",
            count, area->absent_count, area->extent_count);
    if (count > PIECE_INLINE_COUNT)
        pieces = mbr_heap_allocate(&store->heap, count * sizeof(*pieces));
    if (pieces == NULL)
        return mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a growth by %u extents", count);
    for (uint32_t i = 0; i < count; i++) {
        mbr_paged_extent *extent = area->absent;
        DL_DELETE(area->absent, extent);
        uint64_t offset = (uint64_t)(extent - area->extents) * area->extent_bytes;
        pieces[i] = (mbr_piece){area->range, offset, area->extent_bytes};
    }
    area->absent_count -= count;
    mbr_lock_drop(&store->lock);
    mbr_status status = grow(store, area, pieces, count, refusal, error);
    mbr_lock_take(&store->lock);
    if (status != MBR_OK)
        return_absent_locked(
            store, area, pieces, count, status == MBR_RESIDUAL || status == MBR_BUSY);
    for (uint32_t i = 0; i < count && status == MBR_OK; i++)
        add_extent_locked(store, area, &area->extents[pieces[i].offset_bytes / area->extent_bytes]);
    if (pieces != inline_pieces)
        mbr_heap_release(&store->heap, pieces);
    return status;
}

mbr_status mbr_area_take_locked(mbr_paged *store, mbr_paged_area *area, mbr_paged_move *moves,
    uint32_t count, mbr_refusal *refusal, mbr_error *error)
{
    uint32_t taken = 0;
    while (taken < count && area->free_count != 0)
        moves[taken++].page = pop_page_locked(store, area);
    if (taken == count)
        return MBR_OK;
    uint32_t missing = count - taken;
    uint32_t extents = missing / area->extent_pages + (missing % area->extent_pages != 0);
    mbr_status status = commit_locked(store, area, extents, refusal, error);
    while (status == MBR_OK && taken < count)
        moves[taken++].page = pop_page_locked(store, area);
    while (status != MBR_OK && taken > 0)
        mbr_area_put_locked(store, area, moves[--taken].page);
    return status;
}

/* *gone: and nothing of it is left, waiting or stuck. */
static mbr_status decommit(
    mbr_paged *store, const mbr_paged_area *area, const mbr_paged_extent *extent, bool *gone)
{
    uint64_t offset = (uint64_t)(extent - area->extents) * area->extent_bytes;
    mbr_range_release_request request = {MBR_SIZED(mbr_range_release_request),
        .flags = MBR_FREE_NOW, .piece = {area->range, offset, area->extent_bytes}};
    mbr_range_decommit_result result = {MBR_SIZED(mbr_range_decommit_result)};
    mbr_status status = mbr_range_decommit(store->manager, &request, &result, NULL);
    *gone = status == MBR_OK &&
        mbr_range_is_gone(store->manager, area->range, offset, area->extent_bytes);
    return status;
}

uint64_t mbr_area_trim_locked(mbr_paged *store, mbr_paged_area *area, uint32_t keep_count)
{
    uint64_t bytes = 0;
    while (area->empty_count > keep_count) {
        bool gone;
        mbr_paged_extent *extent = area->empty;
        DL_DELETE(area->empty, extent);
        area->empty_count--;
        area->present_count--;
        area->free_count -= area->extent_pages;
        mbr_lock_drop(&store->lock);
        mbr_status status = decommit(store, area, extent, &gone);
        mbr_lock_take(&store->lock);
        if (status != MBR_OK) {
            add_extent_locked(store, area, extent);
            break;
        }
        bytes += gone ? area->extent_bytes : 0;
        add_absent_locked(store, area, extent, gone);
    }
    return bytes;
}
