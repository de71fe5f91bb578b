/* What a request comes to: rows, pages, slots, and the extents of an area. Pure arithmetic; takes
 * no memory. */
#include "host/holder/paged/internal.h"

#include "host/holder/geometry/model.h"

#define PAGE_TOKENS 16

static mbr_status refuse_geometry(const mbr_geometry_error *refused, mbr_error *error)
{
    mbr_status status =
        refused->status == MBR_GEOMETRY_OVERFLOW ? MBR_OVERFLOW : MBR_INVALID_ARGUMENT;
    return mbr_fail(error, status, "%s", refused->text);
}

/* Rows as bytes, or as a geometry says. */
static mbr_status take_rows(
    mbr_paged_shape *shape, const mbr_paged_request *request, mbr_error *error)
{
    shape->token_bytes = request->token_bytes;
    shape->window_tokens = request->window_tokens;
    if ((request->geometry == NULL) == (request->token_bytes == 0))
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "give either a geometry or token_bytes, which is %lu", request->token_bytes);
    if (request->geometry == NULL)
        return MBR_OK;
    mbr_geometry geometry;
    mbr_geometry_error refused;
    uint64_t degree = request->tensor_parallel != 0 ? request->tensor_parallel : 1;
    if (mbr_geometry_parse(request->geometry, &geometry, &refused) != MBR_GEOMETRY_OK ||
        mbr_geometry_shard(&geometry, degree, &geometry, &refused) != MBR_GEOMETRY_OK)
        return refuse_geometry(&refused, error);
    if (geometry.group_count != 1)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "geometry %s has %u layer groups, a store keeps one; a store for each would work",
            request->geometry, geometry.group_count);
    shape->token_bytes = mbr_geometry_token_bytes(&geometry);
    if (shape->window_tokens == 0)
        shape->window_tokens = geometry.groups[0].window_tokens;
    return MBR_OK;
}

/* Whole rows only: what is left of a page behind the last of them is padding. */
static mbr_status take_page(
    mbr_paged_shape *shape, const mbr_paged_request *request, mbr_error *error)
{
    uint64_t rows = request->page_tokens, bytes;
    if (rows == 0)
        rows = request->page_bytes == 0 ? PAGE_TOKENS : request->page_bytes / shape->token_bytes;
    if (!mbr_mul(mbr_max(rows, 1), shape->token_bytes, &bytes))
        return mbr_fail(error, MBR_OVERFLOW, "page_tokens %lu times %lu bytes is above 2^64 - 1",
            rows, shape->token_bytes);
    if (request->page_bytes != 0 && request->page_bytes < bytes)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "page_bytes %lu is less than %lu rows of %lu bytes; %lu would work",
            request->page_bytes, mbr_max(rows, 1), shape->token_bytes, bytes);
    shape->page_tokens = rows;
    shape->page_bytes = mbr_max(bytes, request->page_bytes);
    return MBR_OK;
}

mbr_status mbr_paged_shape_init(
    mbr_paged_shape *shape, const mbr_paged_request *request, mbr_error *error)
{
    mbr_status status = take_rows(shape, request, error);
    if (status == MBR_OK)
        status = take_page(shape, request, error);
    if (status != MBR_OK)
        return status;
    shape->max_tokens = request->max_tokens;
    shape->sink_tokens = request->sink_tokens;
    uint64_t most = MBR_PAGED_TOKEN_LIMIT_COUNT;
    if (MBR_PAGED_SLOT_LIMIT_COUNT < most / shape->page_tokens)
        most = MBR_PAGED_SLOT_LIMIT_COUNT * shape->page_tokens;
    if (shape->max_tokens == 0 || shape->max_tokens > most)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "max_tokens %lu: 1 to %lu would work with %lu on a page", shape->max_tokens, most,
            shape->page_tokens);
    if (shape->sink_tokens != 0 && shape->window_tokens == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "sink_tokens %lu without a window; window_tokens above 0 would work",
            shape->sink_tokens);
    if (shape->sink_tokens > shape->max_tokens)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "sink_tokens %lu are above max_tokens %lu",
            shape->sink_tokens, shape->max_tokens);
    if (shape->window_tokens >= shape->max_tokens)
        shape->window_tokens = 0; /* nothing ever falls behind it */
    shape->sink_slot_count = (uint32_t)mbr_paged_slots_of(shape, shape->sink_tokens);
    return MBR_OK;
}

/* ---- Areas */

/* As many whole pages as fit and are wanted, and only the granules that they need. */
static mbr_status cut_extent(mbr_paged_area *area, uint64_t page_bytes, uint64_t extent_bytes,
    uint64_t max_pages, const mbr_mechanism_figures *mechanism, mbr_error *error)
{
    uint64_t granule = mechanism->granule_min_bytes;
    if (extent_bytes != 0 && extent_bytes < page_bytes)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "extent_bytes %lu is less than a page of %lu; %lu and more would work", extent_bytes,
            page_bytes, page_bytes);
    if (extent_bytes == 0)
        extent_bytes = mbr_max(mechanism->granule_recommended_bytes, page_bytes);
    uint64_t most = mbr_max(mbr_min(max_pages, MBR_PAGED_PAGE_LIMIT_COUNT), 1);
    uint64_t pages = mbr_min(extent_bytes / page_bytes, most);
    if (!mbr_align_up(pages * page_bytes, granule, &area->extent_bytes) ||
        area->extent_bytes > mechanism->extent_max_bytes)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "extents of %lu bytes are above the mechanism's largest, %lu; smaller %s would work",
            extent_bytes, mechanism->extent_max_bytes, pages == 1 ? "pages" : "extents");
    area->extent_pages = (uint32_t)pages;
    return MBR_OK;
}

mbr_status mbr_paged_cut_area(mbr_paged_area *area, const mbr_paged_shape *shape,
    uint64_t extent_bytes, uint64_t max_pages, const mbr_mechanism_figures *mechanism,
    mbr_error *error)
{
    mbr_status status =
        cut_extent(area, shape->page_bytes, extent_bytes, max_pages, mechanism, error);
    if (status != MBR_OK)
        return status;
    uint64_t most = MBR_PAGED_PAGE_LIMIT_COUNT / area->extent_pages, bytes;
    uint64_t count = max_pages / area->extent_pages + (max_pages % area->extent_pages != 0);
    if (count == 0 || count > most)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "max_pages %lu: 1 to %lu would work",
            max_pages, most * area->extent_pages);
    if (!mbr_mul(count, area->extent_bytes, &bytes))
        return mbr_fail(error, MBR_OVERFLOW, "max_pages %lu of %lu bytes are above 2^64 - 1",
            max_pages, shape->page_bytes);
    area->extent_count = (uint32_t)count;
    return MBR_OK;
}
