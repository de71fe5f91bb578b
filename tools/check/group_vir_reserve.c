/* Group VIR, reservations: addresses without memory, their ids and their end. */
#include "tools/check/oracle.h"
#include "tools/check/steps.h"

#include <stdlib.h>

#define MIB UINT64_C(1048576)
#define GIB UINT64_C(1073741824)

static mbr_status reserve_fresh(
    mbr_trial *trial, uint64_t bytes, uint64_t align_bytes, mbr_outcome *outcome)
{
    return mbr_try_reserve(
        trial, &trial->subject, mbr_trial_id(trial), bytes, align_bytes, outcome);
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static void run_on_a_granule(mbr_trial *trial)
{
    const uint64_t sizes[] = {1, 2, 3, 16, 100, 1024};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mbr_outcome outcome = {0};
        mbr_expect_status(trial, reserve_fresh(trial, sizes[i] * trial->granule_bytes, 0, &outcome),
            MBR_OK, "reserve");
        MBR_EXPECT(trial, outcome.address != 0 && outcome.address % trial->granule_bytes == 0,
            "a reservation begins on a granule", "%lu granules at 0x%lx, granule %lu", sizes[i],
            outcome.address, trial->granule_bytes);
    }
}

static void run_alignment(mbr_trial *trial)
{
    for (uint64_t align = 1; align <= GIB; align *= 2) {
        mbr_outcome outcome = {0};
        uint64_t wanted = align > trial->granule_bytes ? align : trial->granule_bytes;
        mbr_expect_status(trial, reserve_fresh(trial, 2 * trial->granule_bytes, align, &outcome),
            MBR_OK, "reserve with an alignment");
        MBR_EXPECT(trial, outcome.address % wanted == 0,
            "a reservation has the alignment that was asked for", "0x%lx for an alignment of %lu",
            outcome.address, align);
    }
}

static void run_odd_alignment(mbr_trial *trial)
{
    const uint64_t odd[] = {3, 3 * trial->granule_bytes, trial->granule_bytes + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        mbr_expect_callers_bug(trial, reserve_fresh(trial, trial->granule_bytes, odd[i], NULL),
            "an alignment that is no power of two");
}

static void run_no_bytes(mbr_trial *trial)
{
    mbr_expect_status(
        trial, reserve_fresh(trial, 0, 0, NULL), MBR_INVALID_ARGUMENT, "reserve of 0 bytes");
}

static void run_part_of_a_granule(mbr_trial *trial)
{
    uint64_t granule = trial->granule_bytes;
    const uint64_t sizes[] = {1, granule - 1, granule + 1, 5 * granule + granule / 2};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && granule > 1; i++)
        mbr_expect_status(trial, reserve_fresh(trial, sizes[i], 0, NULL), MBR_MISALIGNED,
            "reserve of no whole number of granules");
}

/* Nothing that large exists; which code says so is the plugin's, that it is a refusal is not. */
static void run_wrap(mbr_trial *trial)
{
    uint64_t highest = UINT64_MAX - UINT64_MAX % trial->granule_bytes;
    const uint64_t sizes[] = {highest, highest - trial->granule_bytes,
        (UINT64_C(1) << 63) / trial->granule_bytes * trial->granule_bytes};
    const uint64_t aligns[] = {0, GIB, UINT64_C(1) << 63};
    for (size_t i = 0; i < 9; i++) {
        mbr_outcome outcome = {0};
        mbr_status status = reserve_fresh(trial, sizes[i / 3], aligns[i % 3], &outcome);
        MBR_EXPECT(trial, status != MBR_OK, "a size near 2^64 is refused",
            "%lu bytes aligned to %lu: 0x%lx", sizes[i / 3], aligns[i % 3], outcome.address);
    }
}

/* As large as the mechanism allows, from 64 GiB down. */
static void run_costs_nothing(mbr_trial *trial)
{
    mbr_oracle before, after;
    mbr_outcome outcome = {0};
    mbr_status status = MBR_OUT_OF_ADDRESSES;
    uint64_t bytes = 128 * GIB, owned_bytes = mbr_step_stats(trial).owned_bytes;
    mbr_oracle_read(trial, &before);
    while (status != MBR_OK && bytes > MIB) {
        bytes /= 2;
        status = reserve_fresh(
            trial, mbr_step_granules(trial, bytes) * trial->granule_bytes, 0, &outcome);
    }
    mbr_need_ok(trial, status, "reserve");
    mbr_oracle_read(trial, &after);
    MBR_EXPECT(trial, outcome.newly_owned_bytes == 0 && outcome.newly_mapped_bytes == 0,
        "a reservation owns and maps nothing", "owned %lu, mapped %lu", outcome.newly_owned_bytes,
        outcome.newly_mapped_bytes);
    MBR_EXPECT(trial,
        after.owned_bytes <= before.owned_bytes + MBR_ORACLE_SLACK_BYTES &&
            mbr_step_stats(trial).owned_bytes == owned_bytes,
        "a reservation costs no memory", "%lu bytes reserved: the process grew by %ld", bytes,
        (long)(after.owned_bytes - before.owned_bytes));
}

