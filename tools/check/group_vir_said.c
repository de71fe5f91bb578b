/* Group VIR, what a plugin says of its extents and their numbers: grants and facts that nobody can
 * see in the memory's contents. */
#include "tools/check/oracle.h"
#include "tools/check/process.h"
#include "tools/check/steps.h"

#define MIB UINT64_C(1048576)

/* ---- Grants ---------------------------------------------------------------------------------- */

/* The flags that are granted to an extent of that id. */
static uint32_t grant(
    mbr_trial *trial, uint64_t id, uint64_t bytes, uint32_t flags, uint32_t numa_node)
{
    mbr_outcome outcome = {0};
    const mbr_extent_create_request request = {MBR_SIZED(mbr_extent_create_request), .flags = flags,
        .extent_id = id, .bytes = bytes, .max_owned_bytes = UINT64_MAX, .numa_node = numa_node};
    mbr_need_ok(trial, mbr_drive_extent_create(trial, &trial->subject, &request, &outcome),
        "extent_create with an optional flag");
    return outcome.granted_flags;
}

/* Written through an address that huge pages could stand behind. */
static void expect_huge_if_granted(mbr_trial *trial)
{
    uint64_t granules = mbr_step_granules(trial, 8 * MIB), bytes = granules * trial->granule_bytes;
    uint64_t id = mbr_trial_id(trial);
    mbr_outcome outcome = {0};
    mbr_place place = {.id = mbr_trial_id(trial)};
    mbr_step_extent_fits(trial, bytes);
    if ((grant(trial, id, bytes, MBR_EXTENT_HUGE_PAGES, 0) & MBR_EXTENT_HUGE_PAGES) == 0)
        return;
    mbr_need_ok(trial, mbr_try_reserve(trial, &trial->subject, place.id, bytes, 2 * MIB, &outcome),
        "reserve");
    place.address = outcome.address;
    mbr_step_map(trial, &place, 0, id);
    mbr_step_protect(trial, &place, 0, granules, MBR_ACCESS_READ_WRITE);
    mbr_step_write(trial, &place, 0, granules, 1);
    mbr_huge huge = mbr_oracle_huge(trial, place.address, bytes);
    if (huge == MBR_HUGE_UNKNOWN)
        mbr_trial_figures(trial, "the system has no huge page now: a grant of them was not judged");
    MBR_EXPECT(trial, huge != MBR_HUGE_NOWHERE,
        "huge pages are granted where the system has put some there",
        "MBR_EXTENT_HUGE_PAGES granted, and %lu bytes are written to without a huge page", bytes);
}

static void run_grants_hold(mbr_trial *trial)
{
    const uint32_t nowhere[] = {4095, UINT32_MAX};
    for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++) {
        uint32_t granted = grant(
            trial, mbr_trial_id(trial), trial->granule_bytes, MBR_EXTENT_ON_NUMA_NODE, nowhere[i]);
        MBR_EXPECT(trial, (granted & MBR_EXTENT_ON_NUMA_NODE) == 0,
            "a node that is not there is not granted", "node %u: granted 0x%x", nowhere[i],
            granted);
    }
    const uint32_t seen = MBR_NEEDS_HOST_ORACLE | MBR_NEEDS_HOST_ACCESS;
    if ((trial->subject.offered & seen) == seen)
        expect_huge_if_granted(trial);
}

/* ---- Contents -------------------------------------------------------------------------------- */

static void run_fresh_word(mbr_trial *trial)
{
    uint64_t fresh =
        mbr_subject_fact(trial, &trial->subject, MBR_FACT_FRESH_CONTENT, MBR_CONTENT_UNDEFINED);
    const uint32_t flags[] = {0, MBR_EXTENT_ZEROED};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        mbr_outcome outcome = {0};
        mbr_status status = mbr_try_create(trial, &trial->subject, mbr_trial_id(trial),
            trial->granule_bytes, flags[i], UINT64_MAX, &outcome);
        if (status == MBR_UNSUPPORTED && flags[i] != 0)
            continue;
        mbr_need_ok(trial, status, "extent_create");
        bool is_promised = fresh == MBR_CONTENT_ZERO || flags[i] != 0;
        MBR_EXPECT(trial,
            outcome.content == MBR_CONTENT_ZERO ||
                (outcome.content == MBR_CONTENT_UNDEFINED && !is_promised),
            "a new extent is zero or undefined, and zero where fact or flag say so",
            "flags 0x%x: content %u, the fact is %lu", flags[i], outcome.content, fresh);
    }
}

/* ---- Facts ----------------------------------------------------------------------------------- */

