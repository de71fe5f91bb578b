/* Group OPN: mechanisms, open, capability, the form of facts, close. */
#include "tools/check/process.h"

#include <stdio.h>
#include <string.h>

#define MECHANISMS_MAX 64
#define ROUND_COUNT 20

static mbr_status describe(mbr_trial *trial, uint32_t index, mbr_mechanism_description *description)
{
    const mbr_mechanisms_request request = {MBR_SIZED(mbr_mechanisms_request), .index = index};
    *description = (mbr_mechanism_description){0};
    return mbr_drive_mechanisms(trial, &trial->subject, &request, description);
}

/* The open of a host: no options, a log. */
static void run_opens(mbr_trial *trial)
{
    mbr_mechanism_description description;
    mbr_subject subject;
    mbr_status told = describe(trial, trial->page->device_index, &description);
    mbr_stage_need_mechanism(trial, told, description.count);
    mbr_expect_status(trial, told, MBR_OK, "mechanisms");
    memcpy(trial->mechanism, description.name, sizeof trial->mechanism);
    trial->mechanism[sizeof trial->mechanism - 1] = '\0';
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status = mbr_subject_open(trial, NULL, 0, &subject, &error);
    MBR_EXPECT(trial, status == MBR_OK, "a mechanism opens without options", "%s: %.200s",
        mbr_status_name(status), error.text);
}

/* ---- Mechanisms ------------------------------------------------------------------------------ */

static uint32_t need_count(mbr_trial *trial)
{
    mbr_mechanism_description description;
    mbr_need_ok(trial, describe(trial, 0, &description), "mechanism 0");
    uint32_t count = description.count;
    MBR_NEED(trial, count >= 1 && count <= MECHANISMS_MAX, "%u mechanisms", count);
    for (uint32_t i = 1; i < count; i++)
        mbr_need_ok(trial, describe(trial, i, &description), "mechanisms");
    return count;
}

static void run_all_described(mbr_trial *trial)
{
    mbr_mechanism_description first, description;
    mbr_need_ok(trial, describe(trial, 0, &first), "mechanism 0");
    MBR_EXPECT(trial, first.count >= 1 && first.count <= MECHANISMS_MAX,
        "the count of mechanisms is 1 to 64", "%u", first.count);
    for (uint32_t i = 1; i < first.count; i++) {
        mbr_status status = describe(trial, i, &description);
        MBR_EXPECT(trial, status == MBR_OK && description.count == first.count,
            "every index below the count is described, with the same count", "%u of %u: %s", i,
            first.count, mbr_status_name(status));
    }
}

static void run_names(mbr_trial *trial)
{
    static mbr_mechanism_description all[MECHANISMS_MAX];
    uint32_t count = need_count(trial);
    for (uint32_t i = 0; i < count; i++) {
        mbr_need_ok(trial, describe(trial, i, &all[i]), "mechanisms");
        uint64_t length = strnlen(all[i].name, sizeof all[i].name);
        MBR_EXPECT(trial, length > 0 && length < sizeof all[i].name,
            "a mechanism's name is terminated and not empty", "mechanism %u: %lu bytes", i, length);
        MBR_EXPECT(trial,
            memchr(all[i].description, '\0', sizeof all[i].description) != NULL &&
                memchr(all[i].pci, '\0', sizeof all[i].pci) != NULL,
            "a mechanism's description and PCI address are terminated", "mechanism %u", i);
        for (uint32_t j = 0; j < i; j++)
            MBR_EXPECT(trial, strcmp(all[i].name, all[j].name) != 0,
                "no two mechanisms have the same name", "%u and %u are '%.64s'", j, i, all[i].name);
    }
}

static void run_identity(mbr_trial *trial)
{
    uint32_t count = need_count(trial);
    for (uint32_t i = 0; i < count; i++) {
        mbr_mechanism_description description;
        mbr_need_ok(trial, describe(trial, i, &description), "mechanisms");
        MBR_EXPECT(trial,
            description.domain >= MBR_DOMAIN_HOST && description.domain <= MBR_DOMAIN_UNIFIED &&
                (description.tier == MBR_TIER_DEVICE || description.tier == MBR_TIER_HOST) &&
                description.reserved_0 == 0,
            "domain and tier are of the contract's lists, reserved is 0",
            "mechanism %u: domain %u, tier %u, reserved %u", i, description.domain,
            description.tier, description.reserved_0);
    }
}

