/* The client's calls for plain allocations: handles are looked up and checked against each other;
 * the arena does the work. On the hot path nothing here takes a lock. */
#include "host/bind/manager.h"

static mbr_status check_holder(
    const mbr_holder_record *holder, const mbr_binding_record *binding, mbr_error *error)
{
    if (holder->authority == binding->backing->authority)
        return MBR_OK;
    return mbr_fail(error, MBR_INVALID_ARGUMENT,
        "the holder is of another authority than the binding; create one under it");
}

/* `result` has every field. */
static mbr_status alloc_whole(mbr_manager *manager, const mbr_alloc_request *request,
    mbr_alloc_result *result, mbr_error *error)
{
    mbr_status status;
    *result = (mbr_alloc_result){.struct_size = result->struct_size};
    mbr_binding_record *binding = mbr_find_binding(manager, request->binding.value, &status, error);
    if (binding == NULL)
        return status;
    mbr_holder_record *holder = mbr_find_holder(manager, request->holder.value, &status, error);
    if (holder == NULL)
        return status;
    status = check_holder(holder, binding, error);
    if (status != MBR_OK)
        return status;
    mbr_arena_request inner = {.holder = holder->holder,
        .bytes = request->bytes,
        .align_bytes = request->align_bytes,
        .flags = request->flags,
        .tag = request->tag,
        .refusal = request->refusal};
    status = mbr_stream_id(manager, binding->ep->context, request->stream, &inner.stream_id, error);
    if (status != MBR_OK)
        return status;
    return mbr_arena_alloc(binding->arena, &inner, result, error);
}

/* For a caller who knows fewer fields, too. */
__attribute__((noinline)) static mbr_status alloc_any(mbr_manager *manager,
    const mbr_alloc_request *request, mbr_alloc_result *result, mbr_error *error)
{
    mbr_growable_give(result, NULL, 0);
    mbr_alloc_request own;
    mbr_status taken = MBR_TAKE(&own, mbr_alloc_request, refusal, request, error);
    if (taken != MBR_OK)
        return taken;
    request = &own;
    if (result->struct_size >= sizeof(*result))
        return alloc_whole(manager, request, result, error);
    mbr_alloc_result whole = {MBR_SIZED(mbr_alloc_result)};
    mbr_status status = alloc_whole(manager, request, &whole, error);
    mbr_growable_give(result, &whole, sizeof(whole));
    return status;
}

/* Most allocations end here: two look-ups, and the arena has a block for them. The result is
 * written in place and once: a copy of what was just written would wait for it. */
static inline bool try_alloc(
    mbr_manager *manager, const mbr_alloc_request *request, mbr_alloc_result *result)
{
    if (request->struct_size < sizeof(*request) || result->struct_size < sizeof(*result) ||
        request->flags != 0 || (request->stream.value | request->tag | request->align_bytes) != 0)
        return false;
    const mbr_binding_record *binding = mbr_table_find(&manager->bindings, request->binding.value);
    const mbr_holder_record *holder = mbr_table_find(&manager->holders, request->holder.value);
    return binding != NULL && holder != NULL && holder->authority == binding->backing->authority &&
        mbr_arena_try_alloc(
            binding->arena, holder->holder, holder->holder_id, request->bytes, result);
}

mbr_status mbr_alloc(mbr_manager *manager, const mbr_alloc_request *request,
    mbr_alloc_result *result, mbr_error *error)
{
    if (__builtin_expect(try_alloc(manager, request, result), 1))
        return MBR_OK;
    return alloc_any(manager, request, result, error);
}

__attribute__((noinline)) static mbr_status free_any(
    mbr_manager *manager, const mbr_free_request *request, mbr_error *error)
{
    mbr_free_request own;
    mbr_status status = MBR_TAKE(&own, mbr_free_request, stream_count, request, error);
    if (status == MBR_OK)
        status = mbr_flags_check(own.flags, MBR_FREE_NOW, "mbr_free_request", error);
    if (status != MBR_OK)
        return status;
    request = &own;
    uint64_t ids[MBR_STREAM_LIST_COUNT];
    status = mbr_stream_ids(manager, NULL, request->streams, request->stream_count, ids, error);
    if (status != MBR_OK)
        return status;
    return mbr_alloc_free(manager->allocations, request->allocation, request->address,
        (request->flags & MBR_FREE_NOW) != 0, ids, request->stream_count, error);
}

mbr_status mbr_free(mbr_manager *manager, const mbr_free_request *request, mbr_error *error)
{
    bool plain = request->struct_size >= sizeof(*request) && request->flags == MBR_FREE_NOW &&
        request->stream_count == 0;
    if (__builtin_expect(plain && mbr_alloc_try_free(manager->allocations, request->allocation), 1))
        return MBR_OK;
    return free_any(manager, request, error);
}

mbr_status mbr_alloc_read(mbr_manager *manager, mbr_allocation_handle allocation, uint64_t address,
    mbr_allocation_figures *figures, mbr_error *error)
{
    mbr_allocation_figures whole = {MBR_SIZED(mbr_allocation_figures)};
    mbr_status status =
        mbr_alloc_table_read(manager->allocations, allocation, address, &whole, error);
    if (status == MBR_OK)
        mbr_growable_give(figures, &whole, sizeof(whole));
    else
        mbr_growable_give(figures, NULL, 0);
    return status;
}
