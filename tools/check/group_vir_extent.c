/* Group VIR, extents: what they own, what they refuse, what is in them. */
#include "tools/check/oracle.h"
#include "tools/check/steps.h"

#define MIB UINT64_C(1048576)
#define LARGE_BYTES (12 * MIB) /* far above the oracle's slack */

static mbr_status create_fresh(
    mbr_trial *trial, uint64_t bytes, uint32_t flags, mbr_outcome *outcome)
{
    return mbr_try_create(
        trial, &trial->subject, mbr_trial_id(trial), bytes, flags, UINT64_MAX, outcome);
}

static uint64_t step_fact(mbr_trial *trial, uint32_t fact, uint64_t otherwise)
{
    return mbr_subject_fact(trial, &trial->subject, fact, otherwise);
}

/* Granules of a large extent, or of as much as the device can give. */
static uint64_t large_granules(mbr_trial *trial, uint64_t bytes)
{
    uint64_t fits = mbr_subject_share_of_free(trial, &trial->subject, bytes, 2);
    if (fits < 2 * MIB)
        mbr_trial_skip(trial, MBR_SKIP_FACT, "%lu bytes are too few to tell", fits);
    return fits < bytes ? fits / trial->granule_bytes : mbr_step_granules(trial, bytes);
}

static int64_t grown(const mbr_oracle *before, const mbr_oracle *after)
{
    return (int64_t)(after->owned_bytes - before->owned_bytes);
}

/* ---- Size ------------------------------------------------------------------------------------ */

static void run_granule(mbr_trial *trial)
{
    uint64_t least = step_fact(trial, MBR_FACT_GRANULE_MIN_BYTES, 0);
    MBR_EXPECT(trial, least > 0, "the smallest granule is told with membrane.virtual", "it is not");
    mbr_place place = mbr_step_reserve(trial, 48);
    for (uint64_t at = 0; at < 48; at++) {
        uint64_t id = mbr_trial_id(trial);
        mbr_status status = mbr_try_create(trial, &trial->subject, id, least, 0, UINT64_MAX, NULL);
        MBR_EXPECT(trial, status == MBR_OK, "an extent of one granule can be made", "%lu bytes: %s",
            least, mbr_status_name(status));
        status = mbr_try_map(trial, &trial->subject, place.id, at * least, id, NULL);
        MBR_EXPECT(trial, status == MBR_OK, "one granule can be mapped at every multiple of it",
            "at %lu of granule %lu: %s", at * least, least, mbr_status_name(status));
    }
}

static void run_owns_its_bytes(mbr_trial *trial)
{
    const uint64_t sizes[] = {1, 2, 3, 7, 16};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mbr_outcome outcome = {0};
        uint64_t bytes = sizes[i] * trial->granule_bytes;
        if (bytes > mbr_step_extent_limit(trial))
            break;
        mbr_expect_status(trial, create_fresh(trial, bytes, 0, &outcome), MBR_OK, "extent_create");
        MBR_EXPECT(trial,
            outcome.newly_owned_bytes >= bytes && outcome.newly_mapped_bytes == 0 &&
                outcome.released_bytes == 0 && outcome.address == 0,
            "an extent owns its bytes, and has no address",
            "of %lu bytes: owns %lu, mapped %lu, released %lu, address 0x%lx", bytes,
            outcome.newly_owned_bytes, outcome.newly_mapped_bytes, outcome.released_bytes,
            outcome.address);
    }
}

/* Where pages come with the first touch only, they are touched. */
static uint64_t make_large(
    mbr_trial *trial, mbr_outcome *outcome, mbr_oracle *before, mbr_oracle *after)
{
    uint64_t granules = large_granules(trial, LARGE_BYTES), id = mbr_trial_id(trial);
    mbr_place place = mbr_step_reserve(trial, granules);
    mbr_step_extent_fits(trial, granules * trial->granule_bytes);
    mbr_oracle_read(trial, before);
    mbr_need_ok(trial,
        mbr_try_create(
            trial, &trial->subject, id, granules * trial->granule_bytes, 0, UINT64_MAX, outcome),
        "extent_create");
    if (step_fact(trial, MBR_FACT_POPULATED, 0) == 0) {
        mbr_step_map(trial, &place, 0, id);
        mbr_step_protect(trial, &place, 0, granules, MBR_ACCESS_READ_WRITE);
        mbr_step_write(trial, &place, 0, granules, 1);
        mbr_step_unmap(trial, &place, 0, granules);
    }
    mbr_oracle_read(trial, after);
    return id;
}

