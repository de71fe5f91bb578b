/* The client's calls for growing memory and prefixes: handles become records, streams become ids;
 * the backing does the work. */
#include "host/bind/kept.h"
#include "host/bind/parts.h"

#define CALL_WAIT_NS UINT64_C(10000000000) /* of a release, for calls inside (rule 25) */

/* ---- Ranges */

static void count_on(mbr_manager *manager, uint64_t *count, int64_t by)
{
    mbr_lock_take(&manager->lock);
    *count += (uint64_t)by;
    mbr_lock_drop(&manager->lock);
}

/* Names an extent by an id that is never used again: the prefix may end meanwhile. */
static mbr_status find_hint(mbr_manager *manager, const mbr_range_reserve_request *request,
    mbr_alias_hint *hint, mbr_error *error)
{
    mbr_status status = MBR_OK;
    *hint = (mbr_alias_hint){0, 0};
    mbr_walk walk = mbr_walks_begin(&manager->range_walks);
    const uint64_t handle = request->prefix.value;
    mbr_prefix_record *record =
        handle == 0 ? NULL : mbr_find_prefix(manager, handle, &status, error);
    if (record != NULL)
        *hint = mbr_prefix_hint(record->prefix, request->prefix_piece);
    mbr_walks_end(&manager->range_walks, walk);
    return status;
}

