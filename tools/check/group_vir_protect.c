/* Group VIR, protect: that access is what was set, over the range that was named and no other. */
#include "tools/check/steps.h"

static mbr_status try_protect(mbr_trial *trial, const mbr_place *place, uint64_t offset_bytes,
    uint64_t bytes, uint32_t access)
{
    return mbr_try_protect(trial, &trial->subject, place->id, offset_bytes, bytes, access, NULL);
}

/* The same in granules. */
static mbr_status try_granules(
    mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t granules, uint32_t access)
{
    return try_protect(
        trial, place, at * trial->granule_bytes, granules * trial->granule_bytes, access);
}

static mbr_memory write_first(mbr_trial *trial, const mbr_place *place, uint64_t at)
{
    return mbr_memory_write(trial, place->address + at * trial->granule_bytes, 64, 7);
}

static mbr_memory write_last(mbr_trial *trial, const mbr_place *place, uint64_t end)
{
    return mbr_memory_write(trial, place->address + end * trial->granule_bytes - 64, 64, 7);
}

/* ---- Access ---------------------------------------------------------------------------------- */

static void run_usable_at_once(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 4);
    if (mbr_subject_fact(trial, &trial->subject, MBR_FACT_USABLE_AFTER_PROTECT, 0) != 1)
        mbr_trial_skip(trial, MBR_SKIP_FACT, "MBR_FACT_USABLE_AFTER_PROTECT is not 1");
    mbr_step_map(trial, &place, 0, mbr_step_create(trial, 4));
    mbr_expect_status(
        trial, try_granules(trial, &place, 0, 4, MBR_ACCESS_READ_WRITE), MBR_OK, "protect");
    mbr_memory done = mbr_memory_write(trial, place.address, 4 * trial->granule_bytes, 1);
    MBR_EXPECT(trial, done == MBR_MEMORY_OK, "the range works as soon as protect returns",
        "a write: %s", mbr_memory_word(done));
}

static void run_read_only(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 3);
    mbr_step_commit(trial, &place, 0, 3);
    mbr_step_write(trial, &place, 0, 3, 1);
    mbr_expect_status(
        trial, try_granules(trial, &place, 0, 3, MBR_ACCESS_READ), MBR_OK, "protect to read");
    mbr_memory seen = mbr_step_look(trial, &place, 0, 3, 1); /* first: a device may not survive */
    mbr_memory first = write_first(trial, &place, 0), last = write_last(trial, &place, 3);
    MBR_EXPECT(trial, seen == MBR_MEMORY_OK, "a range that is read-only shows what was written",
        "%s", mbr_memory_word(seen));
    MBR_EXPECT(trial, first == MBR_MEMORY_REFUSED && last == MBR_MEMORY_REFUSED,
        "a write to a range that is read-only now is refused", "at its start: %s, at its end: %s",
        mbr_memory_word(first), mbr_memory_word(last));
}

static void run_no_access(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 2);
    mbr_step_commit(trial, &place, 0, 2);
    mbr_step_write(trial, &place, 0, 2, 1);
    mbr_expect_status(
        trial, try_granules(trial, &place, 0, 2, MBR_ACCESS_NONE), MBR_OK, "protect to nothing");
    mbr_memory read = mbr_step_look(trial, &place, 0, 2, 1);
    MBR_EXPECT(trial, read == MBR_MEMORY_REFUSED, "a range without access cannot be read", "%s",
        mbr_memory_word(read));
}

static void run_contents_stay(mbr_trial *trial)
{
    const uint32_t accesses[] = {
        MBR_ACCESS_READ, MBR_ACCESS_NONE, MBR_ACCESS_READ_WRITE, MBR_ACCESS_NONE, MBR_ACCESS_READ};
    mbr_place place = mbr_step_reserve(trial, 12);
    mbr_step_commit(trial, &place, 0, 12);
    mbr_step_write(trial, &place, 0, 12, 1);
    for (size_t i = 0; i < sizeof accesses / sizeof accesses[0]; i++)
        mbr_step_protect(trial, &place, 0, 12, accesses[i]);
    mbr_memory seen = mbr_step_look(trial, &place, 0, 12, 1);
    MBR_EXPECT(trial, seen == MBR_MEMORY_OK, "a change of access leaves the contents", "%s",
        mbr_memory_word(seen));
}