static void run_past_last(mbr_trial *trial)
{
    mbr_mechanism_description description;
    uint32_t count = need_count(trial);
    mbr_expect_status(
        trial, describe(trial, count, &description), MBR_OUT_OF_RANGE, "the index past the last");
    mbr_status status = describe(trial, UINT32_MAX, &description);
    mbr_expect_status(trial, status, MBR_OUT_OF_RANGE, "the index 4294967295");
}

static void run_past_last_count(mbr_trial *trial)
{
    mbr_mechanism_description description;
    uint32_t count = need_count(trial);
    MBR_NEED(trial, describe(trial, count, &description) == MBR_OUT_OF_RANGE, "another status");
    MBR_EXPECT(trial, description.count == count,
        "the count is set with MBR_OUT_OF_RANGE too, so that one call tells it", "%u, not %u",
        description.count, count);
}

static void run_same_each_time(mbr_trial *trial)
{
    uint32_t count = need_count(trial);
    for (uint32_t i = 0; i < count; i++) {
        mbr_mechanism_description before, after;
        mbr_subject subject;
        mbr_need_ok(trial, describe(trial, i, &before), "mechanisms");
        mbr_subject_open(trial, NULL, 0, &subject, NULL);
        mbr_need_ok(trial, describe(trial, i, &after), "mechanisms");
        MBR_EXPECT(trial,
            strcmp(before.name, after.name) == 0 && before.count == after.count &&
                before.domain == after.domain && before.tier == after.tier &&
                before.device_index == after.device_index &&
                memcmp(before.uuid, after.uuid, sizeof before.uuid) == 0 &&
                memcmp(before.pci, after.pci, sizeof before.pci) == 0,
            "index, name and identity stay as long as the process", "mechanism %u changed", i);
    }
}

/* ---- Open ------------------------------------------------------------------------------------ */

static void log_nothing(void *context, uint32_t level, const char *text, uint64_t text_bytes)
{
    (void)context, (void)level, (void)text, (void)text_bytes;
}

static mbr_open_request plain_request(mbr_trial *trial)
{
    return (mbr_open_request){
        MBR_SIZED(mbr_open_request), .mechanism = trial->mechanism, .log = log_nothing};
}

static mbr_status try_open(
    mbr_trial *trial, const mbr_open_request *request, mbr_open_outcome *outcome)
{
    *outcome = (mbr_open_outcome){0};
    return mbr_drive_open(trial, &trial->subject, request, outcome);
}

static void run_unknown_key(mbr_trial *trial)
{
    static const mbr_option options[] = {{"no_such_option_of_any_plugin", "1"}};
    mbr_open_request request = plain_request(trial);
    mbr_open_outcome outcome;
    request.options = options;
    request.option_count = 1;
    mbr_expect_status(
        trial, try_open(trial, &request, &outcome), MBR_UNKNOWN_KEY, "an unknown option");
}

static void run_unknown_mechanism(mbr_trial *trial)
{
    mbr_open_request request = plain_request(trial);
    mbr_open_outcome outcome;
    request.mechanism = "no such mechanism";
    mbr_status status = try_open(trial, &request, &outcome);
    MBR_EXPECT(trial, MBR_STATUS_CLASS(status) == MBR_CLASS_CALLER,
        "an unknown mechanism is the caller's bug", "%s", mbr_status_name(status));
}

static void run_null_mechanism(mbr_trial *trial)
{
    mbr_open_request request = plain_request(trial);
    mbr_open_outcome outcome;
    request.mechanism = NULL;
    mbr_status status = try_open(trial, &request, &outcome);
    MBR_EXPECT(trial, MBR_STATUS_CLASS(status) == MBR_CLASS_CALLER,
        "a mechanism's name of NULL is the caller's bug", "%s", mbr_status_name(status));
}

static void run_null_options(mbr_trial *trial)
{
    mbr_open_request request = plain_request(trial);
    mbr_open_outcome outcome;
    request.option_count = 1;
    mbr_status status = try_open(trial, &request, &outcome);
    MBR_EXPECT(trial, MBR_STATUS_CLASS(status) == MBR_CLASS_CALLER,
        "one option at NULL is the caller's bug", "%s", mbr_status_name(status));
}

static void run_unused_options(mbr_trial *trial)
{
    mbr_open_request request = plain_request(trial);
    mbr_open_outcome outcome;
    request.options = mbr_lay_input(trial, "", 1); /* not one whole option can be read there */
    mbr_expect_status(
        trial, try_open(trial, &request, &outcome), MBR_OK, "an open with 0 options at an address");
}