mbr_status mbr_range_reserve(mbr_manager *manager, const mbr_range_reserve_request *request,
    mbr_range_reserve_result *result, mbr_error *error)
{
    mbr_status status;
    mbr_range_reserve_result whole = {MBR_SIZED(mbr_range_reserve_result)};
    mbr_growable_give(result, &whole, sizeof(whole));
    mbr_range_reserve_request own;
    mbr_status taken = MBR_TAKE(&own, mbr_range_reserve_request, growth, request, error);
    if (taken == MBR_OK)
        taken = mbr_flags_check(own.flags, 0, "mbr_range_reserve_request", error);
    if (taken != MBR_OK)
        return taken;
    request = &own;
    mbr_binding_record *binding = mbr_find_binding(manager, request->binding.value, &status, error);
    if (binding == NULL)
        return status;
    mbr_alias_hint hint;
    if ((status = find_hint(manager, request, &hint, error)) != MBR_OK)
        return status;
    mbr_range_record *record = mbr_heap_allocate(&manager->heap, sizeof(*record));
    if (record == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a range");
    uint64_t handle;
    status = mbr_table_prepare(&manager->ranges, &handle, error);
    if (status != MBR_OK)
        goto free_record;
    mbr_range_options options = {.context = binding->ep->context,
        .isolation_group = binding->isolation_group,
        .flags = request->flags,
        .bytes = request->bytes,
        .align_bytes = request->align_bytes,
        .expected_bytes = request->expected_bytes,
        .alias = hint,
        .growth = request->growth,
        .handle = handle};
    status = mbr_backing_reserve(binding->backing->backing, &options, &record->range, error);
    if (status != MBR_OK)
        goto drop_handle;
    record->binding = binding;
    count_on(manager, &binding->range_count, 1);
    mbr_range_figures figures = {MBR_SIZED(mbr_range_figures)};
    mbr_range_figures_read(record->range, &figures);
    record->handle = handle;
    record->address = figures.address;
    record->bytes = figures.bytes;
    mbr_table_publish(&manager->ranges, handle, record);
    whole.range.value = handle;
    whole.address = figures.address;
    whole.bytes = figures.bytes;
    whole.parked_bytes = figures.parked_bytes;
    mbr_growable_give(result, &whole, sizeof(whole));
    return MBR_OK;
drop_handle:
    mbr_table_take(&manager->ranges, handle);
free_record:
    mbr_heap_release(&manager->heap, record);
    return status;
}

/* ---- Growing --------------------------------------------------------------------------------- */

/* Growing within what is committed is one look-up and one comparison (H7). The result is written in
 * place: a copy of what was just written would wait for it. */
static inline bool is_committed(
    mbr_manager *manager, const mbr_range_grow_request *request, mbr_range_grow_result *result)
{
    if (request->struct_size < sizeof(*request) || result->struct_size < sizeof(*result) ||
        (request->flags & ~(uint32_t)MBR_GROW_ZEROED) != 0 || request->piece_count != 1 ||
        request->publish != NULL)
        return false;
    uint64_t end;
    const mbr_piece *piece = &request->pieces[0];
    const mbr_range_record *record = mbr_table_find(&manager->ranges, piece->range.value);
    if (record == NULL || !mbr_add(piece->offset_bytes, piece->bytes, &end) ||
        !mbr_range_is_committed_to(record->range, end))
        return false;
    *result = (mbr_range_grow_result){.struct_size = result->struct_size};
    return true;
}

/* Kept out of its caller, whose frame would otherwise be this one's. */
__attribute__((noinline)) mbr_status mbr_range_grow_kept(mbr_manager *manager, const void *keeper,
    const mbr_range_grow_request *request, const mbr_growth_watch *watch,
    mbr_range_grow_result *result, mbr_error *error)
{
    mbr_range_grow_result whole = {MBR_SIZED(mbr_range_grow_result)};
    mbr_growable_give(result, &whole, sizeof(whole));
    mbr_range_grow_request own;
    mbr_status taken = MBR_TAKE(&own, mbr_range_grow_request, refusal, request, error);
    if (taken == MBR_OK)
        taken = mbr_flags_check(
            own.flags, MBR_GROW_ZEROED | MBR_GROW_AHEAD, "mbr_range_grow_request", error);
    bool ahead = (own.flags & MBR_GROW_AHEAD) != 0;
    if (taken == MBR_OK && ahead && (own.publish != NULL || (own.flags & MBR_GROW_ZEROED) != 0))
        taken = mbr_fail(error, MBR_INVALID_ARGUMENT,
            "MBR_GROW_AHEAD goes with neither publish nor MBR_GROW_ZEROED: nothing is handed out");
    if (taken != MBR_OK)
        return taken;
    request = &own;
    mbr_status status;
    mbr_holder_record *holder = mbr_find_holder(manager, request->holder.value, &status, error);
    if (holder == NULL)
        return status;
    mbr_part_list list;
    status = mbr_parts_make(manager, request->pieces, request->piece_count, keeper, &list, error);
    if (status != MBR_OK)
        return status;
    mbr_grow_options options = {.holder = holder->holder,
        .flags = request->flags,
        .parts = list.parts,
        .part_count = request->piece_count,
        .publish = request->publish,
        .publish_context = request->publish_context,
        .watch = watch,
        .refusal = request->refusal};
    status = mbr_stream_id(manager, list.context, request->stream, &options.stream_id, error);
    if (status == MBR_OK &&
        mbr_holder_authority(holder->holder) != mbr_backing_authority(list.backing))
        status = mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the holder is of another authority than the range; create one under it");
    if (status == MBR_OK) {
        mbr_context_reap(list.context, false);
        status = mbr_backing_grow(list.backing, &options, &whole, error);
    }
    /* What is on its way back: bytes, or an extent that the range has let go. */
    bool may_change = MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED ||
        (status == MBR_BUSY && request->publish == NULL);
    if (may_change && !ahead && mbr_context_reap(list.context, true) != 0)
        status = mbr_backing_grow(list.backing, &options, &whole, error);
    mbr_parts_release(manager, &list, request->piece_count);
    mbr_growable_give(result, &whole, sizeof(whole));
    return status;
}

mbr_status mbr_range_grow(mbr_manager *manager, const mbr_range_grow_request *request,
    mbr_range_grow_result *result, mbr_error *error)
{
    return is_committed(manager, request, result)
        ? MBR_OK
        : mbr_range_grow_kept(manager, NULL, request, NULL, result, error);
}

mbr_status mbr_range_decommit_kept(mbr_manager *manager, const void *keeper,
    const mbr_range_release_request *request, mbr_range_decommit_result *result, mbr_error *error)
{
    mbr_status status;
    mbr_range_decommit_result whole = {MBR_SIZED(mbr_range_decommit_result)};
    mbr_growable_give(result, &whole, sizeof(whole));
    mbr_range_release_request own;
    mbr_status taken = MBR_TAKE(&own, mbr_range_release_request, stream_count, request, error);
    if (taken == MBR_OK)
        taken = mbr_flags_check(own.flags, MBR_FREE_NOW, "mbr_range_release_request", error);
    if (taken != MBR_OK)
        return taken;
    request = &own;
    mbr_lock_take(&manager->lock);
    mbr_range_record *record =
        mbr_enter_range_locked(manager, request->piece.range, keeper, &status, error);
    mbr_lock_drop(&manager->lock);
    if (record == NULL)
        return status;
    uint64_t ids[MBR_STREAM_LIST_COUNT];
    status = mbr_stream_ids(
        manager, record->binding->ep->context, request->streams, request->stream_count, ids, error);
    if (status == MBR_OK)
        status =
            mbr_range_give_back(record->range, request->piece.offset_bytes, request->piece.bytes,
                (request->flags & MBR_FREE_NOW) != 0, ids, request->stream_count, &whole, error);
    mbr_lock_take(&manager->lock);
    mbr_leave_call_locked(manager, &record->call_count);
    mbr_lock_drop(&manager->lock);
    mbr_growable_give(result, &whole, sizeof(whole));
    return status;
}

mbr_status mbr_range_decommit(mbr_manager *manager, const mbr_range_release_request *request,
    mbr_range_decommit_result *result, mbr_error *error)
{
    return mbr_range_decommit_kept(manager, NULL, request, result, error);
}

/* Until no call is inside; new ones are refused meanwhile. */
static mbr_status await_calls_locked(mbr_manager *manager, const mbr_range_record *record,
    mbr_error *error) MBR_REQUIRES(&manager->lock)
{
    uint64_t deadline_ns = mbr_clock_now(&mbr_clock_monotonic) + CALL_WAIT_NS;
    bool is_in_time = true;
    while (record->call_count != 0 && is_in_time)
        is_in_time = mbr_condition_wait(&manager->closed, &manager->lock, deadline_ns);
    if (record->call_count == 0)
        return MBR_OK;
    return mbr_fail(error, MBR_BUSY,
        "another call has been inside the range for %llu ms; nothing was changed, try again when "
        "it has returned",
        (unsigned long long)(CALL_WAIT_NS / 1000000));
}

/* NULL: *status says why. */
static mbr_range_record *begin_release(
    mbr_manager *manager, mbr_range_handle handle, mbr_status *status, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    mbr_range_record *record = mbr_await_range_locked(manager, handle.value, status, error);
    if (record != NULL)
        *status = mbr_range_check_keeper(record, NULL, error);
    bool begins = *status == MBR_OK;
    if (begins) {
        record->closing = true;
        *status = await_calls_locked(manager, record, error);
    }
    mbr_lock_drop(&manager->lock);
    if (*status == MBR_OK)
        return record;
    if (begins)
        mbr_end_close(manager, &record->closing);
    return NULL;
}

mbr_status mbr_range_keep(
    mbr_manager *manager, mbr_range_handle range, const void *keeper, mbr_error *error)
{
    mbr_status status;
    mbr_lock_take(&manager->lock);
    mbr_range_record *record = mbr_await_range_locked(manager, range.value, &status, error);
    if (record != NULL)
        status = mbr_range_check_keeper(record, NULL, error);
    if (status == MBR_OK) {
        atomic_store(&record->keeper, keeper);
        status = await_calls_locked(manager, record, error);
        if (status != MBR_OK)
            atomic_store(&record->keeper, NULL);
    }
    mbr_lock_drop(&manager->lock);
    if (status != MBR_OK)
        return status;
    mbr_walks_await(&manager->range_walks); /* a pin was counted before, or sees the keeper */
    mbr_range_figures figures = {MBR_SIZED(mbr_range_figures)};
    mbr_range_figures_read(record->range, &figures);
    if (figures.pin_count == 0)
        return MBR_OK;
    mbr_range_unkeep(manager, range);
    return mbr_fail(error, MBR_BUSY, "%llu pins hold the range; unpin it first",
        (unsigned long long)figures.pin_count);
}

void mbr_range_unkeep(mbr_manager *manager, mbr_range_handle range)
{
    mbr_range_record *record = mbr_table_find(&manager->ranges, range.value);
    MBR_CHECK(record != NULL); /* nobody releases what is kept */
    atomic_store(&record->keeper, NULL);
}

uint64_t mbr_range_evict_cache(mbr_manager *manager, mbr_range_handle range, uint64_t bytes)
{
    mbr_range_record *record = mbr_table_find(&manager->ranges, range.value);
    MBR_CHECK(record != NULL);
    mbr_backing *backing = record->binding->backing->backing;
    uint64_t released = mbr_backing_trim(backing, UINT64_MAX) + mbr_backing_evict(backing, bytes);
    mbr_authority_sample(record->binding->backing->authority->authority, true);
    return released;
}

static void end_release(mbr_manager *manager, mbr_range_record *record, bool ended)
{
    if (ended)
        mbr_table_take(&manager->ranges, record->handle);
    mbr_end_close(manager, &record->closing);
    if (!ended)
        return;
    mbr_walks_await(&manager->range_walks); /* they look at the range, which its backing frees */
    mbr_unrefer(manager, &record->binding->range_count);
    mbr_heap_release(&manager->heap, record);
}

mbr_status mbr_range_release(
    mbr_manager *manager, const mbr_range_release_request *request, mbr_error *error)
{
    mbr_range_release_request own;
    mbr_status status = MBR_TAKE(&own, mbr_range_release_request, stream_count, request, error);
    if (status == MBR_OK)
        status = mbr_flags_check(own.flags, MBR_FREE_NOW, "mbr_range_release_request", error);
    if (status != MBR_OK)
        return status;
    mbr_range_record *record = begin_release(manager, own.piece.range, &status, error);
    if (record == NULL)
        return status;
    uint64_t ids[MBR_STREAM_LIST_COUNT];
    status = mbr_stream_ids(
        manager, record->binding->ep->context, own.streams, own.stream_count, ids, error);
    if (status == MBR_OK)
        status = mbr_range_end(
            record->range, (own.flags & MBR_FREE_NOW) != 0, ids, own.stream_count, error);
    end_release(manager, record, status == MBR_OK);
    return status;
}

/* ---- Prefixes */

mbr_status mbr_prefix_create(mbr_manager *manager, const mbr_prefix_request *request,
    mbr_prefix_result *result, mbr_error *error)
{
    mbr_status status;
    mbr_prefix_result whole = {MBR_SIZED(mbr_prefix_result)};
    mbr_growable_give(result, &whole, sizeof(whole));
    mbr_prefix_request own;
    mbr_status taken = MBR_TAKE(&own, mbr_prefix_request, pieces, request, error);
    if (taken != MBR_OK)
        return taken;
    request = &own;
    mbr_holder_record *holder = mbr_refer_holder(manager, request->holder, &status, error);
    if (holder == NULL)
        return status;
    mbr_part_list list;
    status = mbr_parts_make(manager, request->pieces, request->piece_count, NULL, &list, error);
    if (status != MBR_OK)
        goto unrefer;
    uint64_t handle;
    mbr_prefix_record *record = mbr_heap_allocate(&manager->heap, sizeof(*record));
    if (record == NULL)
        status = mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a prefix");
    if (status != MBR_OK)
        goto release_list;
    if (mbr_holder_authority(holder->holder) != mbr_backing_authority(list.backing))
        status = mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the holder is of another authority than the ranges; create one under it");
    if (status == MBR_OK)
        status = mbr_table_prepare(&manager->prefixes, &handle, error);
    if (status != MBR_OK)
        goto free_record;
    status = mbr_backing_make_prefix(list.backing, list.parts, request->piece_count, holder->holder,
        &record->prefix, &whole, error);
    if (status != MBR_OK)
        goto drop_handle;
    record->binding = list.binding;
    record->holder = holder;
    count_on(manager, &record->binding->prefix_count, 1);
    mbr_table_publish(&manager->prefixes, handle, record);
    whole.prefix.value = handle;
    mbr_growable_give(result, &whole, sizeof(whole));
    mbr_parts_release(manager, &list, request->piece_count);
    return MBR_OK;
drop_handle:
    mbr_table_take(&manager->prefixes, handle);
free_record:
    mbr_heap_release(&manager->heap, record);
release_list:
    mbr_parts_release(manager, &list, request->piece_count);
unrefer:
    mbr_unrefer_holder(manager, holder);
    return status;
}

/* Counts the call on every target, or on none. */
static mbr_status enter_targets_locked(mbr_manager *manager,
    const mbr_prefix_attach_request *request, mbr_range **targets, mbr_error *error)
    MBR_REQUIRES(&manager->lock)
{
    for (uint32_t i = 0; i < request->target_count; i++) {
        mbr_status status;
        mbr_range_record *record =
            mbr_enter_range_locked(manager, request->targets[i], NULL, &status, error);
        if (record == NULL) {
            while (i-- > 0)
                mbr_leave_range_locked(manager, request->targets[i]);
            return status;
        }
        targets[i] = record->range;
    }
    return MBR_OK;
}

/* The same for the prefix and its targets. NULL: *status says why. */
static mbr_prefix_record *enter_attach(mbr_manager *manager,
    const mbr_prefix_attach_request *request, mbr_range **targets, mbr_status *status,
    mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    mbr_prefix_record *record = mbr_find_prefix(manager, request->prefix.value, status, error);
    if (record != NULL)
        *status = enter_targets_locked(manager, request, targets, error);
    if (record != NULL && *status == MBR_OK)
        record->call_count++;
    mbr_lock_drop(&manager->lock);
    return *status == MBR_OK ? record : NULL;
}

static void leave_attach(
    mbr_manager *manager, const mbr_prefix_attach_request *request, mbr_prefix_record *record)
{
    mbr_lock_take(&manager->lock);
    for (uint32_t i = 0; i < request->target_count; i++)
        mbr_leave_range_locked(manager, request->targets[i]);
    mbr_leave_call_locked(manager, &record->call_count);
    mbr_lock_drop(&manager->lock);
}

/* Inside with the prefix and its targets. */
static mbr_status attach(mbr_manager *manager, const mbr_prefix_attach_request *request,
    const mbr_prefix_record *record, mbr_range *const *targets, mbr_prefix_attach_result *result,
    mbr_error *error)
{
    mbr_status status;
    mbr_holder_record *holder = mbr_find_holder(manager, request->holder.value, &status, error);
    if (holder == NULL)
        return status;
    if (holder->authority != record->binding->backing->authority)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the holder is of another authority than the prefix; create one under it");
    return mbr_prefix_map_into(record->prefix, targets, request->target_count, request->limit_bytes,
        holder->holder, result, error);
}

mbr_status mbr_prefix_attach(mbr_manager *manager, const mbr_prefix_attach_request *request,
    mbr_prefix_attach_result *result, mbr_error *error)
{
    mbr_prefix_attach_result whole = {MBR_SIZED(mbr_prefix_attach_result)};
    mbr_growable_give(result, &whole, sizeof(whole));
    mbr_prefix_attach_request own;
    mbr_status status = MBR_TAKE(&own, mbr_prefix_attach_request, stream, request, error);
    if (status != MBR_OK)
        return status;
    request = &own;
    mbr_range *inline_targets[MBR_PART_INLINE_COUNT];
    mbr_range **targets = inline_targets;
    if (request->target_count > MBR_PART_INLINE_COUNT)
        targets = mbr_heap_allocate(&manager->heap, request->target_count * sizeof(*targets));
    if (targets == NULL)
        return mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no host memory for %u targets", request->target_count);
    mbr_prefix_record *record = enter_attach(manager, request, targets, &status, error);
    if (record != NULL) {
        status = attach(manager, request, record, targets, &whole, error);
        leave_attach(manager, request, record);
    }
    if (targets != inline_targets)
        mbr_heap_release(&manager->heap, targets);
    mbr_growable_give(result, &whole, sizeof(whole));
    return status;
}

mbr_status mbr_prefix_release(mbr_manager *manager, mbr_prefix_handle prefix, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    mbr_prefix_record *record = mbr_table_take(&manager->prefixes, prefix.value);
    while (record != NULL && record->call_count != 0)
        mbr_condition_wait(&manager->closed, &manager->lock, UINT64_MAX);
    mbr_lock_drop(&manager->lock);
    if (record == NULL)
        return mbr_table_explain(&manager->prefixes, prefix.value, error);
    mbr_walks_await(&manager->range_walks);
    mbr_prefix_end(record->prefix);
    mbr_unrefer_holder(manager, record->holder);
    count_on(manager, &record->binding->prefix_count, -1);
    mbr_heap_release(&manager->heap, record);
    return MBR_OK;
}

mbr_status mbr_prefix_read(
    mbr_manager *manager, mbr_prefix_handle prefix, mbr_prefix_figures *figures, mbr_error *error)
{
    mbr_status status;
    mbr_prefix_figures whole = {MBR_SIZED(mbr_prefix_figures)};
    mbr_growable_give(figures, &whole, sizeof(whole));
    mbr_walk walk = mbr_walks_begin(&manager->range_walks);
    mbr_prefix_record *record = mbr_find_prefix(manager, prefix.value, &status, error);
    if (record != NULL)
        mbr_prefix_figures_read(record->prefix, &whole);
    mbr_walks_end(&manager->range_walks, walk);
    mbr_growable_give(figures, &whole, sizeof(whole));
    return status;
}