static void run_is_there(mbr_trial *trial)
{
    mbr_outcome outcome = {0};
    mbr_oracle before, after;
    uint64_t bytes = large_granules(trial, LARGE_BYTES) * trial->granule_bytes;
    make_large(trial, &outcome, &before, &after);
    MBR_EXPECT(trial, grown(&before, &after) + (int64_t)MBR_ORACLE_SLACK_BYTES >= (int64_t)bytes,
        "an extent is memory that the system sees", "of %lu bytes, the process grew by %ld", bytes,
        grown(&before, &after));
}

static void run_no_more(mbr_trial *trial)
{
    mbr_outcome outcome = {0};
    mbr_oracle before, after;
    make_large(trial, &outcome, &before, &after);
    MBR_EXPECT(trial,
        grown(&before, &after) <= (int64_t)(outcome.newly_owned_bytes + MBR_ORACLE_SLACK_BYTES),
        "an extent owns no more than it says", "said %lu, the process grew by %ld",
        outcome.newly_owned_bytes, grown(&before, &after));
}

static void run_gives_back(mbr_trial *trial)
{
    mbr_outcome outcome = {0};
    mbr_oracle before, after;
    uint64_t id = make_large(trial, &outcome, &before, &after);
    mbr_step_destroy(trial, id);
    mbr_oracle_read(trial, &after);
    MBR_EXPECT(trial, grown(&before, &after) <= (int64_t)MBR_ORACLE_SLACK_BYTES,
        "a destroyed extent's memory is the system's again", "%ld bytes are still there",
        grown(&before, &after));
}

static void run_releases_what_it_took(mbr_trial *trial)
{
    const uint64_t sizes[] = {1, 2, 5, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mbr_outcome made = {0}, ended = {0};
        uint64_t id = mbr_trial_id(trial);
        mbr_need_ok(trial,
            mbr_try_create(
                trial, &trial->subject, id, sizes[i] * trial->granule_bytes, 0, UINT64_MAX, &made),
            "extent_create");
        mbr_expect_status(
            trial, mbr_try_destroy(trial, &trial->subject, id, &ended), MBR_OK, "extent_destroy");
        MBR_EXPECT(trial, ended.released_bytes == made.newly_owned_bytes,
            "destroy releases what create took", "took %lu, released %lu", made.newly_owned_bytes,
            ended.released_bytes);
    }
}

static void run_no_bytes(mbr_trial *trial)
{
    mbr_expect_status(
        trial, create_fresh(trial, 0, 0, NULL), MBR_INVALID_ARGUMENT, "extent_create of 0 bytes");
}

static void run_part_of_a_granule(mbr_trial *trial)
{
    uint64_t granule = trial->granule_bytes;
    const uint64_t sizes[] = {1, granule - 1, granule + 1, 5 * granule + granule / 2};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && granule > 1; i++)
        mbr_expect_status(trial, create_fresh(trial, sizes[i], 0, NULL), MBR_MISALIGNED,
            "extent_create of no whole number of granules");
}

static void run_wrap(mbr_trial *trial)
{
    uint64_t highest = UINT64_MAX - UINT64_MAX % trial->granule_bytes;
    for (uint64_t i = 0; i < 3; i++) {
        mbr_status status = create_fresh(trial, highest - i * trial->granule_bytes, 0, NULL);
        MBR_EXPECT(trial, status != MBR_OK, "a size near 2^64 is refused", "%lu bytes: %s",
            highest - i * trial->granule_bytes, mbr_status_name(status));
    }
}