static void run_wrong_context(mbr_trial *trial)
{
    mbr_open_request request = plain_request(trial);
    mbr_open_outcome outcome;
    request.native_context = (mbr_native){.kind = 0x7FFF0001, .value = 1};
    mbr_status status = try_open(trial, &request, &outcome);
    MBR_EXPECT(trial, MBR_STATUS_CLASS(status) == MBR_CLASS_CALLER,
        "a native context of a kind that nobody knows is the caller's bug", "%s",
        mbr_status_name(status));
}

static mbr_status allocate(
    mbr_trial *trial, mbr_subject *subject, uint64_t id, mbr_outcome *outcome)
{
    const mbr_allocate_request request = {MBR_SIZED(mbr_allocate_request), .allocation_id = id,
        .bytes = 4096, .max_owned_bytes = UINT64_MAX};
    *outcome = (mbr_outcome){0};
    return mbr_drive_allocate(trial, subject, &request, outcome);
}

static mbr_status release(mbr_trial *trial, mbr_subject *subject, uint64_t id, uint64_t address)
{
    const mbr_release_request request = {
        MBR_SIZED(mbr_release_request), .allocation_id = id, .address = address};
    mbr_outcome outcome = {0};
    return mbr_drive_release(trial, subject, &request, &outcome);
}

static void need_second(mbr_trial *trial, mbr_subject *second)
{
    mbr_status status = mbr_subject_open(trial, NULL, 0, second, NULL);
    MBR_NEED(trial, status == MBR_OK && second->instance != trial->subject.instance,
        "the second open: %s, instance %p", mbr_status_name(status), (void *)second->instance);
}

static void run_twice(mbr_trial *trial)
{
    mbr_subject second;
    mbr_status status = mbr_subject_open(trial, NULL, 0, &second, NULL);
    MBR_EXPECT(trial, status == MBR_OK && second.instance != trial->subject.instance,
        "a mechanism opens twice, as two instances", "%s, instances %p and %p",
        mbr_status_name(status), (void *)trial->subject.instance, (void *)second.instance);
}

static void run_instances_apart(mbr_trial *trial)
{
    mbr_subject *first = &trial->subject, second;
    mbr_outcome a, b;
    uint64_t id = mbr_trial_id(trial);
    need_second(trial, &second);
    mbr_need_ok(trial, allocate(trial, first, id, &a), "allocate");
    mbr_status status = allocate(trial, &second, id, &b);
    MBR_EXPECT(trial, status == MBR_OK,
        "each instance has ids of its own: the same number is free in the other", "%s",
        mbr_status_name(status));
}

static void run_foreign_id(mbr_trial *trial)
{
    mbr_subject *first = &trial->subject, second;
    mbr_outcome a;
    uint64_t id = mbr_trial_id(trial);
    need_second(trial, &second);
    mbr_need_ok(trial, allocate(trial, first, id, &a), "allocate");
    mbr_expect_status(
        trial, release(trial, &second, id, a.address), MBR_UNKNOWN_OBJECT, "another instance's id");
}

/* ---- Capability, facts ----------------------------------------------------------------------- */

static mbr_status ask(mbr_trial *trial, const char *id, uint32_t minor, const void **table)
{
    const mbr_capability_request request = {
        MBR_SIZED(mbr_capability_request), .minor = minor, .id = id};
    mbr_capability_outcome outcome = {0};
    mbr_status status = mbr_drive_capability(trial, &trial->subject, &request, &outcome);
    *table = outcome.table;
    return status;
}

static void run_unknown_capability(mbr_trial *trial)
{
    const void *table;
    mbr_expect_status(trial, ask(trial, "membrane.no_such_capability", 0, &table), MBR_UNSUPPORTED,
        "an unknown capability");
}

static void run_null_capability(mbr_trial *trial)
{
    const void *table;
    mbr_status status = ask(trial, NULL, 0, &table);
    MBR_EXPECT(trial, MBR_STATUS_CLASS(status) == MBR_CLASS_CALLER,
        "a capability's id of NULL is the caller's bug", "%s", mbr_status_name(status));
}

static const char *const known_ids[] = {
    MBR_ID_ALLOCATOR, MBR_ID_VIRTUAL, MBR_ID_SHARED, MBR_ID_ORDER, MBR_ID_TRANSFER};

#define KNOWN_COUNT (sizeof known_ids / sizeof known_ids[0])

