/* Bindings: mechanism, EP context, authority and isolation group under one identity with
 * generations. Old generations live until nothing that came from them does. */
#include "host/bind/manager.h"

#include <stdio.h>

typedef struct mbr_bind_parts {
    mbr_mechanism_record *mechanism;
    mbr_authority_record *authority;
    mbr_ep_record *ep;
} mbr_bind_parts;

static mbr_status find_parts(
    mbr_manager *manager, const mbr_bind_request *request, mbr_bind_parts *parts, mbr_error *error)
{
    mbr_status status;
    parts->mechanism = mbr_find_mechanism(manager, request->mechanism.value, &status, error);
    if (parts->mechanism == NULL)
        return status;
    parts->authority = mbr_find_authority(manager, request->authority.value, &status, error);
    if (parts->authority == NULL)
        return status;
    parts->ep = mbr_find_ep(manager, request->ep.value, &status, error);
    return status;
}

/* Of parts that are referred to. */
static mbr_status check_tier(const mbr_bind_parts *parts, mbr_error *error)
{
    uint32_t tier = mbr_port_mechanism(parts->mechanism->port)->description.tier;
    if (tier != parts->authority->tier)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the mechanism is of tier %u, the authority of tier %u; bind it to one of its own",
            tier, parts->authority->tier);
    return MBR_OK;
}

/* ---- Backings: one for each (mechanism, authority) ------------------------------------------- */

/* Under the lock: counts a binding on the backing of these parts, or NULL. */
static mbr_backing_record *share_backing_locked(mbr_manager *manager, const mbr_bind_parts *parts)
{
    for (mbr_backing_record *record = manager->backings; record != NULL; record = record->next) {
        if (record->mechanism == parts->mechanism && record->authority == parts->authority) {
            record->binding_count++;
            return record;
        }
    }
    return NULL;
}

static mbr_status refer_parts(mbr_manager *manager, const mbr_bind_parts *parts, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    bool closing = parts->mechanism->closing || parts->authority->closing || parts->ep->closing;
    if (!closing) {
        parts->mechanism->reference_counts[MBR_BINDINGS]++;
        parts->authority->backing_count++;
        parts->ep->binding_count++;
    }
    mbr_lock_drop(&manager->lock);
    return closing ? mbr_fail(error, MBR_STALE, "the mechanism, authority or EP is being closed")
                   : MBR_OK;
}

static void unrefer_parts(mbr_manager *manager, const mbr_bind_parts *parts)
{
    mbr_lock_take(&manager->lock);
    parts->mechanism->reference_counts[MBR_BINDINGS]--;
    parts->authority->backing_count--;
    parts->ep->binding_count--;
    mbr_lock_drop(&manager->lock);
}

