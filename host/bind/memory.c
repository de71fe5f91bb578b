/* The client's calls for plain allocations: handles are looked up and checked against each other;
 * the arena does the work. On the hot path nothing here takes a lock. */
#include "host/bind/manager.h"

/* `result` has every field. Written in place: a copy of what was just written would wait for it. */
static inline mbr_status alloc_whole(mbr_manager *manager, const mbr_alloc_request *request,
    mbr_alloc_result *result, mbr_error *error)
{
    mbr_status status;
    result->content = MBR_CONTENT_UNDEFINED;
    result->allocation.value = 0;
    result->address = result->usable_bytes = result->charged_bytes = 0;
    mbr_binding_record *binding = mbr_find_binding(manager, request->binding.value, &status, error);
    if (binding == NULL)
        return status;
    mbr_holder_record *holder = mbr_find_holder(manager, request->holder.value, &status, error);
    if (holder == NULL)
        return status;
    if (holder->authority != binding->backing->authority)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the holder is of another authority than the binding; create one under it");
    mbr_arena_request inner = {.holder = holder->holder,
        .bytes = request->bytes,
        .align_bytes = request->align_bytes,
        .flags = request->flags,
        .tag = request->tag,
        .refusal = request->refusal};
    if (request->stream.value != 0) {
        status =
            mbr_stream_id(manager, binding->ep->context, request->stream, &inner.stream_id, error);
        if (status != MBR_OK)
            return status;
    }
    return mbr_arena_alloc(binding->arena, &inner, result, error);
}

/* For a caller who knows fewer fields. */
__attribute__((noinline)) static mbr_status alloc_short(mbr_manager *manager,
    const mbr_alloc_request *request, mbr_alloc_result *result, mbr_error *error)
{
    mbr_alloc_result whole = {MBR_SIZED(mbr_alloc_result)};
    mbr_status status = alloc_whole(manager, request, &whole, error);
    mbr_copy_figures(result, &whole, sizeof(whole));
    return status;
}

mbr_status mbr_alloc(mbr_manager *manager, const mbr_alloc_request *request,
    mbr_alloc_result *result, mbr_error *error)
{
    if (__builtin_expect(result->struct_size < sizeof(*result), 0))
        return alloc_short(manager, request, result, error);
    return alloc_whole(manager, request, result, error);
}

__attribute__((noinline)) static mbr_status free_after(
    mbr_manager *manager, const mbr_free_request *request, mbr_error *error)
{
    uint64_t ids[MBR_STREAM_LIST_COUNT];
    mbr_status status =
        mbr_stream_ids(manager, NULL, request->streams, request->stream_count, ids, error);
    if (status != MBR_OK)
        return status;
    return mbr_alloc_free(manager->allocations, request->allocation, request->address,
        (request->flags & MBR_FREE_NOW) != 0, ids, request->stream_count, error);
}

mbr_status mbr_free(mbr_manager *manager, const mbr_free_request *request, mbr_error *error)
{
    if (request->stream_count != 0)
        return free_after(manager, request, error);
    return mbr_alloc_free(manager->allocations, request->allocation, request->address,
        (request->flags & MBR_FREE_NOW) != 0, NULL, 0, error);
}

mbr_status mbr_alloc_read(mbr_manager *manager, mbr_allocation_handle allocation, uint64_t address,
    mbr_allocation_figures *figures, mbr_error *error)
{
    mbr_allocation_figures whole = {MBR_SIZED(mbr_allocation_figures)};
    mbr_status status =
        mbr_alloc_table_read(manager->allocations, allocation, address, &whole, error);
    if (status == MBR_OK)
        mbr_copy_figures(figures, &whole, sizeof(whole));
    return status;
}