static void run_same_tables(mbr_trial *trial)
{
    for (uint32_t i = 0; i < KNOWN_COUNT; i++) {
        const void *before, *after;
        mbr_status first = ask(trial, known_ids[i], 0, &before);
        mbr_status second = ask(trial, known_ids[i], 0, &after);
        MBR_EXPECT(trial, first == second && before == after,
            "a capability gets the same answer each time", "%s: %p, then %p", known_ids[i], before,
            after);
    }
}

static void run_newer_minor(mbr_trial *trial)
{
    for (uint32_t i = 0; i < KNOWN_COUNT; i++) {
        const void *before, *after;
        mbr_status first = ask(trial, known_ids[i], 0, &before);
        mbr_status second = ask(trial, known_ids[i], 60000, &after);
        MBR_EXPECT(trial, (first == MBR_OK) == (second == MBR_OK),
            "the minor of the request is the highest that the host can use, no condition",
            "%s with minor 60000: %s", known_ids[i], mbr_status_name(second));
    }
}

static void run_has_allocator(mbr_trial *trial)
{
    const void *table;
    mbr_status status = ask(trial, MBR_ID_ALLOCATOR, 0, &table);
    MBR_EXPECT(trial, status == MBR_OK && table != NULL, "every mechanism offers the allocator",
        "%s, table %p", mbr_status_name(status), table);
}

static void run_shared_needs_virtual(mbr_trial *trial)
{
    MBR_EXPECT(trial,
        (trial->subject.offered & MBR_NEEDS_SHARED) == 0 ||
            (trial->subject.offered & MBR_NEEDS_VIRTUAL) != 0,
        "shared is offered with virtual only", "it is offered alone");
}

static mbr_status fact(mbr_trial *trial, uint32_t number, uint64_t *value)
{
    const mbr_fact_request request = {MBR_SIZED(mbr_fact_request), .fact = number};
    mbr_fact_outcome outcome = {0};
    mbr_status status = mbr_drive_fact(trial, &trial->subject, &request, &outcome);
    *value = outcome.value;
    return status;
}

static void run_unknown_fact(mbr_trial *trial)
{
    static const uint32_t numbers[] = {0, 9999, 0x7FFFFFFF, UINT32_MAX};
    for (uint32_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uint64_t value;
        mbr_status status = fact(trial, numbers[i], &value);
        MBR_EXPECT(trial, status == MBR_UNSUPPORTED, "an unknown fact is MBR_UNSUPPORTED",
            "fact %u: %s", numbers[i], mbr_status_name(status));
    }
}

static void run_facts_stay(mbr_trial *trial)
{
    uint64_t before[MBR_FACT_QUIRKS + 1], value;
    mbr_status status[MBR_FACT_QUIRKS + 1];
    mbr_outcome outcome;
    for (uint32_t i = 1; i <= MBR_FACT_QUIRKS; i++)
        status[i] = fact(trial, i, &before[i]);
    mbr_need_ok(trial, allocate(trial, &trial->subject, mbr_trial_id(trial), &outcome), "allocate");
    for (uint32_t i = 1; i <= MBR_FACT_QUIRKS; i++) {
        mbr_status now = fact(trial, i, &value);
        MBR_EXPECT(trial, now == status[i] && value == before[i],
            "facts never change while a mechanism is open", "fact %u: %lu, then %lu", i, before[i],
            value);
    }
}

static bool is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

static void run_facts_in_range(mbr_trial *trial)
{
    static const uint32_t yes_or_no[] = {MBR_FACT_USABLE_AFTER_PROTECT,
        MBR_FACT_UNMAP_SPANS_MAPPINGS, MBR_FACT_PROTECT_MAY_FAIL_SPURIOUSLY, MBR_FACT_ALIASING,
        MBR_FACT_READ_ONLY_ENFORCED, MBR_FACT_UNMAP_WAITS_FOR_DEVICE,
        MBR_FACT_RELEASABLE_AFTER_LOSS, MBR_FACT_HOST_ACCESSIBLE, MBR_FACT_FORK_SAFE,
        MBR_FACT_POPULATED};
    uint64_t value;
    for (uint32_t i = 0; i < sizeof yes_or_no / sizeof yes_or_no[0]; i++)
        if (fact(trial, yes_or_no[i], &value) == MBR_OK)
            MBR_EXPECT(trial, value <= 1, "facts that are yes or no are 0 or 1", "fact %u is %lu",
                yes_or_no[i], value);
    if (fact(trial, MBR_FACT_FRESH_CONTENT, &value) == MBR_OK)
        MBR_EXPECT(trial, value == MBR_CONTENT_UNDEFINED || value == MBR_CONTENT_ZERO,
            "fresh contents are zero or undefined", "%lu", value);
    if (fact(trial, MBR_FACT_PAST_PHYSICAL_SIZE, &value) == MBR_OK)
        MBR_EXPECT(
            trial, value <= MBR_PAST_KILL, "MBR_FACT_PAST_PHYSICAL_SIZE is 0 to 2", "%lu", value);
    if (fact(trial, MBR_FACT_ALLOCATION_ALIGN_BYTES, &value) == MBR_OK)
        MBR_EXPECT(trial, is_power_of_two(value), "the alignment is a power of two", "%lu", value);
    if (fact(trial, MBR_FACT_ALLOCATION_ROUND_BYTES, &value) == MBR_OK)
        MBR_EXPECT(trial, value > 0, "the rounding of allocations is above 0", "%lu", value);
}

