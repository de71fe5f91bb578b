/* A paged store: what it is made for, its two areas, and its figures. Takes no memory but addresses
 * and records; sequences do. */
#include "host/holder/paged/internal.h"

#include "host/bind/seams.h"

MBR_GIVER_CALLS_DEFINE(mbr_paged, giver_calls);

static uint64_t would_save(void *self, uint64_t room_bytes)
{
    return mbr_paged_would_save(self, room_bytes);
}

static const mbr_giver_calls saver_calls = {would_save, NULL};

/* ---- Life */

/* Rows are the processor's to write and to copy, and extents come and go. */
static mbr_status judge_memory(const mbr_mechanism_figures *mechanism, mbr_error *error)
{
    if (mechanism->domain == MBR_DOMAIN_DEVICE)
        return mbr_fail(error, MBR_UNSUPPORTED,
            "mechanism %s is a device's memory, which the processor does not reach; a KV cache "
            "(membrane/kv.h) would work there",
            mechanism->name);
    if ((mechanism->capabilities & MBR_CAPABILITY_VIRTUAL) == 0)
        return mbr_fail(error, MBR_UNSUPPORTED,
            "mechanism %s has no virtual memory: a store cannot grow there", mechanism->name);
    return MBR_OK;
}

/* Looks binding and holder up now, so that a wrong one is refused here. */
static mbr_status cut(mbr_paged *store, mbr_paged_area *area, uint64_t extent_bytes,
    uint64_t max_pages, mbr_authority_handle *authority, mbr_error *error)
{
    mbr_binding_figures binding = {MBR_SIZED(mbr_binding_figures)};
    mbr_mechanism_figures mechanism = {MBR_SIZED(mbr_mechanism_figures)};
    mbr_holder_figures payer = {MBR_SIZED(mbr_holder_figures)};
    mbr_status status = mbr_manager_read_binding(store->manager, area->binding, &binding, error);
    if (status == MBR_OK)
        status = mbr_manager_read_mechanism(store->manager, binding.mechanism, &mechanism, error);
    if (status == MBR_OK)
        status = mbr_manager_read_holder(store->manager, area->holder, &payer, error);
    if (status == MBR_OK)
        status = judge_memory(&mechanism, error);
    *authority = binding.authority;
    return status == MBR_OK
        ? mbr_paged_cut_area(area, &store->shape, extent_bytes, max_pages, &mechanism, error)
        : status;
}

static mbr_status cut_areas(mbr_paged *store, const mbr_paged_request *request, mbr_error *error)
{
    mbr_authority_handle here, there;
    mbr_status status =
        cut(store, &store->own, request->extent_bytes, request->max_pages, &here, error);
    if (status != MBR_OK)
        return status;
    uint64_t keep = mbr_min(request->keep_bytes / store->own.extent_bytes, store->own.extent_count);
    store->keep_count = (uint32_t)mbr_max(keep, 1);
    if (request->saved_binding.value == 0)
        return MBR_OK;
    uint64_t most = request->max_saved_pages != 0 ? request->max_saved_pages : request->max_pages;
    status = cut(store, &store->saved, request->extent_bytes, most, &there, error);
    store->saves_elsewhere = status == MBR_OK && here.value != there.value;
    return status;
}

/* Nothing of it is committed: that is accepted. */
static void return_area(mbr_paged *store, mbr_paged_area *area)
{
    mbr_status undone = mbr_area_release(store, area, NULL);
    MBR_CHECK(undone == MBR_OK);
    mbr_area_finish(store, area);
}

static mbr_status take_areas(mbr_paged *store, mbr_error *error)
{
    mbr_status status = mbr_area_init(store, &store->own, error);
    if (status != MBR_OK || store->saved.binding.value == 0)
        return status;
    status = mbr_area_init(store, &store->saved, error);
    if (status != MBR_OK)
        return_area(store, &store->own);
    return status;
}

/* From here on it may be asked. */
static mbr_status answer_pressure(mbr_paged *store, mbr_error *error)
{
    mbr_status status = MBR_OK;
    if (store->saves_elsewhere)
        status = mbr_saver_join(
            store->manager, store->saved.holder, &saver_calls, store, &store->saver, error);
    if (status == MBR_OK)
        status = mbr_giver_join(
            store->manager, store->own.holder, &giver_calls, store, &store->giver, error);
    if (status != MBR_OK)
        mbr_giver_leave(&store->saver);
    return status;
}