/* ---- Overlap --------------------------------------------------------------------------------- */

typedef struct stretch {
    uint64_t address, bytes, id;
} stretch;

#define STRETCHES 1000

static int by_address(const void *one, const void *other)
{
    uint64_t a = ((const stretch *)one)->address, b = ((const stretch *)other)->address;
    return (a > b) - (a < b);
}

static void expect_apart(mbr_trial *trial, stretch *all, uint64_t count)
{
    qsort(all, count, sizeof *all, by_address);
    for (uint64_t i = 1; i < count; i++)
        MBR_EXPECT(trial, all[i].address - all[i - 1].address >= all[i - 1].bytes,
            "no two live ranges overlap", "[0x%lx, +%lu) and [0x%lx, +%lu)", all[i - 1].address,
            all[i - 1].bytes, all[i].address, all[i].bytes);
}

static void take_stretch(mbr_trial *trial, mbr_subject *self, uint64_t granules, stretch *taken)
{
    mbr_outcome outcome = {0};
    taken->id = mbr_trial_id(trial);
    taken->bytes = granules * trial->granule_bytes;
    mbr_need_ok(
        trial, mbr_try_reserve(trial, self, taken->id, taken->bytes, 0, &outcome), "reserve");
    taken->address = outcome.address;
}

static void run_thousand(mbr_trial *trial)
{
    static stretch all[STRETCHES + 1];
    uint64_t count = 0;
    for (uint64_t i = 0; i < STRETCHES; i++) {
        stretch *place = &all[count];
        if (i % 3 == 2) {
            place = &all[mbr_trial_random(trial) % count];
            mbr_need_ok(
                trial, mbr_try_unreserve(trial, &trial->subject, place->id, NULL), "unreserve");
        }
        take_stretch(trial, &trial->subject, 1 + mbr_trial_random(trial) % 16, place);
        count += place == &all[count];
    }
    mbr_outcome outcome = {0};
    const mbr_allocate_request request = {MBR_SIZED(mbr_allocate_request),
        .allocation_id = mbr_trial_id(trial), .bytes = 8 * trial->granule_bytes,
        .max_owned_bytes = UINT64_MAX};
    mbr_need_ok(trial, mbr_drive_allocate(trial, &trial->subject, &request, &outcome), "allocate");
    all[count++] = (stretch){outcome.address, request.bytes, 0};
    expect_apart(trial, all, count);
}

static void run_two_instances_apart(mbr_trial *trial)
{
    stretch all[40];
    mbr_subject another;
    mbr_step_open_another(trial, &another);
    for (uint64_t i = 0; i < 40; i++)
        take_stretch(trial, i % 2 == 0 ? &trial->subject : &another, 11, &all[i]);
    expect_apart(trial, all, 40);
}

static void run_nobody_elses(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 40);
    for (uint64_t at = 0; at < 40; at++)
        MBR_EXPECT(trial, !mbr_step_is_free_address(trial, &place, at),
            "a reservation takes all of its addresses", "granule %lu of 40 is anybody's", at);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void run_unreserve_mapped(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 4);
    mbr_step_commit(trial, &place, 2, 1);
    mbr_step_write(trial, &place, 2, 1, 1);
    mbr_expect_status(trial, mbr_try_unreserve(trial, &trial->subject, place.id, NULL), MBR_BUSY,
        "unreserve with a mapping");
    MBR_EXPECT(trial, mbr_step_look(trial, &place, 2, 1, 1) == MBR_MEMORY_OK,
        "a refused unreserve leaves the mapping", "%s",
        mbr_memory_word(mbr_step_look(trial, &place, 2, 1, 1)));
    mbr_step_unmap(trial, &place, 2, 1);
    mbr_expect_status(trial, mbr_try_unreserve(trial, &trial->subject, place.id, NULL), MBR_OK,
        "unreserve after the last unmap");
}

static void run_unreserve_unknown(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 1);
    mbr_subject *self = &trial->subject;
    mbr_expect_status(trial, mbr_try_unreserve(trial, self, mbr_trial_id(trial), NULL),
        MBR_UNKNOWN_OBJECT, "unreserve of an id that never was");
    mbr_need_ok(trial, mbr_try_unreserve(trial, self, place.id, NULL), "unreserve");
    mbr_expect_status(trial, mbr_try_unreserve(trial, self, place.id, NULL), MBR_UNKNOWN_OBJECT,
        "a second unreserve");
}

