/* Group LIF, first part: the report, close and quiesce, and what rounds of work leave behind.
 * Unloading and exit are group_lif_unload.c's. */
#include "tools/check/alc.h"
#include "tools/check/failing_heap.h"
#include "tools/check/oracle.h"
#include "tools/check/steps.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define WARM_ROUNDS 10
#define MANY_ROUNDS 100
#define ADDRESS_SLACK_BYTES (UINT64_C(256) << 10)
#define HEAP_SLACK_BYTES (UINT64_C(256) << 10)
#define ALLOCATION_BYTES 20000
#define DEADLINE_NS UINT64_C(10000000000)

static bool has(const mbr_trial *trial, uint32_t capability)
{
    return (trial->subject.offered & capability) != 0;
}

static mbr_status quiesce(mbr_trial *trial, mbr_subject *subject)
{
    const mbr_quiesce_request request = {
        MBR_SIZED(mbr_quiesce_request), .deadline_ns = mbr_now_ns() + DEADLINE_NS};
    mbr_outcome outcome = {0};
    return mbr_drive_quiesce(trial, subject, &request, &outcome);
}

/* ---- Report against ledger ------------------------------------------------------------------- */

static void expect_count(
    mbr_trial *trial, const char *what, uint64_t told, mbr_object_class class, const char *when)
{
    uint64_t wanted = trial->subject.ledger.count[class];
    MBR_EXPECT(trial, told == wanted, "the report counts the live objects of each class",
        "%s %s: %lu, and %lu live", what, when, told, wanted);
}

static void run_report_allocations(mbr_trial *trial)
{
    enum { COUNT = 12 };
    mbr_alc live[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        live[i] = mbr_alc_take(trial, 1000 * (i + 1));
        expect_count(trial, "allocations",
            mbr_subject_report(trial, &trial->subject).allocation_count, MBR_OBJECT_ALLOCATION,
            "behind allocate");
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        mbr_alc_give(trial, &live[(i * 5) % COUNT]);
        expect_count(trial, "allocations",
            mbr_subject_report(trial, &trial->subject).allocation_count, MBR_OBJECT_ALLOCATION,
            "behind release");
    }
}

static void expect_virtual(mbr_trial *trial, const char *when)
{
    mbr_report report = mbr_subject_report(trial, &trial->subject);
    expect_count(trial, "reservations", report.reservation_count, MBR_OBJECT_RESERVATION, when);
    expect_count(trial, "extents", report.extent_count, MBR_OBJECT_EXTENT, when);
}

static void run_report_virtual(mbr_trial *trial)
{
    mbr_place places[3];
    uint64_t extents[3];
    for (uint32_t i = 0; i < 3; i++) {
        places[i] = mbr_step_reserve(trial, i + 1);
        expect_virtual(trial, "behind reserve");
        extents[i] = mbr_step_create(trial, i + 1);
        expect_virtual(trial, "behind extent_create");
        mbr_step_map(trial, &places[i], 0, extents[i]);
        expect_virtual(trial, "behind map");
    }
    for (uint32_t i = 0; i < 3; i++) {
        mbr_step_unmap(trial, &places[i], 0, i + 1);
        mbr_step_destroy(trial, extents[i]);
        expect_virtual(trial, "behind extent_destroy");
        mbr_need_ok(
            trial, mbr_try_unreserve(trial, &trial->subject, places[i].id, NULL), "unreserve");
        expect_virtual(trial, "behind unreserve");
    }
}

/* Several in one range, given up one by one and at once. */
static void run_report_mappings(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 8);
    bool spans = mbr_subject_fact(trial, &trial->subject, MBR_FACT_UNMAP_SPANS_MAPPINGS, 0) == 1;
    for (uint64_t i = 0; i < 4; i++) {
        mbr_step_map(trial, &place, i, mbr_step_create(trial, 1));
        expect_count(trial, "mappings", mbr_subject_report(trial, &trial->subject).mapping_count,
            MBR_OBJECT_MAPPING, "behind map");
    }
    mbr_step_unmap(trial, &place, 1, 1);
    expect_count(trial, "mappings", mbr_subject_report(trial, &trial->subject).mapping_count,
        MBR_OBJECT_MAPPING, "behind unmap of one");
    mbr_step_unmap(trial, &place, 0, 1);
    if (spans) {
        mbr_step_unmap(trial, &place, 2, 2);
    } else {
        mbr_step_unmap(trial, &place, 2, 1);
        mbr_step_unmap(trial, &place, 3, 1);
    }
    expect_count(trial, "mappings", mbr_subject_report(trial, &trial->subject).mapping_count,
        MBR_OBJECT_MAPPING, "behind unmap of all");
}