static void run_granule(mbr_trial *trial)
{
    uint64_t smallest, recommended;
    mbr_status status = fact(trial, MBR_FACT_GRANULE_MIN_BYTES, &smallest);
    MBR_EXPECT(trial, status == MBR_OK && is_power_of_two(smallest),
        "the granule is told with virtual, and is a power of two", "%s, %lu",
        mbr_status_name(status), smallest);
    if (fact(trial, MBR_FACT_GRANULE_RECOMMENDED_BYTES, &recommended) == MBR_OK)
        MBR_EXPECT(trial, recommended >= smallest && recommended % smallest == 0,
            "the recommended granule is a multiple of the smallest", "%lu of %lu", recommended,
            smallest);
}

/* ---- Reach ----------------------------------------------------------------------------------- */

static void run_reach(mbr_trial *trial)
{
    uint32_t offered = trial->subject.offered;
    uint32_t by_stream = MBR_NEEDS_TRANSFER | MBR_NEEDS_ORDER;
    MBR_EXPECT(trial, (offered & MBR_NEEDS_HOST_ACCESS) != 0 || (offered & by_stream) == by_stream,
        "memory that the CPU cannot reach comes with membrane.transfer and membrane.order",
        "MBR_FACT_HOST_ACCESSIBLE is not 1, transfer %s, order %s",
        (offered & MBR_NEEDS_TRANSFER) != 0 ? "is offered" : "is not",
        (offered & MBR_NEEDS_ORDER) != 0 ? "is offered" : "is not");
}

/* ---- Report and close ------------------------------------------------------------------------ */

static void run_fresh_report(mbr_trial *trial)
{
    mbr_report report = mbr_subject_report(trial, &trial->subject);
    MBR_EXPECT(trial,
        report.allocation_count + report.reservation_count + report.extent_count +
                report.mapping_count + report.line_count + report.stream_count ==
            0,
        "a fresh instance has no objects", "%lu allocations, %lu extents, %lu mappings",
        report.allocation_count, report.extent_count, report.mapping_count);
}

static void run_rounds(mbr_trial *trial)
{
    static mbr_process before, after;
    mbr_subject subject;
    for (int round = 0; round < ROUND_COUNT; round++) {
        if (round == 1) /* what the first open makes once for the process is there */
            mbr_process_read(&before);
        need_second(trial, &subject);
        mbr_expect_status(trial, mbr_subject_close(trial, &subject), MBR_OK,
            "close of an instance without objects");
    }
    mbr_process_read(&after);
    MBR_EXPECT(trial,
        after.descriptor_count == before.descriptor_count &&
            after.thread_count == before.thread_count,
        "open and close leave no descriptor and no thread",
        "after 19 rounds %lu descriptors and %lu threads more",
        after.descriptor_count - before.descriptor_count, after.thread_count - before.thread_count);
}

#define OPN(number, level, stage, rules, title, why, run)                                          \
    {                                                                                              \
        "OPN-" number, level, MBR_STAGE_##stage, 0, rules, title, why, run, 0, 0                   \
    }