static void run_doubled_id(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 2);
    mbr_step_commit(trial, &place, 0, 1);
    mbr_step_write(trial, &place, 0, 1, 1);
    mbr_outcome outcome = {0};
    mbr_expect_status(trial,
        mbr_try_reserve(trial, &trial->subject, place.id, 2 * trial->granule_bytes, 0, &outcome),
        MBR_ALREADY_EXISTS, "reserve with a live reservation's id");
    MBR_EXPECT(trial, mbr_step_look(trial, &place, 0, 1, 1) == MBR_MEMORY_OK,
        "the live reservation stays as it was", "%s",
        mbr_memory_word(mbr_step_look(trial, &place, 0, 1, 1)));
}

static void run_no_id(mbr_trial *trial)
{
    mbr_expect_callers_bug(trial,
        mbr_try_reserve(trial, &trial->subject, 0, trial->granule_bytes, 0, NULL),
        "reserve with id 0");
}

static void run_anothers_reservation(mbr_trial *trial)
{
    mbr_subject another;
    mbr_place place = mbr_step_reserve(trial, 4);
    uint64_t granule = trial->granule_bytes, extent_id = mbr_trial_id(trial);
    mbr_step_commit(trial, &place, 0, 1);
    mbr_step_open_another(trial, &another);
    mbr_need_ok(trial, mbr_try_create(trial, &another, extent_id, granule, 0, UINT64_MAX, NULL),
        "extent_create");
    const mbr_status answers[] = {
        mbr_try_unreserve(trial, &another, place.id, NULL),
        mbr_try_map(trial, &another, place.id, 2 * granule, extent_id, NULL),
        mbr_try_protect(trial, &another, place.id, 0, granule, MBR_ACCESS_READ, NULL),
        mbr_try_unmap(trial, &another, place.id, 0, granule, NULL),
        mbr_try_query(trial, &another, place.id, 0, NULL),
    };
    const char *names[] = {"unreserve", "map", "protect", "unmap", "query"};
    for (size_t i = 0; i < 5; i++)
        MBR_EXPECT(trial, answers[i] == MBR_UNKNOWN_OBJECT,
            "another instance's reservation is MBR_UNKNOWN_OBJECT", "%s: %s", names[i],
            mbr_status_name(answers[i]));
}

/* More addresses, one after another, than any address space has. */
static void run_addresses_come_back(mbr_trial *trial)
{
    const uint64_t enough = UINT64_C(1) << 48;
    uint64_t limit = mbr_step_reservation_limit(trial), sum = 0;
    uint64_t bytes = enough / 4, least = GIB < limit ? GIB : trial->granule_bytes;
    while (bytes > limit)
        bytes /= 2;
    for (int round = 0; round < 300 && sum <= enough && bytes >= least;) {
        mbr_outcome outcome = {0};
        uint64_t id = mbr_trial_id(trial);
        mbr_status status = mbr_try_reserve(trial, &trial->subject, id, bytes, 0, &outcome);
        if (status != MBR_OK && sum == 0) {
            bytes /= 2; /* not for any mechanism; how much at once is no rule */
            continue;
        }
        mbr_expect_status(trial, status, MBR_OK, "reserve of what was given back");
        mbr_expect_status(
            trial, mbr_try_unreserve(trial, &trial->subject, id, NULL), MBR_OK, "unreserve");
        sum += bytes;
        round++;
    }
    MBR_NEED(trial, sum > 0, "no reservation of %lu bytes", least);
}

/* ---- Flags ----------------------------------------------------------------------------------- */

static mbr_status call_with_flags(mbr_trial *trial, int which, uint32_t flags)
{
    mbr_outcome outcome = {0};
    mbr_place place = mbr_step_reserve(trial, 1);
    uint64_t extent_id = mbr_step_create(trial, 1);
    mbr_reserve_request reserve = {MBR_SIZED(mbr_reserve_request), .flags = flags,
        .reservation_id = mbr_trial_id(trial), .bytes = trial->granule_bytes};
    mbr_map_request map = {MBR_SIZED(mbr_map_request), .flags = flags, .reservation_id = place.id,
        .extent_id = extent_id};
    mbr_unmap_request unmap = {MBR_SIZED(mbr_unmap_request), .flags = flags,
        .reservation_id = place.id, .bytes = trial->granule_bytes};
    if (which == 0)
        return mbr_drive_reserve(trial, &trial->subject, &reserve, &outcome);
    if (which == 1)
        return mbr_drive_map(trial, &trial->subject, &map, &outcome);
    mbr_step_map(trial, &place, 0, extent_id);
    return mbr_drive_unmap(trial, &trial->subject, &unmap, &outcome);
}

static const char *const flagged[] = {"reserve", "map", "unmap"};

