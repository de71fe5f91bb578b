/* Plugins and mechanisms of a manager: opening, closing, figures, trimming. Judges no file; that is
 * the loader's. */
#include "host/bind/manager.h"
#include "host/loader/open.h"

#include <string.h>

/* ---- Plugins --------------------------------------------------------------------------------- */

mbr_status mbr_manager_open_plugin(mbr_manager *manager, const mbr_plugin_open_request *request,
    mbr_plugin_handle *plugin, mbr_error *error)
{
    plugin->value = 0;
    mbr_plugin_open_request own;
    mbr_status taken = MBR_TAKE(&own, mbr_plugin_open_request, name, request, error);
    if (taken == MBR_OK)
        taken = mbr_flags_check(own.flags, MBR_PLUGIN_TRUSTED, "mbr_plugin_open_request", error);
    if (taken != MBR_OK)
        return taken;
    request = &own;
    if (request->name == NULL || request->name[0] == '\0')
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "a plugin's name or path is missing");
    mbr_plugin_record *record = mbr_heap_allocate(&manager->heap, sizeof(*record));
    if (record == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a plugin");
    uint64_t handle;
    mbr_status status = mbr_table_prepare(&manager->plugins, &handle, error);
    if (status != MBR_OK)
        goto free_record;
    mbr_loader_environment environment;
    char storage[MBR_LOADER_PATH_BYTES];
    mbr_loader_environment_read(&environment, storage);
    if (manager->plugin_path != NULL)
        environment.plugin_path = manager->plugin_path;
    mbr_module_options options = {.name_or_path = request->name,
        .trusted = (request->flags & MBR_PLUGIN_TRUSTED) != 0,
        .environment = &environment,
        .heap = &manager->heap};
    status = mbr_module_open_on(manager->loader_os, &options, &record->module, NULL, error);
    if (status != MBR_OK)
        goto drop_handle;
    mbr_log_retain(manager->log);
    record->handle = handle;
    mbr_table_publish(&manager->plugins, handle, record);
    plugin->value = handle;
    return MBR_OK;
drop_handle:
    mbr_table_take(&manager->plugins, handle);
free_record:
    mbr_heap_release(&manager->heap, record);
    return status;
}

/* Marks the plugin as being closed by this thread, or refuses. Found and marked within a walk, as a
 * mechanism is (begin_close). */
static mbr_status begin_plugin_close(
    mbr_manager *manager, mbr_plugin_handle plugin, mbr_plugin_record **record, mbr_error *error)
{
    mbr_status status;
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_plugin_record *found = mbr_find_plugin(manager, plugin.value, &status, error);
    if (found != NULL) {
        mbr_lock_take(&manager->lock);
        uint64_t mechanisms = found->mechanism_count;
        bool closing = found->closing;
        found->closing |= mechanisms == 0;
        mbr_lock_drop(&manager->lock);
        if (closing)
            status = mbr_fail(error, MBR_STALE, "another thread closes the plugin");
        else if (mechanisms != 0)
            status = mbr_fail(error, MBR_IN_USE,
                "%llu mechanisms of the plugin are open; close them first",
                (unsigned long long)mechanisms);
    }
    mbr_end_walk(manager, walk);
    *record = found;
    return status;
}

mbr_status mbr_manager_close_plugin(
    mbr_manager *manager, mbr_plugin_handle plugin, mbr_error *error)
{
    mbr_plugin_record *record;
    mbr_status status = begin_plugin_close(manager, plugin, &record, error);
    if (status != MBR_OK)
        return status;
    mbr_table_take(&manager->plugins, plugin.value);
    mbr_await_walks(manager);
    if (mbr_module_is_kept(record->module))
        mbr_log_keep(manager->log);
    else
        mbr_log_release(manager->log);
    mbr_module_close(record->module);
    mbr_heap_release(&manager->heap, record);
    return MBR_OK;
}

/* ---- Mechanisms ------------------------------------------------------------------------------ */