/* ---- Close and quiesce ----------------------------------------------------------------------- */

static void expect_in_use(mbr_trial *trial, const char *what)
{
    mbr_status status = mbr_subject_close(trial, &trial->subject);
    MBR_EXPECT(trial, status == MBR_IN_USE, "close answers MBR_IN_USE while an object lives",
        "%s with %s", mbr_status_name(status), what);
}

static void run_close_allocation(mbr_trial *trial)
{
    mbr_alc one = mbr_alc_take(trial, 1), other = mbr_alc_take(trial, MIB);
    expect_in_use(trial, "two allocations");
    mbr_alc_give(trial, &one);
    expect_in_use(trial, "one allocation");
    mbr_alc_give(trial, &other);
    mbr_status status = mbr_subject_close(trial, &trial->subject);
    MBR_EXPECT(trial, status == MBR_OK, "close works when the last object is gone", "%s",
        mbr_status_name(status));
}

static void run_close_virtual(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 2);
    expect_in_use(trial, "a reservation");
    uint64_t extent_id = mbr_step_create(trial, 1);
    mbr_need_ok(trial, mbr_try_unreserve(trial, &trial->subject, place.id, NULL), "unreserve");
    expect_in_use(trial, "an extent that is not mapped");
    mbr_step_destroy(trial, extent_id);
    mbr_status status = mbr_subject_close(trial, &trial->subject);
    MBR_EXPECT(trial, status == MBR_OK, "close works when the last object is gone", "%s",
        mbr_status_name(status));
}

static mbr_status close_with_flags(mbr_trial *trial, mbr_subject *subject, uint32_t flags)
{
    const mbr_close_request request = {MBR_SIZED(mbr_close_request), .flags = flags};
    mbr_outcome outcome = {0};
    return mbr_drive_close(trial, subject, &request, &outcome);
}

/* Critical ones in the trial's instance, which goes on; an optional one ends one of its own. */
static void run_close_flags(mbr_trial *trial)
{
    mbr_subject other;
    for (uint32_t bit = 0; bit < 16; bit++) {
        mbr_status status = close_with_flags(trial, &trial->subject, UINT32_C(1) << bit);
        MBR_EXPECT(trial, MBR_STATUS_CLASS(status) == MBR_CLASS_UNSUPPORTED,
            "close refuses a critical flag that it does not know", "flag 0x%x: %s",
            UINT32_C(1) << bit, mbr_status_name(status));
    }
    mbr_alc one = mbr_alc_take(trial, 4096);
    mbr_alc_give(trial, &one);
    mbr_step_open_another(trial, &other);
    mbr_status status = close_with_flags(trial, &other, 0xFFFF0000);
    MBR_EXPECT(trial, status == MBR_OK, "close ignores optional flags that it does not know", "%s",
        mbr_status_name(status));
}

static void run_close_intact(mbr_trial *trial)
{
    mbr_alc live = mbr_alc_take(trial, ALLOCATION_BYTES);
    bool has_virtual = has(trial, MBR_NEEDS_VIRTUAL);
    mbr_place place = {0};
    MBR_NEED(trial, mbr_memory_write(trial, live.address, 16384, 7) == MBR_MEMORY_OK,
        "a store is refused");
    if (has_virtual) {
        place = mbr_step_reserve(trial, 2);
        mbr_step_commit(trial, &place, 0, 1);
        mbr_step_write(trial, &place, 0, 1, 8);
    }
    mbr_mechanism_stats before = mbr_step_stats(trial);
    mbr_status status = mbr_subject_close(trial, &trial->subject);
    MBR_NEED(trial, status == MBR_IN_USE, "close: %s", mbr_status_name(status));
    mbr_memory memory = mbr_memory_read(trial, live.address, 16384, 7);
    if (memory == MBR_MEMORY_OK && has_virtual)
        memory = mbr_step_look(trial, &place, 0, 1, 8);
    MBR_EXPECT(trial, memory == MBR_MEMORY_OK, "a refused close leaves contents as they are", "%s",
        mbr_memory_word(memory));
    mbr_mechanism_stats after = mbr_step_stats(trial);
    MBR_EXPECT(trial,
        after.owned_bytes == before.owned_bytes && after.mapped_bytes == before.mapped_bytes,
        "a refused close leaves the figures as they are", "owned %lu, were %lu", after.owned_bytes,
        before.owned_bytes);
    mbr_alc more = mbr_alc_take(trial, 4096);
    mbr_alc_give(trial, &more);
    status = mbr_alc_release(trial, &trial->subject, live.id, live.address, NULL);
    MBR_EXPECT(trial, status == MBR_OK, "behind a refused close an object can be given back", "%s",
        mbr_status_name(status));
}

