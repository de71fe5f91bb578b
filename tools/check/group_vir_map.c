/* Group VIR, map: where an extent may stand, and that it is this extent that stands there. */
#include "tools/check/steps.h"

#include <inttypes.h>

static mbr_status try_map(
    mbr_trial *trial, const mbr_place *place, uint64_t offset_bytes, uint64_t extent_id)
{
    return mbr_try_map(trial, &trial->subject, place->id, offset_bytes, extent_id, NULL);
}

static void expect_contents(mbr_trial *trial, const mbr_place *place, uint64_t at,
    uint64_t granules, uint64_t seed, const char *expected)
{
    mbr_memory seen = mbr_step_look(trial, place, at, granules, seed);
    MBR_EXPECT(trial, seen == MBR_MEMORY_OK, expected, "%lu granules at granule %lu: %s", granules,
        at, mbr_memory_word(seen));
}

/* ---- What it does ---------------------------------------------------------------------------- */

static void run_says_its_bytes(mbr_trial *trial)
{
    const uint64_t sizes[] = {1, 2, 10};
    mbr_place place = mbr_step_reserve(trial, 16);
    uint64_t at = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; at += sizes[i], i++) {
        mbr_outcome outcome = {0};
        uint64_t id = mbr_step_create(trial, sizes[i]);
        mbr_expect_status(trial,
            mbr_try_map(trial, &trial->subject, place.id, at * trial->granule_bytes, id, &outcome),
            MBR_OK, "map into a free range");
        MBR_EXPECT(trial, outcome.newly_mapped_bytes == sizes[i] * trial->granule_bytes,
            "map says that the whole extent is mapped", "of %lu bytes: %lu",
            sizes[i] * trial->granule_bytes, outcome.newly_mapped_bytes);
    }
}

static void run_whole(mbr_trial *trial)
{
    const uint64_t granules = 9;
    mbr_place place = mbr_step_reserve(trial, granules);
    mbr_step_commit(trial, &place, 0, granules);
    for (uint64_t at = 0; at < granules; at++) {
        mbr_memory done = mbr_memory_write(
            trial, place.address + at * trial->granule_bytes, trial->granule_bytes, at + 1);
        MBR_NEED(trial, done == MBR_MEMORY_OK || at > 0, "no access at the start");
        MBR_EXPECT(trial, done == MBR_MEMORY_OK, "every granule of a mapped extent is writable",
            "granule %lu: %s", at, mbr_memory_word(done));
    }
    for (uint64_t at = 0; at < granules; at++)
        expect_contents(
            trial, &place, at, 1, at + 1, "every granule of an extent is memory of its own");
}

static void run_no_access_yet(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 2);
    mbr_step_map(trial, &place, 0, mbr_step_create(trial, 2));
    mbr_memory read = mbr_step_look(trial, &place, 0, 2, 0);
    mbr_memory write = mbr_memory_write(trial, place.address, trial->granule_bytes, 1);
    MBR_EXPECT(trial, read == MBR_MEMORY_REFUSED && write == MBR_MEMORY_REFUSED,
        "a mapping has no access until protect", "a read: %s, a write: %s", mbr_memory_word(read),
        mbr_memory_word(write));
}

/* Over two reservations and back, each time at another place. */
static void run_contents_move(mbr_trial *trial)
{
    mbr_place places[] = {mbr_step_reserve(trial, 12), mbr_step_reserve(trial, 12)};
    const uint64_t at[] = {0, 7, 3, 5, 0};
    uint64_t id = mbr_step_commit(trial, &places[0], 0, 3);
    mbr_step_write(trial, &places[0], 0, 3, 1);
    for (size_t i = 1; i < sizeof at / sizeof at[0]; i++) {
        mbr_step_unmap(trial, &places[(i - 1) / 2 % 2], at[i - 1], 3);
        const mbr_place *place = &places[i / 2 % 2];
        mbr_step_map(trial, place, at[i], id);
        mbr_step_protect(trial, place, at[i], 3, MBR_ACCESS_READ_WRITE);
        expect_contents(
            trial, place, at[i], 3, i, "an extent keeps its contents wherever it is mapped");
        mbr_step_write(trial, place, at[i], 3, i + 1);
    }
}