static void run_above_the_largest(mbr_trial *trial)
{
    uint64_t largest = step_fact(trial, MBR_FACT_EXTENT_MAX_BYTES, UINT64_MAX);
    if (largest > UINT64_MAX / 2)
        mbr_trial_skip(trial, MBR_SKIP_FACT, "MBR_FACT_EXTENT_MAX_BYTES tells no limit");
    uint64_t above = largest - largest % trial->granule_bytes + trial->granule_bytes;
    mbr_status status = create_fresh(trial, above, 0, NULL);
    MBR_EXPECT(trial, status != MBR_OK, "an extent above the largest is refused",
        "%lu bytes, the largest is %lu: %s", above, largest, mbr_status_name(status));
}

static void run_large(mbr_trial *trial)
{
    uint64_t granules = large_granules(trial, 24 * MIB);
    mbr_place place = mbr_step_reserve(trial, granules);
    mbr_step_commit(trial, &place, 0, granules);
    mbr_memory done = mbr_memory_write(trial, place.address, granules * trial->granule_bytes, 1);
    mbr_memory seen = mbr_step_look(trial, &place, 0, granules, 1);
    MBR_EXPECT(trial, done == MBR_MEMORY_OK && seen == MBR_MEMORY_OK,
        "a large extent is memory to its end", "%lu granules: a write: %s, read again: %s",
        granules, mbr_memory_word(done), mbr_memory_word(seen));
}

/* More than the device has, where the plugin says that it refuses that. */
static void run_past_capacity(mbr_trial *trial)
{
    uint64_t past = step_fact(trial, MBR_FACT_PAST_PHYSICAL_SIZE, MBR_PAST_KILL);
    uint64_t total = mbr_step_stats(trial).total_bytes;
    if (past != MBR_PAST_REFUSE || total == MBR_UNKNOWN_BYTES || total > UINT64_MAX / 4)
        mbr_trial_skip(trial, MBR_SKIP_FACT, "MBR_FACT_PAST_PHYSICAL_SIZE is not MBR_PAST_REFUSE");
    uint64_t bytes = mbr_step_granules(trial, 2 * total) * trial->granule_bytes;
    mbr_status status = create_fresh(trial, bytes, 0, NULL);
    MBR_EXPECT(trial, status != MBR_OK, "more than there is is refused, where that is said",
        "%lu bytes of %lu: %s", bytes, total, mbr_status_name(status));
    mbr_expect_status(trial, create_fresh(trial, trial->granule_bytes, 0, NULL), MBR_OK,
        "extent_create of one granule after that");
}

/* ---- Budget ---------------------------------------------------------------------------------- */

static uint64_t few_granules(mbr_trial *trial)
{
    uint64_t limit = mbr_step_extent_limit(trial);
    return 4 * trial->granule_bytes <= limit ? 4 * trial->granule_bytes : trial->granule_bytes;
}

static void run_over_budget(mbr_trial *trial)
{
    uint64_t bytes = few_granules(trial), id = mbr_trial_id(trial);
    const uint64_t budgets[] = {bytes - 1, bytes / 2, 1, 0};
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++)
        mbr_expect_status(trial,
            mbr_try_create(trial, &trial->subject, id, bytes, 0, budgets[i], NULL), MBR_OVER_BUDGET,
            "extent_create of more than may be owned");
    mbr_expect_status(trial, mbr_try_create(trial, &trial->subject, id, bytes, 0, UINT64_MAX, NULL),
        MBR_OK, "the id that was refused, with room");
}

static void run_exact_budget(mbr_trial *trial)
{
    mbr_outcome outcome = {0};
    uint64_t bytes = few_granules(trial);
    mbr_need_ok(trial, create_fresh(trial, bytes, 0, &outcome), "extent_create");
    uint64_t owned_bytes = outcome.newly_owned_bytes;
    mbr_expect_status(trial,
        mbr_try_create(trial, &trial->subject, mbr_trial_id(trial), bytes, 0, owned_bytes, NULL),
        MBR_OK, "extent_create of exactly what may be owned");
}

/* Refusals of something large, by the plugin's figures and by the system's: a plugin that takes
 * first and counts then has to give it all back. */