static void run_quiesce(mbr_trial *trial)
{
    mbr_alc live = mbr_alc_take(trial, ALLOCATION_BYTES);
    for (int i = 0; i < 3; i++) {
        mbr_status status = quiesce(trial, &trial->subject);
        MBR_EXPECT(trial, status == MBR_OK, "quiesce works with objects alive, and again",
            "the call number %d: %s", i + 1, mbr_status_name(status));
        uint32_t thread_count = mbr_subject_report(trial, &trial->subject).thread_count;
        MBR_EXPECT(trial, thread_count == 0, "behind quiesce an instance runs no thread",
            "the report says %u", thread_count);
    }
    mbr_status status = mbr_alc_release(trial, &trial->subject, live.id, live.address, NULL);
    MBR_EXPECT(trial, status == MBR_OK, "behind quiesce objects can be given back", "%s",
        mbr_status_name(status));
    status = mbr_subject_close(trial, &trial->subject);
    MBR_EXPECT(trial, status == MBR_OK, "behind quiesce an instance can be closed", "%s",
        mbr_status_name(status));
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* Every slot that makes or ends something, with everything given back. */
static void work(mbr_trial *trial, mbr_subject *self)
{
    uint64_t granule = trial->granule_bytes;
    mbr_outcome outcome = {0};
    mbr_alc one;
    mbr_need_ok(trial, mbr_alc_ask(trial, self, mbr_alc_request(trial, ALLOCATION_BYTES), &one),
        "allocate");
    if ((self->offered & MBR_NEEDS_VIRTUAL) != 0) {
        uint64_t place = mbr_trial_id(trial), extent = mbr_trial_id(trial);
        mbr_need_ok(
            trial, mbr_try_reserve(trial, self, place, 4 * granule, 0, &outcome), "reserve");
        mbr_need_ok(trial, mbr_try_create(trial, self, extent, 2 * granule, 0, UINT64_MAX, NULL),
            "extent_create");
        mbr_need_ok(trial, mbr_try_map(trial, self, place, 0, extent, NULL), "map");
        mbr_need_ok(trial,
            mbr_try_protect(trial, self, place, 0, 2 * granule, MBR_ACCESS_READ_WRITE, NULL),
            "protect");
        if ((self->offered & MBR_NEEDS_SHARED) != 0) {
            mbr_need_ok(trial,
                mbr_try_share(trial, self, place, 2 * granule, extent, MBR_ACCESS_READ, NULL),
                "map_shared");
            mbr_need_ok(
                trial, mbr_try_unmap(trial, self, place, 2 * granule, 2 * granule, NULL), "unmap");
        }
        mbr_need_ok(trial, mbr_try_unmap(trial, self, place, 0, 2 * granule, NULL), "unmap");
        mbr_need_ok(trial, mbr_try_destroy(trial, self, extent, NULL), "extent_destroy");
        mbr_need_ok(trial, mbr_try_unreserve(trial, self, place, NULL), "unreserve");
    }
    mbr_need_ok(trial, mbr_alc_release(trial, self, one.id, one.address, NULL), "release");
    const mbr_trim_request trim = {MBR_SIZED(mbr_trim_request)};
    mbr_need_ok(trial, mbr_drive_trim(trial, self, &trim, &outcome), "trim");
}

/* Rounds in the trial's instance, and one of ten in an instance of its own too: opening may take a
 * driver long. */
static void rounds(mbr_trial *trial, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        mbr_subject other;
        work(trial, &trial->subject);
        if (i % 10 != 0)
            continue;
        mbr_step_open_another(trial, &other);
        work(trial, &other);
        mbr_need_ok(trial, quiesce(trial, &other), "quiesce");
        mbr_need_ok(trial, mbr_subject_close(trial, &other), "close");
    }
}

