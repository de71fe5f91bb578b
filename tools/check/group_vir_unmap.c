/* Group VIR, unmap and query: what goes, what stays, what is told, and the figures of it all. */
#include "tools/check/oracle.h"
#include "tools/check/steps.h"

#define MIB UINT64_C(1048576)

static mbr_status try_unmap(
    mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t granules)
{
    return mbr_try_unmap(trial, &trial->subject, place->id, at * trial->granule_bytes,
        granules * trial->granule_bytes, NULL);
}

/* ---- unmap ----------------------------------------------------------------------------------- */

static void run_says_its_bytes(mbr_trial *trial)
{
    const uint64_t sizes[] = {1, 2, 13};
    mbr_place place = mbr_step_reserve(trial, 16);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mbr_outcome outcome = {0};
        uint64_t bytes = sizes[i] * trial->granule_bytes;
        mbr_step_commit(trial, &place, 1, sizes[i]);
        mbr_expect_status(trial,
            mbr_try_unmap(trial, &trial->subject, place.id, trial->granule_bytes, bytes, &outcome),
            MBR_OK, "unmap of a whole mapping");
        MBR_EXPECT(trial, outcome.unmapped_bytes == bytes && outcome.released_bytes == 0,
            "unmap says the mapping's bytes, and releases nothing",
            "of %lu bytes: unmapped %lu, released %lu", bytes, outcome.unmapped_bytes,
            outcome.released_bytes);
    }
}

static void run_takes_access(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 14);
    mbr_step_commit(trial, &place, 0, 14);
    mbr_step_write(trial, &place, 0, 14, 1);
    mbr_step_unmap(trial, &place, 0, 14);
    mbr_memory read = mbr_memory_read(trial, place.address, 64, 1);
    MBR_EXPECT(trial, read != MBR_MEMORY_OK, "what was unmapped cannot be reached there any more",
        "a read: %s", mbr_memory_word(read));
}

static void run_neighbours(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 9);
    for (uint64_t at = 0; at < 9; at += 3)
        mbr_step_commit(trial, &place, at, 3);
    mbr_step_write(trial, &place, 0, 3, 1);
    mbr_step_write(trial, &place, 6, 3, 2);
    mbr_step_unmap(trial, &place, 3, 3);
    mbr_memory before = mbr_step_look(trial, &place, 0, 3, 1);
    mbr_memory behind = mbr_step_look(trial, &place, 6, 3, 2);
    MBR_EXPECT(trial, before == MBR_MEMORY_OK && behind == MBR_MEMORY_OK,
        "unmap leaves the mappings beside it", "before: %s, behind: %s", mbr_memory_word(before),
        mbr_memory_word(behind));
}

static void run_several(mbr_trial *trial)
{
    if (mbr_subject_fact(trial, &trial->subject, MBR_FACT_UNMAP_SPANS_MAPPINGS, 0) != 1)
        mbr_trial_skip(trial, MBR_SKIP_FACT, "MBR_FACT_UNMAP_SPANS_MAPPINGS is not 1");
    mbr_place place = mbr_step_reserve(trial, 8);
    uint64_t ids[3];
    for (uint64_t i = 0; i < 3; i++)
        ids[i] = mbr_step_commit(trial, &place, 1 + 2 * i, 2);
    mbr_expect_status(
        trial, try_unmap(trial, &place, 1, 6), MBR_OK, "one unmap over three mappings");
    for (uint64_t i = 0; i < 3; i++) {
        mbr_query_outcome seen = mbr_step_query(trial, &place, 1 + 2 * i);
        mbr_status status = mbr_try_destroy(trial, &trial->subject, ids[i], NULL);
        MBR_EXPECT(trial, seen.extent_id == 0 && status == MBR_OK,
            "one unmap takes every mapping of its range",
            "of the %lu. of 3, query tells extent %lu; its destroy: %s", i + 1, seen.extent_id,
            mbr_status_name(status));
    }
}

static void run_part(mbr_trial *trial)
{
    const struct {
        uint64_t at, granules;
    } parts[] = {{0, 1}, {1, 1}, {2, 2}, {0, 3}, {3, 3}, {0, 6}};
    mbr_place place = mbr_step_reserve(trial, 8);
    mbr_step_commit(trial, &place, 0, 4);
    mbr_step_commit(trial, &place, 4, 4);
    mbr_step_write(trial, &place, 0, 8, 1);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        mbr_expect_callers_bug(
            trial, try_unmap(trial, &place, parts[i].at, parts[i].granules), "unmap of a part");
    MBR_EXPECT(trial, mbr_step_look(trial, &place, 0, 8, 1) == MBR_MEMORY_OK,
        "a refused unmap leaves everything", "%s",
        mbr_memory_word(mbr_step_look(trial, &place, 0, 8, 1)));
}