static mbr_status open_port(mbr_manager *manager, mbr_plugin_record *plugin,
    const mbr_mechanism_open_request *request, mbr_port **port, mbr_error *error)
{
    mbr_mechanism_options options = {.mechanism = request->mechanism,
        .options = request->options,
        .option_count = request->option_count,
        .native_context = request->native_context,
        .log = manager->log == NULL ? NULL : mbr_log_write,
        .log_context = manager->log};
    mbr_mechanism mechanism;
    mbr_status status = mbr_mechanism_open(plugin->module, &options, &mechanism, error);
    if (status != MBR_OK)
        return status;
    mbr_device_record *device = mbr_find_device(manager, &mechanism.description);
    status = device == NULL
        ? mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a device's record")
        : mbr_port_check_peers(&mechanism, request->peers, request->peer_count, error);
    if (status == MBR_OK)
        status = mbr_port_create(&mechanism, &manager->addresses, &manager->heap, port, error);
    if (status == MBR_OK) {
        mbr_port_set_gate(*port, &device->gate);
        mbr_port_set_groups(*port, &device->groups);
        mbr_port_set_peers(*port, request->peers, request->peer_count);
        return MBR_OK;
    }
    /* Nobody else will ever close it: what the plugin refuses to close now is given up. */
    if (mbr_mechanism_close(&mechanism, NULL) != MBR_OK && mechanism.instance != NULL)
        mbr_mechanism_abandon(&mechanism);
    return status;
}