static void run_no_residue(mbr_trial *trial)
{
    mbr_oracle before, after;
    mbr_outcome outcome = {0};
    uint64_t bytes = mbr_step_granules(trial, LARGE_BYTES) * trial->granule_bytes;
    uint64_t residual_bytes = 0, owned_bytes = mbr_step_stats(trial).owned_bytes;
    mbr_oracle_read(trial, &before);
    for (int i = 0; i < 4; i++) {
        mbr_status status = mbr_try_create(trial, &trial->subject, mbr_trial_id(trial), bytes, 0,
            bytes - (uint64_t)i - 1, &outcome);
        MBR_NEED(trial, status != MBR_OK, "extent_create over its budget is not refused");
        residual_bytes += outcome.residual_owned_bytes;
    }
    mbr_oracle_read(trial, &after);
    MBR_EXPECT(trial, mbr_oracle_grew_by(&before, &after, (int64_t)residual_bytes),
        "a refused create leaves nothing, or says what", "said %lu, the process grew by %ld",
        residual_bytes, grown(&before, &after));
    MBR_EXPECT(trial, mbr_step_stats(trial).owned_bytes == owned_bytes + residual_bytes,
        "the figures after a refused create are those from before, and the residual",
        "owned %lu before, %lu after, residual %lu", owned_bytes, mbr_step_stats(trial).owned_bytes,
        residual_bytes);
}

/* ---- Ids ------------------------------------------------------------------------------------- */

static void run_doubled_id(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 1);
    uint64_t id = mbr_step_commit(trial, &place, 0, 1);
    mbr_step_write(trial, &place, 0, 1, 1);
    mbr_expect_status(trial,
        mbr_try_create(trial, &trial->subject, id, trial->granule_bytes, 0, UINT64_MAX, NULL),
        MBR_ALREADY_EXISTS, "extent_create with a live extent's id");
    MBR_EXPECT(trial, mbr_step_look(trial, &place, 0, 1, 1) == MBR_MEMORY_OK,
        "the live extent stays as it was", "%s",
        mbr_memory_word(mbr_step_look(trial, &place, 0, 1, 1)));
}

static void run_destroy_unknown(mbr_trial *trial)
{
    uint64_t id = mbr_step_create(trial, 1);
    mbr_subject *self = &trial->subject;
    mbr_expect_status(trial, mbr_try_destroy(trial, self, mbr_trial_id(trial), NULL),
        MBR_UNKNOWN_OBJECT, "extent_destroy of an id that never was");
    mbr_step_destroy(trial, id);
    mbr_expect_status(trial, mbr_try_destroy(trial, self, id, NULL), MBR_UNKNOWN_OBJECT,
        "a second extent_destroy");
}

static void run_anothers_extent(mbr_trial *trial)
{
    mbr_subject another;
    uint64_t id = mbr_step_create(trial, 1), place_id = mbr_trial_id(trial);
    mbr_step_open_another(trial, &another);
    mbr_need_ok(trial, mbr_try_reserve(trial, &another, place_id, trial->granule_bytes, 0, NULL),
        "reserve");
    mbr_expect_status(trial, mbr_try_map(trial, &another, place_id, 0, id, NULL),
        MBR_UNKNOWN_OBJECT, "map of another instance's extent");
    mbr_expect_status(trial, mbr_try_destroy(trial, &another, id, NULL), MBR_UNKNOWN_OBJECT,
        "extent_destroy of another instance's extent");
}

static void run_no_id(mbr_trial *trial)
{
    mbr_expect_callers_bug(trial,
        mbr_try_create(trial, &trial->subject, 0, trial->granule_bytes, 0, UINT64_MAX, NULL),
        "extent_create with id 0");
}

/* ---- Contents -------------------------------------------------------------------------------- */

/* Leaves memory behind that a careless plugin hands out again as it is. */
static void soil(mbr_trial *trial, uint64_t granules)
{
    mbr_place place = mbr_step_reserve(trial, granules);
    uint64_t id = mbr_step_commit(trial, &place, 0, granules);
    mbr_step_write(trial, &place, 0, granules, 99);
    mbr_step_unmap(trial, &place, 0, granules);
    mbr_step_destroy(trial, id);
}