static void run_hole(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 8);
    mbr_step_commit(trial, &place, 0, 2);
    mbr_step_commit(trial, &place, 4, 2);
    const struct {
        uint64_t at, granules;
    } holes[] = {{0, 4}, {2, 4}, {0, 6}, {4, 4}, {0, 8}};
    for (size_t i = 0; i < sizeof holes / sizeof holes[0]; i++)
        mbr_expect_callers_bug(trial, try_unmap(trial, &place, holes[i].at, holes[i].granules),
            "unmap over mappings and holes");
}

static void run_twice(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 2);
    mbr_expect_callers_bug(trial, try_unmap(trial, &place, 0, 1), "unmap of what never was mapped");
    mbr_step_commit(trial, &place, 0, 2);
    mbr_step_unmap(trial, &place, 0, 2);
    mbr_expect_callers_bug(trial, try_unmap(trial, &place, 0, 2), "a second unmap");
}

static void run_no_range(mbr_trial *trial)
{
    uint64_t granule = trial->granule_bytes;
    mbr_place place = mbr_step_reserve(trial, 4);
    mbr_step_commit(trial, &place, 0, 4);
    const struct {
        uint64_t offset_bytes, bytes;
    } ranges[] = {{0, 0}, {granule / 2, granule}, {0, 4 * granule - 1}, {0, 5 * granule},
        {4 * granule, granule}, {granule, UINT64_MAX - granule + 1},
        {UINT64_MAX - granule + 1, 2 * granule}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        mbr_expect_callers_bug(trial,
            mbr_try_unmap(
                trial, &trial->subject, place.id, ranges[i].offset_bytes, ranges[i].bytes, NULL),
            "unmap of an empty, misaligned, too long or wrapping range");
}

/* A hole that anybody may map into would be mapped over by the reservation's next map. */
static void run_addresses_stay(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 13);
    mbr_step_commit(trial, &place, 1, 11);
    mbr_step_unmap(trial, &place, 1, 11);
    for (uint64_t at = 0; at < 13; at++)
        MBR_EXPECT(trial, !mbr_step_is_free_address(trial, &place, at),
            "addresses stay the reservation's when a mapping ends",
            "after unmap of granules 1 to 11, granule %lu is anybody's", at);
}

/* ---- query ----------------------------------------------------------------------------------- */

static void expect_mapping(mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t start,
    uint64_t granules, uint64_t extent_id)
{
    mbr_query_outcome seen = mbr_step_query(trial, place, at);
    MBR_EXPECT(trial,
        seen.extent_id == extent_id && seen.offset_bytes == start * trial->granule_bytes &&
            seen.bytes == granules * trial->granule_bytes,
        extent_id == 0 ? "query tells the hole from its start to its end"
                       : "query tells the mapping from its start to its end",
        "at granule %lu: extent %lu of %lu, [%lu, +%lu) of [%lu, +%lu)", at, seen.extent_id,
        extent_id, seen.offset_bytes, seen.bytes, start * trial->granule_bytes,
        granules * trial->granule_bytes);
}

static void run_query_mapping(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 12);
    uint64_t first = mbr_step_commit(trial, &place, 2, 3);
    uint64_t second = mbr_step_commit(trial, &place, 5, 1);
    mbr_expect_status(
        trial, mbr_try_query(trial, &trial->subject, place.id, 0, NULL), MBR_OK, "query");
    for (uint64_t at = 2; at < 6; at++)
        expect_mapping(trial, &place, at, at < 5 ? 2 : 5, at < 5 ? 3 : 1, at < 5 ? first : second);
}

static void run_query_hole(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 12);
    for (uint64_t at = 0; at < 12; at += 11)
        expect_mapping(trial, &place, at, 0, 12, 0);
    mbr_step_commit(trial, &place, 3, 2);
    mbr_step_commit(trial, &place, 8, 1);
    for (uint64_t at = 0; at < 12; at++)
        if (at < 3)
            expect_mapping(trial, &place, at, 0, 3, 0);
        else if (at >= 5 && at < 8)
            expect_mapping(trial, &place, at, 5, 3, 0);
        else if (at >= 9)
            expect_mapping(trial, &place, at, 9, 3, 0);
}

