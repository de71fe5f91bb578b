/* Shared extents: one record each, lists of them by offset, and their users. Knows no handle and
 * calls nothing of the client interface. */
#include "host/holder/kv/internal.h"

/* The extent lies in one span: a whole extent of a prefix holds nothing of a second fragment. */
uint64_t mbr_kv_extent_live(const mbr_extents *extents, const mbr_kv_extent *extent, uint64_t first)
{
    const mbr_layout *layout = &extents->layout;
    uint64_t end = extent->offset + extent->bytes;
    if (layout->kind == MBR_LAYOUT_WINDOW_MAJOR) {
        uint64_t from = extent->offset / layout->window_bytes * layout->window_tokens;
        uint64_t to = end / layout->window_bytes * layout->window_tokens;
        from = mbr_max(from, first);
        return to > from ? (to - from) * mbr_layer_group_token_bytes(&layout->group) : 0;
    }
    uint64_t base = mbr_align_down(extent->offset, layout->fragment_stride_bytes);
    uint64_t from = mbr_max(extent->offset, base + first * layout->row_bytes);
    return end > from ? end - from : 0;
}

mbr_kv_extent *mbr_kv_extent_create(
    const mbr_kv *kv, const mbr_extents *extents, uint64_t offset, uint64_t bytes)
{
    mbr_kv_extent *extent = mbr_heap_allocate(&kv->heap, sizeof(*extent));
    if (extent == NULL)
        return NULL;
    *extent = (mbr_kv_extent){.offset = offset, .bytes = bytes, .first_live = UINT64_MAX};
    extent->data_bytes = mbr_kv_extent_live(extents, extent, 0);
    return extent;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

bool mbr_kv_list_init(const mbr_kv *kv, mbr_kv_list *list, uint64_t capacity)
{
    *list = (mbr_kv_list){0};
    if (capacity == 0)
        return true;
    list->items = mbr_heap_allocate(&kv->heap, capacity * sizeof(*list->items));
    return list->items != NULL;
}

void mbr_kv_list_finish(const mbr_kv *kv, mbr_kv_list *list)
{
    mbr_heap_release(&kv->heap, list->items);
    *list = (mbr_kv_list){0};
}

void mbr_kv_list_append(mbr_kv_list *list, mbr_kv_extent *extent)
{
    MBR_ASSERT(list->count == 0 || list->items[list->count - 1]->offset < extent->offset);
    list->items[list->count++] = extent;
    list->bytes += extent->bytes;
    list->data_bytes += extent->data_bytes;
}

uint32_t mbr_kv_list_find(const mbr_kv_list *list, uint64_t offset)
{
    uint32_t low = 0, high = list->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list->items[middle]->offset + list->items[middle]->bytes > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* One run at most: a prefix that begins behind another's end begins at a later window, and so
 * behind everything that lives before it. */
mbr_byte_range mbr_kv_list_run(const mbr_kv_list *list, mbr_byte_range live)
{
    uint32_t first = mbr_kv_list_find(list, live.start);
    if (first == list->count || list->items[first]->offset >= live.end)
        return (mbr_byte_range){live.end, live.end};
    uint32_t last = first;
    while (last + 1 < list->count &&
        list->items[last + 1]->offset == list->items[last]->offset + list->items[last]->bytes &&
        list->items[last + 1]->offset < live.end)
        last++;
    return (mbr_byte_range){
        list->items[first]->offset, list->items[last]->offset + list->items[last]->bytes};
}

/* ---- Users ----------------------------------------------------------------------------------- */

static bool slides(const mbr_kv *kv, uint32_t group)
{
    return kv->groups[group].extents.layout.group.window_tokens != 0;
}

static void use_locked(mbr_kv *kv, uint32_t group, mbr_kv_extent *extent)
{
    if (extent->user_count++ != 0)
        return;
    kv->shared_bytes += extent->bytes;
    if (!slides(kv, group))
        kv->shared_data_bytes += extent->data_bytes;
}

static void drop_locked(mbr_kv *kv, uint32_t group, mbr_kv_extent *extent)
{
    MBR_ASSERT(extent->user_count != 0);
    if (--extent->user_count != 0)
        return;
    kv->shared_bytes -= extent->bytes;
    if (!slides(kv, group))
        kv->shared_data_bytes -= extent->data_bytes;
    mbr_heap_release(&kv->heap, extent);
}

void mbr_kv_list_use_locked(mbr_kv *kv, uint32_t group, mbr_kv_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        use_locked(kv, group, list->items[i]);
}

void mbr_kv_list_drop_locked(mbr_kv *kv, uint32_t group, mbr_kv_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        drop_locked(kv, group, list->items[i]);
    list->count = 0;
    list->bytes = list->data_bytes = 0;
}

uint64_t mbr_kv_list_cut_locked(mbr_kv *kv, uint32_t group, mbr_kv_list *list, mbr_byte_range bytes)
{
    uint32_t first = mbr_kv_list_find(list, bytes.start), end = first;
    uint64_t cut = 0;
    for (; end < list->count && list->items[end]->offset < bytes.end; end++) {
        cut += list->items[end]->bytes;
        list->data_bytes -= list->items[end]->data_bytes;
        drop_locked(kv, group, list->items[end]);
    }
    if (end != first)
        memmove(&list->items[first], &list->items[end], (list->count - end) * sizeof(*list->items));
    list->count -= end - first;
    list->bytes -= cut;
    return cut;
}
