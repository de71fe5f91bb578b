/* Graph captures by handle, and the gates of devices: which mechanisms are of one device, and what
 * is made up for when a capture ends. The context does the rest. */
#include "host/bind/manager.h"

#include "membrane/layout.h"

#include <string.h>

/* ---- Devices --------------------------------------------------------------------------------- */

static bool has_uuid(const mbr_mechanism_description *description)
{
    static const uint8_t none[sizeof(description->uuid)] = {0};
    return memcmp(description->uuid, none, sizeof(none)) != 0;
}

static bool is_of(const mbr_device_record *device, const mbr_mechanism_description *description)
{
    if (device->has_uuid || has_uuid(description))
        return device->has_uuid && has_uuid(description) &&
            memcmp(device->uuid, description->uuid, sizeof(device->uuid)) == 0;
    return device->tier == description->tier && device->index == description->device_index;
}

/* Under the lock, or NULL. */
static mbr_device_record *find_device_locked(
    mbr_manager *manager, const mbr_mechanism_description *description)
{
    mbr_device_record *device = manager->devices;
    while (device != NULL && !is_of(device, description))
        device = device->next;
    return device;
}

mbr_device_record *mbr_find_device(
    mbr_manager *manager, const mbr_mechanism_description *description)
{
    mbr_device_record *made = mbr_heap_allocate(&manager->heap, sizeof(*made));
    if (made == NULL)
        return NULL;
    made->has_uuid = has_uuid(description);
    memcpy(made->uuid, description->uuid, sizeof(made->uuid));
    made->tier = description->tier;
    made->index = description->device_index;
    mbr_gate_init(&made->gate);
    mbr_lock_take(&manager->lock);
    mbr_device_record *found = find_device_locked(manager, description);
    if (found == NULL) {
        made->next = manager->devices;
        manager->devices = made;
    }
    mbr_lock_drop(&manager->lock);
    if (found == NULL)
        return made;
    mbr_gate_finish(&made->gate);
    mbr_heap_release(&manager->heap, made);
    return found;
}

void mbr_finish_devices(mbr_manager *manager)
{
    while (manager->devices != NULL) {
        mbr_device_record *device = manager->devices;
        manager->devices = device->next;
        mbr_gate_finish(&device->gate);
        mbr_heap_release(&manager->heap, device);
    }
}

mbr_status mbr_enter_gate(const mbr_mechanism_record *mechanism, mbr_gate **gate, mbr_error *error)
{
    *gate = mbr_port_gate(mechanism->port);
    if (mbr_gate_try_enter(*gate))
        return MBR_OK;
    return mbr_fail(error, MBR_BUSY,
        "a graph is being captured on the device of mechanism %s; end the capture first",
        mbr_port_mechanism(mechanism->port)->description.name);
}

