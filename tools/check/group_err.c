/* Group ERR: what a call says in words and in figures when it fails, over every slot. Whether it
 * must fail is other groups'. */
#include "tools/check/alc.h"
#include "tools/check/tour.h"

#include <stddef.h>
#include <string.h>

/* The rule is one of every call: the drivers look, the row says at what. */
static void run_tour(mbr_trial *trial)
{
    mbr_tour(trial, NULL);
}

/* ---- Short errors ---------------------------------------------------------------------------- */

static void drive_short_error(mbr_trial *trial, mbr_subject *subject, mbr_slot slot,
    const void *request, uint32_t error_bytes)
{
    unsigned char unseen[MBR_TOUR_OUTCOME_BYTES] = {0};
    mbr_manner_now()->error_bytes = error_bytes;
    (void)mbr_drive(trial, subject, slot, request, unseen);
    mbr_manner_now()->error_bytes = 0;
}

static mbr_status visit_short_text(mbr_trial *trial, mbr_subject *subject, mbr_slot slot,
    bool is_good, const void *request, void *outcome)
{
    const uint32_t start = offsetof(mbr_error, text);
    for (uint32_t room = 1; !is_good && room < MBR_ERROR_TEXT_BYTES; room += room < 24 ? 1 : 29)
        drive_short_error(trial, subject, slot, request, start + room);
    if (!is_good) {
        mbr_manner_now()->without_error = true;
        unsigned char unseen[MBR_TOUR_OUTCOME_BYTES] = {0};
        (void)mbr_drive(trial, subject, slot, request, unseen);
        mbr_manner_now()->without_error = false;
    }
    return mbr_tour_go_on(trial, subject, slot, request, outcome);
}

static void run_short_text(mbr_trial *trial)
{
    mbr_tour(trial, visit_short_text);
}

/* ---- Figures --------------------------------------------------------------------------------- */

typedef struct refusal {
    const char *what;
    mbr_allocate_request request;
    mbr_status status; /* that the contract names */
} refusal;

static mbr_allocate_request ask(mbr_trial *trial, uint64_t bytes, uint64_t max_owned_bytes)
{
    mbr_allocate_request request = mbr_alc_request(trial, bytes);
    request.max_owned_bytes = max_owned_bytes;
    return request;
}

static void run_figures(mbr_trial *trial)
{
    mbr_tour(trial, NULL);
    static const uint64_t sizes[] = {1, 4096, 100000, 0 - UINT64_C(11), UINT64_C(1) << 50};
    mbr_alc unseen;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        (void)mbr_alc_ask(trial, &trial->subject, ask(trial, sizes[i], 0), &unseen);
        (void)mbr_alc_ask(trial, &trial->subject, ask(trial, sizes[i], sizes[i] / 2), &unseen);
    }
}

static mbr_status visit_asked(mbr_trial *trial, mbr_subject *subject, mbr_slot slot, bool is_good,
    const void *request, void *outcome)
{
    mbr_status status = mbr_drive(trial, subject, slot, request, outcome);
    bool asks = slot == MBR_SLOT_allocate || slot == MBR_SLOT_reserve ||
        slot == MBR_SLOT_extent_create || slot == MBR_SLOT_fill || slot == MBR_SLOT_copy;
    MBR_EXPECT(trial,
        is_good || asks || status == MBR_OK || mbr_last_error()->status != status ||
            mbr_last_error()->asked_bytes == 0,
        "asked_bytes is 0 where a call asks for no bytes", "%s: %lu", mbr_slot_name(slot),
        mbr_last_error()->asked_bytes);
    return status;
}

static void run_asked(mbr_trial *trial)
{
    mbr_tour(trial, visit_asked);
    uint64_t round_bytes =
        mbr_subject_fact(trial, &trial->subject, MBR_FACT_ALLOCATION_ROUND_BYTES, 1);
    MBR_NEED(trial, round_bytes != 0, "allocations are rounded to 0 bytes");
    static const uint64_t sizes[] = {4096, 70000, 1048577};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mbr_alc unseen;
        mbr_status status =
            mbr_alc_ask(trial, &trial->subject, ask(trial, sizes[i], sizes[i] / 2), &unseen);
        if (MBR_STATUS_CLASS(status) != MBR_CLASS_EXHAUSTED)
            continue;
        const mbr_error *error = mbr_last_error();
        MBR_EXPECT(trial,
            error->asked_bytes >= sizes[i] && error->asked_bytes % round_bytes == 0 &&
                error->free_bytes < error->asked_bytes,
            "a refusal says what would have been taken, rounded, and the less that there is",
            "%lu bytes rounded to %lu, at most %lu: asked_bytes %lu, free_bytes %lu", sizes[i],
            round_bytes, sizes[i] / 2, error->asked_bytes, error->free_bytes);
    }
}

/* Which figures a slot has a use for. Owned and released bytes are looked at where they are moved.
 */