static void run_query_access(mbr_trial *trial)
{
    const uint32_t accesses[] = {
        MBR_ACCESS_READ_WRITE, MBR_ACCESS_READ, MBR_ACCESS_NONE, MBR_ACCESS_READ};
    mbr_place place = mbr_step_reserve(trial, 2);
    mbr_step_map(trial, &place, 0, mbr_step_create(trial, 2));
    uint32_t seen = mbr_step_query(trial, &place, 0).access;
    MBR_EXPECT(trial, seen == MBR_ACCESS_NONE, "query tells no access before protect", "%u", seen);
    for (size_t i = 0; i < sizeof accesses / sizeof accesses[0]; i++) {
        mbr_step_protect(trial, &place, 0, 2, accesses[i]);
        seen = mbr_step_query(trial, &place, 1).access;
        MBR_EXPECT(trial, seen == accesses[i], "query tells the access that protect set",
            "set %u, told %u", accesses[i], seen);
    }
}

static void run_query_unmapped(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 4);
    uint64_t id = mbr_step_commit(trial, &place, 1, 2);
    mbr_step_unmap(trial, &place, 1, 2);
    mbr_query_outcome seen = mbr_step_query(trial, &place, 1);
    MBR_EXPECT(trial, seen.extent_id == 0 && seen.access == MBR_ACCESS_NONE,
        "query tells nothing where a mapping was", "extent %lu of %lu, access %u", seen.extent_id,
        id, seen.access);
}

static void run_query_inside(mbr_trial *trial)
{
    uint64_t granule = trial->granule_bytes;
    const uint64_t inside[] = {1, granule / 2, granule - 1};
    mbr_place place = mbr_step_reserve(trial, 5);
    uint64_t id = mbr_step_commit(trial, &place, 1, 2);
    for (uint64_t at = 0; at < 5; at++)
        for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
            mbr_query_outcome whole = mbr_step_query(trial, &place, at), seen = {0};
            mbr_status status =
                mbr_try_query(trial, &trial->subject, place.id, at * granule + inside[i], &seen);
            MBR_EXPECT(trial,
                status == MBR_OK && seen.extent_id == whole.extent_id &&
                    seen.offset_bytes == whole.offset_bytes && seen.bytes == whole.bytes,
                "query tells the same for every byte of a mapping or a hole",
                "byte %lu of granule %lu: %s, extent %lu, [%lu, +%lu); its first: %lu, [%lu, "
                "+%lu), "
                "and extent %lu is at granules 1 and 2",
                inside[i], at, mbr_status_name(status), seen.extent_id, seen.offset_bytes,
                seen.bytes, whole.extent_id, whole.offset_bytes, whole.bytes, id);
        }
}

static void run_query_past_end(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 4);
    const uint64_t offsets[] = {4 * trial->granule_bytes, 400 * trial->granule_bytes,
        UINT64_MAX - trial->granule_bytes + 1};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++)
        mbr_expect_callers_bug(trial,
            mbr_try_query(trial, &trial->subject, place.id, offsets[i], NULL),
            "query beyond the reservation's end");
}

/* ---- Figures --------------------------------------------------------------------------------- */

static void expect_figure(
    mbr_trial *trial, const char *what, uint64_t told, uint64_t before, uint64_t wanted)
{
    if (told == MBR_UNKNOWN_BYTES)
        mbr_trial_skip(trial, MBR_SKIP_FACT, "stats tells no %s bytes", what);
    MBR_EXPECT(trial, told == before + wanted, "stats tells what the calls answered",
        "%s: told %lu, was %lu, and %lu since", what, told, before, wanted);
}

static void run_stats_reserved(mbr_trial *trial)
{
    uint64_t granule = trial->granule_bytes, before = mbr_step_stats(trial).reserved_bytes;
    mbr_place first = mbr_step_reserve(trial, 5);
    expect_figure(trial, "reserved", mbr_step_stats(trial).reserved_bytes, before, 5 * granule);
    mbr_step_reserve(trial, 12);
    expect_figure(trial, "reserved", mbr_step_stats(trial).reserved_bytes, before, 17 * granule);
    mbr_need_ok(trial, mbr_try_unreserve(trial, &trial->subject, first.id, NULL), "unreserve");
    expect_figure(trial, "reserved", mbr_step_stats(trial).reserved_bytes, before, 12 * granule);
}