static void expect_zero(mbr_trial *trial, uint64_t id, uint64_t granules, const char *said)
{
    mbr_place place = mbr_step_reserve(trial, granules);
    mbr_step_map(trial, &place, 0, id);
    mbr_step_protect(trial, &place, 0, granules, MBR_ACCESS_READ_WRITE);
    mbr_memory seen = mbr_step_look(trial, &place, 0, granules, 0);
    MBR_NEED(trial, seen != MBR_MEMORY_REFUSED, "no access");
    MBR_EXPECT(
        trial, seen == MBR_MEMORY_OK, said, "%lu granules: %s", granules, mbr_memory_word(seen));
}

static void run_zeroed(mbr_trial *trial)
{
    for (uint64_t granules = 1; granules <= 3; granules++) {
        mbr_outcome outcome = {0};
        uint64_t id = mbr_trial_id(trial);
        soil(trial, granules);
        mbr_status status = mbr_try_create(trial, &trial->subject, id,
            granules * trial->granule_bytes, MBR_EXTENT_ZEROED, UINT64_MAX, &outcome);
        if (status == MBR_UNSUPPORTED)
            mbr_trial_skip(trial, MBR_SKIP_NOT_OFFERED, "MBR_EXTENT_ZEROED");
        mbr_need_ok(trial, status, "extent_create with MBR_EXTENT_ZEROED");
        expect_zero(trial, id, granules, "an extent that was asked for zeroed is zero");
    }
}

static void run_fresh_content(mbr_trial *trial)
{
    bool is_zero =
        step_fact(trial, MBR_FACT_FRESH_CONTENT, MBR_CONTENT_UNDEFINED) == MBR_CONTENT_ZERO;
    for (uint64_t granules = 4; granules <= 6; granules++) {
        mbr_outcome outcome = {0};
        uint64_t id = mbr_trial_id(trial);
        soil(trial, granules);
        mbr_need_ok(trial,
            mbr_try_create(trial, &trial->subject, id, granules * trial->granule_bytes, 0,
                UINT64_MAX, &outcome),
            "extent_create");
        if (!is_zero && outcome.content != MBR_CONTENT_ZERO)
            mbr_trial_skip(trial, MBR_SKIP_FACT, "fresh memory is not said to be zero");
        expect_zero(trial, id, granules, "fresh memory is zero where that is said");
    }
}

static void run_keeps_others(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 18);
    uint64_t ids[3];
    for (uint64_t i = 0; i < 3; i++) {
        ids[i] = mbr_step_commit(trial, &place, i * 6, 6);
        mbr_step_write(trial, &place, i * 6, 6, i + 1);
    }
    mbr_step_unmap(trial, &place, 6, 6);
    mbr_step_destroy(trial, ids[1]);
    for (uint64_t i = 0; i < 3; i += 2)
        MBR_EXPECT(trial, mbr_step_look(trial, &place, i * 6, 6, i + 1) == MBR_MEMORY_OK,
            "destroying one extent leaves all others", "the one %s it: %s",
            i == 0 ? "before" : "behind",
            mbr_memory_word(mbr_step_look(trial, &place, i * 6, 6, i + 1)));
}

static void run_destroy_mapped(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 2);
    uint64_t id = mbr_step_commit(trial, &place, 0, 2);
    mbr_step_write(trial, &place, 0, 2, 1);
    mbr_expect_status(trial, mbr_try_destroy(trial, &trial->subject, id, NULL), MBR_BUSY,
        "extent_destroy while it is mapped");
    MBR_EXPECT(trial, mbr_step_look(trial, &place, 0, 2, 1) == MBR_MEMORY_OK,
        "a refused destroy leaves the contents", "%s",
        mbr_memory_word(mbr_step_look(trial, &place, 0, 2, 1)));
    mbr_step_unmap(trial, &place, 0, 2);
    mbr_expect_status(trial, mbr_try_destroy(trial, &trial->subject, id, NULL), MBR_OK,
        "extent_destroy after the last unmap");
}