static void run_critical_flag(mbr_trial *trial)
{
    for (uint32_t bit = 1; bit <= 0x8000; bit *= 8)
        for (int which = 0; which < 3; which++) {
            mbr_status status = call_with_flags(trial, which, bit);
            MBR_EXPECT(trial, status == MBR_UNSUPPORTED, "an unknown critical flag is refused",
                "%s with flag 0x%x: %s", flagged[which], bit, mbr_status_name(status));
        }
}

static void run_optional_flag(mbr_trial *trial)
{
    for (uint32_t bit = 0x10000; bit != 0; bit *= 8)
        for (int which = 0; which < 3; which++) {
            mbr_status status = call_with_flags(trial, which, bit);
            MBR_EXPECT(trial, status == MBR_OK, "an unknown optional flag is ignored",
                "%s with flag 0x%x: %s", flagged[which], bit, mbr_status_name(status));
        }
}

#define VIR MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL
#define VIR_SEEN MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL | MBR_NEEDS_HOST_ORACLE

static const mbr_check checks[] = {
    {"VIR-001", 2, VIR, "C22", "reserve gives addresses that begin on a granule",
        "A host puts extents at whole granules from the start; off by less, each map is refused.",
        run_on_a_granule, 0, 0},
    {"VIR-002", 2, VIR, "C7", "reserve keeps the alignment that was asked for",
        "Kernels and drivers use large pages only behind aligned addresses.", run_alignment, 0, 0},
    {"VIR-003", 3, VIR, "C7", "an alignment that is no power of two is refused",
        "A guess of what was meant gives an address that the caller does not expect.",
        run_odd_alignment, 0, 0},
    {"VIR-004", 3, VIR, "C7", "a reservation of 0 bytes is refused",
        "Size 0 is a caller's bug; an answer would be a range that others may get too.",
        run_no_bytes, 0, 0},
    {"VIR-005", 3, VIR, "C7", "a size that is no whole number of granules is refused",
        "A plugin that rounds makes the host's and its own idea of the end differ.",
        run_part_of_a_granule, 0, 0},
    {"VIR-006", 3, VIR, "C7", "sizes near 2^64 are refused",
        "A sum that wraps gives a small range to who asked for a large one.", run_wrap, 0, 0},
    {"VIR-007", 2, VIR_SEEN, "C5", "a reservation costs nothing",
        "Runtimes reserve for the longest sequence; if that cost memory, nothing would be gained.",
        run_costs_nothing, 0, 0},
    {"VIR-008", 3, VIR, "C24", "a thousand reservations that come and go never overlap",
        "Two owners of one address write over each other without any error.", run_thousand, 0, 0},
    {"VIR-009", 3, VIR, "C24", "reservations of two instances do not overlap",
        "Instances share one address space; each must know what the other has out.",
        run_two_instances_apart, 0, 0},
    {"VIR-010", 3, VIR, "C22", "unreserve is busy while something is mapped, and leaves it",
        "Addresses that go with memory behind them are a use after free for who still reads.",
        run_unreserve_mapped, 0, 0},
    {"VIR-011", 3, VIR, "C22, C23", "unreserve of unknown and released ids is refused",
        "A second release would take addresses that belong to somebody else by now.",
        run_unreserve_unknown, 0, 0},
    {"VIR-012", 3, VIR, "C22", "the id of a live reservation is refused, which stays as it was",
        "With two objects behind one id, neither can be given back with certainty.", run_doubled_id,
        0, 0},
    {"VIR-013", 3, VIR, "C22", "a reservation without an id is refused",
        "The host gives no id 0; one that arrives is a request that nobody filled in.", run_no_id,
        0, 0},
    {"VIR-014", 3, VIR, "C22", "another instance's reservation is unknown to every slot",
        "Two opens are two instances; one that reaches into the other frees what it does not own.",
        run_anothers_reservation, 0, 0},
    {"VIR-015", 3, VIR, "C23", "addresses that were given back can be had again",
        "A plugin that keeps them runs out of addresses with all memory free.",
        run_addresses_come_back, 0, 0},
    {"VIR-016", 3, VIR, "C15", "reserve, map and unmap refuse unknown critical flags",
        "A critical flag that is ignored is a promise that nobody keeps.", run_critical_flag, 0, 0},
    {"VIR-017", 3, VIR, "C15", "reserve, map and unmap ignore unknown optional flags",
        "A newer host sets them without asking; a refusal would end the service.",
        run_optional_flag, 0, 0},
    {"VIR-018", 3, MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL | MBR_NEEDS_HOST_ACCESS, "C24",
        "a reservation takes all of its addresses",
        "Another thread's memory that lands there is mapped over without an error.",
        run_nobody_elses, 0, 0},
};

const mbr_group mbr_group_vir_reserve = MBR_GROUP("VIR", "virtual memory: reservations", checks);