/* Handles of one size are easily taken for each other. */
static void run_this_extent(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 64);
    uint64_t ids[8];
    for (uint64_t i = 0; i < 8; i++) {
        ids[i] = mbr_step_commit(trial, &place, i * 4, 4);
        mbr_step_write(trial, &place, i * 4, 4, i + 1);
    }
    for (uint64_t i = 0; i < 8; i++)
        mbr_step_unmap(trial, &place, i * 4, 4);
    for (uint64_t i = 0; i < 8; i++) {
        mbr_step_map(trial, &place, 32 + i * 4, ids[i * 5 % 8]);
        mbr_step_protect(trial, &place, 32 + i * 4, 4, MBR_ACCESS_READ);
    }
    for (uint64_t i = 0; i < 8; i++)
        expect_contents(
            trial, &place, 32 + i * 4, 4, i * 5 % 8 + 1, "the extent that was named is mapped");
}

/* What was written once is not zero where it is mapped again. */
static void run_content_is_honest(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 12);
    uint64_t id = mbr_step_commit(trial, &place, 0, 5);
    mbr_step_write(trial, &place, 0, 5, 1);
    mbr_step_unmap(trial, &place, 0, 5);
    for (uint64_t at = 0; at <= 6; at += 6) {
        mbr_outcome outcome = {0};
        mbr_need_ok(trial,
            mbr_try_map(trial, &trial->subject, place.id, at * trial->granule_bytes, id, &outcome),
            "map");
        MBR_EXPECT(trial, outcome.content != MBR_CONTENT_ZERO,
            "content says zero of memory that is zero only", "map of written memory: content %u",
            outcome.content);
        mbr_step_unmap(trial, &place, at, 5);
    }
}

static void run_exact_hole(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 6);
    mbr_step_commit(trial, &place, 0, 2);
    mbr_step_commit(trial, &place, 4, 2);
    mbr_expect_status(trial,
        try_map(trial, &place, 2 * trial->granule_bytes, mbr_step_create(trial, 2)), MBR_OK,
        "map into a hole of exactly its size");
}

/* ---- What it refuses ------------------------------------------------------------------------- */

static void run_misaligned(mbr_trial *trial)
{
    uint64_t granule = trial->granule_bytes, id = mbr_step_create(trial, 1);
    mbr_place place = mbr_step_reserve(trial, 4);
    const uint64_t offsets[] = {1, granule / 2, granule - 1, granule + 8};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0] && granule > 1; i++)
        mbr_expect_status(trial, try_map(trial, &place, offsets[i], id), MBR_MISALIGNED,
            "map at no multiple of the granule");
}

static void run_past_the_end(mbr_trial *trial)
{
    uint64_t granule = trial->granule_bytes, id = mbr_step_create(trial, 2);
    mbr_place place = mbr_step_reserve(trial, 4);
    const uint64_t offsets[] = {3 * granule, 4 * granule, 400 * granule};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++)
        mbr_expect_status(trial, try_map(trial, &place, offsets[i], id), MBR_OUT_OF_RANGE,
            "map beyond the reservation's end");
    uint64_t last = UINT64_MAX - UINT64_MAX % granule;
    mbr_expect_callers_bug(
        trial, try_map(trial, &place, last, id), "map at an offset whose end wraps");
}

static void run_overlap(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 8);
    uint64_t id = mbr_step_create(trial, 3);
    mbr_step_commit(trial, &place, 3, 2);
    mbr_step_write(trial, &place, 3, 2, 1);
    for (uint64_t at = 1; at <= 4; at++) {
        mbr_expect_status(trial, try_map(trial, &place, at * trial->granule_bytes, id),
            MBR_ALREADY_EXISTS, "map over a mapping");
        expect_contents(trial, &place, 3, 2, 1, "a refused map leaves the mapping that is there");
    }
}

static void run_mapped_already(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 4), other = mbr_step_reserve(trial, 4);
    uint64_t id = mbr_step_commit(trial, &place, 0, 1);
    mbr_expect_status(trial, try_map(trial, &place, 2 * trial->granule_bytes, id), MBR_BUSY,
        "map of an extent that is mapped");
    mbr_expect_status(trial, try_map(trial, &other, 0, id), MBR_BUSY,
        "map of an extent that is mapped in another reservation");
}

static void run_unreserved(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 4);
    const mbr_place never = {.id = mbr_trial_id(trial)};
    uint64_t id = mbr_step_create(trial, 1);
    mbr_expect_status(trial, try_map(trial, &never, 0, id), MBR_UNKNOWN_OBJECT,
        "map into a reservation that never was");
    const mbr_place none = {.id = 0};
    mbr_expect_callers_bug(trial, try_map(trial, &none, 0, id), "map into reservation 0");
    mbr_need_ok(trial, mbr_try_unreserve(trial, &trial->subject, place.id, NULL), "unreserve");
    mbr_expect_status(trial, try_map(trial, &place, 0, id), MBR_UNKNOWN_OBJECT,
        "map into a reservation that was given back");
}

