/* The plugin itself: negotiation, its one mechanism, and the life of instances. Touches no memory
 * of the mechanism. */
#include "tests/author/anon.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MECHANISM "anon"

MBR_PLUGIN_NOTE("anon", "membrane", MBR_NOTE_UNLOADABLE);

/* ---- mechanisms ---- */

static mbr_status slot_mechanisms(mbr_instance *none, const mbr_mechanisms_request *request,
    mbr_mechanism_description *outcome, mbr_error *error)
{
    (void)none;
    mbr_status status = anon_begin(request && outcome, outcome, sizeof *outcome, error);
    if (status)
        return status;
    mbr_mechanisms_request copy;
    anon_read(&copy, request, sizeof copy);
    uint32_t index = ANON_GET(mbr_mechanisms_request, &copy, index);
    mbr_mechanism_description answer = {.count = 1};
    if (index > 0) {
        anon_write(outcome, &answer, sizeof answer);
        return anon_refuse(error, (mbr_error){.status = MBR_OUT_OF_RANGE, .argument_index = 1},
            "mechanism %" PRIu32 " of 1", index);
    }
    answer = (mbr_mechanism_description){.count = 1,
        .name = MECHANISM,
        .description = "private anonymous memory; extents move by mremap",
        .domain = MBR_DOMAIN_HOST,
        .tier = MBR_TIER_HOST};
    anon_write(outcome, &answer, sizeof answer);
    return MBR_OK;
}

/* ---- open ---- */

/* A decimal number of bytes above 0. */
static bool parse_bytes(const char *text, uint64_t *bytes)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits])
        return false;
    errno = 0;
    *bytes = strtoull(text, NULL, 10);
    return errno == 0 && *bytes > 0;
}

static mbr_status read_option(const mbr_option *option, uint64_t *capacity_bytes, mbr_error *error)
{
    mbr_error what = {.status = MBR_INVALID_ARGUMENT, .argument_index = 3};
    if (!option->key || !option->value)
        return anon_refuse(error, what, "an option without key or value");
    what.status = MBR_UNKNOWN_KEY;
    if (strcmp(option->key, "capacity_bytes") != 0)
        return anon_refuse(
            error, what, "option '%.64s' is not known; known: capacity_bytes", option->key);
    what.status = MBR_INVALID_ARGUMENT;
    if (!parse_bytes(option->value, capacity_bytes))
        return anon_refuse(error, what,
            "capacity_bytes '%.64s' is no decimal number above 0 that fits 64 bits", option->value);
    return MBR_OK;
}

static mbr_status read_options(
    const mbr_open_request *request, uint64_t *capacity_bytes, mbr_error *error)
{
    uint32_t count = ANON_GET(mbr_open_request, request, option_count);
    const mbr_option *options = ANON_GET(mbr_open_request, request, options);
    if (count && !options)
        return anon_refuse(error, (mbr_error){.status = MBR_INVALID_ARGUMENT, .argument_index = 3},
            "%" PRIu32 " options at NULL", count);
    mbr_status status = MBR_OK;
    for (uint32_t index = 0; index < count && !status; index++)
        status = read_option(&options[index], capacity_bytes, error);
    return status;
}

static mbr_status check_open(
    const mbr_open_request *request, const mbr_open_outcome *outcome, mbr_error *error)
{
    const char *mechanism = ANON_GET(mbr_open_request, request, mechanism);
    mbr_error what = {.status = MBR_INVALID_ARGUMENT};
    if (anon_room_bytes(outcome) < sizeof *outcome)
        return anon_refuse(error, what, "the outcome has no room for the instance");
    what.argument_index = 2;
    if (!mechanism)
        return anon_refuse(error, what, "the mechanism's name is NULL");
    what.argument_index = 5;
    if (!ANON_GET(mbr_open_request, request, log))
        return anon_refuse(error, what, "log is NULL");
    what.argument_index = 4;
    if (MBR_HAS(mbr_open_request, request, native_context) &&
        request->native_context.kind > MBR_NATIVE_STREAM_CPU)
        return anon_refuse(error, what, "a native context of kind %" PRIu32 "; 0 and 1 are taken",
            request->native_context.kind);
    what = (mbr_error){.status = MBR_UNKNOWN_OBJECT, .argument_index = 2};
    if (strcmp(mechanism, MECHANISM) != 0)
        return anon_refuse(
            error, what, "no mechanism '%.64s'; there is '" MECHANISM "'", mechanism);
    return MBR_OK;
}

static void log_opened(const mbr_instance *instance)
{
    char text[96];
    int length = snprintf(text, sizeof text, "anon: opened with a capacity of %" PRIu64 " bytes",
        instance->capacity_bytes);
    instance->log(instance->log_context, MBR_LOG_DEBUG, text, (uint64_t)length);
}

static mbr_status slot_open(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    (void)none;
    uint64_t capacity_bytes = anon_machine_bytes();
    mbr_status status = anon_begin(request && outcome, outcome, sizeof *outcome, error);
    if (status)
        return status;
    mbr_open_request copy;
    anon_read(&copy, request, sizeof copy);
    status = check_open(&copy, outcome, error);
    if (!status)
        status = read_options(&copy, &capacity_bytes, error);
    if (status)
        return status;
    mbr_instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return anon_no_heap(0, error);
    pthread_mutex_init(&instance->lock, NULL); /* of the default kind: cannot fail here */
    instance->capacity_bytes = capacity_bytes;
    instance->log = copy.log;
    instance->log_context = ANON_GET(mbr_open_request, &copy, log_context);
    log_opened(instance);
    anon_write(outcome, &(mbr_open_outcome){.instance = instance}, sizeof *outcome);
    return MBR_OK;
}