enum {
    TELLS_ADDRESS = 1,
    TELLS_VALUE = 2,
    TELLS_MAPPED = 4,
    TELLS_UNMAPPED = 8,
    TELLS_CONTENT = 16,
    TELLS_FLAGS = 32,
};

static const uint8_t told[MBR_SLOT_COUNT] = {
    [MBR_SLOT_allocate] = TELLS_ADDRESS | TELLS_MAPPED | TELLS_CONTENT | TELLS_FLAGS,
    [MBR_SLOT_release] = TELLS_UNMAPPED,
    [MBR_SLOT_trim] = TELLS_UNMAPPED,
    [MBR_SLOT_reserve] = TELLS_ADDRESS,
    [MBR_SLOT_extent_create] = TELLS_CONTENT | TELLS_FLAGS,
    [MBR_SLOT_map] = TELLS_MAPPED | TELLS_CONTENT,
    [MBR_SLOT_map_shared] = TELLS_MAPPED | TELLS_CONTENT,
    [MBR_SLOT_protect] = TELLS_CONTENT,
    [MBR_SLOT_unmap] = TELLS_UNMAPPED,
    [MBR_SLOT_signal] = TELLS_VALUE,
    [MBR_SLOT_reached] = TELLS_VALUE,
};

static mbr_status visit_told(mbr_trial *trial, mbr_subject *subject, mbr_slot slot, bool is_good,
    const void *request, void *outcome)
{
    mbr_status status = mbr_drive(trial, subject, slot, request, outcome);
    const mbr_outcome *said = outcome;
    if (!is_good || status != MBR_OK || !mbr_slots[slot].changes)
        return status;
    uint32_t tells = (said->address != 0 ? TELLS_ADDRESS : 0u) |
        (said->value != 0 ? TELLS_VALUE : 0u) |
        (said->newly_mapped_bytes != 0 ? TELLS_MAPPED : 0u) |
        (said->unmapped_bytes != 0 ? TELLS_UNMAPPED : 0u) |
        (said->content != MBR_CONTENT_UNDEFINED ? TELLS_CONTENT : 0u) |
        (said->granted_flags != 0 ? TELLS_FLAGS : 0u);
    MBR_EXPECT(trial, (tells & ~(uint32_t)told[slot]) == 0,
        "a figure that a slot has no use for is 0",
        "%s: address 0x%lx, value %lu, mapped %lu, unmapped %lu, content %u, granted 0x%x",
        mbr_slot_name(slot), said->address, said->value, said->newly_mapped_bytes,
        said->unmapped_bytes, said->content, said->granted_flags);
    return status;
}

static void run_told(mbr_trial *trial)
{
    mbr_tour(trial, visit_told);
}

/* ---- The statuses that the contract names ---------------------------------------------------- */

static void expect_named(mbr_trial *trial, const refusal *refusals, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        mbr_alc unseen;
        mbr_status status = mbr_alc_ask(trial, &trial->subject, refusals[i].request, &unseen);
        MBR_NEED(trial, status != MBR_OK, "%s was granted", refusals[i].what);
        mbr_expect_status(trial, status, refusals[i].status, refusals[i].what);
    }
}

static void run_ids(mbr_trial *trial)
{
    mbr_alc live = mbr_alc_take(trial, 4096), gone = mbr_alc_take(trial, 4096);
    mbr_alc_give(trial, &gone);
    const uint64_t wrong[][2] = {{mbr_trial_id(trial), live.address}, {mbr_trial_id(trial), 0},
        {gone.id, gone.address}, {live.id, live.address + 4096}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        mbr_status status = mbr_alc_release(trial, &trial->subject, wrong[i][0], wrong[i][1], NULL);
        MBR_NEED(trial, status != MBR_OK, "a wrong release was accepted");
        mbr_expect_status(trial, status, MBR_UNKNOWN_OBJECT,
            "the release of an id that is unknown, released or elsewhere");
    }
    refusal doubled = {"an id that lives", ask(trial, 4096, UINT64_MAX), MBR_ALREADY_EXISTS};
    doubled.request.allocation_id = live.id;
    expect_named(trial, &doubled, 1);
}

static void run_sizes(mbr_trial *trial)
{
    const refusal zero = {"size 0", ask(trial, 0, UINT64_MAX), MBR_INVALID_ARGUMENT};
    expect_named(trial, &zero, 1);
    for (uint64_t below = 1; below < 4096; below *= 11) {
        mbr_alc unseen;
        mbr_status status =
            mbr_alc_ask(trial, &trial->subject, ask(trial, 0 - below, UINT64_MAX), &unseen);
        MBR_NEED(trial, status != MBR_OK, "2^64 - %lu bytes were granted", below);
        /* Where nothing is rounded nothing overflows. */
        MBR_EXPECT(trial, status == MBR_OVERFLOW || MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED,
            "a size near 2^64 is MBR_OVERFLOW or more than there is", "2^64 - %lu: %s", below,
            mbr_status_name(status));
    }
    for (uint32_t bit = 50; bit < 64; bit++) {
        mbr_alc unseen;
        uint64_t bytes = (UINT64_C(1) << bit) + 4096; /* its low half is a size, too */
        mbr_status status =
            mbr_alc_ask(trial, &trial->subject, ask(trial, bytes, UINT64_MAX), &unseen);
        MBR_NEED(trial, status != MBR_OK, "%lu bytes were granted", bytes);
        MBR_EXPECT(trial, status == MBR_OVERFLOW || MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED,
            "a size that no fact calls too large is MBR_OVERFLOW or more than there is",
            "%lu bytes: %s", bytes, mbr_status_name(status));
    }
}

