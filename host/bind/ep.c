/* EPs and streams of a manager, by handle. The context does the work; nothing here calls a line. */
#include "host/bind/manager.h"

/* ---- EPs ------------------------------------------------------------------------------------- */

static mbr_status choose_tables(mbr_manager *manager, const mbr_ep_request *request,
    mbr_ep_record *record, mbr_context_options *options, mbr_error *error)
{
    if (request->order != NULL) {
        options->order = request->order;
        options->transfer = request->transfer;
        options->instance = request->instance;
        return MBR_OK;
    }
    mbr_status status;
    mbr_mechanism_record *mechanism =
        mbr_refer_mechanism(manager, request->mechanism, MBR_EPS, &status, error);
    if (mechanism == NULL)
        return status;
    const mbr_mechanism *opened = mbr_port_mechanism(mechanism->port);
    if (!opened->has_order) {
        status = mbr_fail(error, MBR_UNSUPPORTED,
            "mechanism %s brings no lines; give the EP's own order table",
            opened->description.name);
        mbr_unrefer(manager, &mechanism->reference_counts[MBR_EPS]);
        return status;
    }
    record->mechanism = mechanism;
    options->order = &opened->order;
    options->transfer = opened->has_transfer ? &opened->transfer : NULL;
    options->instance = opened->instance;
    options->is_fork_safe = opened->fork == NULL;
    return MBR_OK;
}

static void release_lines(mbr_manager *manager, mbr_ep_record *record)
{
    if (record->mechanism != NULL)
        mbr_unrefer(manager, &record->mechanism->reference_counts[MBR_EPS]);
}

/* The first gate beside its own, which there is always room for. */
static void join_device(
    mbr_manager *manager, const mbr_ep_request *request, const mbr_ep_record *record)
{
    mbr_status status;
    mbr_walk walk = mbr_begin_walk(manager); /* with lines of its own nothing keeps the mechanism */
    const mbr_mechanism_record *mechanism =
        mbr_find_mechanism(manager, request->mechanism.value, &status, NULL);
    if (mechanism != NULL && !mbr_is_closing(manager, mechanism))
        mbr_context_join_gate(record->context, mbr_port_gate(mechanism->port), NULL);
    mbr_end_walk(manager, walk);
}

static uint64_t next_stream_base(mbr_manager *manager)
{
    mbr_lock_take(&manager->lock);
    uint64_t ordinal = ++manager->ep_ordinal;
    mbr_lock_drop(&manager->lock);
    return ordinal << MBR_EP_STREAM_ID_BITS;
}

