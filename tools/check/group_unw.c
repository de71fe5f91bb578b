/* Group UNW: what a slot must never do to its caller, over every slot - leave otherwise than by
 * returning, write or read outside of what it was given, keep it, or wait without an end. */
#include "tools/check/tour.h"

#include <stddef.h>
#include <string.h>

typedef struct bytes_of_request {
    unsigned char bytes[MBR_TOUR_REQUEST_BYTES];
} bytes_of_request;

static bytes_of_request copy_of(mbr_slot slot, const void *request)
{
    bytes_of_request copy = {{0}};
    memcpy(copy.bytes, request, mbr_slots[slot].request_bytes);
    return copy;
}

/* ---- Around structs -------------------------------------------------------------------------- */

static void run_tour(mbr_trial *trial)
{
    mbr_tour(trial, NULL);
}

static uint32_t cut_bytes; /* of the outcome, in this tour */

static mbr_status visit_short_outcome(mbr_trial *trial, mbr_subject *subject, mbr_slot slot,
    bool is_good, const void *request, void *outcome)
{
    (void)is_good;
    if (cut_bytes < mbr_slots[slot].outcome_bytes) {
        unsigned char own[MBR_TOUR_OUTCOME_BYTES] = {0};
        bytes_of_request copy = copy_of(slot, request);
        mbr_tour_refresh(trial, slot, copy.bytes);
        memcpy(own, &cut_bytes, sizeof cut_bytes);
        mbr_status status = mbr_drive(trial, subject, slot, copy.bytes, own);
        if (status == MBR_OK && !mbr_tour_makes(slot))
            return status; /* done, and not to be done twice */
    }
    return mbr_tour_go_on(trial, subject, slot, request, outcome);
}

static void run_short_outcomes(mbr_trial *trial)
{
    for (cut_bytes = 4; cut_bytes < sizeof(mbr_outcome); cut_bytes += 4)
        mbr_tour(trial, visit_short_outcome);
    for (; cut_bytes < sizeof(mbr_mechanism_description); cut_bytes += 4) {
        const mbr_mechanisms_request request = {MBR_SIZED(mbr_mechanisms_request)};
        mbr_mechanism_description outcome = {.struct_size = cut_bytes};
        (void)mbr_drive_mechanisms(trial, &trial->subject, &request, &outcome);
    }
}

/* Where an outcome's room for what the slot hands out ends. */
static const uint32_t handed_out_end[MBR_SLOT_COUNT] = {
    [MBR_SLOT_open] = offsetof(mbr_open_outcome, instance) + sizeof(mbr_instance *),
    [MBR_SLOT_capability] = offsetof(mbr_capability_outcome, table) + sizeof(mbr_vtable_head *),
    [MBR_SLOT_allocate] = offsetof(mbr_outcome, address) + sizeof(uint64_t),
    [MBR_SLOT_reserve] = offsetof(mbr_outcome, address) + sizeof(uint64_t),
    [MBR_SLOT_stream_create] = offsetof(mbr_stream_create_outcome, stream) + sizeof(mbr_native),
};

static mbr_status visit_no_room(mbr_trial *trial, mbr_subject *subject, mbr_slot slot, bool is_good,
    const void *request, void *outcome)
{
    for (uint32_t bytes = 4; is_good && bytes < handed_out_end[slot]; bytes += 4) {
        unsigned char own[MBR_TOUR_OUTCOME_BYTES] = {0};
        memcpy(own, &bytes, sizeof bytes);
        mbr_status status = mbr_drive(trial, subject, slot, request, own);
        MBR_EXPECT(trial, MBR_STATUS_CLASS(status) == MBR_CLASS_CALLER,
            "an outcome without room for what is handed out is the caller's bug",
            "%s with %u bytes of an outcome, %u hold it: %s", mbr_slot_name(slot), bytes,
            handed_out_end[slot], mbr_status_name(status));
    }
    return mbr_drive(trial, subject, slot, request, outcome);
}