static void run_budget(mbr_trial *trial)
{
    const refusal refusals[] = {
        {"a budget of 0", ask(trial, 4096, 0), MBR_OVER_BUDGET},
        {"a budget below the size", ask(trial, 100000, 99999), MBR_OVER_BUDGET},
        {"a budget of a byte", ask(trial, 1048576, 1), MBR_OVER_BUDGET},
    };
    expect_named(trial, refusals, sizeof refusals / sizeof refusals[0]);
}

static void run_flags(mbr_trial *trial)
{
    refusal refusals[] = {
        {"an unknown critical flag", ask(trial, 4096, UINT64_MAX), MBR_UNSUPPORTED},
        {"an unknown critical flag", ask(trial, 4096, UINT64_MAX), MBR_UNSUPPORTED},
    };
    refusals[0].request.flags = 0x2;
    refusals[1].request.flags = 0x4000 | MBR_ALLOCATE_ZEROED;
    expect_named(trial, refusals, 2);
}

/* ---- The table ------------------------------------------------------------------------------- */

#define SWEEP(number, title, why, run, verifies)                                                   \
    {                                                                                              \
        "ERR-" number, 3, MBR_STAGE_OPENED, 0, "C5, C6, C7", title, why, run, 0, verifies          \
    }
#define NAMED(number, rules, title, why, run)                                                      \
    {                                                                                              \
        "ERR-" number, 3, MBR_STAGE_OPENED, 0, rules, title, why, run, 0, 0                        \
    }

static const mbr_check checks[] = {
    SWEEP("001", "every status has a known class",
        "The host decides by the class what to do about a code it has never seen: press, retry, "
        "another way, give up.",
        run_tour, MBR_BREACH_CLASS),
    SWEEP("002", "an error's text is one line of UTF-8, terminated",
        "It goes into logs and reports as it is.", run_tour, MBR_BREACH_ERROR_TEXT),
    SWEEP("003", "a text is cut to its room and terminated, whatever the room",
        "An older host has fewer bytes; a text without an end is read into its stack.",
        run_short_text, MBR_BREACH_ERROR_TEXT),
    SWEEP("004", "success leaves the error as it was",
        "The host keeps the first error of a transaction in it while it undoes the rest.", run_tour,
        MBR_BREACH_ERROR_TOUCHED),
    SWEEP("005", "a failure fills in the error", "Else the last call's words stand for this one's.",
        run_tour, MBR_BREACH_ERROR_MISSING),
    SWEEP("006", "error.status is the returned status", "Reports are written from the error alone.",
        run_tour, MBR_BREACH_ERROR_STATUS),
    SWEEP("007", "asked_bytes and free_bytes are figures of this call",
        "Holders are pressed by their difference.", run_asked, 0),
    SWEEP("008", "status and state are a legal pair",
        "Any other pair is a quarantine: the host withholds the object for good.", run_tour,
        MBR_BREACH_PAIR),
    SWEEP("009", "the outcome is set on entry, also where the call fails",
        "The caller's old bytes would be charged as this call's figures.", run_tour,
        MBR_BREACH_STALE),
    SWEEP("010", "figures are zero where nothing happened",
        "The host books figures whatever the status is.", run_figures, MBR_BREACH_FIGURES),
    SWEEP("011", "reserved fields of outcomes are zero",
        "A later minor gives them a meaning, and an old plugin would seem to say something.",
        run_tour, MBR_BREACH_RESERVED),
    NAMED("012", "C6, C22", "wrong ids are told as such",
        "The host takes an unknown object for gone, and anything else for a call to repeat.",
        run_ids),
    NAMED("013", "C6, C7", "wrong sizes are told as such",
        "Both are the caller's bug and never work, which a retry must know.", run_sizes),
    NAMED("014", "C6", "a budget that is too small is MBR_OVER_BUDGET",
        "It is of the exhausted class: the host gets more budget and asks again.", run_budget),
    NAMED("015", "C6, C15", "an unknown critical flag is MBR_UNSUPPORTED",
        "The host then goes another way, which it does not for a caller's bug.", run_flags),
    NAMED("016", "C5", "figures that a slot has no use for are 0",
        "The host books what an outcome says, whichever slot says it: bytes that are counted as "
        "mapped twice are never unmapped.",
        run_told),
};

const mbr_group mbr_group_err = MBR_GROUP("ERR", "errors and outcomes of every slot", checks);