/* ---- Flags ----------------------------------------------------------------------------------- */

static void run_critical_flag(mbr_trial *trial)
{
    for (uint32_t bit = 4; bit <= 0x8000; bit *= 2) {
        mbr_status status = create_fresh(trial, trial->granule_bytes, bit, NULL);
        MBR_EXPECT(trial, status == MBR_UNSUPPORTED, "an unknown critical flag is refused",
            "flag 0x%x: %s", bit, mbr_status_name(status));
    }
}

static void run_optional_flag(mbr_trial *trial)
{
    for (uint32_t bit = 0x10000; bit != 0; bit *= 2) {
        mbr_status status = create_fresh(trial, trial->granule_bytes, bit, NULL);
        MBR_EXPECT(trial, status == MBR_OK, "an optional flag never makes extent_create fail",
            "flag 0x%x: %s", bit, mbr_status_name(status));
    }
}

static void run_granted_flags(mbr_trial *trial)
{
    const uint32_t known =
        MBR_EXTENT_ZEROED | MBR_EXTENT_EXPORTABLE | MBR_EXTENT_HUGE_PAGES | MBR_EXTENT_ON_NUMA_NODE;
    const uint32_t asked[] = {0, MBR_EXTENT_HUGE_PAGES, MBR_EXTENT_ON_NUMA_NODE, 0x80000000u,
        MBR_EXTENT_HUGE_PAGES | 0x40000000u};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        mbr_outcome outcome = {0};
        mbr_need_ok(
            trial, create_fresh(trial, trial->granule_bytes, asked[i], &outcome), "extent_create");
        MBR_EXPECT(trial, (outcome.granted_flags & ~(asked[i] & known)) == 0,
            "granted are only flags that were asked for and are known", "asked 0x%x, granted 0x%x",
            asked[i], outcome.granted_flags);
    }
}

static void run_critical_is_granted(mbr_trial *trial)
{
    const uint32_t asked[] = {
        MBR_EXTENT_ZEROED, MBR_EXTENT_EXPORTABLE, MBR_EXTENT_ZEROED | MBR_EXTENT_EXPORTABLE};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        mbr_outcome outcome = {0};
        mbr_status status = create_fresh(trial, trial->granule_bytes, asked[i], &outcome);
        MBR_EXPECT(trial,
            status == MBR_UNSUPPORTED ||
                (status == MBR_OK && (outcome.granted_flags & asked[i]) == asked[i]),
            "a critical flag is refused or granted", "asked 0x%x: %s, granted 0x%x", asked[i],
            mbr_status_name(status), outcome.granted_flags);
    }
}

#define VIR MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL
#define VIR_SEEN MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL | MBR_NEEDS_HOST_ORACLE