static mbr_status create_backing(mbr_manager *manager, const mbr_bind_parts *parts,
    const mbr_bind_request *request, mbr_backing_record **record, mbr_error *error)
{
    *record = NULL;
    mbr_backing_record *created = mbr_heap_allocate(&manager->heap, sizeof(*created));
    if (created == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a binding");
    char name[48];
    mbr_lock_take(&manager->lock);
    uint64_t ordinal = ++manager->backing_ordinal;
    mbr_lock_drop(&manager->lock);
    snprintf(name, sizeof(name), "cache %.30s %llu",
        mbr_port_mechanism(parts->mechanism->port)->description.name, (unsigned long long)ordinal);
    mbr_backing_options options = {.port = parts->mechanism->port,
        .authority = parts->authority->authority,
        .name = name,
        .keep_bytes = request->cache_keep_bytes,
        .ahead_bytes = request->ahead_bytes,
        .heap = &manager->heap};
    mbr_status status = mbr_backing_create(&options, &created->backing, error);
    if (status != MBR_OK) {
        mbr_heap_release(&manager->heap, created);
        return status;
    }
    created->mechanism = parts->mechanism;
    created->authority = parts->authority;
    created->binding_count = 1;
    *record = created;
    return MBR_OK;
}

static mbr_status take_backing(mbr_manager *manager, const mbr_bind_parts *parts,
    const mbr_bind_request *request, mbr_backing_record **record, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    *record = share_backing_locked(manager, parts);
    mbr_lock_drop(&manager->lock);
    if (*record != NULL) {
        mbr_backing_set_keep((*record)->backing, request->cache_keep_bytes);
        mbr_backing_set_ahead((*record)->backing, request->ahead_bytes);
        return MBR_OK;
    }
    mbr_backing_record *created;
    mbr_status status = create_backing(manager, parts, request, &created, error);
    if (status != MBR_OK)
        return status;
    mbr_lock_take(&manager->lock);
    *record = share_backing_locked(manager, parts); /* another thread may have been faster */
    if (*record == NULL) {
        created->next = manager->backings;
        manager->backings = created;
        *record = created;
        created = NULL;
    }
    mbr_lock_drop(&manager->lock);
    if (created != NULL) {
        mbr_backing_destroy(created->backing, NULL);
        mbr_heap_release(&manager->heap, created);
    }
    return MBR_OK;
}

static void unlist_backing_locked(mbr_manager *manager, mbr_backing_record *record)
{
    mbr_backing_record **link = &manager->backings;
    while (*link != record)
        link = &(*link)->next;
    *link = record->next;
}

static void note_leak(mbr_manager *manager, mbr_backing_record *record)
{
    mbr_lock_take(&manager->lock);
    manager->leak_count++;
    record->authority->leak_count++;
    mbr_lock_drop(&manager->lock);
    mbr_port_note_leak(record->mechanism->port);
    mbr_manager_log(manager, MBR_LOG_WARNING,
        "memory of a binding cannot be given back safely and is leaked on purpose");
}

mbr_status mbr_drop_backing(
    mbr_manager *manager, mbr_backing_record *record, mbr_backing_user *user, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    bool last = --record->binding_count == 0;
    if (last)
        unlist_backing_locked(manager, record);
    mbr_lock_drop(&manager->lock);
    if (!last) {
        mbr_backing_remove_user(record->backing, user);
        return MBR_OK;
    }
    mbr_await_walks(manager);
    mbr_status status = mbr_backing_destroy(record->backing, error);
    if (status != MBR_OK) /* leaked on purpose, still charged and counted (rule 33) */
        note_leak(manager, record);
    mbr_heap_release(&manager->heap, record);
    return status;
}

/* ---- The list of generations. Who stands at one that is taken out goes on from there, and meets
 * all that were in the list when it began.
 * -------------------------------------------------------------- */

static void list(mbr_manager *manager, mbr_binding_record *record)
{
    mbr_lock_take(&manager->lock);
    record->next = manager->generations;
    manager->generations = record;
    mbr_lock_drop(&manager->lock);
}

/* No walk meets it any more when this returns. */
static void unlist(mbr_manager *manager, const mbr_binding_record *record)
{
    mbr_lock_take(&manager->lock);
    mbr_binding_record **link = &manager->generations;
    while (*link != record)
        link = &(*link)->next;
    *link = record->next;
    mbr_lock_drop(&manager->lock);
    mbr_await_walks(manager);
}

/* ---- Binding --------------------------------------------------------------------------------- */

static mbr_status make_binding(mbr_manager *manager, const mbr_bind_request *request,
    mbr_binding_record **made, mbr_error *error)
{
    *made = NULL;
    mbr_bind_parts parts = {0};
    mbr_binding_record *record = mbr_heap_allocate(&manager->heap, sizeof(*record));
    if (record == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a binding");
    mbr_walk walk = mbr_begin_walk(manager); /* the end of a part awaits it */
    mbr_status status = find_parts(manager, request, &parts, error);
    if (status == MBR_OK)
        status = refer_parts(manager, &parts, error);
    mbr_end_walk(manager, walk);
    if (status != MBR_OK)
        goto free_record;
    status = check_tier(&parts, error);
    if (status == MBR_OK)
        status = take_backing(manager, &parts, request, &record->backing, error);
    if (status != MBR_OK)
        goto unrefer;
    record->user.context = parts.ep->context;
    mbr_backing_add_user(record->backing->backing, &record->user);
    mbr_arena_options arena = {.table = manager->allocations,
        .backing = record->backing->backing,
        .context = parts.ep->context,
        .isolation_group = request->isolation_group,
        .keep_bytes = request->cache_keep_bytes,
        .heap = &manager->heap};
    status = mbr_arena_create(&arena, &record->arena, error);
    if (status != MBR_OK)
        goto drop_backing;
    /* Last: an EP never leaves a gate again. */
    status = mbr_context_join_gate(parts.ep->context, mbr_port_gate(parts.mechanism->port), error);
    if (status != MBR_OK)
        goto destroy_arena;
    record->ep = parts.ep;
    record->isolation_group = request->isolation_group;
    *made = record;
    return MBR_OK;
destroy_arena:
    mbr_arena_destroy(record->arena, NULL);
drop_backing:
    mbr_drop_backing(manager, record->backing, &record->user, NULL);
unrefer:
    unrefer_parts(manager, &parts);
free_record:
    mbr_heap_release(&manager->heap, record);
    return status;
}

/* Where memory ends with its context, what a lost one kept has to stay charged to somebody. */
static mbr_status refuse_unconfirmed(const mbr_binding_record *record, mbr_error *error)
{
    const mbr_context *context = record->ep->context;
    if (mbr_context_state(context) != MBR_CONTEXT_LOST || mbr_context_has_ended(context) ||
        mbr_port_mechanism(record->backing->mechanism->port)->releasable_after_loss)
        return MBR_OK;
    return mbr_fail(error, MBR_IN_USE,
        "the device of the binding's EP is lost, and nobody has confirmed its end; mbr_ep_destroy "
        "does, before the EP is unbound");
}

/* Gives back what the binding keeps. On failure the binding is as it was. */
static mbr_status end_binding(mbr_manager *manager, mbr_binding_record *record, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    uint64_t ranges = record->range_count, prefixes = record->prefix_count;
    mbr_lock_drop(&manager->lock);
    if (ranges + prefixes != 0)
        return mbr_fail(error, MBR_IN_USE,
            "%llu ranges and %llu prefixes of the binding live; release them first",
            (unsigned long long)ranges, (unsigned long long)prefixes);
    mbr_status status = refuse_unconfirmed(record, error);
    if (status == MBR_OK)
        status = mbr_arena_destroy(record->arena, error);
    if (status != MBR_OK)
        return status;
    mbr_bind_parts parts = {record->backing->mechanism, record->backing->authority, record->ep};
    status = mbr_drop_backing(manager, record->backing, &record->user, error);
    unrefer_parts(manager, &parts);
    mbr_heap_release(&manager->heap, record);
    return status;
}

mbr_status mbr_manager_bind(mbr_manager *manager, const mbr_bind_request *request,
    mbr_binding_handle *binding, mbr_error *error)
{
    binding->value = 0;
    mbr_bind_request own;
    mbr_status status = MBR_TAKE(&own, mbr_bind_request, cache_keep_bytes, request, error);
    if (status == MBR_OK)
        status = mbr_refuse_in_callback(error);
    if (status != MBR_OK)
        return status;
    request = &own;
    uint64_t handle;
    status = mbr_table_prepare(&manager->bindings, &handle, error);
    if (status != MBR_OK)
        return status;
    mbr_binding_record *record;
    status = make_binding(manager, request, &record, error);
    if (status != MBR_OK) {
        mbr_table_take(&manager->bindings, handle);
        return status;
    }
    record->handle = handle;
    list(manager, record);
    mbr_table_publish(&manager->bindings, handle, record);
    binding->value = handle;
    return MBR_OK;
}

/* Puts the older generation under the newer one and ends its handle. NULL: the handle names nothing
 * any more. */
static mbr_binding_record *supersede(
    mbr_manager *manager, mbr_binding_handle handle, mbr_binding_record *newer)
{
    mbr_status status;
    mbr_lock_take(&manager->lock);
    mbr_binding_record *older = mbr_await_binding_locked(manager, handle.value, &status, NULL);
    newer->older = older == NULL ? NULL : mbr_table_take(&manager->bindings, handle.value);
    older = newer->older;
    mbr_lock_drop(&manager->lock);
    return older;
}

mbr_status mbr_manager_switch(mbr_manager *manager, mbr_binding_handle binding,
    const mbr_bind_request *request, mbr_binding_handle *next, mbr_error *error)
{
    next->value = 0;
    mbr_status status;
    if (mbr_find_binding(manager, binding.value, &status, error) == NULL)
        return status;
    mbr_binding_handle made;
    status = mbr_manager_bind(manager, request, &made, error);
    if (status != MBR_OK)
        return status;
    mbr_binding_record *newer = mbr_find_binding(manager, made.value, &status, error);
    mbr_binding_record *older = supersede(manager, binding, newer);
    if (older == NULL) { /* another switch was faster */
        mbr_manager_unbind(manager, made, NULL);
        return mbr_table_explain(&manager->bindings, binding.value, error);
    }
    *next = made;
    return MBR_OK;
}

mbr_status mbr_manager_read_binding(mbr_manager *manager, mbr_binding_handle binding,
    mbr_binding_figures *figures, mbr_error *error)
{
    mbr_status status;
    mbr_growable_give(figures, NULL, 0);
    mbr_binding_record *record = mbr_find_binding(manager, binding.value, &status, error);
    if (record == NULL)
        return status;
    mbr_binding_figures whole = {.isolation_group = record->isolation_group,
        .mechanism = {record->backing->mechanism->handle},
        .authority = {record->backing->authority->handle},
        .ep = {record->ep->handle},
        .ahead_bytes = mbr_backing_ahead_limit(record->backing->backing)};
    mbr_lock_take(&manager->lock);
    whole.range_count = record->range_count;
    whole.prefix_count = record->prefix_count;
    mbr_lock_drop(&manager->lock);
    mbr_growable_give(figures, &whole, sizeof(whole));
    return MBR_OK;
}

static mbr_status check_unused(
    mbr_manager *manager, const mbr_binding_record *record, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    uint64_t live = record->range_count + record->prefix_count;
    bool is_last = record->backing->binding_count == 1; /* the backing ends with it */
    mbr_lock_drop(&manager->lock);
    mbr_arena_figures figures;
    mbr_arena_read(record->arena, &figures);
    if (is_last)
        figures.queued_count += mbr_backing_ending_count(record->backing->backing);
    if (live + figures.live_count + figures.queued_count + figures.quarantined_count != 0)
        return mbr_fail(error, MBR_IN_USE,
            "%llu ranges or prefixes and %llu allocations live, %llu are queued, "
            "%llu lost with "
            "their device or abandoned; release them and drain the EP, or confirm its end "
            "(mbr_ep_destroy)",
            (unsigned long long)live, (unsigned long long)figures.live_count,
            (unsigned long long)figures.queued_count,
            (unsigned long long)figures.quarantined_count);
    return refuse_unconfirmed(record, error);
}

/* A generation that no handle names, and those that it has superseded first; stops at the first
 * that is still referred to. Nothing new comes from one of them: what is unused stays so, but for a
 * loss that nobody has confirmed. *place is NULL once it is gone, also where it left a residual. */
static mbr_status end_unnamed(mbr_manager *manager, mbr_binding_record **place, mbr_error *error)
{
    mbr_binding_record *record = *place;
    mbr_status status = MBR_OK;
    if (record->older != NULL)
        status = end_unnamed(manager, &record->older, error);
    if (status == MBR_OK)
        status = check_unused(manager, record, error);
    if (status != MBR_OK)
        return status;
    mbr_gate *gate; /* it may have been bound to another device than the newest */
    status = mbr_enter_gate(record->backing->mechanism, &gate, error);
    if (status != MBR_OK)
        return status;
    unlist(manager, record);
    status = end_binding(manager, record, error);
    mbr_gate_leave(gate);
    if (status == MBR_IN_USE)
        list(manager, record);
    else
        *place = NULL;
    return status;
}

static mbr_binding_record *begin_close(
    mbr_manager *manager, mbr_binding_handle handle, mbr_status *status, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    mbr_binding_record *record = mbr_await_binding_locked(manager, handle.value, status, error);
    if (record != NULL)
        record->closing = true;
    mbr_lock_drop(&manager->lock);
    return record;
}

/* The record is marked as closing, and no capture begins on its device meanwhile. */
static mbr_status unbind(
    mbr_manager *manager, mbr_binding_handle binding, mbr_binding_record *record, mbr_error *error)
{
    mbr_manager_fold(manager);
    mbr_status status = MBR_OK;
    if (record->older != NULL)
        status = end_unnamed(manager, &record->older, error);
    if (status == MBR_OK)
        status = check_unused(manager, record, error);
    if (status == MBR_OK)
        mbr_table_take(&manager->bindings, binding.value);
    mbr_end_close(manager, &record->closing);
    if (status != MBR_OK)
        return status;
    unlist(manager, record);
    return end_binding(manager, record, error);
}

mbr_status mbr_manager_unbind(mbr_manager *manager, mbr_binding_handle binding, mbr_error *error)
{
    mbr_status status = mbr_refuse_in_callback(error);
    if (status != MBR_OK)
        return status;
    mbr_binding_record *record = begin_close(manager, binding, &status, error);
    if (record == NULL)
        return status;
    mbr_gate *gate;
    status = mbr_enter_gate(record->backing->mechanism, &gate, error);
    if (status != MBR_OK) {
        mbr_end_close(manager, &record->closing);
        return status;
    }
    status = unbind(manager, binding, record, error);
    mbr_gate_leave(gate);
    return status;
}

/* ---- Bindings that are abandoned ------------------------------------------------------------- */

static void add_abandoned(mbr_manager *manager, mbr_binding_record *record)
{
    mbr_lock_take(&manager->lock);
    record->next_abandoned = manager->abandoned;
    manager->abandoned = record;
    mbr_lock_drop(&manager->lock);
}

/* One thread at a time has them. */
void mbr_end_abandoned(mbr_manager *manager)
{
    if (mbr_refuse_in_callback(NULL) != MBR_OK)
        return;
    mbr_lock_take(&manager->lock);
    mbr_binding_record *rest = manager->abandoned;
    manager->abandoned = NULL;
    mbr_lock_drop(&manager->lock);
    while (rest != NULL) {
        mbr_binding_record *record = rest;
        rest = record->next_abandoned;
        end_unnamed(manager, &record, NULL); /* what is leaked by it is counted and logged */
        if (record != NULL)
            add_abandoned(manager, record);
    }
}

mbr_status mbr_manager_abandon(
    mbr_manager *manager, mbr_binding_handle binding, uint64_t *quarantined_count, mbr_error *error)
{
    uint64_t unread;
    if (quarantined_count == NULL)
        quarantined_count = &unread;
    *quarantined_count = 0;
    mbr_status status = mbr_refuse_in_callback(error);
    if (status != MBR_OK)
        return status;
    mbr_binding_record *record = begin_close(manager, binding, &status, error);
    if (record == NULL)
        return status;
    mbr_table_take(&manager->bindings, binding.value);
    mbr_end_close(manager, &record->closing);
    for (mbr_binding_record *each = record; each != NULL; each = each->older)
        *quarantined_count += mbr_arena_abandon(each->arena);
    if (*quarantined_count != 0)
        mbr_manager_log(manager, MBR_LOG_WARNING,
            "%llu allocations of an abandoned binding are quarantined: nobody has freed them",
            (unsigned long long)*quarantined_count);
    add_abandoned(manager, record);
    mbr_end_abandoned(manager);
    return MBR_OK;
}
