/* Group SHR: one extent at several addresses. */
#include "tools/check/oracle.h"
#include "tools/check/steps.h"

#define MIB UINT64_C(1048576)

/* An owner's mapping at granule 0, written with seed 1, and room for sharers. */
typedef struct owner {
    mbr_place place; /* 8 times the extent */
    uint64_t extent_id, granules;
} owner;

static owner make_owner(mbr_trial *trial, uint64_t granules)
{
    owner made = {.place = mbr_step_reserve(trial, 8 * granules), .granules = granules};
    made.extent_id = mbr_step_commit(trial, &made.place, 0, granules);
    mbr_step_write(trial, &made.place, 0, granules, 1);
    return made;
}

/* The sharer of that number stands there, in extents. */
static void add_sharer(mbr_trial *trial, const owner *from, uint64_t number, uint32_t access)
{
    mbr_step_share(trial, &from->place, number * from->granules, from->extent_id, access);
}

static void end_mapping(mbr_trial *trial, const owner *from, uint64_t number)
{
    mbr_step_unmap(trial, &from->place, number * from->granules, from->granules);
}

static mbr_memory look(mbr_trial *trial, const owner *at, uint64_t number, uint64_t seed)
{
    return mbr_step_look(trial, &at->place, number * at->granules, at->granules, seed);
}

static mbr_memory write_to(mbr_trial *trial, const owner *at, uint64_t number, uint64_t seed)
{
    uint64_t bytes = at->granules * trial->granule_bytes;
    return mbr_memory_write(trial, at->place.address + number * bytes, bytes, seed);
}

static void expect_seen(
    mbr_trial *trial, const owner *at, uint64_t number, uint64_t seed, const char *expected)
{
    mbr_memory seen = look(trial, at, number, seed);
    MBR_EXPECT(trial, seen == MBR_MEMORY_OK, expected, "at mapping %lu: %s", number,
        mbr_memory_word(seen));
}

static mbr_status try_share(
    mbr_trial *trial, const owner *from, uint64_t offset_bytes, uint64_t extent_id)
{
    return mbr_try_share(
        trial, &trial->subject, from->place.id, offset_bytes, extent_id, MBR_ACCESS_READ, NULL);
}

/* ---- The same memory ------------------------------------------------------------------------- */

static void run_same_memory(mbr_trial *trial)
{
    owner from = make_owner(trial, 2);
    mbr_outcome outcome = {0};
    mbr_expect_status(trial,
        mbr_try_share(trial, &trial->subject, from.place.id, 2 * trial->granule_bytes,
            from.extent_id, MBR_ACCESS_READ_WRITE, &outcome),
        MBR_OK, "map_shared of a mapped extent");
    expect_seen(trial, &from, 1, 1, "a sharer sees what the owner wrote before");
    MBR_NEED(trial, write_to(trial, &from, 0, 2) == MBR_MEMORY_OK, "the owner cannot write");
    expect_seen(trial, &from, 1, 2, "a sharer sees what the owner writes now");
    MBR_NEED(trial, write_to(trial, &from, 1, 3) == MBR_MEMORY_OK, "the sharer cannot write");
    expect_seen(trial, &from, 0, 3, "the owner sees what a sharer writes");
}

static void run_owned_once(mbr_trial *trial)
{
    owner from = make_owner(trial, 3);
    uint64_t bytes = 3 * trial->granule_bytes;
    for (uint64_t i = 1; i < 8; i++) {
        mbr_outcome outcome = {0};
        mbr_need_ok(trial,
            mbr_try_share(trial, &trial->subject, from.place.id, i * bytes, from.extent_id,
                MBR_ACCESS_READ, &outcome),
            "map_shared");
        MBR_EXPECT(trial, outcome.newly_owned_bytes == 0 && outcome.newly_mapped_bytes == bytes,
            "a sharer maps the extent's bytes and owns none", "of %lu: mapped %lu, owned %lu",
            bytes, outcome.newly_mapped_bytes, outcome.newly_owned_bytes);
    }
}

