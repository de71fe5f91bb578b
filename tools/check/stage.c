/* Brings the child with its plugin to a stage, step by step. What fails here blocks the check and
 * is never its finding. */
#include "tools/check/trial.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void enter_phase(mbr_trial *trial, mbr_phase phase)
{
    __atomic_store_n(&trial->page->phase, (uint32_t)phase, __ATOMIC_RELAXED);
}

static void load(mbr_trial *trial)
{
    enter_phase(trial, MBR_PHASE_LOAD);
    trial->library = dlopen(trial->page->path, RTLD_NOW | RTLD_LOCAL);
    if (trial->library == NULL)
        mbr_trial_skip(trial, MBR_SKIP_BLOCKED, "dlopen: %s", dlerror());
    void *symbol = dlsym(trial->library, MBR_ENTRY_SYMBOL);
    if (symbol == NULL)
        mbr_trial_skip(trial, MBR_SKIP_BLOCKED, "no symbol " MBR_ENTRY_SYMBOL);
    memcpy(&trial->entry, &symbol, sizeof symbol);
}

/* The known part of a table, which may be shorter or longer than ours. */
static void copy_table(void *to, uint32_t bytes, const void *from)
{
    uint32_t size;
    memset(to, 0, bytes);
    memcpy(&size, from, sizeof size);
    memcpy(to, from, size < bytes ? size : bytes);
}

static void greet(mbr_trial *trial)
{
    enter_phase(trial, MBR_PHASE_ENTRY);
    const mbr_hello hello = {MBR_SIZED(mbr_hello), .minor_min = 0, .minor_max = 0};
    mbr_reply reply = {MBR_SIZED(mbr_reply)};
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status = trial->entry(&hello, &reply, &error);
    if (status != MBR_OK || reply.plugin == NULL)
        mbr_trial_skip(trial, MBR_SKIP_BLOCKED, "the entry answers %s", mbr_status_name(status));
    trial->plugin = reply.plugin;
    copy_table(&trial->subject.plugin, sizeof trial->subject.plugin, reply.plugin);
    mbr_ledger_init(&trial->subject.ledger);
    if (trial->subject.plugin.name != NULL)
        snprintf(trial->page->plugin_name, sizeof trial->page->plugin_name, "%s",
            trial->subject.plugin.name);
}

/* ---- Subjects -------------------------------------------------------------------------------- */

static void log_nothing(void *context, uint32_t level, const char *text, uint64_t text_bytes)
{
    (void)context, (void)level, (void)text, (void)text_bytes;
}

static bool fetch(mbr_subject *subject, const char *id, void *table, uint32_t bytes)
{
    const mbr_capability_request request = {
        MBR_SIZED(mbr_capability_request), .minor = MBR_MINOR_0, .id = id};
    mbr_capability_outcome outcome = {MBR_SIZED(mbr_capability_outcome)};
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (subject->plugin.capability(subject->instance, &request, &outcome, &error) != MBR_OK ||
        outcome.table == NULL)
        return false;
    copy_table(table, bytes, outcome.table);
    return true;
}

static void fetch_all(mbr_subject *subject)
{
    fetch(subject, MBR_ID_ALLOCATOR, &subject->allocator, sizeof subject->allocator);
    if (fetch(subject, MBR_ID_VIRTUAL, &subject->virtual_, sizeof subject->virtual_))
        subject->offered |= MBR_NEEDS_VIRTUAL;
    if (fetch(subject, MBR_ID_SHARED, &subject->shared, sizeof subject->shared))
        subject->offered |= MBR_NEEDS_SHARED;
    if (fetch(subject, MBR_ID_ORDER, &subject->order, sizeof subject->order))
        subject->offered |= MBR_NEEDS_ORDER;
    if (fetch(subject, MBR_ID_TRANSFER, &subject->transfer, sizeof subject->transfer))
        subject->offered |= MBR_NEEDS_TRANSFER;
}

mbr_status mbr_subject_open_as(
    mbr_trial *trial, const mbr_open_request *request, mbr_subject *subject, mbr_error *error)
{
    mbr_open_outcome outcome = {MBR_SIZED(mbr_open_outcome)};
    mbr_error own = {MBR_SIZED(mbr_error)};
    memset(subject, 0, sizeof *subject);
    copy_table(&subject->plugin, sizeof subject->plugin, trial->plugin);
    mbr_ledger_init(&subject->ledger);
    if (subject->plugin.open == NULL || subject->plugin.capability == NULL)
        return MBR_CONTRACT_BROKEN;
    mbr_status status = subject->plugin.open(NULL, request, &outcome, error == NULL ? &own : error);
    if (status == MBR_OK && outcome.instance == NULL)
        return MBR_CONTRACT_BROKEN;
    if (status != MBR_OK)
        return status;
    subject->instance = outcome.instance;
    fetch_all(subject);
    return MBR_OK;
}

mbr_status mbr_subject_open(mbr_trial *trial, const mbr_option *options, uint32_t option_count,
    mbr_subject *subject, mbr_error *error)
{
    const mbr_open_request request = {
        MBR_SIZED(mbr_open_request),
        .option_count = option_count,
        .options = options,
        .mechanism = trial->mechanism,
        .log = log_nothing,
    };
    return mbr_subject_open_as(trial, &request, subject, error);
}

