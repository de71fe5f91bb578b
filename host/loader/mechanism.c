/* Opens and closes mechanisms. Responsible for I2: an instance that a plugin handed over with
 * MBR_OK is closed exactly once, also when the host then refuses it, and where that fails its code
 * is kept for good. Uses no memory of a mechanism. */
#include "abi/base/assert.h"
#include "abi/base/error.h"
#include "abi/base/lock.h"
#include "host/loader/call.h"
#include "host/loader/facts.h"
#include "host/loader/module.h"
#include "host/loader/reason.h"
#include "host/loader/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MECHANISMS_MAX 4096
#define OWN_PREFIX "membrane." /* of the contract's capability ids */
#define QUIESCE_NS UINT64_C(10000000000)

/* ---- Forked children ------------------------------------------------------------------------- */

static const mbr_fork_guard *guard_of(const mbr_module *module)
{
    return (module->candidate.note.flags & MBR_NOTE_FORK_SAFE) != 0 ? NULL : &module->fork;
}

mbr_status mbr_mechanism_refuse_child(const mbr_mechanism *mechanism, mbr_error *error)
{
    return mbr_fail(error, MBR_STALE,
        "plugin %s was loaded by the parent of this process, and its note does not say that a "
        "forked child may use it; load it after the fork, or start the child with exec",
        mechanism->plugin.name);
}

/* ---- Descriptions ---------------------------------------------------------------------------- */

static bool take_text(char *text, size_t bytes)
{
    if (memchr(text, '\0', bytes) == NULL)
        return false;
    size_t length = strlen(text);
    memset(text + length, 0, bytes - length);
    mbr_text_one_line(text);
    return true;
}

static mbr_status judge_description(
    mbr_mechanism_description *description, uint32_t index, mbr_error *error)
{
    const char *broken = NULL;
    if (!take_text(description->name, sizeof description->name) || description->name[0] == '\0')
        broken = "name";
    else if (!take_text(description->description, sizeof description->description))
        broken = "description";
    else if (!take_text(description->pci, sizeof description->pci))
        broken = "pci";
    else if (description->domain < MBR_DOMAIN_HOST || description->domain > MBR_DOMAIN_UNIFIED)
        broken = "domain";
    else if (description->tier < MBR_TIER_DEVICE || description->tier > MBR_TIER_HOST)
        broken = "tier";
    if (broken == NULL)
        return MBR_OK;
    return mbr_fail(error, MBR_CONTRACT_BROKEN,
        "mechanism %u: its %s is empty, not terminated or no value of the contract", index, broken);
}

mbr_status mbr_module_describe(
    mbr_module *module, uint32_t index, mbr_mechanism_description *description, mbr_error *error)
{
    mbr_mechanisms_request request = {MBR_SIZED(mbr_mechanisms_request), .index = index};
    mbr_mechanism_description answer = {MBR_SIZED(mbr_mechanism_description)};
    mbr_error own = {MBR_SIZED(mbr_error)};
    *description = (mbr_mechanism_description){MBR_SIZED(mbr_mechanism_description)};
    const mbr_mechanism none = {.plugin = module->plugin, .fork = guard_of(module)};
    mbr_status status = mbr_mechanism_check_process(&none, error);
    if (status != MBR_OK)
        return status;
    mbr_lock_assert_none_held();
    uint64_t began_ns = mbr_trace_begin(&module->trace);
    status = module->plugin.mechanisms(NULL, &request, &answer, &own);
    mbr_trace_end(
        &module->trace, began_ns, module->plugin.name, "plugin.mechanisms", answer.name, status);
    status = mbr_answer_take("plugin.mechanisms", status, &own, error);
    if (status != MBR_OK)
        return status;
    answer.struct_size = sizeof answer;
    status = judge_description(&answer, index, error);
    if (status == MBR_OK)
        *description = answer;
    return status;
}

/* Enumerates until the name is found; an enumeration that has no end is cut. */
static mbr_status find_description(
    mbr_module *module, const char *name, mbr_mechanism_description *description, mbr_error *error)
{
    for (uint32_t index = 0; index < MECHANISMS_MAX; index++) {
        mbr_status status = mbr_module_describe(module, index, description, error);
        if (status == MBR_OK && (name == NULL || strcmp(description->name, name) == 0))
            return MBR_OK;
        if (status == MBR_OUT_OF_RANGE && name == NULL)
            return mbr_fail(
                error, MBR_NO_DEVICE, "plugin %s offers no mechanism here", module->plugin.name);
        if (status == MBR_OUT_OF_RANGE)
            return mbr_fail(error, MBR_UNKNOWN_OBJECT,
                "plugin %s has no mechanism \"%s\" among its %u; `membrane inspect %s` lists them",
                module->plugin.name, name, index, module->plugin.name);
        if (status != MBR_OK)
            return status;
    }
    return mbr_fail(error, MBR_CONTRACT_BROKEN, "plugin %s lists more than %d mechanisms",
        module->plugin.name, MECHANISMS_MAX);
}