static void run_stats(mbr_trial *trial)
{
    owner from = make_owner(trial, 2);
    mbr_mechanism_stats before = mbr_step_stats(trial), now;
    uint64_t bytes = 2 * trial->granule_bytes;
    if (before.owned_bytes == MBR_UNKNOWN_BYTES || before.mapped_bytes == MBR_UNKNOWN_BYTES)
        mbr_trial_skip(trial, MBR_SKIP_FACT, "stats does not tell owned and mapped bytes");
    for (uint64_t i = 1; i < 6; i++)
        add_sharer(trial, &from, i, MBR_ACCESS_READ);
    now = mbr_step_stats(trial);
    MBR_EXPECT(trial,
        now.owned_bytes == before.owned_bytes &&
            now.mapped_bytes - before.mapped_bytes == 5 * bytes,
        "in stats an alias counts as mapped and never as owned",
        "5 sharers of %lu: mapped %lu more, owned %lu more", bytes,
        now.mapped_bytes - before.mapped_bytes, now.owned_bytes - before.owned_bytes);
    for (uint64_t i = 0; i < 6; i++)
        end_mapping(trial, &from, i);
    now = mbr_step_stats(trial);
    MBR_EXPECT(trial,
        now.owned_bytes == before.owned_bytes && now.mapped_bytes == before.mapped_bytes - bytes,
        "with the last mapping gone the extent is owned and not mapped",
        "owned %lu of %lu, mapped %lu of %lu", now.owned_bytes, before.owned_bytes,
        now.mapped_bytes, before.mapped_bytes - bytes);
}

static void run_costs_nothing(mbr_trial *trial)
{
    mbr_oracle before, after;
    owner from = make_owner(trial, mbr_step_granules(trial, 4 * MIB));
    mbr_oracle_read(trial, &before);
    for (uint64_t i = 1; i < 8; i++) {
        add_sharer(trial, &from, i, MBR_ACCESS_READ);
        MBR_NEED(trial, look(trial, &from, i, 1) == MBR_MEMORY_OK, "a sharer cannot read");
    }
    mbr_oracle_read(trial, &after);
    MBR_EXPECT(trial, mbr_oracle_grew_by(&before, &after, 0),
        "sharers cost no memory in the system's figures", "7 of 4 MiB: the process grew by %ld",
        (long)(after.owned_bytes - before.owned_bytes));
}

/* Over two reservations, each sharer with a neighbour of other contents. */
static void run_many(mbr_trial *trial)
{
    const uint64_t count = 256;
    owner from = make_owner(trial, 1);
    mbr_place places[] = {mbr_step_reserve(trial, count), mbr_step_reserve(trial, count)};
    for (uint64_t i = 0; i < count; i++) {
        mbr_status status = mbr_try_share(trial, &trial->subject, places[i % 2].id,
            i * trial->granule_bytes, from.extent_id, MBR_ACCESS_READ, NULL);
        MBR_EXPECT(trial, status == MBR_OK, "one extent can be at 256 addresses", "sharer %lu: %s",
            i, mbr_status_name(status));
    }
    mbr_step_write(trial, &from.place, 0, 1, 5);
    for (uint64_t i = 0; i < count; i++) {
        mbr_memory seen = mbr_step_look(trial, &places[i % 2], i, 1, 5);
        MBR_EXPECT(trial, seen == MBR_MEMORY_OK, "all of 256 sharers see the owner's writes",
            "sharer %lu: %s", i, mbr_memory_word(seen));
    }
}