/* ---- capability ---- */

static const mbr_vtable_head *table_of(const char *id)
{
    if (strcmp(id, MBR_ID_ALLOCATOR) == 0)
        return (const mbr_vtable_head *)&anon_allocator;
    if (strcmp(id, MBR_ID_VIRTUAL) == 0)
        return (const mbr_vtable_head *)&anon_virtual;
    return NULL;
}

static mbr_status slot_capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *outcome, mbr_error *error)
{
    mbr_status status = anon_begin(instance && request && outcome, outcome, sizeof *outcome, error);
    if (status)
        return status;
    mbr_capability_request copy;
    anon_read(&copy, request, sizeof copy);
    const char *id = ANON_GET(mbr_capability_request, &copy, id);
    mbr_error what = {.status = MBR_INVALID_ARGUMENT, .argument_index = 2};
    if (!id)
        return anon_refuse(error, what, "the capability's id is NULL");
    if (anon_room_bytes(outcome) < sizeof *outcome)
        return anon_refuse(error, what, "the outcome has no room for the table");
    mbr_capability_outcome answer = {.table = table_of(id)};
    what.status = MBR_UNSUPPORTED;
    if (!answer.table)
        return anon_refuse(error, what, "'%.64s' is not offered", id);
    anon_write(outcome, &answer, sizeof answer);
    return MBR_OK;
}

/* ---- close, report, quiesce ---- */

static mbr_status check_close(
    mbr_instance *instance, const void *input, mbr_outcome *done, mbr_error *error)
{
    (void)done;
    const mbr_close_request *request = input;
    mbr_status status = anon_check_flags(ANON_GET(mbr_close_request, request, flags), 0, error);
    if (status)
        return status;
    if (!instance->allocations.count && !instance->reservations.count && !instance->extents.count)
        return MBR_OK;
    return anon_refuse(error, (mbr_error){.status = MBR_IN_USE},
        "%" PRIu64 " allocations, %" PRIu64 " reservations and %" PRIu64 " extents live",
        instance->allocations.count, instance->reservations.count, instance->extents.count);
}

static mbr_status slot_close(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status =
        anon_change(check_close, instance, request, sizeof *request, outcome, error);
    if (status)
        return status;
    pthread_mutex_destroy(&instance->lock);
    free(instance);
    return MBR_OK;
}

static mbr_status slot_report(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    mbr_status status = anon_begin(instance && request && outcome, outcome, sizeof *outcome, error);
    if (status)
        return status;
    pthread_mutex_lock(&instance->lock);
    mbr_report answer = {.allocation_count = instance->allocations.count,
        .reservation_count = instance->reservations.count,
        .extent_count = instance->extents.count,
        .mapping_count = instance->placed_count};
    pthread_mutex_unlock(&instance->lock);
    anon_write(outcome, &answer, sizeof answer);
    return MBR_OK;
}

/* There are no threads, and every call has done its work when it returns. */
static mbr_status quiesce_nothing(
    mbr_instance *instance, const void *input, mbr_outcome *done, mbr_error *error)
{
    (void)instance, (void)input, (void)done, (void)error;
    return MBR_OK;
}

static mbr_status slot_quiesce(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    return anon_change(quiesce_nothing, instance, request, sizeof *request, outcome, error);
}

/* ---- the entry ---- */

static const mbr_plugin_vtable plugin = {MBR_SIZED(mbr_plugin_vtable), .kind = MBR_KIND_PLUGIN,
    .minor = MBR_MINOR_0, .name = "anon", .version = "1.0", .mechanisms = slot_mechanisms,
    .open = slot_open, .capability = slot_capability, .close = slot_close, .report = slot_report,
    .quiesce = slot_quiesce};

mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    mbr_status status = anon_begin(hello && reply, reply, sizeof *reply, error);
    if (status)
        return status;
    mbr_hello copy;
    anon_read(&copy, hello, sizeof copy);
    uint16_t minor_min = ANON_GET(mbr_hello, &copy, minor_min);
    uint16_t minor_max = ANON_GET(mbr_hello, &copy, minor_max);
    mbr_reply answer = {.minor_min = MBR_MINOR_0, .minor_max = MBR_MINOR_0};
    anon_write(reply, &answer, sizeof answer);
    mbr_error what = {.status = MBR_INVALID_ARGUMENT};
    if (minor_min > minor_max || anon_room_bytes(reply) < sizeof *reply)
        return anon_refuse(error, what, "minors %u to %u, and %u bytes for the reply", minor_min,
            minor_max, anon_room_bytes(reply));
    what.status = MBR_VERSION_MISMATCH;
    if (minor_min > MBR_MINOR_0)
        return anon_refuse(error, what, "the host offers minors %u to %u, the plugin has 0 to 0",
            minor_min, minor_max);
    answer.plugin = &plugin;
    anon_write(reply, &answer, sizeof answer);
    return MBR_OK;
}