static void run_descriptors(mbr_trial *trial)
{
    enum { COUNT = 8 };
    uint64_t each = mbr_subject_fact(trial, &trial->subject, MBR_FACT_DESCRIPTORS_PER_EXTENT, 0);
    mbr_step_destroy(trial, mbr_step_create(trial, 1)); /* what is opened once is open then */
    uint64_t before = mbr_process_count_entries("/proc/self/fd");
    for (uint32_t i = 0; i < COUNT; i++)
        (void)mbr_step_create(trial, 1);
    uint64_t after = mbr_process_count_entries("/proc/self/fd");
    MBR_EXPECT(trial, after == before + COUNT * each,
        "each live extent adds as many descriptors as MBR_FACT_DESCRIPTORS_PER_EXTENT tells",
        "%lu before, %lu with %u extents more, the fact is %lu", before, after, COUNT, each);
}

/* The largest of a fact, and the first whole number of granules above it. */
static uint64_t above_the_largest(mbr_trial *trial, uint64_t largest)
{
    if (largest > UINT64_MAX / 2)
        mbr_trial_skip(trial, MBR_SKIP_FACT, "the fact tells no limit");
    return largest - largest % trial->granule_bytes + trial->granule_bytes;
}

static void run_above_extent(mbr_trial *trial)
{
    uint64_t bytes = above_the_largest(trial, mbr_step_extent_limit(trial));
    mbr_status status =
        mbr_try_create(trial, &trial->subject, mbr_trial_id(trial), bytes, 0, UINT64_MAX, NULL);
    MBR_NEED(trial, status != MBR_OK, "an extent of %lu bytes is made", bytes);
    mbr_expect_callers_bug(trial, status, "an extent above MBR_FACT_EXTENT_MAX_BYTES");
}

static void run_above_reservation(mbr_trial *trial)
{
    uint64_t bytes = above_the_largest(trial, mbr_step_reservation_limit(trial));
    mbr_expect_callers_bug(trial,
        mbr_try_reserve(trial, &trial->subject, mbr_trial_id(trial), bytes, 0, NULL),
        "a reservation above MBR_FACT_RESERVATION_MAX_BYTES");
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void run_one_number(mbr_trial *trial)
{
    mbr_subject *self = &trial->subject;
    uint64_t number = mbr_trial_id(trial), granule = trial->granule_bytes;
    mbr_outcome outcome = {0};
    const mbr_allocate_request allocate = {MBR_SIZED(mbr_allocate_request), .allocation_id = number,
        .bytes = granule, .max_owned_bytes = UINT64_MAX};
    const char *what = "an object whose number is another class's, too";
    mbr_need_ok(trial, mbr_try_reserve(trial, self, number, granule, 0, NULL), "reserve");
    mbr_expect_status(
        trial, mbr_try_create(trial, self, number, granule, 0, UINT64_MAX, NULL), MBR_OK, what);
    mbr_expect_status(trial, mbr_drive_allocate(trial, self, &allocate, &outcome), MBR_OK, what);
    mbr_expect_status(trial, mbr_try_map(trial, self, number, 0, number, NULL), MBR_OK,
        "map of an extent into the reservation of its number");
}

#define VIR MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL

static const mbr_check checks[] = {
    {"VIR-019", 3, VIR, "C4, C6", "a reservation above the largest is the caller's bug",
        "Of the exhausted class it would be asked for again and again, with others evicted for it.",
        run_above_reservation, 0, 0},
    {"VIR-020", 3, VIR, "C22", "one number may name a reservation, an extent and an allocation",
        "A host counts each class by itself.", run_one_number, 0, 0},
    {"VIR-048", 3, VIR, "C15", "an optional flag that is granted holds",
        "Who is granted huge pages or a node plans by them, and looks elsewhere for lost time.",
        run_grants_hold, 0, 0},
    {"VIR-049", 3, VIR, "C4", "extents hold as many descriptors as the fact tells",
        "The host plans its extents by the process's limit of descriptors.", run_descriptors, 0, 0},
    {"VIR-050", 3, VIR, "C4, C6", "an extent above the largest is the caller's bug",
        "Of the exhausted class it would be asked for again and again, with others evicted for it.",
        run_above_extent, 0, 0},
    {"VIR-065", 3, VIR, "C4, C5, C15",
        "extent_create says zero or undefined, as fact and flag want",
        "The host zeroes where nobody promised zeros: a promise that is not repeated costs a pass "
        "over the memory.",
        run_fresh_word, 0, 0},
};

const mbr_group mbr_group_vir_said = MBR_GROUP("VIR", "virtual memory: what is said of it", checks);