uint64_t mbr_subject_fact(mbr_trial *trial, mbr_subject *subject, uint32_t fact, uint64_t otherwise)
{
    const mbr_fact_request request = {MBR_SIZED(mbr_fact_request), .fact = fact};
    mbr_fact_outcome outcome = {MBR_SIZED(mbr_fact_outcome)};
    mbr_error error = {MBR_SIZED(mbr_error)};
    (void)trial;
    if (subject->allocator.fact == NULL ||
        subject->allocator.fact(subject->instance, &request, &outcome, &error) != MBR_OK)
        return otherwise;
    return outcome.value;
}

uint64_t mbr_subject_share_of_free(
    mbr_trial *trial, mbr_subject *subject, uint64_t most_bytes, uint64_t parts)
{
    const mbr_stats_request request = {MBR_SIZED(mbr_stats_request)};
    mbr_mechanism_stats stats = {MBR_SIZED(mbr_mechanism_stats)};
    mbr_error error = {MBR_SIZED(mbr_error)};
    (void)trial;
    if (subject->allocator.stats == NULL ||
        subject->allocator.stats(subject->instance, &request, &stats, &error) != MBR_OK)
        return most_bytes;
    uint64_t share_bytes = stats.free_bytes / parts; /* vast where it cannot be told */
    return share_bytes < most_bytes ? share_bytes : most_bytes;
}

/* ---- The stage with an open mechanism -------------------------------------------------------- */

void mbr_stage_need_mechanism(mbr_trial *trial, mbr_status status, uint32_t count)
{
    uint32_t index = trial->page->device_index;
    if (status == MBR_OUT_OF_RANGE && count > 0 && count <= index)
        mbr_trial_skip(trial, MBR_SKIP_NO_MECHANISM,
            "--device %u: the plugin has %u mechanism%s; the last one is %u", index, count,
            count == 1 ? "" : "s", count - 1);
}

static void describe(mbr_trial *trial)
{
    const mbr_mechanisms_request request = {
        MBR_SIZED(mbr_mechanisms_request), .index = trial->page->device_index};
    mbr_mechanism_description description = {MBR_SIZED(mbr_mechanism_description)};
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (trial->subject.plugin.mechanisms == NULL)
        mbr_trial_skip(trial, MBR_SKIP_BLOCKED, "the slot mechanisms is absent");
    mbr_status status = trial->subject.plugin.mechanisms(NULL, &request, &description, &error);
    mbr_stage_need_mechanism(trial, status, description.count);
    if (status != MBR_OK)
        mbr_trial_skip(trial, MBR_SKIP_BLOCKED, "mechanism %u: %s: %.200s",
            trial->page->device_index, mbr_status_name(status), error.text);
    memcpy(trial->mechanism, description.name, sizeof trial->mechanism);
    trial->mechanism[sizeof trial->mechanism - 1] = '\0';
    memcpy(trial->page->mechanism, trial->mechanism, sizeof trial->page->mechanism);
    trial->own_device_index = description.device_index;
    if (description.domain == MBR_DOMAIN_HOST)
        trial->subject.offered |= MBR_NEEDS_HOST_ORACLE;
}

static void open_mechanism(mbr_trial *trial)
{
    enter_phase(trial, MBR_PHASE_OPEN);
    describe(trial);
    uint32_t offered = trial->subject.offered;
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status = mbr_subject_open(trial, NULL, 0, &trial->subject, &error);
    if (status != MBR_OK)
        mbr_trial_skip(trial, MBR_SKIP_BLOCKED, "open '%s': %s: %.200s", trial->mechanism,
            mbr_status_name(status), error.text);
    mbr_subject *subject = &trial->subject;
    if (mbr_subject_fact(trial, subject, MBR_FACT_HOST_ACCESSIBLE, 0) == 1)
        offered |= MBR_NEEDS_HOST_ACCESS;
    if (mbr_subject_fact(trial, subject, MBR_FACT_READ_ONLY_ENFORCED, 0) == 1)
        offered |= MBR_NEEDS_READ_ONLY;
    if (mbr_subject_fact(trial, subject, MBR_FACT_FORK_SAFE, 0) == 1)
        offered |= MBR_NEEDS_FORK_SAFE;
    trial->granule_bytes = mbr_subject_fact(
        trial, subject, MBR_FACT_GRANULE_MIN_BYTES, (uint64_t)sysconf(_SC_PAGESIZE));
    subject->offered |= offered;
    trial->page->offered = subject->offered;
}

void mbr_stage_enter(mbr_trial *trial, mbr_stage stage)
{
    if (stage >= MBR_STAGE_LOADED)
        load(trial);
    if (stage >= MBR_STAGE_GREETED)
        greet(trial);
    if (stage >= MBR_STAGE_OPENED)
        open_mechanism(trial);
    enter_phase(trial, MBR_PHASE_RUN);
}

mbr_report mbr_subject_report(mbr_trial *trial, mbr_subject *subject)
{
    const mbr_report_request request = {MBR_SIZED(mbr_report_request)};
    mbr_report report = {0};
    mbr_need_ok(trial, mbr_drive_report(trial, subject, &request, &report), "report");
    return report;
}

mbr_status mbr_subject_close(mbr_trial *trial, mbr_subject *subject)
{
    const mbr_close_request request = {MBR_SIZED(mbr_close_request)};
    mbr_outcome outcome = {0};
    return mbr_drive_close(trial, subject, &request, &outcome);
}