static void run_no_room(mbr_trial *trial)
{
    mbr_tour(trial, visit_no_room);
}

static void expect_short_refused(
    mbr_trial *trial, mbr_subject *subject, mbr_slot slot, const void *request, uint32_t bytes)
{
    unsigned char unseen[MBR_TOUR_OUTCOME_BYTES] = {0};
    mbr_manner_now()->request_bytes = bytes;
    mbr_status status = mbr_drive(trial, subject, slot, request, unseen);
    mbr_manner_now()->request_bytes = 0;
    MBR_EXPECT(trial, status != MBR_OK,
        "fields behind struct_size count as zero, and such a request is refused",
        "%s with %u of %u bytes: MBR_OK", mbr_slot_name(slot), bytes,
        mbr_slots[slot].request_bytes);
}

static mbr_status visit_cut_field(mbr_trial *trial, mbr_subject *subject, mbr_slot slot,
    bool is_good, const void *request, void *outcome)
{
    for (uint32_t bytes = 5; is_good && bytes < mbr_tour_least_bytes(slot); bytes++)
        if (bytes % 8 != 0)
            expect_short_refused(trial, subject, slot, request, bytes);
    return mbr_drive(trial, subject, slot, request, outcome);
}

static void run_cut_fields(mbr_trial *trial)
{
    mbr_tour(trial, visit_cut_field);
}

static mbr_status visit_short_request(mbr_trial *trial, mbr_subject *subject, mbr_slot slot,
    bool is_good, const void *request, void *outcome)
{
    /* At the ends of fields; in the middle of them is another check's. */
    for (uint32_t bytes = 4; is_good && bytes < mbr_tour_least_bytes(slot);
         bytes += 8 - bytes % 8) {
        expect_short_refused(trial, subject, slot, request, bytes);
        mbr_manner_now()->lay = MBR_LAY_GUARD_END;
        expect_short_refused(trial, subject, slot, request, bytes);
        mbr_manner_now()->lay = MBR_LAY_SLACK;
    }
    return mbr_drive(trial, subject, slot, request, outcome);
}

static void run_short_requests(mbr_trial *trial)
{
    mbr_tour(trial, visit_short_request);
}

/* ---- Other sizes are served ------------------------------------------------------------------ */

#define NEWER_BYTES 16 /* fields of a later minor, all zero */

static mbr_status expect_served(mbr_trial *trial, mbr_subject *subject, mbr_slot slot, bool is_good,
    const void *request, void *outcome, const char *who)
{
    mbr_status status = mbr_drive(trial, subject, slot, request, outcome);
    mbr_manner_now()->request_bytes = mbr_manner_now()->error_bytes = 0;
    MBR_EXPECT(trial, !is_good || status == MBR_OK,
        "a struct of another size is served as far as both sizes reach", "%s of %s host: %s",
        mbr_slot_name(slot), who, mbr_status_name(status));
    return status;
}

static mbr_status visit_newer(mbr_trial *trial, mbr_subject *subject, mbr_slot slot, bool is_good,
    const void *request, void *outcome)
{
    uint32_t outcome_bytes = mbr_slots[slot].outcome_bytes + NEWER_BYTES;
    mbr_manner_now()->request_bytes = mbr_slots[slot].request_bytes + NEWER_BYTES;
    mbr_manner_now()->error_bytes = sizeof(mbr_error) + NEWER_BYTES;
    memcpy(outcome, &outcome_bytes, sizeof outcome_bytes);
    return expect_served(trial, subject, slot, is_good, request, outcome, "a newer");
}

static mbr_status visit_older(mbr_trial *trial, mbr_subject *subject, mbr_slot slot, bool is_good,
    const void *request, void *outcome)
{
    if (is_good)
        mbr_manner_now()->request_bytes = mbr_tour_enough_bytes(slot);
    return expect_served(trial, subject, slot, is_good, request, outcome, "an older");
}

