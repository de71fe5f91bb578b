/* Faults of mechanisms, open, capability and facts (group OPN). */
#include "plugins/common/answer.h"
#include "tests/badplugins/bad.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MECHANISMS(name)                                                                           \
    static mbr_status name(mbr_instance *none, const mbr_mechanisms_request *request,              \
        mbr_mechanism_description *outcome, mbr_error *error)
#define OPEN(name)                                                                                 \
    static mbr_status name(mbr_instance *none, const mbr_open_request *request,                    \
        mbr_open_outcome *outcome, mbr_error *error)
#define CAPABILITY(name)                                                                           \
    static mbr_status name(mbr_instance *instance, const mbr_capability_request *request,          \
        mbr_capability_outcome *outcome, mbr_error *error)
#define FACT(name)                                                                                 \
    static mbr_status name(mbr_instance *instance, const mbr_fact_request *request,                \
        mbr_fact_outcome *outcome, mbr_error *error)

/* ---- Mechanisms ------------------------------------------------------------------------------ */

MECHANISMS(counts_one_too_many)
{
    mbr_status status = bad_good->plugin.mechanisms(none, request, outcome, error);
    if (request->index == 0)
        outcome->count = 2;
    return status;
}

MECHANISMS(nameless_description)
{
    mbr_status status = bad_good->plugin.mechanisms(none, request, outcome, error);
    if (status == MBR_OK)
        memset(outcome->description, 'x', sizeof outcome->description);
    return status;
}

MECHANISMS(unknown_domain)
{
    mbr_status status = bad_good->plugin.mechanisms(none, request, outcome, error);
    if (status == MBR_OK)
        outcome->tier = 9;
    return status;
}

MECHANISMS(wraps_index)
{
    mbr_mechanisms_request first = *request;
    first.index = first.index > 100 ? 0 : first.index;
    return bad_good->plugin.mechanisms(none, &first, outcome, error);
}

MECHANISMS(no_count_past_last)
{
    mbr_status status = bad_good->plugin.mechanisms(none, request, outcome, error);
    if (status == MBR_OUT_OF_RANGE)
        outcome->count = 0;
    return status;
}

MECHANISMS(identity_changes)
{
    static uint8_t calls;
    mbr_status status = bad_good->plugin.mechanisms(none, request, outcome, error);
    if (status == MBR_OK)
        outcome->uuid[0] = ++calls;
    return status;
}

/* ---- Open ------------------------------------------------------------------------------------ */

OPEN(refuses_every_open)
{
    (void)none, (void)request, (void)error;
    outcome->instance = NULL;
    return MBR_NO_DEVICE;
}

static mbr_status open_changed(
    mbr_instance *none, mbr_open_request request, mbr_open_outcome *outcome, mbr_error *error)
{
    return bad_good->plugin.open(none, &request, outcome, error);
}

OPEN(takes_any_mechanism)
{
    mbr_open_request changed = *request;
    changed.mechanism = changed.mechanism == NULL ? NULL : "host";
    return open_changed(none, changed, outcome, error);
}

OPEN(null_is_default_mechanism)
{
    mbr_open_request changed = *request;
    changed.mechanism = changed.mechanism == NULL ? "host" : changed.mechanism;
    return open_changed(none, changed, outcome, error);
}

OPEN(ignores_unknown_option)
{
    mbr_open_request changed = *request;
    changed.option_count = changed.options == NULL ? changed.option_count : 0;
    return open_changed(none, changed, outcome, error);
}

OPEN(ignores_null_options)
{
    mbr_open_request changed = *request;
    changed.option_count = changed.options == NULL ? 0 : changed.option_count;
    return open_changed(none, changed, outcome, error);
}

OPEN(reads_unused_options)
{
    if (request != NULL && request->options != NULL) {
        volatile const mbr_option *first = request->options;
        (void)first->value;
    }
    return bad_good->plugin.open(none, request, outcome, error);
}

OPEN(takes_any_context)
{
    mbr_open_request changed = *request;
    changed.native_context = (mbr_native){0};
    return open_changed(none, changed, outcome, error);
}

OPEN(one_instance)
{
    static mbr_instance *only;
    mbr_status status = MBR_OK;
    if (only == NULL || request->mechanism == NULL || request->option_count > 0 ||
        strcmp(request->mechanism, "host") != 0 || request->native_context.kind != 0)
        status = bad_good->plugin.open(none, request, outcome, error);
    else
        outcome->instance = only;
    if (status == MBR_OK)
        only = outcome->instance;
    return status;
}

OPEN(leaks_descriptor)
{
    (void)!dup(0);
    return bad_good->plugin.open(none, request, outcome, error);
}

/* Ids that are taken in any instance. */
static mbr_status ids_of_all_instances(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    static mbr_instance *owner;
    static uint64_t id;
    mbr_status status = bad_good->allocator.allocate(instance, request, outcome, error);
    if (status == MBR_OK && owner != NULL && owner != instance && id == request->allocation_id) {
        const mbr_release_request release = {
            MBR_SIZED(mbr_release_request), .allocation_id = id, .address = outcome->address};
        bad_good->allocator.release(instance, &release, outcome, error);
        memset((char *)outcome + 4, 0, sizeof *outcome - 4);
        return MBR_ALREADY_EXISTS;
    }
    if (status == MBR_OK && owner == NULL) {
        owner = instance;
        id = request->allocation_id;
    }
    return status;
}