static void run_content_is_honest(mbr_trial *trial)
{
    mbr_outcome outcome = {0};
    owner from = make_owner(trial, 2);
    mbr_need_ok(trial,
        mbr_try_share(trial, &trial->subject, from.place.id, 4 * trial->granule_bytes,
            from.extent_id, MBR_ACCESS_READ, &outcome),
        "map_shared");
    MBR_EXPECT(trial, outcome.content != MBR_CONTENT_ZERO,
        "content says zero of memory that is zero only", "a sharer of written memory: content %u",
        outcome.content);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void run_first_leaves(mbr_trial *trial)
{
    owner from = make_owner(trial, 2);
    add_sharer(trial, &from, 1, MBR_ACCESS_READ);
    add_sharer(trial, &from, 2, MBR_ACCESS_READ_WRITE);
    end_mapping(trial, &from, 0);
    expect_seen(trial, &from, 1, 1, "the memory lives on when the first mapping ends");
    MBR_NEED(trial, write_to(trial, &from, 2, 2) == MBR_MEMORY_OK, "a sharer cannot write");
    expect_seen(trial, &from, 1, 2, "sharers share on when the first mapping has ended");
}

static void run_sharer_leaves(mbr_trial *trial)
{
    owner from = make_owner(trial, 2);
    for (uint64_t i = 1; i < 4; i++)
        add_sharer(trial, &from, i, MBR_ACCESS_READ);
    end_mapping(trial, &from, 2);
    expect_seen(trial, &from, 0, 1, "the owner keeps its memory when a sharer ends");
    expect_seen(trial, &from, 1, 1, "other sharers keep it, too");
    MBR_EXPECT(trial, look(trial, &from, 2, 1) != MBR_MEMORY_OK,
        "a sharer that has ended sees nothing", "%s", mbr_memory_word(look(trial, &from, 2, 1)));
}

static void run_unmap_says_its_bytes(mbr_trial *trial)
{
    owner from = make_owner(trial, 3);
    uint64_t bytes = 3 * trial->granule_bytes;
    for (uint64_t i = 1; i < 5; i++)
        add_sharer(trial, &from, i, MBR_ACCESS_READ);
    for (uint64_t i = 0; i < 5; i++) {
        mbr_outcome outcome = {0};
        uint64_t number = i * 3 % 5;
        mbr_expect_status(trial,
            mbr_try_unmap(trial, &trial->subject, from.place.id, number * bytes, bytes, &outcome),
            MBR_OK, "unmap of one of several mappings of an extent");
        MBR_EXPECT(trial, outcome.unmapped_bytes == bytes && outcome.released_bytes == 0,
            "each mapping ends with its own bytes, and releases none",
            "of %lu: unmapped %lu, released %lu", bytes, outcome.unmapped_bytes,
            outcome.released_bytes);
    }
}

static void run_destroy_busy(mbr_trial *trial)
{
    owner from = make_owner(trial, 1);
    add_sharer(trial, &from, 1, MBR_ACCESS_READ);
    add_sharer(trial, &from, 2, MBR_ACCESS_READ);
    for (uint64_t i = 0; i < 3; i++) {
        mbr_expect_status(trial, mbr_try_destroy(trial, &trial->subject, from.extent_id, NULL),
            MBR_BUSY, "extent_destroy while a mapping is left");
        end_mapping(trial, &from, i);
    }
    mbr_expect_status(trial, mbr_try_destroy(trial, &trial->subject, from.extent_id, NULL), MBR_OK,
        "extent_destroy after the last unmap");
}

static void run_gives_back(mbr_trial *trial)
{
    mbr_oracle before, after;
    mbr_oracle_read(trial, &before);
    owner from = make_owner(trial, mbr_step_granules(trial, 4 * MIB));
    add_sharer(trial, &from, 1, MBR_ACCESS_READ);
    end_mapping(trial, &from, 0);
    end_mapping(trial, &from, 1);
    mbr_step_destroy(trial, from.extent_id);
    mbr_oracle_read(trial, &after);
    MBR_EXPECT(trial, mbr_oracle_grew_by(&before, &after, 0),
        "an extent that was shared is given back like any other",
        "of 4 MiB, %ld bytes are still there", (long)(after.owned_bytes - before.owned_bytes));
}

static void run_report(mbr_trial *trial)
{
    owner from = make_owner(trial, 1);
    for (uint64_t i = 1; i < 6; i++)
        add_sharer(trial, &from, i, MBR_ACCESS_READ);
    end_mapping(trial, &from, 0);
    mbr_report report = mbr_subject_report(trial, &trial->subject);
    MBR_EXPECT(trial, report.mapping_count == 5 && report.extent_count == 1,
        "report counts each mapping, and the extent once", "5 mappings of 1 extent: %lu of %lu",
        report.mapping_count, report.extent_count);
}

/* ---- Access ---------------------------------------------------------------------------------- */

static void run_read_only(mbr_trial *trial)
{
    owner from = make_owner(trial, 2);
    add_sharer(trial, &from, 1, MBR_ACCESS_READ);
    mbr_memory seen = look(trial, &from, 1, 1), done = write_to(trial, &from, 1, 9);
    MBR_EXPECT(trial, seen == MBR_MEMORY_OK && done == MBR_MEMORY_REFUSED,
        "a sharer that may read can read and not write", "a read: %s, a write: %s",
        mbr_memory_word(seen), mbr_memory_word(done));
    seen = look(trial, &from, 0, 1); /* or no answer any more: a device may not survive that */
    MBR_EXPECT(trial, seen != MBR_MEMORY_OTHER, "a write that was refused changes nothing", "%s",
        mbr_memory_word(seen));
}

static void run_access_apart(mbr_trial *trial)
{
    owner from = make_owner(trial, 2);
    for (uint64_t i = 1; i < 4; i++)
        add_sharer(trial, &from, i, i == 2 ? MBR_ACCESS_READ_WRITE : MBR_ACCESS_READ);
    mbr_step_protect(trial, &from.place, 2, 2, MBR_ACCESS_NONE);
    MBR_EXPECT(trial, write_to(trial, &from, 0, 2) == MBR_MEMORY_OK,
        "a sharer's access is not the owner's", "the owner's write is refused");
    MBR_EXPECT(trial, write_to(trial, &from, 2, 3) == MBR_MEMORY_OK,
        "a sharer's access is not another sharer's", "a writing sharer's write is refused");
    MBR_EXPECT(trial, look(trial, &from, 3, 3) == MBR_MEMORY_OK,
        "a sharer's access is not another sharer's", "a reading sharer: %s",
        mbr_memory_word(look(trial, &from, 3, 3)));
    mbr_step_protect(trial, &from.place, 0, 2, MBR_ACCESS_READ);
    MBR_EXPECT(trial, write_to(trial, &from, 2, 4) == MBR_MEMORY_OK,
        "the owner's access is not a sharer's", "a writing sharer's write is refused");
}

static void run_query(mbr_trial *trial)
{
    owner from = make_owner(trial, 2);
    const uint32_t accesses[] = {
        MBR_ACCESS_READ_WRITE, MBR_ACCESS_READ, MBR_ACCESS_READ_WRITE, MBR_ACCESS_NONE};
    for (uint64_t i = 1; i < 4; i++)
        add_sharer(trial, &from, i, accesses[i]);
    for (uint64_t i = 0; i < 4; i++) {
        mbr_query_outcome seen = mbr_step_query(trial, &from.place, 2 * i + 1);
        MBR_EXPECT(trial,
            seen.extent_id == from.extent_id && seen.access == accesses[i] &&
                seen.offset_bytes == 2 * i * trial->granule_bytes,
            "query tells each mapping's own place and access",
            "mapping %lu: extent %lu, offset %lu, access %u of %u", i, seen.extent_id,
            seen.offset_bytes, seen.access, accesses[i]);
    }
}

/* ---- What it refuses ------------------------------------------------------------------------- */

static void run_not_mapped(mbr_trial *trial)
{
    owner from = make_owner(trial, 1);
    uint64_t granule = trial->granule_bytes, fresh = mbr_step_create(trial, 1);
    mbr_expect_status(trial, try_share(trial, &from, granule, fresh), MBR_INVALID_ARGUMENT,
        "map_shared of an extent that was never mapped");
    mbr_step_map(trial, &from.place, 2, fresh);
    mbr_step_unmap(trial, &from.place, 2, 1);
    mbr_expect_status(trial, try_share(trial, &from, granule, fresh), MBR_INVALID_ARGUMENT,
        "map_shared of an extent that is not mapped any more");
}

static void run_stale(mbr_trial *trial)
{
    mbr_subject another;
    owner from = make_owner(trial, 1);
    uint64_t granule = trial->granule_bytes, gone = mbr_step_create(trial, 1);
    uint64_t place_id = mbr_trial_id(trial);
    mbr_step_destroy(trial, gone);
    mbr_step_open_another(trial, &another);
    mbr_need_ok(trial, mbr_try_reserve(trial, &another, place_id, granule, 0, NULL), "reserve");
    mbr_place left = mbr_step_reserve(trial, 1);
    mbr_need_ok(trial, mbr_try_unreserve(trial, &trial->subject, left.id, NULL), "unreserve");
    mbr_expect_status(trial,
        mbr_try_share(trial, &trial->subject, left.id, 0, from.extent_id, MBR_ACCESS_READ, NULL),
        MBR_UNKNOWN_OBJECT, "map_shared into a reservation that was given back");
    mbr_expect_status(trial, try_share(trial, &from, granule, mbr_trial_id(trial)),
        MBR_UNKNOWN_OBJECT, "map_shared of a forged id");
    mbr_expect_status(trial, try_share(trial, &from, granule, gone), MBR_UNKNOWN_OBJECT,
        "map_shared of a destroyed extent");
    mbr_expect_status(trial,
        mbr_try_share(trial, &another, place_id, 0, from.extent_id, MBR_ACCESS_READ, NULL),
        MBR_UNKNOWN_OBJECT, "map_shared of another instance's extent");
}

static void run_misaligned(mbr_trial *trial)
{
    owner from = make_owner(trial, 1);
    uint64_t granule = trial->granule_bytes;
    const uint64_t offsets[] = {granule + 1, granule + granule / 2, 2 * granule - 1};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0] && granule > 1; i++)
        mbr_expect_status(trial, try_share(trial, &from, offsets[i], from.extent_id),
            MBR_MISALIGNED, "map_shared at no multiple of the granule");
}