static void run_stats_mapped(mbr_trial *trial)
{
    uint64_t granule = trial->granule_bytes, before = mbr_step_stats(trial).mapped_bytes;
    mbr_place place = mbr_step_reserve(trial, 20);
    mbr_step_create(trial, 2);
    expect_figure(trial, "mapped", mbr_step_stats(trial).mapped_bytes, before, 0);
    mbr_step_map(trial, &place, 0, mbr_step_create(trial, 3));
    expect_figure(trial, "mapped", mbr_step_stats(trial).mapped_bytes, before, 3 * granule);
    mbr_step_commit(trial, &place, 3, 8);
    expect_figure(trial, "mapped", mbr_step_stats(trial).mapped_bytes, before, 11 * granule);
    mbr_step_unmap(trial, &place, 0, 3);
    expect_figure(trial, "mapped", mbr_step_stats(trial).mapped_bytes, before, 8 * granule);
}

static void run_stats_owned(mbr_trial *trial)
{
    uint64_t before = mbr_step_stats(trial).owned_bytes;
    mbr_ledger *ledger = &trial->subject.ledger;
    uint64_t id = mbr_step_create(trial, 3);
    expect_figure(trial, "owned", mbr_step_stats(trial).owned_bytes, before, ledger->owned_bytes);
    mbr_place place = mbr_step_reserve(trial, 3);
    mbr_step_map(trial, &place, 0, id);
    mbr_step_create(trial, 2);
    expect_figure(trial, "owned", mbr_step_stats(trial).owned_bytes, before, ledger->owned_bytes);
    mbr_step_unmap(trial, &place, 0, 3);
    expect_figure(trial, "owned", mbr_step_stats(trial).owned_bytes, before, ledger->owned_bytes);
    mbr_step_destroy(trial, id);
    expect_figure(trial, "owned", mbr_step_stats(trial).owned_bytes, before, ledger->owned_bytes);
}

/* What was made and destroyed again is owned by nobody, or still owned by the figures as well. */
static void run_stats_not_below(mbr_trial *trial)
{
    mbr_oracle before, after;
    uint64_t owned_bytes = mbr_step_stats(trial).owned_bytes;
    mbr_oracle_read(trial, &before);
    for (int round = 0; round < 24; round++)
        mbr_step_destroy(trial, mbr_step_create(trial, mbr_step_granules(trial, MIB)));
    mbr_oracle_read(trial, &after);
    uint64_t told = mbr_step_stats(trial).owned_bytes - owned_bytes;
    MBR_EXPECT(trial, after.owned_bytes <= before.owned_bytes + told + MBR_ORACLE_SLACK_BYTES,
        "stats is never below what the system counts", "told %lu more, the process grew by %ld",
        told, (long)(after.owned_bytes - before.owned_bytes));
}

#define WALK_PLACES 24
#define WALK_STEPS 400

/* One place holds nothing, an extent, or an extent that is mapped there. */
typedef struct walk_place {
    uint64_t extent_id;
    bool is_mapped;
} walk_place;

static void walk_one(mbr_trial *trial, const mbr_place *place, uint64_t at, walk_place *one)
{
    if (one->is_mapped) {
        mbr_step_unmap(trial, place, at, 1);
        one->is_mapped = false;
    } else if (one->extent_id == 0) {
        one->extent_id = mbr_step_create(trial, 1);
    } else if (mbr_trial_random(trial) % 4 != 0) {
        mbr_step_map(trial, place, at, one->extent_id);
        one->is_mapped = true;
    } else {
        mbr_step_destroy(trial, one->extent_id);
        one->extent_id = 0;
    }
}

/* Random work, with the sum of the answers and the plugin's figures side by side at each step. */
static void run_walk(mbr_trial *trial)
{
    const mbr_mechanism_stats start = mbr_step_stats(trial);
    const mbr_ledger *ledger = &trial->subject.ledger;
    mbr_place place = mbr_step_reserve(trial, WALK_PLACES);
    walk_place all[WALK_PLACES] = {{0, false}};
    if (start.owned_bytes == MBR_UNKNOWN_BYTES || start.mapped_bytes == MBR_UNKNOWN_BYTES ||
        start.reserved_bytes == MBR_UNKNOWN_BYTES)
        mbr_trial_skip(trial, MBR_SKIP_FACT, "stats does not tell all three figures");
    for (int step = 0; step < WALK_STEPS; step++) {
        uint64_t at = mbr_trial_random(trial) % WALK_PLACES;
        walk_one(trial, &place, at, &all[at]);
        mbr_mechanism_stats now = mbr_step_stats(trial);
        MBR_EXPECT(trial,
            now.owned_bytes - start.owned_bytes == ledger->owned_bytes &&
                now.mapped_bytes - start.mapped_bytes == ledger->mapped_bytes &&
                now.reserved_bytes - start.reserved_bytes == ledger->reserved_bytes,
            "the figures equal the sum of all answers after each step",
            "step %d: owned %lu of %lu, mapped %lu of %lu, reserved %lu of %lu", step,
            now.owned_bytes - start.owned_bytes, ledger->owned_bytes,
            now.mapped_bytes - start.mapped_bytes, ledger->mapped_bytes,
            now.reserved_bytes - start.reserved_bytes, ledger->reserved_bytes);
    }
}