/* ---- Capability, facts, report --------------------------------------------------------------- */

CAPABILITY(no_allocator)
{
    static int calls;
    mbr_status status = bad_good->plugin.capability(instance, request, outcome, error);
    if (status == MBR_OK && outcome->table->kind == MBR_KIND_ALLOCATOR && calls++ > 0) {
        outcome->table = NULL;
        return MBR_UNSUPPORTED;
    }
    return status;
}

CAPABILITY(table_changes)
{
    static mbr_shared_vtable other;
    static int calls;
    mbr_status status = bad_good->plugin.capability(instance, request, outcome, error);
    if (status == MBR_OK && outcome->table->kind == MBR_KIND_SHARED && calls++ % 2 == 1) {
        other = bad.shared;
        outcome->table = (const mbr_vtable_head *)&other;
    }
    return status;
}

CAPABILITY(minor_is_condition)
{
    if (request != NULL && request->minor > 0) {
        outcome->table = NULL;
        return MBR_UNSUPPORTED;
    }
    return bad_good->plugin.capability(instance, request, outcome, error);
}

CAPABILITY(unknown_is_callers_bug)
{
    mbr_status status = bad_good->plugin.capability(instance, request, outcome, error);
    return status == MBR_UNSUPPORTED && strstr(request->id, "no_such") != NULL
        ? MBR_INVALID_ARGUMENT
        : status;
}

CAPABILITY(derefs_id)
{
    volatile char first = request->id[0];
    (void)first;
    return bad_good->plugin.capability(instance, request, outcome, error);
}

FACT(unknown_fact_is_0)
{
    mbr_status status = bad_good->allocator.fact(instance, request, outcome, error);
    return status == MBR_UNSUPPORTED && request->fact > 100000 ? MBR_OK : status;
}

FACT(fact_changes)
{
    static uint64_t calls;
    mbr_status status = bad_good->allocator.fact(instance, request, outcome, error);
    if (status == MBR_OK && request->fact == MBR_FACT_EXTENT_MAX_BYTES)
        outcome->value -= calls++ * (UINT64_C(1) << 20);
    return status;
}

FACT(fact_out_of_range)
{
    mbr_status status = bad_good->allocator.fact(instance, request, outcome, error);
    if (status == MBR_OK && request->fact == MBR_FACT_UNMAP_WAITS_FOR_DEVICE)
        outcome->value = 2;
    return status;
}

FACT(out_of_reach)
{
    mbr_status status = bad_good->allocator.fact(instance, request, outcome, error);
    if (status == MBR_OK && request->fact == MBR_FACT_HOST_ACCESSIBLE)
        outcome->value = 0;
    return status;
}

FACT(recommends_odd_granule)
{
    mbr_status status = bad_good->allocator.fact(instance, request, outcome, error);
    if (status == MBR_OK && request->fact == MBR_FACT_GRANULE_RECOMMENDED_BYTES)
        outcome->value += 1;
    return status;
}

static mbr_status reports_one_more(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    mbr_status status = bad_good->plugin.report(instance, request, outcome, error);
    if (status == MBR_OK && outcome->allocation_count == 0)
        outcome->line_count = 1;
    return status;
}

#define SET(table, slot, fault)                                                                    \
    do {                                                                                           \
        if (bad_is(#fault))                                                                        \
            bad.table.slot = fault;                                                                \
    } while (0)

void bad_install_opn(void)
{
    SET(plugin, mechanisms, counts_one_too_many);
    SET(plugin, mechanisms, nameless_description);
    SET(plugin, mechanisms, unknown_domain);
    SET(plugin, mechanisms, wraps_index);
    SET(plugin, mechanisms, no_count_past_last);
    SET(plugin, mechanisms, identity_changes);
    SET(plugin, open, refuses_every_open);
    SET(plugin, open, takes_any_mechanism);
    SET(plugin, open, null_is_default_mechanism);
    SET(plugin, open, ignores_unknown_option);
    SET(plugin, open, ignores_null_options);
    SET(plugin, open, reads_unused_options);
    SET(plugin, open, takes_any_context);
    SET(plugin, open, one_instance);
    SET(plugin, open, leaks_descriptor);
    SET(allocator, allocate, ids_of_all_instances);
    SET(plugin, capability, no_allocator);
    SET(plugin, capability, table_changes);
    SET(plugin, capability, minor_is_condition);
    SET(plugin, capability, unknown_is_callers_bug);
    SET(plugin, capability, derefs_id);
    SET(allocator, fact, unknown_fact_is_0);
    SET(allocator, fact, fact_changes);
    SET(allocator, fact, fact_out_of_range);
    SET(allocator, fact, recommends_odd_granule);
    SET(plugin, report, reports_one_more);
    SET(allocator, fact, out_of_reach);
    if (bad_is("out_of_reach"))
        bad.has_order = false;
    if (bad_is("shared_without_virtual"))
        bad.has_virtual = false;
}