static const mbr_check checks[] = {
    {"VIR-021", 2, VIR, "C4", "one granule can be made and mapped at every multiple of it",
        "Hosts plan in the granule that the fact tells; a larger one refuses their plans.",
        run_granule, 0, 0},
    {"VIR-022", 2, VIR, "C5", "extent_create owns at least the bytes of the extent",
        "What is taken and not told is paid by nobody.", run_owns_its_bytes, 0, 0},
    {"VIR-023", 2, VIR_SEEN, "C5", "an extent is memory that the system sees",
        "A create that does nothing passes every test that asks the plugin only.", run_is_there, 0,
        0},
    {"VIR-024", 3, VIR_SEEN, "C5", "extent_create takes no more than it says",
        "The ledger refuses by what plugins say; what they hide ends in a killed process.",
        run_no_more, 0, 0},
    {"VIR-025", 3, VIR_SEEN, "C5", "extent_destroy gives the memory to the system",
        "Memory that is released in name only is missing for the next model.", run_gives_back, 0,
        0},
    {"VIR-026", 2, VIR, "C5, C23", "extent_destroy releases what extent_create took",
        "A refund larger than the charge lets the host believe in memory that is not there.",
        run_releases_what_it_took, 0, 0},
    {"VIR-027", 3, VIR, "C7", "an extent of 0 bytes is refused",
        "Size 0 is a caller's bug; a handle for nothing can be mapped nowhere.", run_no_bytes, 0,
        0},
    {"VIR-028", 3, VIR, "C7", "a size that is no whole number of granules is refused",
        "A plugin that rounds owns bytes that the host does not know of.", run_part_of_a_granule, 0,
        0},
    {"VIR-029", 3, VIR, "C7", "sizes near 2^64 are refused",
        "A sum that wraps gives a small extent to who asked for a large one.", run_wrap, 0, 0},
    {"VIR-030", 3, VIR, "C4", "an extent above the largest that the fact tells is refused",
        "Some drivers make a smaller handle and say nothing.", run_above_the_largest, 0, 0},
    {"VIR-031", 3, VIR, "C5", "extent_create refuses to own a byte above the budget",
        "The budget is what the ledger granted; one byte more is somebody else's.", run_over_budget,
        0, 0},
    {"VIR-032", 3, VIR, "C5", "extent_create works with a budget of exactly what it owns",
        "A host grants what is needed; a plugin that wants more never gets an extent.",
        run_exact_budget, 0, 0},
    {"VIR-033", 3, VIR, "C22", "the id of a live extent is refused, which stays as it was",
        "With two objects behind one id, neither can be given back with certainty.", run_doubled_id,
        0, 0},
    {"VIR-034", 3, VIR, "C22, C23", "extent_destroy of unknown and released ids is refused",
        "Of two releases that race, the second must not hit what was made in between.",
        run_destroy_unknown, 0, 0},
    {"VIR-035", 3, VIR, "C22", "another instance's extent is unknown",
        "Two opens are two instances; one that reaches into the other frees what it does not own.",
        run_anothers_extent, 0, 0},
    {"VIR-036", 3, VIR, "C22", "an extent without an id is refused",
        "query answers 0 where nothing is mapped; an extent 0 would be a hole.", run_no_id, 0, 0},
    {"VIR-037", 2, VIR, "C15", "an extent that was asked for zeroed is zero to the last byte",
        "Another tenant's bytes in memory that is said to be zero are a leak of data.", run_zeroed,
        0, 0},
    {"VIR-038", 3, VIR, "C4", "fresh memory is zero where the plugin says so",
        "Hosts skip their own zeroing on this word.", run_fresh_content, 0, 0},
    {"VIR-039", 3, VIR, "C15", "extent_create refuses unknown critical flags",
        "A critical flag that is ignored is a promise that nobody keeps.", run_critical_flag, 0, 0},
    {"VIR-040", 3, VIR, "C15", "optional flags never make extent_create fail",
        "A newer host sets them without asking; a refusal would end the service.",
        run_optional_flag, 0, 0},
    {"VIR-041", 3, VIR, "C15", "only flags that were asked for and are known are granted",
        "Who reads a granted flag relies on it.", run_granted_flags, 0, 0},
    {"VIR-042", 3, VIR, "C15", "a critical flag is refused or granted",
        "OK without the grant is the silent loss that critical flags exist to prevent.",
        run_critical_is_granted, 0, 0},
    {"VIR-043", 3, VIR_SEEN, "C5", "a refused extent_create leaves nothing, or an exact residual",
        "A failure that keeps memory drains the device with every retry.", run_no_residue, 0, 0},
    {"VIR-044", 3, VIR, "C22", "extent_destroy is busy while the extent is mapped",
        "Memory that goes while an address still leads to it is a use after free.",
        run_destroy_mapped, 0, 0},
    {"VIR-045", 3, VIR, "C22", "destroying one extent leaves the contents of all others",
        "An end that is off by a page destroys a neighbour's tokens.", run_keeps_others, 0, 0},
    {"VIR-046", 3, VIR, "C4", "more than the device has is refused, where that is said",
        "A host that was promised a refusal asks without counting first.", run_past_capacity, 0, 0},
    {"VIR-047", 3, VIR, "C5", "a large extent is memory to its end",
        "Some drivers cut large handles and answer success.", run_large, 0, 0},
};

const mbr_group mbr_group_vir_extent = MBR_GROUP("VIR", "virtual memory: extents", checks);