static void run_several(mbr_trial *trial)
{
    const uint64_t granules[] = {1, 3, 2};
    mbr_place place = mbr_step_reserve(trial, 8);
    for (uint64_t i = 0, at = 1; i < 3; at += granules[i++])
        mbr_step_map(trial, &place, at, mbr_step_create(trial, granules[i]));
    mbr_expect_status(trial, try_granules(trial, &place, 1, 6, MBR_ACCESS_READ_WRITE), MBR_OK,
        "protect over several adjacent mappings");
    for (uint64_t at = 1; at < 7; at++) {
        mbr_memory done = write_first(trial, &place, at);
        MBR_EXPECT(trial, done == MBR_MEMORY_OK, "protect reaches every mapping of its range",
            "a write to granule %lu of 1 to 6: %s", at, mbr_memory_word(done));
    }
}

static void run_neighbours(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 6);
    for (uint64_t at = 0; at < 6; at += 2)
        mbr_step_commit(trial, &place, at, 2);
    mbr_step_write(trial, &place, 0, 6, 1);
    mbr_step_protect(trial, &place, 2, 2, MBR_ACCESS_NONE);
    mbr_memory before = write_last(trial, &place, 2), behind = write_first(trial, &place, 4);
    MBR_EXPECT(trial, before == MBR_MEMORY_OK && behind == MBR_MEMORY_OK,
        "protect leaves the access of the neighbours", "a write before: %s, behind: %s",
        mbr_memory_word(before), mbr_memory_word(behind));
}

/* What was written once is not zero when it becomes accessible again. */
static void run_content_is_honest(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 4);
    uint64_t id = mbr_step_commit(trial, &place, 2, 2);
    mbr_step_write(trial, &place, 2, 2, 1);
    for (uint64_t at = 2; at > 0; at--) {
        mbr_outcome outcome = {0};
        mbr_step_unmap(trial, &place, at == 2 ? 2 : at + 1, 2);
        mbr_step_map(trial, &place, at, id);
        mbr_need_ok(trial,
            mbr_try_protect(trial, &trial->subject, place.id, at * trial->granule_bytes,
                2 * trial->granule_bytes, MBR_ACCESS_READ, &outcome),
            "protect");
        MBR_EXPECT(trial, outcome.content != MBR_CONTENT_ZERO,
            "content says zero of memory that is zero only",
            "protect of written memory: content %u", outcome.content);
    }
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

static void run_part(mbr_trial *trial)
{
    const struct {
        uint64_t at, granules;
    } parts[] = {{0, 1}, {1, 1}, {2, 2}, {0, 3}, {1, 3}, {3, 3}, {0, 6}};
    mbr_place place = mbr_step_reserve(trial, 8);
    mbr_step_commit(trial, &place, 0, 4);
    mbr_step_commit(trial, &place, 4, 4);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        mbr_expect_callers_bug(trial,
            try_granules(trial, &place, parts[i].at, parts[i].granules, MBR_ACCESS_READ),
            "protect over a part of a mapping");
}

static void run_hole(mbr_trial *trial)
{
    const struct {
        uint64_t at, granules;
    } holes[] = {{2, 1}, {0, 3}, {2, 3}, {0, 5}, {5, 3}, {0, 8}};
    mbr_place place = mbr_step_reserve(trial, 8);
    mbr_step_commit(trial, &place, 0, 2);
    mbr_step_commit(trial, &place, 3, 2);
    for (size_t i = 0; i < sizeof holes / sizeof holes[0]; i++)
        mbr_expect_callers_bug(trial,
            try_granules(trial, &place, holes[i].at, holes[i].granules, MBR_ACCESS_READ),
            "protect over a hole");
}