/* Warm rounds first: a cache may fill once. */
static void compare(mbr_trial *trial, mbr_footing *before, mbr_footing *after)
{
    rounds(trial, WARM_ROUNDS);
    *before = mbr_footing_read(trial);
    rounds(trial, MANY_ROUNDS);
    *after = mbr_footing_read(trial);
}

static bool has_more_descriptors(const mbr_footing *before, const mbr_footing *after)
{
    return after->oracle.descriptor_count > before->oracle.descriptor_count;
}

static bool has_more_threads(const mbr_footing *before, const mbr_footing *after)
{
    return after->oracle.thread_count > before->oracle.thread_count;
}

static bool has_more_memory(const mbr_footing *before, const mbr_footing *after)
{
    return after->oracle.owned_bytes > before->oracle.owned_bytes + HEAP_SLACK_BYTES;
}

/* Addresses apart from those of memory that is another check's. */
static bool has_more_mappings(const mbr_footing *before, const mbr_footing *after)
{
    uint64_t memory_bytes = after->oracle.owned_bytes > before->oracle.owned_bytes
        ? after->oracle.owned_bytes - before->oracle.owned_bytes
        : 0;
    return after->oracle.mapping_count >= before->oracle.mapping_count + MANY_ROUNDS / 4 ||
        after->address_bytes > before->address_bytes + memory_bytes + ADDRESS_SLACK_BYTES;
}

static void run_leak_descriptors(mbr_trial *trial)
{
    mbr_footing before, after;
    compare(trial, &before, &after);
    MBR_EXPECT(trial, !has_more_descriptors(&before, &after),
        "100 rounds of work leave no descriptor", "%lu, were %lu", after.oracle.descriptor_count,
        before.oracle.descriptor_count);
}

static void run_leak_threads(mbr_trial *trial)
{
    mbr_footing before, after;
    compare(trial, &before, &after);
    MBR_EXPECT(trial, !has_more_threads(&before, &after), "100 rounds of work leave no thread",
        "%lu, were %lu", after.oracle.thread_count, before.oracle.thread_count);
}

static void run_leak_mappings(mbr_trial *trial)
{
    mbr_footing before, after;
    compare(trial, &before, &after);
    MBR_NEED(trial, !has_more_threads(&before, &after), "threads are left, and each has mappings");
    MBR_EXPECT(trial, !has_more_mappings(&before, &after), "100 rounds of work leave no mapping",
        "%lu mappings of %lu bytes, were %lu of %lu", after.oracle.mapping_count,
        after.address_bytes, before.oracle.mapping_count, before.address_bytes);
}

static void need_plain_heap(mbr_trial *trial)
{
    if (!mbr_failing_heap_is_there())
        mbr_trial_skip(trial, MBR_SKIP_SYSTEM, "this build's sanitizer keeps what is freed");
}

static void run_leak_memory(mbr_trial *trial)
{
    mbr_footing before, after;
    need_plain_heap(trial);
    compare(trial, &before, &after);
    MBR_EXPECT(trial, !has_more_memory(&before, &after), "100 rounds of work leave no memory",
        "%lu bytes by the system, were %lu", after.oracle.owned_bytes, before.oracle.owned_bytes);
}

/* What 100 rounds hide in the slack: what they show is another check's. */
static void run_leak_slowly(mbr_trial *trial)
{
    mbr_footing before, after;
    need_plain_heap(trial);
    compare(trial, &before, &after);
    MBR_NEED(trial,
        !has_more_descriptors(&before, &after) && !has_more_threads(&before, &after) &&
            !has_more_mappings(&before, &after) && !has_more_memory(&before, &after),
        "100 rounds leave something already");
    rounds(trial, MANY_ROUNDS * 9);
    after = mbr_footing_read(trial);
    MBR_EXPECT(trial, !has_more_descriptors(&before, &after) && !has_more_threads(&before, &after),
        "1000 rounds of work leave nothing", "%lu descriptors, %lu threads more",
        after.oracle.descriptor_count - before.oracle.descriptor_count,
        after.oracle.thread_count - before.oracle.thread_count);
    MBR_EXPECT(trial, !has_more_mappings(&before, &after) && !has_more_memory(&before, &after),
        "1000 rounds of work leave nothing",
        "%lu mappings of %lu bytes, were %lu of %lu; %lu bytes by the system, were %lu",
        after.oracle.mapping_count, after.address_bytes, before.oracle.mapping_count,
        before.address_bytes, after.oracle.owned_bytes, before.oracle.owned_bytes);
}