static void run_overlap(mbr_trial *trial)
{
    owner from = make_owner(trial, 3);
    mbr_place place = from.place;
    mbr_step_commit(trial, &place, 10, 2);
    mbr_step_write(trial, &place, 10, 2, 4);
    for (uint64_t at = 8; at < 12; at++)
        mbr_expect_status(trial, try_share(trial, &from, at * trial->granule_bytes, from.extent_id),
            MBR_ALREADY_EXISTS, "map_shared over a mapping");
    MBR_EXPECT(trial, mbr_step_look(trial, &place, 10, 2, 4) == MBR_MEMORY_OK,
        "a refused map_shared leaves the mapping that is there", "%s",
        mbr_memory_word(mbr_step_look(trial, &place, 10, 2, 4)));
    mbr_expect_status(trial, try_share(trial, &from, 0, from.extent_id), MBR_ALREADY_EXISTS,
        "map_shared over the owner's own mapping");
}

static void run_past_the_end(mbr_trial *trial)
{
    owner from = make_owner(trial, 2);
    uint64_t granule = trial->granule_bytes;
    const uint64_t offsets[] = {15 * granule, 16 * granule, 400 * granule};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++)
        mbr_expect_status(trial, try_share(trial, &from, offsets[i], from.extent_id),
            MBR_OUT_OF_RANGE, "map_shared beyond the reservation's end");
}