static const mbr_check checks[] = {
    {"OPN-001", 1, MBR_STAGE_GREETED, 0, "C2, C23", "the mechanism opens without options",
        "A host knows no option of a stranger's plugin: what it must have is found by the plugin.",
        run_opens, MBR_CHECK_OPENS, 0},
    OPN("002", 1, GREETED, "C2", "every index below the count is described",
        "A host lists mechanisms by counting up.", run_all_described),
    OPN("003", 1, GREETED, "C7", "mechanisms have terminated names, each its own",
        "A mechanism is opened by its name.", run_names),
    OPN("004", 1, GREETED, "C14", "domain and tier are of the contract's lists",
        "A host places buffers by domain; an unknown number is no place.", run_identity),
    OPN("005", 1, GREETED, "C7", "an index past the last is MBR_OUT_OF_RANGE",
        "It is how an enumeration ends.", run_past_last),
    OPN("006", 1, GREETED, "C7", "the count comes with MBR_OUT_OF_RANGE too",
        "The one value that the contract sets on a failure.", run_past_last_count),
    OPN("007", 1, OPENED, "C4, C22", "mechanisms stay as long as the process",
        "A host stores name and identity, and opens by them later.", run_same_each_time),
    OPN("008", 1, OPENED, "C2", "every mechanism offers the allocator",
        "It is the one capability that works without virtual memory, and every host relies on it.",
        run_has_allocator),
    OPN("009", 1, OPENED, "C2", "shared is offered with virtual only",
        "A further mapping of an extent needs extents.", run_shared_needs_virtual),
    OPN("010", 1, OPENED, "C2", "a capability gets the same table each time",
        "The host keeps a copy; two tables would be two behaviours.", run_same_tables),
    OPN("011", 1, OPENED, "C18", "the minor of a capability's request is a ceiling",
        "A newer host asks with a higher number and uses what it gets.", run_newer_minor),
    OPN("012", 1, OPENED, "C2, C19", "an unknown capability is MBR_UNSUPPORTED",
        "Newer hosts ask for what older plugins never heard of.", run_unknown_capability),
    OPN("013", 3, OPENED, "C7", "a capability's id of NULL is refused",
        "The caller's bug must not crash the process.", run_null_capability),
    OPN("014", 3, GREETED, "C7", "an unknown mechanism is refused",
        "A configuration that names yesterday's device gets a refusal, not another device.",
        run_unknown_mechanism),
    OPN("015", 3, GREETED, "C7", "a mechanism's name of NULL is refused",
        "The caller's bug must not crash the process.", run_null_mechanism),
    OPN("016", 3, OPENED, "C7", "an unknown option is MBR_UNKNOWN_KEY",
        "A misspelt option that is ignored looks as if it were set.", run_unknown_key),
    OPN("017", 3, OPENED, "C7", "one option at NULL is refused",
        "The caller's bug must not crash the process.", run_null_options),
    OPN("018", 3, OPENED, "C7", "with 0 options their address is not read",
        "A count of 0 says that nothing is there.", run_unused_options),
    OPN("019", 3, OPENED, "C9", "a native context of an unknown kind is refused",
        "Its value means nothing without its kind.", run_wrong_context),
    OPN("020", 2, OPENED, "C22", "a mechanism opens twice, as two instances",
        "Two bindings of one process are two customers.", run_twice),
    OPN("021", 3, OPENED, "C22", "two instances have ids of their own",
        "The hosts of two bindings count from 1 both.", run_instances_apart),
    OPN("022", 3, OPENED, "C22", "another instance's id is refused",
        "One binding must not be able to free another's memory.", run_foreign_id),
    OPN("023", 2, OPENED, "C4", "an unknown fact is MBR_UNSUPPORTED",
        "The host then uses the default that promises least.", run_unknown_fact),
    OPN("024", 2, OPENED, "C4", "facts never change while a mechanism is open",
        "The host reads them once.", run_facts_stay),
    OPN("025", 2, OPENED, "C4", "facts lie in their ranges",
        "A host that believes an alignment of 0 divides by it.", run_facts_in_range),
    {"OPN-026", 2, MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL, "C4",
        "the granule is told, and is a power of two",
        "Every size and offset of virtual memory is a multiple of it.", run_granule, 0, 0},
    OPN("027", 2, OPENED, "C23", "a fresh instance reports no objects",
        "The report must be all zero for an unload; it cannot start above.", run_fresh_report),
    OPN("028", 2, OPENED, "C23, C26", "open and close leave no descriptor and no thread",
        "What was opened is released exactly once, by close.", run_rounds),
    OPN("029", 2, OPENED, "C2", "memory can be written and read by somebody",
        "Without host access or transfer nobody can zero memory, verify it, or check this plugin's "
        "contents.",
        run_reach),
};

const mbr_group mbr_group_opn = MBR_GROUP("OPN", "mechanisms and open", checks);