mbr_status mbr_ep_create(
    mbr_manager *manager, const mbr_ep_request *request, mbr_ep_handle *ep, mbr_error *error)
{
    ep->value = 0;
    mbr_ep_request own;
    mbr_status taken = MBR_TAKE(&own, mbr_ep_request, instance, request, error);
    if (taken != MBR_OK)
        return taken;
    request = &own;
    mbr_ep_record *record = mbr_heap_allocate(&manager->heap, sizeof(*record));
    if (record == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for an EP");
    uint64_t handle;
    mbr_status status = mbr_table_prepare(&manager->eps, &handle, error);
    if (status != MBR_OK)
        goto free_record;
    mbr_context_options options = {.name = request->name != NULL ? request->name : "ep",
        .queue_entries = request->queue_entries,
        .queue_bytes = request->queue_bytes,
        .first_stream_id = next_stream_base(manager),
        .reaper = manager->threads,
        .heap = &manager->heap,
        .clock = &manager->clock,
        .threads = manager->reaper_threads};
    status = choose_tables(manager, request, record, &options, error);
    if (status != MBR_OK)
        goto drop_handle;
    status = mbr_context_create(&options, &record->context, error);
    if (status != MBR_OK)
        goto release_tables;
    join_device(manager, request, record);
    record->handle = handle;
    mbr_table_publish(&manager->eps, handle, record);
    ep->value = handle;
    return MBR_OK;
release_tables:
    release_lines(manager, record);
drop_handle:
    mbr_table_take(&manager->eps, handle);
free_record:
    mbr_heap_release(&manager->heap, record);
    return status;
}

static mbr_status begin_close(mbr_manager *manager, mbr_ep_record *record, mbr_error *error)
{
    mbr_ep_figures figures = {MBR_SIZED(mbr_ep_figures)};
    mbr_context_read(record->context, &figures);
    bool lost = figures.context_state == MBR_CONTEXT_LOST; /* its graphs go with it */
    uint64_t graphs = lost ? 0 : figures.capture_count + figures.graph_count;
    mbr_lock_take(&manager->lock);
    uint64_t bindings = record->binding_count, streams = record->stream_count;
    bool mine = bindings + streams + graphs == 0 && !record->closing;
    record->closing |= mine;
    mbr_lock_drop(&manager->lock);
    if (mine)
        return MBR_OK;
    return mbr_fail(error, MBR_IN_USE,
        "%llu bindings, %llu streams, %llu open captures and %llu graphs refer to the EP; end and "
        "retire them first",
        (unsigned long long)bindings, (unsigned long long)streams,
        (unsigned long long)figures.capture_count, (unsigned long long)figures.graph_count);
}

/* Arenas first: they give their slabs to the backings, which are told next. During a walk. */
static void confirm_lost(mbr_manager *manager, const mbr_ep_record *record)
{
    mbr_context_lose(record->context); /* settles what nobody has reaped since the loss */
    mbr_context_confirm_end(record->context);
    for (mbr_binding_record *binding = NULL;
         (binding = mbr_next_binding(manager, binding)) != NULL;) {
        if (binding->ep == record)
            mbr_arena_confirm_lost(binding->arena);
    }
    for (mbr_backing_record *backing = NULL;
         (backing = mbr_next_backing(manager, backing)) != NULL;)
        mbr_backing_confirm_lost(backing->backing, record->context);
}

/* Destroying a lost EP says that its device's context has ended, whatever else refers to the EP. */
static mbr_status confirm_if_lost(mbr_manager *manager, mbr_ep_handle ep, mbr_error *error)
{
    mbr_status status;
    mbr_walk walk = mbr_begin_walk(manager); /* so that the record stays */
    const mbr_ep_record *record = mbr_find_ep(manager, ep.value, &status, error);
    if (record != NULL && mbr_context_state(record->context) == MBR_CONTEXT_LOST)
        confirm_lost(manager, record);
    mbr_end_walk(manager, walk);
    return status;
}

/* Everything that can fail about the end of an EP; afterwards its context is idle. */
static mbr_status settle_context(mbr_ep_record *record, uint64_t deadline_ns, mbr_error *error)
{
    if (mbr_context_state(record->context) != MBR_CONTEXT_LOST) {
        mbr_context_retire(record->context, NULL); /* retiring already is as good */
        mbr_status status = mbr_context_drain(record->context, deadline_ns, error);
        if (status != MBR_OK)
            return status;
    } else {
        mbr_context_forget_graphs(record->context);
    }
    mbr_ep_figures figures = {MBR_SIZED(mbr_ep_figures)};
    mbr_context_read(record->context, &figures);
    if (figures.pin_count + figures.queued_count != 0)
        return mbr_fail(error, MBR_IN_USE,
            "%llu allocations or ranges pin the EP's context and %llu releases are queued",
            (unsigned long long)figures.pin_count, (unsigned long long)figures.queued_count);
    return MBR_OK;
}

mbr_status mbr_ep_destroy(
    mbr_manager *manager, mbr_ep_handle ep, uint64_t deadline_ns, mbr_error *error)
{
    mbr_status status = confirm_if_lost(manager, ep, error);
    if (status != MBR_OK)
        return status;
    mbr_end_abandoned(manager);
    mbr_ep_record *record = mbr_find_ep(manager, ep.value, &status, error);
    if (record == NULL)
        return status;
    status = begin_close(manager, record, error);
    if (status != MBR_OK)
        return status;
    status = settle_context(record, deadline_ns, error);
    if (status != MBR_OK) {
        mbr_lock_take(&manager->lock);
        record->closing = false;
        mbr_lock_drop(&manager->lock);
        return status;
    }
    mbr_table_take(&manager->eps, ep.value);
    mbr_await_walks(manager);
    mbr_ep_figures figures = {MBR_SIZED(mbr_ep_figures)};
    mbr_context_read(record->context, &figures);
    if (record->mechanism != NULL && figures.context_state == MBR_CONTEXT_LOST)
        mbr_port_forget_lines(record->mechanism->port, figures.line_count);
    status = mbr_context_destroy(record->context, error);
    if (status != MBR_OK) {
        mbr_manager_log(manager, MBR_LOG_ERROR, "an EP's context is leaked: it is not idle");
        return status;
    }
    release_lines(manager, record);
    mbr_heap_release(&manager->heap, record);
    return MBR_OK;
}

mbr_status mbr_ep_retire(mbr_manager *manager, mbr_ep_handle ep, mbr_error *error)
{
    mbr_status status;
    mbr_ep_record *record = mbr_find_ep(manager, ep.value, &status, error);
    return record == NULL ? status : mbr_context_retire(record->context, error);
}

mbr_status mbr_ep_lost(mbr_manager *manager, mbr_ep_handle ep, mbr_error *error)
{
    mbr_status status;
    mbr_ep_record *record = mbr_find_ep(manager, ep.value, &status, error);
    if (record != NULL)
        mbr_context_lose(record->context);
    return status;
}

mbr_status mbr_ep_drain(
    mbr_manager *manager, mbr_ep_handle ep, uint64_t deadline_ns, mbr_error *error)
{
    mbr_status status;
    mbr_ep_record *record = mbr_find_ep(manager, ep.value, &status, error);
    return record == NULL ? status : mbr_context_drain(record->context, deadline_ns, error);
}

mbr_status mbr_ep_read(
    mbr_manager *manager, mbr_ep_handle ep, mbr_ep_figures *figures, mbr_error *error)
{
    mbr_status status;
    mbr_growable_give(figures, NULL, 0);
    mbr_ep_record *record = mbr_find_ep(manager, ep.value, &status, error);
    if (record == NULL)
        return status;
    mbr_ep_figures whole = {MBR_SIZED(mbr_ep_figures)};
    mbr_context_read(record->context, &whole);
    mbr_growable_give(figures, &whole, sizeof(whole));
    return MBR_OK;
}

mbr_status mbr_manager_begin_chore(
    mbr_manager *manager, mbr_binding_handle binding, mbr_chore *chore, mbr_error *error)
{
    mbr_status status;
    mbr_walk walk = mbr_begin_walk(manager); /* so that the EP stays until it is pinned */
    const mbr_binding_record *record = mbr_find_binding(manager, binding.value, &status, error);
    if (record != NULL)
        status = mbr_chore_begin(chore, record->ep->context, error);
    mbr_end_walk(manager, walk);
    return status;
}

/* ---- Streams --------------------------------------------------------------------------------- */

mbr_status mbr_ep_attach_stream(mbr_manager *manager, mbr_ep_handle ep, mbr_native native,
    mbr_stream_handle *stream, mbr_error *error)
{
    stream->value = 0;
    mbr_status status;
    mbr_ep_record *record = mbr_find_ep(manager, ep.value, &status, error);
    if (record == NULL)
        return status;
    mbr_stream_record *attached = mbr_heap_allocate(&manager->heap, sizeof(*attached));
    if (attached == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a stream");
    attached->ep = record;
    uint64_t handle;
    status = mbr_table_prepare(&manager->streams, &handle, error);
    if (status != MBR_OK)
        goto free_record;
    status = mbr_refer(
        manager, &record->closing, &record->stream_count, "the EP is being destroyed", error);
    if (status != MBR_OK)
        goto drop_handle;
    status = mbr_context_attach_stream(record->context, native, &attached->stream_id, error);
    if (status != MBR_OK)
        goto uncount;
    mbr_table_publish(&manager->streams, handle, attached);
    stream->value = handle;
    return MBR_OK;
uncount:
    mbr_lock_take(&manager->lock);
    record->stream_count--;
    mbr_lock_drop(&manager->lock);
drop_handle:
    mbr_table_take(&manager->streams, handle);
free_record:
    mbr_heap_release(&manager->heap, attached);
    return status;
}

mbr_status mbr_ep_detach_stream(mbr_manager *manager, mbr_stream_handle stream, mbr_error *error)
{
    mbr_status status;
    mbr_stream_record *record = mbr_find_stream(manager, stream.value, &status, error);
    if (record == NULL)
        return status;
    status = mbr_context_detach_stream(record->ep->context, record->stream_id, error);
    if (status != MBR_OK) /* it stays attached, or another thread was faster */
        return status;
    mbr_table_take(&manager->streams, stream.value);
    mbr_await_walks(manager);
    mbr_lock_take(&manager->lock);
    record->ep->stream_count--;
    mbr_lock_drop(&manager->lock);
    mbr_heap_release(&manager->heap, record);
    return MBR_OK;
}

mbr_status mbr_ep_create_stream(
    mbr_manager *manager, mbr_ep_handle ep, mbr_native *native, mbr_error *error)
{
    mbr_status status;
    *native = (mbr_native){0};
    mbr_ep_record *record = mbr_find_ep(manager, ep.value, &status, error);
    return record == NULL ? status : mbr_context_create_stream(record->context, native, error);
}

mbr_status mbr_ep_destroy_stream(
    mbr_manager *manager, mbr_ep_handle ep, mbr_native native, mbr_error *error)
{
    mbr_status status;
    mbr_ep_record *record = mbr_find_ep(manager, ep.value, &status, error);
    return record == NULL ? status : mbr_context_destroy_stream(record->context, native, error);
}

mbr_status mbr_ep_synchronize(
    mbr_manager *manager, mbr_stream_handle stream, uint64_t deadline_ns, mbr_error *error)
{
    mbr_status status;
    mbr_stream_record *record = mbr_find_stream(manager, stream.value, &status, error);
    if (record == NULL)
        return status;
    return mbr_context_synchronize(record->ep->context, record->stream_id, deadline_ns, error);
}

mbr_status mbr_ep_fill(mbr_manager *manager, mbr_stream_handle stream, uint64_t address,
    uint8_t value, uint64_t bytes, mbr_error *error)
{
    mbr_status status;
    mbr_stream_record *record = mbr_find_stream(manager, stream.value, &status, error);
    if (record == NULL || bytes == 0)
        return status;
    return mbr_context_fill(record->ep->context, record->stream_id, address, value, bytes, error);
}

mbr_status mbr_ep_copy(mbr_manager *manager, mbr_stream_handle stream, uint64_t to_address,
    uint64_t from_address, uint64_t bytes, mbr_error *error)
{
    mbr_status status;
    mbr_stream_record *record = mbr_find_stream(manager, stream.value, &status, error);
    if (record == NULL)
        return status;
    return mbr_context_copy(
        record->ep->context, record->stream_id, to_address, from_address, bytes, error);
}

mbr_status mbr_stream_id(mbr_manager *manager, const mbr_context *context, mbr_stream_handle stream,
    uint64_t *id, mbr_error *error)
{
    *id = 0;
    if (stream.value == 0)
        return MBR_OK;
    mbr_status status;
    mbr_stream_record *record = mbr_find_stream(manager, stream.value, &status, error);
    if (record == NULL)
        return status;
    if (context != NULL && record->ep->context != context)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the stream belongs to another EP than the memory; attach it to that EP");
    *id = record->stream_id;
    return MBR_OK;
}

mbr_status mbr_stream_ids(mbr_manager *manager, const mbr_context *context,
    const mbr_stream_handle *streams, uint32_t count, uint64_t *ids, mbr_error *error)
{
    if (count > MBR_STREAM_LIST_COUNT)
        return mbr_fail(error, MBR_OUT_OF_RANGE, "%u streams in one call; at most %u", count,
            MBR_STREAM_LIST_COUNT);
    for (uint32_t i = 0; i < count; i++) {
        mbr_status status = mbr_stream_id(manager, context, streams[i], &ids[i], error);
        if (status == MBR_OK && ids[i] == 0)
            status = mbr_fail(error, MBR_INVALID_ARGUMENT, "stream %u of the list is 0", i);
        if (status != MBR_OK)
            return status;
    }
    return MBR_OK;
}