static void run_other_sizes(mbr_trial *trial)
{
    mbr_tour(trial, NULL); /* with the sizes of this minor all of it works */
    mbr_tour(trial, visit_newer);
    mbr_tour(trial, visit_older);
}

static mbr_status visit_newer_unjudged(mbr_trial *trial, mbr_subject *subject, mbr_slot slot,
    bool is_good, const void *request, void *outcome)
{
    uint32_t outcome_bytes = mbr_slots[slot].outcome_bytes + NEWER_BYTES;
    (void)is_good;
    memcpy(outcome, &outcome_bytes, sizeof outcome_bytes);
    mbr_manner_now()->error_bytes = sizeof(mbr_error) + NEWER_BYTES;
    mbr_status status = mbr_drive(trial, subject, slot, request, outcome);
    mbr_manner_now()->error_bytes = 0;
    return status;
}

static void run_struct_size(mbr_trial *trial)
{
    mbr_tour(trial, NULL);
    mbr_tour(trial, visit_newer_unjudged);
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

static void run_inputs(mbr_trial *trial)
{
    mbr_tour(trial, NULL);
    mbr_manner_now()->lay = MBR_LAY_GUARD_END;
    mbr_tour(trial, NULL);
    mbr_manner_now()->lay = MBR_LAY_GUARD_START;
    mbr_tour(trial, NULL);
}

static void run_not_kept(mbr_trial *trial)
{
    mbr_manner_now()->lay = MBR_LAY_ONCE;
    for (uint32_t i = 0; i < 3; i++)
        mbr_tour(trial, NULL);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static mbr_status visit_short_error(mbr_trial *trial, mbr_subject *subject, mbr_slot slot,
    bool is_good, const void *request, void *outcome)
{
    for (uint32_t bytes = 4; !is_good && bytes < sizeof(mbr_error); bytes += bytes < 64 ? 4 : 36) {
        unsigned char unseen[MBR_TOUR_OUTCOME_BYTES] = {0};
        mbr_manner_now()->error_bytes = bytes;
        (void)mbr_drive(trial, subject, slot, request, unseen);
    }
    mbr_manner_now()->error_bytes = 0;
    return mbr_tour_go_on(trial, subject, slot, request, outcome);
}

static void run_short_errors(mbr_trial *trial)
{
    mbr_tour(trial, visit_short_error);
}

/* ---- NULL and garbage ------------------------------------------------------------------------ */

static void expect_refused(
    mbr_trial *trial, mbr_subject *subject, mbr_slot slot, const void *request, void *outcome)
{
    mbr_status status = mbr_drive(trial, subject, slot, request, outcome);
    MBR_EXPECT(trial, status != MBR_OK, "NULL for instance, request or outcome is refused",
        "%s(%s, %s, %s): MBR_OK", mbr_slot_name(slot),
        subject->instance == NULL ? "NULL" : "instance", request == NULL ? "NULL" : "request",
        outcome == NULL ? "NULL" : "outcome");
}

static mbr_status visit_null(mbr_trial *trial, mbr_subject *subject, mbr_slot slot, bool is_good,
    const void *request, void *outcome)
{
    for (uint32_t with_error = 0; is_good && with_error < 2; with_error++) {
        unsigned char unseen[MBR_TOUR_OUTCOME_BYTES] = {0};
        mbr_subject nobody = *subject;
        nobody.instance = NULL;
        mbr_manner_now()->without_error = with_error == 0;
        expect_refused(trial, subject, slot, NULL, unseen);
        expect_refused(trial, subject, slot, request, NULL);
        expect_refused(trial, subject, slot, NULL, NULL);
        memset(unseen, 0, sizeof unseen);
        if (slot != MBR_SLOT_mechanisms && slot != MBR_SLOT_open)
            expect_refused(trial, &nobody, slot, request, unseen);
    }
    mbr_manner_now()->without_error = false;
    return mbr_drive(trial, subject, slot, request, outcome);
}

static void run_null(mbr_trial *trial)
{
    mbr_tour(trial, visit_null);
}

/* Numbers that look like pointers, like nothing and like the end of everything. */
static const uint64_t garbage_ids[] = {0, 1, 8, 0xFFFFFFFF, UINT64_C(0xDEADBEEF0000),
    UINT64_C(0x7FFFFFFFF000), UINT64_C(0xFFFFFFFF80000000), UINT64_C(0x5A5A5A5A5A5A5A5A),
    UINT64_MAX};

static mbr_status visit_garbage(mbr_trial *trial, mbr_subject *subject, mbr_slot slot, bool is_good,
    const void *request, void *outcome)
{
    for (size_t i = 0; is_good && i < sizeof garbage_ids / sizeof garbage_ids[0]; i++) {
        bytes_of_request copy = copy_of(slot, request);
        unsigned char unseen[MBR_TOUR_OUTCOME_BYTES] = {0};
        if (mbr_tour_makes(slot) || !mbr_tour_set_ids(slot, copy.bytes, garbage_ids[i]))
            break;
        (void)mbr_drive(trial, subject, slot, copy.bytes, unseen);
    }
    return mbr_drive(trial, subject, slot, request, outcome);
}

static void run_garbage_ids(mbr_trial *trial)
{
    mbr_tour(trial, visit_garbage);
}

static mbr_status visit_garbage_size(mbr_trial *trial, mbr_subject *subject, mbr_slot slot,
    bool is_good, const void *request, void *outcome)
{
    static const uint32_t sizes[] = {0, 1, 3, UINT32_C(0x7FFFFFFF), UINT32_MAX};
    for (size_t i = 0; is_good && i < sizeof sizes / sizeof sizes[0]; i++) {
        bytes_of_request copy = copy_of(slot, request);
        unsigned char unseen[MBR_TOUR_OUTCOME_BYTES] = {0};
        mbr_tour_refresh(trial, slot, copy.bytes);
        memcpy(copy.bytes, &sizes[i], sizeof sizes[i]);
        mbr_manner_now()->lay = MBR_LAY_GUARD_END;
        mbr_status status = mbr_drive(trial, subject, slot, copy.bytes, unseen);
        mbr_manner_now()->lay = MBR_LAY_SLACK;
        MBR_EXPECT(trial, status != MBR_OK || sizes[i] > 4 || mbr_tour_least_bytes(slot) == 0,
            "a request that is shorter than its struct_size field says nothing",
            "%s with struct_size %u: MBR_OK", mbr_slot_name(slot), sizes[i]);
        if (status == MBR_OK && !mbr_tour_makes(slot))
            return status;
    }
    return mbr_drive(trial, subject, slot, request, outcome);
}

static void run_garbage_sizes(mbr_trial *trial)
{
    mbr_tour(trial, visit_garbage_size);
}

/* ---- Extreme values -------------------------------------------------------------------------- */

#define DRIVE(trial, slot, type, outcome_type, ...)                                                \
    do {                                                                                           \
        const type request_ = {MBR_SIZED(type), __VA_ARGS__};                                      \
        outcome_type outcome_ = {MBR_SIZED(outcome_type)};                                         \
        (void)mbr_drive_##slot((trial), &(trial)->subject, &request_, &outcome_);                  \
    } while (0)

static void ask_extremes(mbr_trial *trial)
{
    char long_text[2048];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    const char *const texts[] = {"", "%s%n%s", "\xFF\xFE\x80", long_text};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *text = mbr_lay_input(trial, texts[i], strlen(texts[i]) + 1);
        DRIVE(trial, capability, mbr_capability_request, mbr_capability_outcome, .id = text,
            .minor = UINT32_MAX);
        DRIVE(trial, open, mbr_open_request, mbr_open_outcome, .mechanism = text);
    }
    for (uint32_t bit = 0; bit < 32; bit++) {
        DRIVE(trial, fact, mbr_fact_request, mbr_fact_outcome, .fact = UINT32_C(1) << bit);
        DRIVE(trial, mechanisms, mbr_mechanisms_request, mbr_mechanism_description,
            .index = UINT32_C(1) << bit);
    }
    DRIVE(trial, fact, mbr_fact_request, mbr_fact_outcome, .fact = UINT32_MAX);
}

static const uint64_t extremes[] = {
    1, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 62, UINT64_C(1) << 63, UINT64_MAX};

static void allocate_extremes(mbr_trial *trial, uint64_t value)
{
    DRIVE(trial, trim, mbr_trim_request, mbr_outcome, .keep_bytes = value);
    DRIVE(
        trial, release, mbr_release_request, mbr_outcome, .allocation_id = value, .address = value);
    for (size_t i = 0; i < sizeof extremes / sizeof extremes[0]; i++)
        DRIVE(trial, allocate, mbr_allocate_request, mbr_outcome,
            .allocation_id = mbr_trial_id(trial), .bytes = value, .align_bytes = extremes[i],
            .max_owned_bytes = 1 << 20);
}

static void map_extremes(mbr_trial *trial, uint64_t value)
{
    uint64_t granule = trial->granule_bytes, whole = value / granule * granule;
    uint64_t reservation = mbr_trial_id(trial), extent = mbr_trial_id(trial);
    const uint64_t bytes[] = {whole, value};
    for (uint32_t i = 0; i < 2; i++) {
        DRIVE(trial, reserve, mbr_reserve_request, mbr_outcome,
            .reservation_id = mbr_trial_id(trial), .bytes = bytes[i], .align_bytes = value);
        DRIVE(trial, extent_create, mbr_extent_create_request, mbr_outcome,
            .extent_id = mbr_trial_id(trial), .bytes = bytes[i], .max_owned_bytes = 1 << 20,
            .numa_node = UINT32_MAX);
    }
    DRIVE(trial, reserve, mbr_reserve_request, mbr_outcome, .reservation_id = reservation,
        .bytes = granule);
    DRIVE(trial, extent_create, mbr_extent_create_request, mbr_outcome, .extent_id = extent,
        .bytes = granule, .max_owned_bytes = UINT64_MAX);
    for (uint32_t i = 0; i < 2; i++) {
        DRIVE(trial, map, mbr_map_request, mbr_outcome, .reservation_id = reservation,
            .extent_id = extent, .offset_bytes = bytes[i]);
        DRIVE(trial, protect, mbr_protect_request, mbr_outcome, .reservation_id = reservation,
            .offset_bytes = bytes[i], .bytes = bytes[i]);
        DRIVE(trial, unmap, mbr_unmap_request, mbr_outcome, .reservation_id = reservation,
            .offset_bytes = bytes[i], .bytes = bytes[i]);
        DRIVE(trial, query, mbr_query_request, mbr_query_outcome, .reservation_id = reservation,
            .offset_bytes = bytes[i]);
    }
}

static void run_extremes(mbr_trial *trial)
{
    ask_extremes(trial);
    for (size_t i = 0; i < sizeof extremes / sizeof extremes[0]; i++) {
        allocate_extremes(trial, extremes[i]);
        if ((trial->subject.offered & MBR_NEEDS_VIRTUAL) != 0)
            map_extremes(trial, extremes[i]);
    }
}

/* ---- Time ------------------------------------------------------------------------------------ */

#define CALL_MAX_NS UINT64_C(5000000000) /* generous: a busy machine is no finding */

static mbr_status visit_timed(mbr_trial *trial, mbr_subject *subject, mbr_slot slot, bool is_good,
    const void *request, void *outcome)
{
    uint64_t start_ns = mbr_now_ns();
    (void)is_good;
    mbr_status status = mbr_drive(trial, subject, slot, request, outcome);
    uint64_t took_ns = mbr_now_ns() - start_ns;
    MBR_EXPECT(trial, took_ns < CALL_MAX_NS, "a slot returns in a bounded time", "%s: %lu ms",
        mbr_slot_name(slot), took_ns / 1000000);
    return status;
}

static void run_time(mbr_trial *trial)
{
    mbr_tour(trial, visit_timed);
    /* With nothing to wait for, whatever the deadline: long past, now, never. */
    const uint64_t deadlines_ns[] = {1, mbr_now_ns() - 1, mbr_now_ns(), UINT64_MAX};
    for (size_t i = 0; i < sizeof deadlines_ns / sizeof deadlines_ns[0]; i++) {
        const mbr_quiesce_request request = {
            MBR_SIZED(mbr_quiesce_request), .deadline_ns = deadlines_ns[i]};
        mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
        (void)visit_timed(trial, &trial->subject, MBR_SLOT_quiesce, false, &request, &outcome);
    }
}

/* ---- The table ------------------------------------------------------------------------------- */

#define UNW(number, rules, title, why, run, verifies)                                              \
    {                                                                                              \
        "UNW-" number, 3, MBR_STAGE_OPENED, 0, rules, title, why, run, 0, verifies                 \
    }

static const mbr_check checks[] = {
    UNW("001", "C12", "nothing is written around outcome and error",
        "Behind them lies the host's stack.", run_tour, MBR_BREACH_TAIL),
    UNW("002", "C12", "an older host's shorter outcome is not passed, at every size",
        "A plugin with a newer header that writes its whole struct destroys an older host's stack.",
        run_short_outcomes, MBR_BREACH_TAIL),
    UNW("003", "C12", "fields that a request does not reach count as zero",
        "What lies behind it is the host's stack: a limit or an address would be read there.",
        run_short_requests, 0),
    UNW("004", "C12", "newer and older hosts are served",
        "A plugin that wants its own size exactly works with one host only.", run_other_sizes, 0),
    UNW("005", "C1, C12", "requests are only read, and only to their end",
        "A host keeps requests in constant memory, and uses them again.", run_inputs,
        MBR_BREACH_INPUT),
    UNW("006", "C12", "struct_size of outcome and error stays",
        "It is the caller's: the next call with this struct would be cut, or passed.",
        run_struct_size, MBR_BREACH_SIZE),
    UNW("007", "C12", "an older host's shorter error is not passed, at every size",
        "Errors grow like every other struct.", run_short_errors, MBR_BREACH_TAIL),
    UNW("008", "C1", "NULL for instance, request or outcome is refused",
        "A host's mistake is to be a status, and not a crash in a stranger's code.", run_null, 0),
    UNW("009", "C22", "ids are looked up and never followed",
        "They are the host's numbers, and after a mistake any number.", run_garbage_ids, 0),
    UNW("010", "C12", "no struct_size makes a slot read where nothing is",
        "The size is the other side's word; what is read is at most what both know.",
        run_garbage_sizes, 0),
    UNW("011", "C1", "arguments are not kept after the call",
        "They lie on the host's stack, where the next call finds something else.", run_not_kept, 0),
    UNW("012", "C26", "no value makes a slot leave otherwise than by returning",
        "An exception, an exit or a signal in a plugin ends the runtime that it serves.",
        run_extremes, 0),
    UNW("013", "C26", "every slot returns in a bounded time",
        "A release that waits for ever holds the thread that answers requests.", run_time, 0),
    UNW("014", "C12", "a field that struct_size cuts counts as zero, whole",
        "Half an address is an address of something else.", run_cut_fields, 0),
    UNW("015", "C7, C12", "an outcome that cannot hold what is handed out is refused",
        "Nobody could give back what nobody was told.", run_no_room, 0),
};

const mbr_group mbr_group_unw = MBR_GROUP("UNW", "what a slot must never do to its caller", checks);