static void run_counters(mbr_trial *trial)
{
    mbr_mechanism_stats empty = mbr_step_stats(trial);
    for (uint32_t count = 1; count <= MANY_ROUNDS; count *= 10) {
        rounds(trial, count);
        mbr_mechanism_stats now = mbr_step_stats(trial);
        mbr_report report = mbr_subject_report(trial, &trial->subject);
        MBR_EXPECT(trial,
            now.owned_bytes == empty.owned_bytes && now.mapped_bytes == empty.mapped_bytes &&
                now.reserved_bytes == empty.reserved_bytes,
            "behind whole rounds of work the figures are as before",
            "%u rounds: owned %lu, mapped %lu, reserved %lu", count, now.owned_bytes,
            now.mapped_bytes, now.reserved_bytes);
        MBR_EXPECT(trial,
            report.allocation_count + report.reservation_count + report.extent_count +
                    report.mapping_count + report.line_count + report.stream_count ==
                0,
            "behind whole rounds of work the report counts nothing", "%u rounds", count);
    }
}

#define LIF(number, needs, rules, title, why, run)                                                 \
    {                                                                                              \
        "LIF-" number, 4, MBR_STAGE_OPENED, needs, rules, title, why, run, 0, 0                    \
    }

static const mbr_check checks[] = {
    LIF("001", 0, "C32", "the report counts live allocations",
        "A host unloads code when both tallies say that nothing lives.", run_report_allocations),
    LIF("002", MBR_NEEDS_VIRTUAL, "C32", "the report counts live reservations and extents",
        "What the report forgets is unloaded under a tensor.", run_report_virtual),
    LIF("003", MBR_NEEDS_VIRTUAL, "C32", "the report counts live mappings",
        "What the report forgets is unloaded under a tensor.", run_report_mappings),
    LIF("004", 0, "C23, C32", "close answers MBR_IN_USE while an allocation lives",
        "A session that ends too early must not take memory away from one that still computes.",
        run_close_allocation),
    LIF("005", MBR_NEEDS_VIRTUAL, "C23, C32",
        "close answers MBR_IN_USE while a reservation or an extent lives",
        "An extent without an address holds memory like any other.", run_close_virtual),
    LIF("006", 0, "C32", "a refused close leaves everything as it is",
        "The instance goes on: the host hands it back to its user.", run_close_intact),
    LIF("007", 0, "C32", "quiesce joins threads, may be repeated, and leaves objects alone",
        "It is the first step to unloading, and the next one may be refused.", run_quiesce),
    LIF("008", 0, "C26", "rounds of work leave no descriptor",
        "A server lives for months: one descriptor a session ends it.", run_leak_descriptors),
    LIF("009", 0, "C26", "rounds of work leave no thread",
        "A thread that nobody joins runs in code that may be unmapped.", run_leak_threads),
    LIF("010", 0, "C26", "rounds of work leave no mapping",
        "vm.max_map_count ends a server whose addresses trickle away.", run_leak_mappings),
    LIF("011", MBR_NEEDS_HOST_ORACLE, "C26", "rounds of work leave no memory",
        "What grows with every request is the out-of-memory killer's in the end.", run_leak_memory),
    LIF("012", 0, "C4, C32", "behind rounds of work figures and report are as before",
        "A counter that drifts makes the host refuse memory that is there.", run_counters),
    {"LIF-021", 3, MBR_STAGE_OPENED, 0, "C15",
        "close refuses unknown critical flags and ignores optional ones",
        "A newer host asks for an end of another kind, and must know whether it was heard.",
        run_close_flags, 0, 0},
    {"LIF-018", 5, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ORACLE, "C26",
        "1000 rounds of work leave nothing", "A few bytes a request end a server in a month.",
        run_leak_slowly, 0, 0},
};

const mbr_group mbr_group_lif = MBR_GROUP("LIF", "life: report, close, leaks", checks);