static void run_all_or_nothing(mbr_trial *trial)
{
    mbr_place place = mbr_step_reserve(trial, 8);
    mbr_step_commit(trial, &place, 0, 2);
    mbr_step_commit(trial, &place, 2, 2);
    mbr_step_write(trial, &place, 0, 4, 1);
    MBR_NEED(trial,
        try_granules(trial, &place, 0, 3, MBR_ACCESS_NONE) != MBR_OK &&
            try_granules(trial, &place, 0, 6, MBR_ACCESS_NONE) != MBR_OK &&
            try_granules(trial, &place, 0, 9, MBR_ACCESS_NONE) != MBR_OK,
        "protect over parts and holes is not refused");
    mbr_memory first = write_first(trial, &place, 0), last = write_last(trial, &place, 4);
    MBR_EXPECT(trial, first == MBR_MEMORY_OK && last == MBR_MEMORY_OK,
        "a refused protect leaves all access as it was",
        "a write to the first mapping: %s, to the last: %s", mbr_memory_word(first),
        mbr_memory_word(last));
}

static void run_no_range(mbr_trial *trial)
{
    uint64_t granule = trial->granule_bytes;
    mbr_place place = mbr_step_reserve(trial, 4);
    mbr_step_commit(trial, &place, 0, 4);
    const struct {
        uint64_t offset_bytes, bytes;
    } ranges[] = {{0, 0}, {granule / 2, granule}, {0, granule + granule / 2}, {0, 5 * granule},
        {4 * granule, granule}, {granule, UINT64_MAX - granule + 1},
        {UINT64_MAX - granule + 1, 2 * granule}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        mbr_expect_callers_bug(trial,
            try_protect(
                trial, &place, ranges[i].offset_bytes, ranges[i].bytes, MBR_ACCESS_READ_WRITE),
            "protect of an empty, misaligned, too long or wrapping range");
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static void run_bad_access(mbr_trial *trial)
{
    const uint32_t accesses[] = {2, 4, 7, UINT32_MAX};
    mbr_place place = mbr_step_reserve(trial, 1);
    mbr_step_commit(trial, &place, 0, 1);
    for (size_t i = 0; i < sizeof accesses / sizeof accesses[0]; i++)
        mbr_expect_callers_bug(trial, try_granules(trial, &place, 0, 1, accesses[i]),
            "protect with an access that is none of the three");
}

static void run_no_device(mbr_trial *trial)
{
    mbr_outcome outcome = {0};
    mbr_place place = mbr_step_reserve(trial, 1);
    mbr_step_commit(trial, &place, 0, 1);
    const mbr_access list = {UINT32_MAX - 1, MBR_ACCESS_READ_WRITE};
    const mbr_protect_request request = {MBR_SIZED(mbr_protect_request), .access_count = 1,
        .reservation_id = place.id, .bytes = trial->granule_bytes, .access = &list};
    mbr_status status = mbr_drive_protect(trial, &trial->subject, &request, &outcome);
    MBR_EXPECT(trial, status != MBR_OK, "access for a device that is not there is refused",
        "device %u: %s", list.device_index, mbr_status_name(status));
}

static void run_doubled_device(mbr_trial *trial)
{
    const uint32_t second[] = {MBR_ACCESS_READ_WRITE, MBR_ACCESS_READ, MBR_ACCESS_NONE};
    mbr_place place = mbr_step_reserve(trial, 1);
    mbr_step_commit(trial, &place, 0, 1);
    for (size_t i = 0; i < sizeof second / sizeof second[0]; i++) {
        mbr_outcome outcome = {0};
        const mbr_access list[] = {
            {trial->own_device_index, MBR_ACCESS_READ_WRITE}, {trial->own_device_index, second[i]}};
        const mbr_protect_request request = {MBR_SIZED(mbr_protect_request), .access_count = 2,
            .reservation_id = place.id, .bytes = trial->granule_bytes, .access = list};
        mbr_expect_callers_bug(trial, mbr_drive_protect(trial, &trial->subject, &request, &outcome),
            "protect with a device that the list names twice");
    }
}

static void run_unreserved(mbr_trial *trial)
{
    uint64_t granule = trial->granule_bytes;
    mbr_subject *self = &trial->subject;
    mbr_place places[] = {mbr_step_reserve(trial, 2), {.id = mbr_trial_id(trial)}};
    mbr_need_ok(trial, mbr_try_unreserve(trial, self, places[0].id, NULL), "unreserve");
    for (size_t i = 0; i < 2; i++) {
        uint64_t id = places[i].id;
        mbr_expect_status(trial,
            mbr_try_protect(trial, self, id, 0, granule, MBR_ACCESS_READ, NULL), MBR_UNKNOWN_OBJECT,
            "protect in a reservation that is not there");
        mbr_expect_status(trial, mbr_try_unmap(trial, self, id, 0, granule, NULL),
            MBR_UNKNOWN_OBJECT, "unmap in a reservation that is not there");
        mbr_expect_status(trial, mbr_try_query(trial, self, id, 0, NULL), MBR_UNKNOWN_OBJECT,
            "query in a reservation that is not there");
    }
}

#define VIR MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL

static const mbr_check checks[] = {
    {"VIR-071", 2, VIR, "C4", "a range works as soon as protect returns, where that is said",
        "The host enqueues work at once; a later start is a fault on the device.",
        run_usable_at_once, 0, 0},
    {"VIR-072", 2, MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL | MBR_NEEDS_READ_ONLY, "C4",
        "protect takes the right to write away, where that is said",
        "A protect that does nothing lets every sharer write into the prefix.", run_read_only, 0,
        0},
    {"VIR-073", 3, VIR, "C5", "protect takes all access away",
        "Parked memory that can still be read shows one tenant's data to the next.", run_no_access,
        0, 0},
    {"VIR-074", 3, VIR, "C5", "changes of access leave the contents",
        "Hosts park and wake ranges by their access alone.", run_contents_stay, 0, 0},
    {"VIR-075", 2, VIR, "C5", "one protect reaches every mapping of its range",
        "A commit of many extents is one call; the rest would fault on the device.", run_several, 0,
        0},
    {"VIR-076", 3, VIR, "C7", "protect over a part of a mapping is refused",
        "Drivers refuse it; a plugin that widens the range changes what was not named.", run_part,
        0, 0},
    {"VIR-077", 3, VIR, "C7", "protect over a hole is refused",
        "OK over a hole says that memory is there which is not.", run_hole, 0, 0},
    {"VIR-078", 3, VIR, "C5", "a refused protect changes no access",
        "The host's idea of what is writable is the one from before.", run_all_or_nothing, 0, 0},
    {"VIR-079", 3, VIR, "C7",
        "protect of an empty, misaligned, too long or wrapping range is "
        "refused",
        "Rounded and cut ranges are not those that were named.", run_no_range, 0, 0},
    {"VIR-080", 3, VIR, "C5", "protect leaves the neighbours' access",
        "A neighbour that loses its access faults in somebody else's kernel.", run_neighbours, 0,
        0},
    {"VIR-081", 3, VIR, "C7", "an access that is none of the three is refused",
        "What 2 means is a guess, and the guess is a right that nobody gave.", run_bad_access, 0,
        0},
    {"VIR-082", 3, VIR, "C22", "protect, unmap and query refuse unknown and released reservations",
        "Their addresses may be anybody's by now.", run_unreserved, 0, 0},
    {"VIR-083", 3, VIR, "C7", "access for a device that is not there is refused",
        "OK would mean that a peer can read, and its first read faults.", run_no_device, 0, 0},
    {"VIR-084", 3, VIR, "C4", "protect says zero of memory that is zero only",
        "Hosts skip their own zeroing on this word.", run_content_is_honest, 0, 0},
    {"VIR-085", 3, VIR, "C7", "a list of accesses that names a device twice is refused",
        "Which of the two holds is a guess, and half of all guesses give more than was meant.",
        run_doubled_device, 0, 0},
};

const mbr_group mbr_group_vir_protect = MBR_GROUP("VIR", "virtual memory: protect", checks);