/* Superseded ones, too, which no handle finds: what was made by them is given back all the same. */
bool mbr_manager_is_capturing(mbr_manager *manager, mbr_binding_handle binding)
{
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_binding_record *at = mbr_next_binding(manager, NULL);
    while (at != NULL && at->handle != binding.value)
        at = mbr_next_binding(manager, at);
    bool capturing = at != NULL && mbr_port_is_gated(at->backing->mechanism->port);
    mbr_end_walk(manager, walk);
    return capturing;
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

/* Counts a call that works on the record, so that it stays. NULL: *status. */
static mbr_graph_record *use(
    mbr_manager *manager, mbr_graph_handle graph, mbr_status *status, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    mbr_graph_record *record = mbr_find_graph(manager, graph.value, status, error);
    if (record != NULL)
        record->user_count++;
    mbr_lock_drop(&manager->lock);
    return record;
}

/* One user less; the last one of a graph that is gone frees it. */
static void done_with(mbr_graph_record *record)
{
    mbr_manager *manager = record->manager;
    mbr_lock_take(&manager->lock);
    bool last = --record->user_count == 0 && record->is_gone;
    mbr_lock_drop(&manager->lock);
    if (last)
        mbr_heap_release(&manager->heap, record);
}

/* The context has let go of it: on whatever thread settles. */
static void end_graph(mbr_graph *graph)
{
    mbr_graph_record *record =
        (mbr_graph_record *)((char *)graph - offsetof(mbr_graph_record, graph));
    mbr_manager *manager = record->manager;
    mbr_table_take(&manager->graphs, record->handle); /* of a retired one it is taken already */
    mbr_lock_take(&manager->lock);
    record->is_gone = true;
    mbr_lock_drop(&manager->lock);
    done_with(record); /* the context's own use */
}

/* What the gate kept: second tries, and what is above the watermarks. */
static void catch_up(mbr_manager *manager)
{
    mbr_walk walk = mbr_begin_walk(manager);
    for (mbr_backing_record *backing = NULL;
         (backing = mbr_next_backing(manager, backing)) != NULL;)
        mbr_backing_catch_up(backing->backing);
    mbr_end_walk(manager, walk);
}

mbr_status mbr_ep_capture_begin(
    mbr_manager *manager, mbr_stream_handle stream, uint64_t deadline_ns, mbr_error *error)
{
    mbr_status status = mbr_refuse_in_callback(error);
    if (status != MBR_OK)
        return status;
    mbr_stream_record *attached = mbr_find_stream(manager, stream.value, &status, error);
    if (attached == NULL)
        return status;
    mbr_graph_record *record = mbr_heap_allocate(&manager->heap, sizeof(*record));
    if (record == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a graph");
    status = mbr_table_prepare(&manager->graphs, &record->handle, error);
    if (status != MBR_OK)
        goto free_record;
    record->manager = manager;
    record->ep = attached->ep;
    record->user_count = 1;
    record->graph.gone = end_graph;
    status = mbr_context_begin_capture(
        attached->ep->context, attached->stream_id, deadline_ns, &record->graph, error);
    if (status == MBR_OK)
        return MBR_OK;
    mbr_table_take(&manager->graphs, record->handle);
    mbr_heap_release(&manager->heap, record);
    if (status == MBR_TIMED_OUT || MBR_STATUS_CLASS(status) == MBR_CLASS_LOST)
        catch_up(manager); /* some of its gates were closed for a while */
    return status;
free_record:
    mbr_heap_release(&manager->heap, record);
    return status;
}

static mbr_status end_capture(
    mbr_manager *manager, mbr_stream_handle stream, mbr_graph_handle *graph, mbr_error *error)
{
    mbr_status status;
    mbr_stream_record *attached = mbr_find_stream(manager, stream.value, &status, error);
    if (attached == NULL)
        return status;
    mbr_graph *ended;
    status = mbr_context_end_capture(attached->ep->context, attached->stream_id, &ended, error);
    if (status != MBR_OK)
        return status;
    mbr_graph_record *record =
        (mbr_graph_record *)((char *)ended - offsetof(mbr_graph_record, graph));
    graph->value = record->handle;
    mbr_table_publish(&manager->graphs, record->handle, record);
    return MBR_OK;
}

/* In a walk, which the end of the stream awaits: before that no EP ends, nor lets go of a graph. */
mbr_status mbr_ep_capture_end(
    mbr_manager *manager, mbr_stream_handle stream, mbr_graph_handle *graph, mbr_error *error)
{
    graph->value = 0;
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_status status = end_capture(manager, stream, graph, error);
    mbr_end_walk(manager, walk);
    if (status == MBR_OK || MBR_STATUS_CLASS(status) == MBR_CLASS_LOST) /* its gates are open */
        catch_up(manager);
    return status;
}

/* In a walk, as all that is done to a graph by its handle: the end of a lost EP, which lets go of
 * its graphs, awaits it. */
static mbr_status retire(mbr_manager *manager, mbr_graph_handle graph,
    const mbr_stream_handle *streams, uint32_t stream_count, mbr_error *error)
{
    mbr_status status;
    mbr_graph_record *record = use(manager, graph, &status, error);
    if (record == NULL)
        return status;
    mbr_context *context = record->ep->context;
    uint64_t ids[MBR_STREAM_LIST_COUNT];
    if (mbr_context_state(context) == MBR_CONTEXT_LOST)
        stream_count = 0; /* nobody waits for them any more */
    status = mbr_stream_ids(manager, context, streams, stream_count, ids, error);
    if (status == MBR_OK)
        status = mbr_context_retire_graph(context, &record->graph, ids, stream_count, error);
    if (status == MBR_OK)
        mbr_table_take(&manager->graphs, graph.value);
    done_with(record);
    return status;
}

mbr_status mbr_ep_graph_retire(mbr_manager *manager, mbr_graph_handle graph,
    const mbr_stream_handle *streams, uint32_t stream_count, mbr_error *error)
{
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_status status = retire(manager, graph, streams, stream_count, error);
    mbr_end_walk(manager, walk);
    return status;
}

mbr_status mbr_ep_graph_read(
    mbr_manager *manager, mbr_graph_handle graph, mbr_graph_figures *figures, mbr_error *error)
{
    mbr_status status;
    mbr_growable_give(figures, NULL, 0);
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_graph_record *record = use(manager, graph, &status, error);
    if (record != NULL) {
        mbr_graph_figures whole = {.ep = {record->ep->handle}};
        mbr_context_read_graph(
            record->ep->context, &record->graph, &whole.held_count, &whole.held_bytes);
        mbr_growable_give(figures, &whole, sizeof(whole));
        done_with(record);
    }
    mbr_end_walk(manager, walk);
    return status;
}