/* ---- Leaving --------------------------------------------------------------------------------- */

static mbr_status quiesce(const mbr_mechanism *mechanism, mbr_error *error)
{
    mbr_quiesce_request request = {MBR_SIZED(mbr_quiesce_request),
        .deadline_ns = mbr_clock_now(&mbr_clock_monotonic) + QUIESCE_NS};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    mbr_error own = {MBR_SIZED(mbr_error)};
    mbr_lock_assert_none_held();
    mbr_status status = mechanism->plugin.quiesce(mechanism->instance, &request, &outcome, &own);
    return mbr_answer_take("plugin.quiesce", status, &own, error);
}

typedef enum close_end {
    CLOSE_GOES_ON, /* refused, and nothing happened */
    CLOSE_GONE,
    CLOSE_UNKNOWN, /* nobody knows, or an answer that the contract does not allow: no further call
                    */
} close_end;

static mbr_status close_instance(const mbr_mechanism *mechanism, close_end *end, mbr_error *error)
{
    mbr_close_request request = {MBR_SIZED(mbr_close_request)};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    mbr_error own = {MBR_SIZED(mbr_error)};
    mbr_lock_assert_none_held();
    mbr_status status = mechanism->plugin.close(mechanism->instance, &request, &outcome, &own);
    status = mbr_answer_take("plugin.close", status, &own, error);
    bool is_done = outcome.state == MBR_STATE_DONE;
    if (status == MBR_OK && !is_done)
        status = mbr_fail(error, MBR_CONTRACT_BROKEN,
            "plugin.close answered MBR_OK with state %u, which is not DONE", outcome.state);
    if (status == MBR_OK)
        *end = CLOSE_GONE;
    else if (is_done || outcome.state >= MBR_STATE_QUARANTINED || status == MBR_CONTRACT_BROKEN)
        *end = CLOSE_UNKNOWN;
    else
        *end = CLOSE_GOES_ON;
    return status;
}

/* Nobody knows what still runs in an instance that was not closed: its code stays (I3, rule 33). */
static void keep_code(mbr_module *module)
{
    atomic_fetch_add(&module->leaked_count, 1);
}

/* Gives back an instance that the host refuses. */
static void abandon(mbr_mechanism *mechanism)
{
    close_end end = CLOSE_GOES_ON;
    mbr_status status = quiesce(mechanism, NULL);
    if (status == MBR_OK || MBR_STATUS_CLASS(status) == MBR_CLASS_UNSUPPORTED)
        close_instance(mechanism, &end, NULL);
    if (end != CLOSE_GONE)
        keep_code(mechanism->module);
    mbr_trace_detach(&mechanism->module->heap, mechanism);
}

/* ---- Entering -------------------------------------------------------------------------------- */

static void drop_log(void *context, uint32_t level, const char *text, uint64_t text_bytes)
{
    (void)context;
    (void)level;
    (void)text;
    (void)text_bytes;
}

static mbr_status open_instance(
    mbr_mechanism *mechanism, const mbr_mechanism_options *options, mbr_error *error)
{
    mbr_open_request request = {
        MBR_SIZED(mbr_open_request),
        .option_count = options->option_count,
        .mechanism = mechanism->description.name,
        .options = options->options,
        .native_context = options->native_context,
        .log = options->log == NULL ? drop_log : options->log,
        .log_context = options->log_context,
    };
    mbr_open_outcome outcome = {MBR_SIZED(mbr_open_outcome)};
    mbr_error own = {MBR_SIZED(mbr_error)};
    mbr_lock_assert_none_held();
    const mbr_trace_sink *trace = &mechanism->module->trace;
    uint64_t began_ns = mbr_trace_begin(trace);
    mbr_status status = mechanism->plugin.open(NULL, &request, &outcome, &own);
    mbr_trace_end(
        trace, began_ns, mechanism->plugin.name, "plugin.open", request.mechanism, status);
    status = mbr_answer_take("plugin.open", status, &own, error);
    if (status != MBR_OK)
        return status;
    if (outcome.instance == NULL)
        return mbr_fail(error, MBR_CONTRACT_BROKEN,
            "plugin.open of \"%s\" succeeded with a NULL instance", mechanism->description.name);
    mechanism->instance = mechanism->plugin_instance = outcome.instance;
    return MBR_OK;
}