mbr_status mbr_manager_open_mechanism(mbr_manager *manager,
    const mbr_mechanism_open_request *request, mbr_mechanism_handle *mechanism, mbr_error *error)
{
    mechanism->value = 0;
    mbr_mechanism_open_request own;
    mbr_status taken = MBR_TAKE(&own, mbr_mechanism_open_request, native_context, request, error);
    if (taken != MBR_OK)
        return taken;
    request = &own;
    mbr_status status;
    mbr_plugin_record *plugin = mbr_find_plugin(manager, request->plugin.value, &status, error);
    if (plugin == NULL)
        return status;
    mbr_mechanism_record *record = mbr_heap_allocate(&manager->heap, sizeof(*record));
    if (record == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a mechanism");
    uint64_t handle;
    status = mbr_table_prepare(&manager->mechanisms, &handle, error);
    if (status != MBR_OK)
        goto free_record;
    status = mbr_refer(
        manager, &plugin->closing, &plugin->mechanism_count, "the plugin is being closed", error);
    if (status != MBR_OK)
        goto drop_handle;
    status = open_port(manager, plugin, request, &record->port, error);
    if (status != MBR_OK)
        goto unpin;
    record->plugin = plugin;
    record->handle = handle;
    mbr_table_publish(&manager->mechanisms, handle, record);
    mechanism->value = handle;
    return MBR_OK;
unpin:
    mbr_unrefer(manager, &plugin->mechanism_count);
drop_handle:
    mbr_table_take(&manager->mechanisms, handle);
free_record:
    mbr_heap_release(&manager->heap, record);
    return status;
}

/* Marks the mechanism as being closed by this thread, or refuses. Found and marked within a walk: a
 * thread that comes second may still look at the record that the first one is about to free. */
static mbr_status begin_close(mbr_manager *manager, mbr_mechanism_handle mechanism,
    mbr_mechanism_record **record, mbr_error *error)
{
    mbr_status status;
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_mechanism_record *found = mbr_find_mechanism(manager, mechanism.value, &status, error);
    if (found != NULL) {
        mbr_lock_take(&manager->lock);
        uint64_t bindings = found->reference_counts[MBR_BINDINGS];
        uint64_t eps = found->reference_counts[MBR_EPS];
        uint64_t authorities = found->reference_counts[MBR_AUTHORITIES];
        bool mine = bindings + eps + authorities == 0 && !found->closing;
        found->closing |= mine;
        mbr_lock_drop(&manager->lock);
        if (!mine)
            status = mbr_fail(error, MBR_IN_USE,
                "%llu bindings, %llu EPs and %llu authorities refer to the mechanism; end them "
                "first",
                (unsigned long long)bindings, (unsigned long long)eps,
                (unsigned long long)authorities);
    }
    mbr_end_walk(manager, walk);
    *record = found;
    return status;
}

mbr_status mbr_manager_close_mechanism(
    mbr_manager *manager, mbr_mechanism_handle mechanism, mbr_error *error)
{
    mbr_mechanism_record *record;
    mbr_end_abandoned(manager);
    mbr_status status = begin_close(manager, mechanism, &record, error);
    if (status != MBR_OK)
        return status;
    mbr_await_walks(manager); /* nobody who found it before is inside it any more */
    mbr_gate *gate;
    mbr_port_figures left;
    status = mbr_enter_gate(record, &gate, error);
    if (status == MBR_OK) {
        mbr_port_read(record->port, &left);
        status = mbr_port_close(record->port, error);
        mbr_gate_leave(gate);
    }
    if (status != MBR_OK) { /* handed back with both tallies */
        mbr_lock_take(&manager->lock);
        record->closing = false;
        mbr_lock_drop(&manager->lock);
        return status;
    }
    mbr_lock_take(&manager->lock);
    manager->leaked_owned_bytes += left.owned_bytes;
    mbr_lock_drop(&manager->lock);
    mbr_table_take(&manager->mechanisms, mechanism.value);
    mbr_await_walks(manager);
    mbr_unrefer(manager, &record->plugin->mechanism_count);
    mbr_heap_release(&manager->heap, record);
    return MBR_OK;
}

/* During a walk, and until it ends. NULL: *status. */
static mbr_mechanism_record *find_open(
    mbr_manager *manager, mbr_mechanism_handle handle, mbr_status *status, mbr_error *error)
{
    mbr_mechanism_record *record = mbr_find_mechanism(manager, handle.value, status, error);
    if (record == NULL || !mbr_is_closing(manager, record))
        return record;
    *status = mbr_fail(error, MBR_STALE, "the mechanism is being closed");
    return NULL;
}

static uint32_t capabilities_of(const mbr_mechanism *mechanism)
{
    return (mechanism->has_virtual ? (uint32_t)MBR_CAPABILITY_VIRTUAL : 0) |
        (mechanism->has_shared ? (uint32_t)MBR_CAPABILITY_SHARED : 0) |
        (mechanism->has_order ? (uint32_t)MBR_CAPABILITY_ORDER : 0) |
        (mechanism->has_transfer ? (uint32_t)MBR_CAPABILITY_TRANSFER : 0);
}

/* During a walk: what the backings over this mechanism keep. */
static void add_cached(
    mbr_manager *manager, const mbr_mechanism_record *record, mbr_mechanism_figures *figures)
{
    for (mbr_backing_record *backing = NULL;
         (backing = mbr_next_backing(manager, backing)) != NULL;) {
        if (backing->mechanism != record)
            continue;
        mbr_backing_figures kept;
        mbr_backing_read(backing->backing, &kept);
        figures->pooled_bytes += kept.pooled_bytes;
        figures->parked_bytes += kept.parked_bytes;
        figures->ahead_bytes += kept.ahead_bytes;
        figures->held_bytes += kept.held_bytes;
        figures->quarantined_count += kept.quarantined_count;
    }
}

/* During a walk. */
static mbr_mechanism_figures figures_of(mbr_manager *manager, const mbr_mechanism_record *record)
{
    const mbr_mechanism *opened = mbr_port_mechanism(record->port);
    mbr_port_figures host;
    mbr_port_read(record->port, &host);
    mbr_mechanism_stats stats;
    if (!mbr_port_stats(record->port, &stats))
        stats.total_bytes = stats.free_bytes = stats.owned_bytes = MBR_UNKNOWN_BYTES;
    mbr_mechanism_figures whole = {
        .tier = opened->description.tier,
        .domain = opened->description.domain,
        .capabilities = capabilities_of(opened),
        .granule_min_bytes = opened->granule_min_bytes,
        .granule_recommended_bytes = opened->granule_recommended_bytes,
        .total_bytes = stats.total_bytes,
        .free_bytes = stats.free_bytes,
        .owned_bytes = host.owned_bytes,
        .mapped_bytes = host.mapped_bytes,
        .reserved_bytes = host.reserved_bytes,
        .plugin_owned_bytes = stats.owned_bytes,
        .reservation_count = host.reservation_count,
        .extent_count = host.extent_count,
        .call_count = host.call_count,
        .violation_count = host.violation_count,
        .extent_max_bytes = opened->extent_max_bytes,
        .reservation_max_bytes = opened->reservation_max_bytes,
    };
    memcpy(whole.name, opened->description.name, sizeof(whole.name));
    add_cached(manager, record, &whole);
    return whole;
}

mbr_status mbr_manager_read_mechanism(mbr_manager *manager, mbr_mechanism_handle mechanism,
    mbr_mechanism_figures *figures, mbr_error *error)
{
    mbr_status status;
    mbr_mechanism_figures whole = {0};
    mbr_walk walk = mbr_begin_walk(manager);
    const mbr_mechanism_record *record = find_open(manager, mechanism, &status, error);
    if (record != NULL)
        whole = figures_of(manager, record);
    mbr_end_walk(manager, walk);
    mbr_growable_give(figures, record != NULL ? &whole : NULL, record != NULL ? sizeof(whole) : 0);
    return status;
}

/* ---- Trimming -------------------------------------------------------------------------------- */

/* During a walk: calls `visit` for each arena over the mechanism. */
static void visit_arenas(mbr_manager *manager, const mbr_mechanism_record *record,
    void (*visit)(mbr_binding_record *binding, uint64_t *bytes), uint64_t *bytes)
{
    for (mbr_binding_record *binding = NULL;
         (binding = mbr_next_binding(manager, binding)) != NULL;) {
        if (binding->backing->mechanism == record)
            visit(binding, bytes);
    }
}

/* What threads keep goes back to its slabs first: some of them are idle then. */
static void add_idle(mbr_binding_record *binding, uint64_t *cached_bytes)
{
    mbr_arena_figures figures;
    mbr_arena_trim(binding->arena, UINT64_MAX);
    mbr_arena_read(binding->arena, &figures);
    *cached_bytes += figures.idle_bytes;
}

/* Idle slabs go to the backing, and from there to the system. */
static void shed_idle(mbr_binding_record *binding, uint64_t *excess_bytes)
{
    mbr_arena_figures figures;
    mbr_arena_read(binding->arena, &figures);
    if (*excess_bytes == 0 || figures.idle_bytes == 0)
        return;
    uint64_t keep_bytes = figures.idle_bytes - mbr_min(figures.idle_bytes, *excess_bytes);
    uint64_t given_bytes = mbr_arena_trim(binding->arena, keep_bytes);
    mbr_backing_evict(binding->backing->backing, given_bytes);
    *excess_bytes -= mbr_min(*excess_bytes, given_bytes);
}

/* During a walk: what the backings keep first, which serves any request but no hot one. */
static void trim_to(mbr_manager *manager, const mbr_mechanism_record *record, uint64_t keep_bytes)
{
    mbr_backing_figures kept;
    uint64_t cached_bytes = 0;
    visit_arenas(manager, record, add_idle, &cached_bytes);
    for (mbr_backing_record *backing = NULL;
         (backing = mbr_next_backing(manager, backing)) != NULL;) {
        if (backing->mechanism != record)
            continue;
        mbr_backing_trim(backing->backing, UINT64_MAX); /* what was refused before, once more */
        mbr_backing_read(backing->backing, &kept);
        cached_bytes += kept.pooled_bytes + kept.parked_bytes;
    }
    uint64_t excess_bytes = cached_bytes - mbr_min(cached_bytes, keep_bytes);
    for (mbr_backing_record *backing = NULL;
         (backing = mbr_next_backing(manager, backing)) != NULL;) {
        if (backing->mechanism != record)
            continue;
        /* All: also the aliases that are parked, which own nothing. */
        uint64_t wanted_bytes = keep_bytes == 0 ? UINT64_MAX : excess_bytes;
        excess_bytes -= mbr_min(excess_bytes, mbr_backing_evict(backing->backing, wanted_bytes));
    }
    visit_arenas(manager, record, shed_idle, &excess_bytes);
}

/* During a walk: more is free now than was measured. */
static void sample_authorities(mbr_manager *manager, const mbr_mechanism_record *record)
{
    for (mbr_backing_record *backing = NULL;
         (backing = mbr_next_backing(manager, backing)) != NULL;) {
        if (backing->mechanism == record)
            mbr_authority_sample(backing->authority->authority, true);
    }
}

/* During a walk. */
static mbr_status trim(mbr_manager *manager, const mbr_mechanism_record *record,
    uint64_t keep_bytes, uint64_t *released_bytes, mbr_error *error)
{
    mbr_gate *gate;
    mbr_port_figures before, after;
    mbr_status status = mbr_enter_gate(record, &gate, error);
    if (status != MBR_OK)
        return status;
    mbr_port_read(record->port, &before);
    trim_to(manager, record, keep_bytes);
    sample_authorities(manager, record);
    mbr_port_read(record->port, &after);
    mbr_gate_leave(gate);
    *released_bytes = after.given_back_bytes - before.given_back_bytes;
    return MBR_OK;
}

mbr_status mbr_manager_trim(mbr_manager *manager, mbr_mechanism_handle mechanism,
    uint64_t keep_bytes, uint64_t *released_bytes, mbr_error *error)
{
    mbr_status status;
    uint64_t released = 0;
    mbr_walk walk = mbr_begin_walk(manager);
    const mbr_mechanism_record *record = find_open(manager, mechanism, &status, error);
    if (record != NULL)
        status = trim(manager, record, keep_bytes, &released, error);
    mbr_end_walk(manager, walk);
    if (released_bytes != NULL)
        *released_bytes = released;
    return status;
}
