/* Authorities and holders of a manager, and the audit over all books. Moves no byte. */
#include "host/bind/manager.h"

#include <string.h>

/* ---- Authorities ----------------------------------------------------------------------------- */

/* The free bytes behind an authority: the mechanism's own figure, and for host memory the machine's
 * and the cgroups', because exhaustion there is never a status. */
static bool measure(void *context, uint64_t *bytes)
{
    const mbr_authority_record *record = context;
    const mbr_mechanism_record *measured = record->measured;
    mbr_mechanism_stats stats;
    bool known = measured != NULL && mbr_port_stats(measured->port, &stats) &&
        stats.free_bytes != MBR_UNKNOWN_BYTES;
    uint64_t machine;
    if (known)
        *bytes = stats.free_bytes;
    if (record->tier == MBR_TIER_HOST && mbr_host_free_bytes("", &machine)) {
        *bytes = known ? mbr_min(*bytes, machine) : machine;
        known = true;
    }
    return known;
}

static mbr_status refer_mechanism(mbr_manager *manager, mbr_mechanism_handle mechanism,
    mbr_authority_record *record, mbr_error *error)
{
    if (mechanism.value == 0)
        return MBR_OK;
    mbr_status status;
    record->measured = mbr_refer_mechanism(manager, mechanism, MBR_AUTHORITIES, &status, error);
    return status;
}

static void release_mechanism(mbr_manager *manager, mbr_mechanism_record *mechanism)
{
    if (mechanism != NULL)
        mbr_unrefer(manager, &mechanism->reference_counts[MBR_AUTHORITIES]);
}

/* What a ledger that this process founds is to allow. */
static uint64_t shared_limit(const mbr_authority_request *request, mbr_authority_record *record)
{
    uint64_t free = 0;
    if (request->limit_bytes != UINT64_MAX)
        return request->limit_bytes;
    if (record->measured == NULL || !measure(record, &free))
        return 0; /* and the authority is refused for want of a limit */
    return free - mbr_min(free, request->margin_bytes);
}

/* Where the folder takes no ledger, no process has one there: going on alone passes nobody by. */
static mbr_status join_shared(mbr_manager *manager, const mbr_authority_request *request,
    mbr_authority_record *record, mbr_error *error)
{
    if (request->shared == NULL)
        return MBR_OK;
    mbr_error why = {MBR_SIZED(mbr_error)};
    mbr_shared_place place = {.name = request->shared,
        .folder = request->shared_folder,
        .os = manager->shared_os,
        .clock = &manager->clock};
    mbr_status status = mbr_shared_join(
        &place, &manager->heap, shared_limit(request, record), &record->shared, &why);
    if (status == MBR_UNSUPPORTED) {
        mbr_manager_log(manager, MBR_LOG_WARNING, "authority '%s' goes on alone: %s",
            request->name == NULL ? "" : request->name, why.text);
        return MBR_OK;
    }
    if (status != MBR_OK)
        mbr_error_copy(error, &why);
    return status;
}