static mbr_status ask_capability(const mbr_mechanism *mechanism, const char *id, uint16_t minor,
    const mbr_vtable_head **table, mbr_error *error)
{
    mbr_capability_request request = {MBR_SIZED(mbr_capability_request), .minor = minor, .id = id};
    mbr_capability_outcome outcome = {MBR_SIZED(mbr_capability_outcome)};
    mbr_error own = {MBR_SIZED(mbr_error)};
    mbr_lock_assert_none_held();
    *table = NULL;
    mbr_status status = mbr_mechanism_check_process(mechanism, error);
    if (status != MBR_OK)
        return status;
    const mbr_trace_sink *trace = &mechanism->module->trace;
    uint64_t began_ns = mbr_trace_begin(trace);
    status = mechanism->plugin.capability(mechanism->plugin_instance, &request, &outcome, &own);
    mbr_trace_end(trace, began_ns, mechanism->plugin.name, "plugin.capability", id, status);
    *table = outcome.table;
    return mbr_answer_take("plugin.capability", status, &own, error);
}

/* *is_offered is false with MBR_OK where the plugin says that it has none. */
static mbr_status fetch_table(const mbr_mechanism *mechanism, mbr_table_index table,
    void *own_table, bool *is_offered, mbr_error *error)
{
    const mbr_vtable_head *foreign;
    uint16_t minor = mechanism->module->minor;
    char text[MBR_TABLE_TEXT_BYTES];
    *is_offered = false;
    mbr_table_fill_absent(table, own_table);
    mbr_error own = {MBR_SIZED(mbr_error)};
    mbr_status status = ask_capability(mechanism, mbr_table_id(table), minor, &foreign, &own);
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_UNSUPPORTED)
        return MBR_OK;
    if (status != MBR_OK) {
        mbr_error_copy(error, &own);
        return status;
    }
    if (!mbr_table_copy(table, &mechanism->module->image, foreign, minor, own_table, text))
        return mbr_fail(error, MBR_CONTRACT_BROKEN, "%s", text);
    *is_offered = true;
    return MBR_OK;
}

mbr_status mbr_mechanism_fetch_foreign(
    const mbr_mechanism *mechanism, const mbr_foreign_table *wanted, void *own, mbr_error *error)
{
    const mbr_vtable_head *foreign;
    char text[MBR_TABLE_TEXT_BYTES];
    memcpy(own, wanted->stub, wanted->own_bytes);
    if (strncmp(wanted->id, OWN_PREFIX, strlen(OWN_PREFIX)) == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "capability %s is the contract's own; a third party's id has its own prefix",
            wanted->id);
    mbr_status status = ask_capability(mechanism, wanted->id, wanted->minor, &foreign, error);
    if (status != MBR_OK)
        return status;
    if (!mbr_table_copy_foreign(wanted, &mechanism->module->image, foreign, own, text))
        return mbr_fail(error, MBR_CONTRACT_BROKEN, "%s", text);
    return MBR_OK;
}

static mbr_status fetch_tables(mbr_mechanism *mechanism, mbr_error *error)
{
    bool has_allocator;
    const struct {
        mbr_table_index index;
        void *table;
        bool *is_offered;
    } wanted[] = {
        {MBR_TABLE_ALLOCATOR, &mechanism->allocator, &has_allocator},
        {MBR_TABLE_VIRTUAL, &mechanism->virtual_, &mechanism->has_virtual},
        {MBR_TABLE_SHARED, &mechanism->shared, &mechanism->has_shared},
        {MBR_TABLE_ORDER, &mechanism->order, &mechanism->has_order},
        {MBR_TABLE_TRANSFER, &mechanism->transfer, &mechanism->has_transfer},
    };
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        mbr_status status =
            fetch_table(mechanism, wanted[i].index, wanted[i].table, wanted[i].is_offered, error);
        if (status != MBR_OK)
            return status;
    }
    if (!has_allocator)
        return mbr_fail(error, MBR_CONTRACT_BROKEN,
            "mechanism \"%s\" does not offer membrane.allocator, which every mechanism must",
            mechanism->description.name);
    if (mechanism->has_shared && !mechanism->has_virtual)
        return mbr_fail(error, MBR_CONTRACT_BROKEN,
            "mechanism \"%s\" offers membrane.shared without membrane.virtual, which it needs",
            mechanism->description.name);
    return MBR_OK;
}