#define VIR MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL
#define VIR_REACHED MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL | MBR_NEEDS_HOST_ACCESS
#define VIR_SEEN MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL | MBR_NEEDS_HOST_ORACLE

static const mbr_check checks[] = {
    {"VIR-091", 2, VIR, "C5",
        "unmap says the bytes that are no longer reachable, and releases none",
        "The refund of the mapped axis is the sum of these answers.", run_says_its_bytes, 0, 0},
    {"VIR-092", 2, VIR, "C5", "what was unmapped is not there any more",
        "An unmap that does nothing leaves a way to memory that another owner gets.",
        run_takes_access, 0, 0},
    {"VIR-093", 3, VIR, "C5", "unmap leaves the mappings beside it",
        "Decommitting one sequence must not touch the next.", run_neighbours, 0, 0},
    {"VIR-094", 2, VIR, "C4", "one unmap over several mappings takes them all, where that is said",
        "The host trusts the fact and frees the addresses next.", run_several, 0, 0},
    {"VIR-095", 3, VIR, "C7", "unmap of a part of a mapping is refused and changes nothing",
        "Extents are whole; half of one can be given to nobody.", run_part, 0, 0},
    {"VIR-096", 3, VIR, "C7", "unmap over mappings and holes is refused",
        "Drivers are lenient here, and a host's lost mapping is never noticed.", run_hole, 0, 0},
    {"VIR-097", 3, VIR, "C22", "a second unmap is refused",
        "Some drivers crash on it; others hide that the books are wrong.", run_twice, 0, 0},
    {"VIR-098", 3, VIR, "C7",
        "unmap of an empty, misaligned, too long or wrapping range is refused",
        "Rounded and cut ranges are not those that were named.", run_no_range, 0, 0},
    {"VIR-099", 3, VIR_REACHED, "C24", "addresses stay the reservation's when a mapping ends",
        "Another thread's memory that lands there is mapped over without an error.",
        run_addresses_stay, 0, 0},
    {"VIR-101", 2, VIR, "C5", "query tells the mapping around an offset",
        "After a failure the host looks before it touches anything again.", run_query_mapping, 0,
        0},
    {"VIR-102", 3, VIR, "C5", "query tells the hole around an offset",
        "A hole that seems longer is filled over what stands behind it.", run_query_hole, 0, 0},
    {"VIR-103", 3, VIR, "C5", "query tells the access of now",
        "Who asks wants to know whether a write would work.", run_query_access, 0, 0},
    {"VIR-104", 3, VIR, "C5", "query tells nothing where a mapping was",
        "A ghost keeps its extent from being given back.", run_query_unmapped, 0, 0},
    {"VIR-105", 3, VIR, "C7", "query beyond the end is refused",
        "A hole behind the end is an invitation to map there.", run_query_past_end, 0, 0},
    {"VIR-106", 3, VIR, "C5", "query is answered for every byte of a reservation",
        "Who has an address that faulted wants to know what stands there, granule or not.",
        run_query_inside, 0, 0},
    {"VIR-111", 3, VIR, "C5", "stats tells the reserved bytes", "Addresses run out as well.",
        run_stats_reserved, 0, 0},
    {"VIR-112", 3, VIR, "C5", "stats tells the mapped bytes",
        "Operators compare this axis with the ledger's.", run_stats_mapped, 0, 0},
    {"VIR-113", 3, VIR, "C5", "stats tells owned bytes also of what is mapped nowhere",
        "Unload asks for zero; zero with memory alive is a leak that nobody sees.", run_stats_owned,
        0, 0},
    {"VIR-114", 3, VIR_SEEN, "C5", "stats is never below what the system counts",
        "A secret cache is memory that no budget knows of.", run_stats_not_below, 0, 0},
    {"VIR-115", 3, VIR, "C5", "the figures equal the answers after each of many random steps",
        "A byte that drifts in each round is a leak in a week.", run_walk, 0, 0},
};

const mbr_group mbr_group_vir_unmap = MBR_GROUP("VIR", "virtual memory: unmap, query", checks);