static void run_no_extent(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 4);
    uint64_t id = mbr_step_create(trial, 1);
    mbr_expect_status(trial, try_map(trial, &place, 0, mbr_trial_id(trial)), MBR_UNKNOWN_OBJECT,
        "map of an extent that never was");
    mbr_expect_callers_bug(trial, try_map(trial, &place, 0, 0), "map of extent 0");
    mbr_step_destroy(trial, id);
    mbr_expect_status(trial, try_map(trial, &place, 0, id), MBR_UNKNOWN_OBJECT,
        "map of an extent that was destroyed");
}

/* After refusals of every kind the same extent goes to the same place. */
static void run_refused_leaves_nothing(mbr_trial *trial)
{
    uint64_t granule = trial->granule_bytes, id = mbr_step_create(trial, 2);
    mbr_place place = mbr_step_reserve(trial, 5);
    mbr_step_commit(trial, &place, 3, 1);
    uint64_t mapped_bytes = mbr_step_stats(trial).mapped_bytes;
    const uint64_t offsets[] = {2 * granule, 3 * granule, 4 * granule, 5 * granule, granule / 2};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++)
        MBR_NEED(trial, try_map(trial, &place, offsets[i], id) != MBR_OK,
            "map at %lu is not "
            "refused",
            offsets[i]);
    mbr_query_outcome hole = mbr_step_query(trial, &place, 4);
    MBR_EXPECT(trial, hole.extent_id == 0 && mbr_step_stats(trial).mapped_bytes == mapped_bytes,
        "a refused map leaves nothing", "behind the mapping: extent %lu; mapped %lu, before %lu",
        hole.extent_id, mbr_step_stats(trial).mapped_bytes, mapped_bytes);
    mbr_expect_status(
        trial, try_map(trial, &place, granule, id), MBR_OK, "the extent that was refused");
}

#define VIR MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL

static const mbr_check checks[] = {
    {"VIR-051", 2, VIR, "C5", "map says that the whole extent became reachable",
        "The mapped axis of the ledger is the sum of these answers.", run_says_its_bytes, 0, 0},
    {"VIR-052", 2, VIR, "C5", "a mapped extent is writable to its end, each granule by itself",
        "A part without memory, or with another part's, loses tokens without an error.", run_whole,
        0, 0},
    {"VIR-053", 3, VIR, "C5", "a mapping has no access until protect",
        "Access that nobody asked for is access that nobody takes away.", run_no_access_yet, 0, 0},
    {"VIR-054", 3, VIR, "C7", "map at no multiple of the granule is refused",
        "A plugin that rounds maps over what stands there.", run_misaligned, 0, 0},
    {"VIR-055", 3, VIR, "C7", "map beyond the reservation's end is refused",
        "Drivers allow it once and then refuse to free the addresses.", run_past_the_end, 0, 0},
    {"VIR-056", 3, VIR, "C22", "map over a mapping is refused, and leaves it",
        "The mapping below would be gone with its owner still reading.", run_overlap, 0, 0},
    {"VIR-057", 3, VIR, "C22", "map of an extent that is mapped is busy",
        "A second address is map_shared's, which counts it.", run_mapped_already, 0, 0},
    {"VIR-058", 3, VIR, "C22", "map into unknown and released reservations is refused",
        "Their addresses may be anybody's by now.", run_unreserved, 0, 0},
    {"VIR-059", 3, VIR, "C22", "map of unknown and destroyed extents is refused",
        "Drivers crash on a handle that was released.", run_no_extent, 0, 0},
    {"VIR-060", 2, VIR, "C5", "an extent keeps its contents from one mapping to the next",
        "Parked and pooled extents move between reservations with what is in them.",
        run_contents_move, 0, 0},
    {"VIR-061", 3, VIR, "C22", "the extent that was named is the one that is mapped",
        "Handles that are mixed up show one sequence's tokens to another.", run_this_extent, 0, 0},
    {"VIR-062", 3, VIR, "C5", "an extent fits into a hole of exactly its size",
        "Decommitted parts are filled again to the byte.", run_exact_hole, 0, 0},
    {"VIR-063", 3, VIR, "C5", "a refused map leaves nothing",
        "A host that rolls back counts on the state from before.", run_refused_leaves_nothing, 0,
        0},
    {"VIR-064", 3, VIR, "C4", "map says zero of memory that is zero only",
        "Hosts skip their own zeroing on this word.", run_content_is_honest, 0, 0},
};

const mbr_group mbr_group_vir_map = MBR_GROUP("VIR", "virtual memory: map", checks);