mbr_status mbr_mechanism_open(mbr_module *module, const mbr_mechanism_options *options,
    mbr_mechanism *mechanism, mbr_error *error)
{
    *mechanism = (mbr_mechanism){0};
    mbr_mechanism own = {.module = module, .plugin = module->plugin, .fork = guard_of(module)};
    mbr_status status = find_description(module, options->mechanism, &own.description, error);
    if (status != MBR_OK)
        return status;
    status = open_instance(&own, options, error);
    if (status != MBR_OK)
        return status;
    status = fetch_tables(&own, error);
    if (status == MBR_OK)
        status = mbr_trace_attach(&module->trace, &module->heap, &own, error);
    if (status == MBR_OK)
        status = mbr_facts_read(&own, error);
    if (status != MBR_OK) {
        abandon(&own);
        return status;
    }
    atomic_fetch_add(&module->open_count, 1);
    *mechanism = own;
    return MBR_OK;
}

/* ---- Closing --------------------------------------------------------------------------------- */

static mbr_status read_report(const mbr_mechanism *mechanism, mbr_report *report, mbr_error *error)
{
    mbr_report_request request = {MBR_SIZED(mbr_report_request)};
    mbr_error own = {MBR_SIZED(mbr_error)};
    *report = (mbr_report){MBR_SIZED(mbr_report)};
    mbr_lock_assert_none_held();
    mbr_status status = mechanism->plugin.report(mechanism->instance, &request, report, &own);
    return mbr_answer_take("plugin.report", status, &own, error);
}

static mbr_status judge_report(
    const mbr_mechanism *mechanism, const mbr_report *report, bool is_quiet, mbr_error *error)
{
    bool is_empty = report->allocation_count == 0 && report->reservation_count == 0 &&
        report->extent_count == 0 && report->mapping_count == 0 && report->line_count == 0 &&
        report->stream_count == 0 && (!is_quiet || report->thread_count == 0);
    if (is_empty)
        return MBR_OK;
    return mbr_fail(error, MBR_IN_USE,
        "mechanism \"%s\" still holds %" PRIu64 " allocations, %" PRIu64 " reservations, %" PRIu64
        " extents, %" PRIu64 " mappings, %" PRIu64 " lines, %" PRIu64 " streams, %u threads",
        mechanism->description.name, report->allocation_count, report->reservation_count,
        report->extent_count, report->mapping_count, report->line_count, report->stream_count,
        report->thread_count);
}

static mbr_status ask_empty(const mbr_mechanism *mechanism, bool is_quiet, mbr_error *error)
{
    mbr_report report;
    mbr_status status = read_report(mechanism, &report, error);
    return status == MBR_OK ? judge_report(mechanism, &report, is_quiet, error) : status;
}

static void forget(mbr_mechanism *mechanism)
{
    uint32_t before = atomic_fetch_sub(&mechanism->module->open_count, 1);
    MBR_CHECK(before > 0);
    mbr_trace_detach(&mechanism->module->heap, mechanism);
    *mechanism = (mbr_mechanism){0};
}

void mbr_mechanism_abandon(mbr_mechanism *mechanism)
{
    MBR_CHECK(mechanism->instance != NULL);
    keep_code(mechanism->module);
    forget(mechanism);
}

mbr_status mbr_mechanism_close(mbr_mechanism *mechanism, mbr_error *error)
{
    MBR_CHECK(mechanism->instance != NULL);
    mbr_status status = mbr_mechanism_check_process(mechanism, error);
    if (status != MBR_OK)
        return status;
    /* Asked before quiesce, so that a mechanism that is refused here goes on undisturbed. */
    status = ask_empty(mechanism, false, error);
    if (status != MBR_OK)
        return status;
    status = quiesce(mechanism, error);
    if (status == MBR_OK)
        status = ask_empty(mechanism, true, error);
    if (status != MBR_OK)
        return status;
    close_end end;
    status = close_instance(mechanism, &end, error);
    if (end == CLOSE_GONE)
        forget(mechanism);
    else if (end == CLOSE_UNKNOWN)
        mbr_mechanism_abandon(mechanism);
    return status;
}