/* What is left without its areas. */
static void finish(mbr_paged *store)
{
    mbr_condition_finish(&store->moved);
    mbr_lock_finish(&store->lock);
    mbr_table_finish(&store->sequences);
    mbr_heap heap = store->heap;
    mbr_heap_release(&heap, store);
}

mbr_status mbr_paged_create(
    mbr_manager *manager, const mbr_paged_request *request, mbr_paged **store, mbr_error *error)
{
    *store = NULL;
    mbr_paged_request own;
    mbr_status status = MBR_TAKE(&own, mbr_paged_request, sink_tokens, request, error);
    if (status != MBR_OK)
        return status;
    mbr_paged *made = mbr_heap_allocate(mbr_manager_heap(manager), sizeof(*made));
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a paged store");
    made->manager = manager;
    made->heap = *mbr_manager_heap(manager);
    made->own.binding = own.binding;
    made->own.holder = own.holder;
    made->saved.binding = own.saved_binding;
    made->saved.holder = own.saved_holder;
    status = mbr_paged_shape_init(&made->shape, &own, error);
    if (status == MBR_OK)
        status = cut_areas(made, &own, error);
    if (status == MBR_OK)
        status = take_areas(made, error);
    if (status != MBR_OK) {
        mbr_heap_release(mbr_manager_heap(manager), made);
        return status;
    }
    mbr_table_init(&made->sequences, "sequence", &made->heap);
    mbr_lock_init(&made->lock, MBR_RANK_CLIENT);
    mbr_condition_init(&made->moved);
    status = answer_pressure(made, error);
    if (status != MBR_OK) {
        return_area(made, &made->own);
        return_area(made, &made->saved);
        finish(made);
        return status;
    }
    *store = made;
    return MBR_OK;
}

mbr_status mbr_paged_destroy(mbr_paged *store, mbr_error *error)
{
    mbr_lock_take(&store->lock);
    uint64_t count = store->sequence_count;
    mbr_lock_drop(&store->lock);
    if (count != 0)
        return mbr_fail(
            error, MBR_IN_USE, "%lu sequences of the store live; end them first", count);
    mbr_giver_leave(&store->giver); /* what it has left goes by this call alone */
    mbr_giver_leave(&store->saver);
    mbr_status status = mbr_area_release(store, &store->own, error);
    if (status == MBR_OK)
        status = mbr_area_release(store, &store->saved, error);
    if (status != MBR_OK)
        return status;
    mbr_area_finish(store, &store->own);
    mbr_area_finish(store, &store->saved);
    finish(store);
    return MBR_OK;
}

/* ---- Figures */

static uint64_t committed_pages(const mbr_paged_area *area)
{
    return (uint64_t)area->present_count * area->extent_pages;
}

static uint64_t all_pages(const mbr_paged_area *area)
{
    return (uint64_t)area->extent_count * area->extent_pages;
}

mbr_status mbr_paged_read(mbr_paged *store, mbr_paged_figures *figures, mbr_error *error)
{
    (void)error;
    const mbr_paged_area *own = &store->own, *saved = &store->saved;
    mbr_paged_figures whole = {MBR_SIZED(mbr_paged_figures), .address = own->address,
        .extent_pages = own->extent_pages, .extent_bytes = own->extent_bytes,
        .page_bytes = store->shape.page_bytes, .token_bytes = store->shape.token_bytes,
        .page_tokens = store->shape.page_tokens, .max_pages = all_pages(own),
        .max_saved_pages = all_pages(saved)};
    mbr_lock_take(&store->lock);
    whole.sequence_count = store->sequence_count;
    whole.page_count = committed_pages(own) - own->free_count;
    whole.shared_page_count = store->shared_count;
    whole.exclusive_page_count = store->exclusive_count;
    whole.free_page_count = own->free_count;
    whole.saved_page_count = committed_pages(saved) - saved->free_count;
    whole.committed_bytes = own->present_count * own->extent_bytes;
    whole.saved_bytes = saved->present_count * saved->extent_bytes;
    whole.copied_bytes = store->copied_bytes;
    whole.preempted_count = store->preempted_count;
    mbr_lock_drop(&store->lock);
    mbr_growable_give(figures, &whole, sizeof(whole));
    return MBR_OK;
}