static void run_refused_leaves_nothing(mbr_trial *trial)
{
    mbr_outcome outcome = {0};
    owner from = make_owner(trial, 1);
    uint64_t granule = trial->granule_bytes;
    MBR_NEED(trial,
        mbr_try_share(trial, &trial->subject, from.place.id, 3 * granule, from.extent_id, 2,
            &outcome) != MBR_OK,
        "map_shared with access 2 is not refused");
    mbr_query_outcome seen = mbr_step_query(trial, &from.place, 3);
    MBR_EXPECT(trial, seen.extent_id == 0, "a refused map_shared leaves nothing",
        "query tells extent %lu there", seen.extent_id);
    mbr_step_unmap(trial, &from.place, 0, 1);
    mbr_expect_status(trial, mbr_try_destroy(trial, &trial->subject, from.extent_id, NULL), MBR_OK,
        "extent_destroy with no mapping left");
}

static void run_bad_access(mbr_trial *trial)
{
    const uint32_t accesses[] = {2, 4, UINT32_MAX};
    owner from = make_owner(trial, 1);
    for (size_t i = 0; i < sizeof accesses / sizeof accesses[0]; i++)
        mbr_expect_callers_bug(trial,
            mbr_try_share(trial, &trial->subject, from.place.id, 2 * trial->granule_bytes,
                from.extent_id, accesses[i], NULL),
            "map_shared with an access that is none of the three");
}

static void run_doubled_device(mbr_trial *trial)
{
    mbr_outcome outcome = {0};
    owner from = make_owner(trial, 1);
    const mbr_access list[] = {{trial->own_device_index, MBR_ACCESS_READ},
        {trial->own_device_index, MBR_ACCESS_READ_WRITE}};
    const mbr_map_shared_request request = {MBR_SIZED(mbr_map_shared_request), .access_count = 2,
        .reservation_id = from.place.id, .offset_bytes = 2 * trial->granule_bytes,
        .extent_id = from.extent_id, .access = list};
    mbr_expect_callers_bug(trial, mbr_drive_map_shared(trial, &trial->subject, &request, &outcome),
        "map_shared with a device that the list names twice");
}

#define SHR MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL | MBR_NEEDS_SHARED
#define SHR_SEEN MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL | MBR_NEEDS_SHARED | MBR_NEEDS_HOST_ORACLE
#define SHR_READ_ONLY MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL | MBR_NEEDS_SHARED | MBR_NEEDS_READ_ONLY