mbr_status mbr_manager_create_authority(mbr_manager *manager, const mbr_authority_request *request,
    mbr_authority_handle *authority, mbr_error *error)
{
    authority->value = 0;
    mbr_authority_request own;
    mbr_status taken = MBR_TAKE(&own, mbr_authority_request, measured, request, error);
    if (taken != MBR_OK)
        return taken;
    request = &own;
    mbr_authority_record *record = mbr_heap_allocate(&manager->heap, sizeof(*record));
    if (record == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for an authority");
    record->tier = request->tier;
    uint64_t handle;
    mbr_status status = mbr_table_prepare(&manager->authorities, &handle, error);
    if (status != MBR_OK)
        goto free_record;
    status = refer_mechanism(manager, request->measured, record, error);
    if (status != MBR_OK)
        goto drop_handle;
    status = join_shared(manager, request, record, error);
    if (status != MBR_OK)
        goto release_measured;
    mbr_probe probe = {measure, record};
    mbr_authority_options options = {.name = request->name,
        .tier = request->tier,
        .limit_bytes = request->limit_bytes,
        .probe = record->measured != NULL ? &probe : NULL,
        .margin_bytes = request->margin_bytes,
        .shared = record->shared};
    status = mbr_authority_create(manager->governor, &options, &record->authority, error);
    if (status != MBR_OK)
        goto leave_shared;
    record->handle = handle;
    mbr_table_publish(&manager->authorities, handle, record);
    authority->value = handle;
    return MBR_OK;
leave_shared:
    mbr_shared_leave(record->shared);
release_measured:
    release_mechanism(manager, record->measured);
drop_handle:
    mbr_table_take(&manager->authorities, handle);
free_record:
    mbr_heap_release(&manager->heap, record);
    return status;
}

/* What was leaked keeps the authority for good, and is not to keep open the mechanism that it
 * measures: without bindings that is measured in walks alone, which the caller awaits. A callback
 * may be in one. */
static mbr_mechanism_record *stop_measuring_locked(mbr_authority_record *record)
{
    if (record->leak_count == 0 || record->backing_count != 0 || mbr_is_pressing())
        return NULL;
    return atomic_exchange(&record->measured, NULL);
}

/* Takes the authority out, under the lock, so that no poll finds it between its last count and its
 * end. Without holders no call at work on it calls anybody back: a holder stays while it is asked,
 * and while one of its tickets is told of. So what is awaited here is another thread's, and ends by
 * itself. NULL: *status, and *measured is a mechanism that it no longer measures, or NULL. */
static mbr_authority_record *take_idle(mbr_manager *manager, mbr_authority_handle authority,
    mbr_mechanism_record **measured, mbr_status *status, mbr_error *error)
{
    uint64_t holders = 0, backings = 0, leaks = 0;
    mbr_lock_take(&manager->lock);
    mbr_authority_record *record = mbr_find_authority(manager, authority.value, status, error);
    if (record != NULL) {
        holders = record->holder_count;
        backings = record->backing_count;
        leaks = record->leak_count;
        *measured = stop_measuring_locked(record);
    }
    if (record != NULL && holders + backings + leaks == 0) {
        record->closing = true;
        mbr_table_take(&manager->authorities, authority.value);
        while (record->caller_count != 0)
            mbr_condition_wait(&manager->closed, &manager->lock, UINT64_MAX);
    }
    mbr_lock_drop(&manager->lock);
    if (holders + backings + leaks == 0)
        return record;
    *status = mbr_fail(error, MBR_IN_USE,
        "%llu holders and %llu bindings refer to the authority, end them first; %llu have left "
        "memory "
        "that stays charged here, which ends with the manager",
        (unsigned long long)holders, (unsigned long long)backings, (unsigned long long)leaks);
    return NULL;
}

mbr_status mbr_manager_destroy_authority(
    mbr_manager *manager, mbr_authority_handle authority, mbr_error *error)
{
    mbr_status status;
    mbr_mechanism_record *measured = NULL;
    mbr_end_abandoned(manager);
    mbr_authority_record *record = take_idle(manager, authority, &measured, &status, error);
    if (record == NULL && measured == NULL)
        return status;
    mbr_await_walks(manager);
    if (record == NULL) {
        release_mechanism(manager, measured);
        return status;
    }
    status = mbr_authority_destroy(record->authority, error);
    if (status != MBR_OK) {
        mbr_manager_log(manager, MBR_LOG_ERROR, "an authority is leaked: its books are not empty");
        return status;
    }
    mbr_shared_leave(record->shared);
    release_mechanism(manager, record->measured);
    mbr_heap_release(&manager->heap, record);
    return MBR_OK;
}

/* In a walk, as all that is done to an authority by its handle: its end awaits it. */
mbr_status mbr_manager_set_limit(mbr_manager *manager, mbr_authority_handle authority,
    uint64_t limit_bytes, uint64_t *over_bytes, mbr_error *error)
{
    mbr_status status;
    uint64_t over = 0;
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_authority_record *record = mbr_find_authority(manager, authority.value, &status, error);
    if (record != NULL)
        status = mbr_authority_set_limit(record->authority, limit_bytes, &over, error);
    mbr_end_walk(manager, walk);
    if (over_bytes != NULL)
        *over_bytes = over;
    return status;
}

/* ---- Holders --------------------------------------------------------------------------------- */

/* Found and counted in one, so that its end comes before or not at all. NULL: *status. */
static mbr_authority_record *refer_authority(
    mbr_manager *manager, mbr_authority_handle authority, mbr_status *status, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    mbr_authority_record *record = mbr_find_authority(manager, authority.value, status, error);
    if (record != NULL)
        record->holder_count++;
    mbr_lock_drop(&manager->lock);
    return record;
}

mbr_status mbr_manager_create_holder(mbr_manager *manager, const mbr_holder_request *request,
    mbr_holder_handle *holder, mbr_error *error)
{
    holder->value = 0;
    mbr_holder_request own;
    mbr_status taken = MBR_TAKE(&own, mbr_holder_request, allowance_bytes, request, error);
    if (taken != MBR_OK)
        return taken;
    request = &own;
    mbr_status status =
        mbr_flags_check(request->flags, MBR_HOLDER_BORROWS, "mbr_holder_request", error);
    if (status != MBR_OK)
        return status;
    mbr_authority_record *authority = refer_authority(manager, request->authority, &status, error);
    if (authority == NULL)
        return status;
    mbr_holder_record *record = mbr_heap_allocate(&manager->heap, sizeof(*record));
    if (record == NULL) {
        status = mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a holder");
        goto uncount;
    }
    uint64_t handle;
    status = mbr_table_prepare(&manager->holders, &handle, error);
    if (status != MBR_OK)
        goto free_record;
    mbr_holder_options options = {.name = request->name,
        .role = request->role,
        .allowance_bytes = request->allowance_bytes,
        .borrows = (request->flags & MBR_HOLDER_BORROWS) != 0,
        .pressed = request->pressed};
    status = mbr_holder_create(authority->authority, &options, &record->holder, error);
    if (status != MBR_OK)
        goto drop_handle;
    record->authority = authority;
    record->holder_id = mbr_holder_id(record->holder);
    record->handle = handle;
    record->manager = manager;
    record->client_answers = request->pressed.ask != NULL;
    mbr_table_publish(&manager->holders, handle, record);
    holder->value = handle;
    return MBR_OK;
drop_handle:
    mbr_table_take(&manager->holders, handle);
free_record:
    mbr_heap_release(&manager->heap, record);
uncount:
    mbr_unrefer(manager, &authority->holder_count);
    return status;
}

mbr_holder_record *mbr_refer_holder(
    mbr_manager *manager, mbr_holder_handle handle, mbr_status *status, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    mbr_holder_record *record = mbr_find_holder(manager, handle.value, status, error);
    if (record != NULL && record->closing) {
        *status = mbr_fail(error, MBR_STALE, "the holder is being destroyed");
        record = NULL;
    }
    if (record != NULL)
        record->reference_count++;
    mbr_lock_drop(&manager->lock);
    return record;
}

void mbr_unrefer_holder(mbr_manager *manager, mbr_holder_record *record)
{
    mbr_unrefer(manager, &record->reference_count);
}

static mbr_status begin_close(
    mbr_manager *manager, mbr_holder_handle handle, mbr_holder_record **found, mbr_error *error)
{
    mbr_status status;
    mbr_lock_take(&manager->lock);
    mbr_holder_record *record = mbr_await_holder_locked(manager, handle.value, &status, error);
    if (record != NULL && record->reference_count != 0)
        status = mbr_fail(error, MBR_IN_USE,
            "%llu prefixes, tickets and admissions are the holder's; end them first",
            (unsigned long long)record->reference_count);
    else if (record != NULL)
        record->closing = true;
    mbr_lock_drop(&manager->lock);
    *found = record;
    return status;
}

/* Its places in the arenas are for others from now on. */
static void forget_holder(mbr_manager *manager, const mbr_holder_record *record)
{
    mbr_walk walk = mbr_begin_walk(manager);
    for (mbr_binding_record *binding = NULL;
         (binding = mbr_next_binding(manager, binding)) != NULL;) {
        if (binding->backing->authority == record->authority)
            mbr_arena_forget_holder(binding->arena, record->holder_id);
    }
    mbr_end_walk(manager, walk);
}

mbr_status mbr_manager_destroy_holder(
    mbr_manager *manager, mbr_holder_handle holder, mbr_error *error)
{
    mbr_holder_record *record;
    mbr_status status = mbr_refuse_in_callback(error);
    if (status != MBR_OK)
        return status;
    status = begin_close(manager, holder, &record, error);
    if (status != MBR_OK)
        return status;
    mbr_manager_fold(manager);
    status = mbr_holder_check_idle(record->holder, error);
    if (status != MBR_OK) {
        mbr_end_close(manager, &record->closing);
        return status;
    }
    mbr_table_take(&manager->holders, holder.value); /* from now on nobody finds it */
    mbr_end_close(manager, &record->closing);
    mbr_await_walks(manager);
    mbr_holder_stop_asking(record->holder); /* nor asks it, also if it stays below */
    mbr_end_givers(manager, record);
    status = mbr_holder_destroy(record->holder, error);
    if (status != MBR_OK) { /* a call that had found it before took bytes for it */
        mbr_manager_log(manager, MBR_LOG_ERROR, "a holder is leaked: it was used while it ended");
        return status;
    }
    forget_holder(manager, record);
    mbr_unrefer(manager, &record->authority->holder_count);
    mbr_heap_release(&manager->heap, record);
    return MBR_OK;
}

/* ---- Figures --------------------------------------------------------------------------------- */

mbr_status mbr_manager_read_authority(mbr_manager *manager, mbr_authority_handle authority,
    mbr_authority_figures *figures, mbr_error *error)
{
    mbr_status status;
    mbr_authority_figures whole = {MBR_SIZED(mbr_authority_figures)};
    mbr_manager_fold(manager);
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_authority_record *record = mbr_find_authority(manager, authority.value, &status, error);
    if (record != NULL)
        mbr_authority_figures_read(record->authority, &whole);
    mbr_end_walk(manager, walk);
    mbr_growable_give(figures, record != NULL ? &whole : NULL, record != NULL ? sizeof(whole) : 0);
    return status;
}

mbr_status mbr_manager_read_holders(mbr_manager *manager, mbr_authority_handle authority,
    mbr_holder_figures *lines, uint32_t capacity, uint32_t *count, mbr_error *error)
{
    *count = 0;
    mbr_status status;
    mbr_manager_fold(manager);
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_authority_record *record = mbr_find_authority(manager, authority.value, &status, error);
    if (record != NULL)
        mbr_authority_holders_read(record->authority, lines, capacity, count);
    mbr_end_walk(manager, walk);
    return status;
}

mbr_status mbr_manager_read_holder(
    mbr_manager *manager, mbr_holder_handle holder, mbr_holder_figures *figures, mbr_error *error)
{
    mbr_status status;
    mbr_holder_figures whole = {MBR_SIZED(mbr_holder_figures)};
    mbr_manager_fold(manager);
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_holder_record *record = mbr_find_holder(manager, holder.value, &status, error);
    if (record != NULL)
        mbr_holder_figures_read(record->holder, &whole);
    mbr_end_walk(manager, walk);
    mbr_growable_give(figures, record != NULL ? &whole : NULL, record != NULL ? sizeof(whole) : 0);
    return status;
}

/* ---- Audit ----------------------------------------------------------------------------------- */

static mbr_status audit_authorities(mbr_manager *manager, uint64_t *charged_bytes, mbr_error *error)
{
    uint32_t cursor = 0;
    mbr_authority_record *record;
    while ((record = mbr_table_next(&manager->authorities, &cursor)) != NULL) {
        mbr_status status = mbr_authority_audit(record->authority, error);
        if (status != MBR_OK)
            return status;
        mbr_authority_figures figures = {MBR_SIZED(mbr_authority_figures)};
        mbr_authority_figures_read(record->authority, &figures);
        *charged_bytes += figures.charged_bytes;
    }
    return MBR_OK;
}

/* Without those that are being closed: what they leak is told by their end. */
static mbr_status audit_mechanisms(mbr_manager *manager, uint64_t *owned_bytes, mbr_error *error)
{
    uint32_t cursor = 0;
    mbr_mechanism_record *record;
    while ((record = mbr_table_next(&manager->mechanisms, &cursor)) != NULL) {
        if (mbr_is_closing(manager, record))
            continue;
        mbr_status status = mbr_port_audit(record->port, error);
        if (status != MBR_OK)
            return status;
        mbr_port_figures figures;
        mbr_port_read(record->port, &figures);
        *owned_bytes += figures.owned_bytes;
    }
    return MBR_OK;
}

static mbr_status audit_bindings(mbr_manager *manager, mbr_error *error)
{
    mbr_status status = MBR_OK;
    for (mbr_backing_record *backing = NULL;
         status == MBR_OK && (backing = mbr_next_backing(manager, backing)) != NULL;)
        status = mbr_backing_audit(backing->backing, error);
    for (mbr_binding_record *binding = NULL;
         status == MBR_OK && (binding = mbr_next_binding(manager, binding)) != NULL;)
        status = mbr_arena_audit(binding->arena, error);
    return status;
}

mbr_status mbr_manager_audit(mbr_manager *manager, mbr_error *error)
{
    uint64_t charged = 0, owned = 0;
    mbr_manager_fold(manager);
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_status status = audit_authorities(manager, &charged, error);
    if (status == MBR_OK)
        status = audit_bindings(manager, error);
    if (status == MBR_OK)
        status = audit_mechanisms(manager, &owned, error);
    owned += manager->leaked_owned_bytes;
    mbr_end_walk(manager, walk);
    if (status == MBR_OK && charged != owned) /* I5 at rest: every owned byte has one payer */
        status = mbr_fail(error, MBR_INTERNAL,
            "authorities: charged %llu bytes in all, mechanisms own %llu",
            (unsigned long long)charged, (unsigned long long)owned);
    return status;
}