static const mbr_check checks[] = {
    {"SHR-001", 2, SHR, "C5", "what is written through one address is read through the other",
        "A sharer of a prefix with a copy of its own reads tokens that were never written.",
        run_same_memory, 0, 0},
    {"SHR-002", 2, SHR, "C5", "map_shared says the extent's bytes as mapped and none as owned",
        "Billed twice, sharing saves nothing.", run_owned_once, 0, 0},
    {"SHR-003", 3, SHR, "C5", "stats counts an alias as mapped, and the extent once as owned",
        "The figures that operators see are those of the ledger.", run_stats, 0, 0},
    {"SHR-004", 3, SHR_SEEN, "C5", "sharers cost no memory in the system's figures",
        "A copy behind a sharer's address is memory that nobody pays.", run_costs_nothing, 0, 0},
    {"SHR-005", 3, SHR, "C5", "256 sharers in several reservations all see the owner's writes",
        "Popular prefixes have hundreds of readers.", run_many, 0, 0},
    {"SHR-006", 2, SHR, "C5", "the memory lives until the last mapping, also past the first one",
        "The owner of a prefix often leaves before its sharers.", run_first_leaves, 0, 0},
    {"SHR-007", 3, SHR, "C5", "a sharer that ends takes nothing from the others",
        "One sequence that ends must not end its siblings.", run_sharer_leaves, 0, 0},
    {"SHR-008", 3, SHR, "C5", "each mapping ends with its own bytes, in any order",
        "The refund is per mapping, and owned memory is released by destroy alone.",
        run_unmap_says_its_bytes, 0, 0},
    {"SHR-009", 3, SHR, "C22", "extent_destroy is busy until the last mapping is gone",
        "Counting the first mapping only frees the memory under every sharer.", run_destroy_busy, 0,
        0},
    {"SHR-010", 3, SHR_SEEN, "C5", "an extent that was shared is given back to the system",
        "A reference that nobody drops is a leak per prefix.", run_gives_back, 0, 0},
    {"SHR-011", 3, SHR, "C32", "report counts each mapping, and the extent once",
        "Unload asks this count; a sharer that is left out is unmapped code's memory.", run_report,
        0, 0},
    {"SHR-012", 2, SHR_READ_ONLY, "C4", "a read-only sharer can read and not write",
        "One sequence that writes into the prefix changes every other one's answers.",
        run_read_only, 0, 0},
    {"SHR-013", 3, SHR, "C5", "each mapping has an access of its own",
        "A sharer is parked and woken without the others.", run_access_apart, 0, 0},
    {"SHR-014", 3, SHR, "C5", "query tells each mapping's own place and access",
        "After a failure the host looks before it touches anything again.", run_query, 0, 0},
    {"SHR-015", 3, SHR, "C22", "map_shared of an extent that is not mapped is refused",
        "The first mapping is map's; who shares what is not there has lost it.", run_not_mapped, 0,
        0},
    {"SHR-016", 3, SHR, "C22", "map_shared of forged, destroyed and foreign ids is refused",
        "An id is all that separates one tenant's memory from another's.", run_stale, 0, 0},
    {"SHR-017", 3, SHR, "C7", "map_shared at no multiple of the granule is refused",
        "A plugin that rounds maps over what stands there.", run_misaligned, 0, 0},
    {"SHR-018", 3, SHR, "C22", "map_shared over a mapping is refused, and leaves it",
        "The mapping below would be gone with its owner still reading.", run_overlap, 0, 0},
    {"SHR-019", 3, SHR, "C7", "map_shared beyond the reservation's end is refused",
        "The addresses behind it belong to somebody else.", run_past_the_end, 0, 0},
    {"SHR-020", 3, SHR, "C5", "a refused map_shared leaves nothing",
        "A mapping that the host does not know of keeps the extent for ever.",
        run_refused_leaves_nothing, 0, 0},
    {"SHR-021", 3, SHR, "C7", "a sharer's access that is none of the three is refused",
        "What 2 means is a guess, and the guess is a right that nobody gave.", run_bad_access, 0,
        0},
    {"SHR-022", 3, SHR, "C4", "map_shared says zero of memory that is zero only",
        "A sharer that believes it zeroes nothing, and reads the owner's tokens.",
        run_content_is_honest, 0, 0},
    {"SHR-023", 3, SHR, "C7", "a list of accesses that names a device twice is refused",
        "Which of the two holds is a guess, and half of all guesses give more than was meant.",
        run_doubled_device, 0, 0},
};

const mbr_group mbr_group_shr = MBR_GROUP("SHR", "one extent at several addresses", checks);
