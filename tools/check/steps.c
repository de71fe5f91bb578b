/* Fills in requests and says what a failed step was. Never judges a plugin: an expectation is the
 * check's alone. */
#include "tools/check/steps.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define SPURIOUS_TRIES 16

/* ---- Tries ----------------------------------------------------------------------------------- */

static mbr_outcome *or_own(mbr_outcome *outcome, mbr_outcome *own)
{
    return outcome != NULL ? outcome : own;
}

mbr_status mbr_try_reserve(mbr_trial *trial, mbr_subject *self, uint64_t id, uint64_t bytes,
    uint64_t align_bytes, mbr_outcome *outcome)
{
    mbr_outcome own = {0};
    const mbr_reserve_request request = {MBR_SIZED(mbr_reserve_request), .reservation_id = id,
        .bytes = bytes, .align_bytes = align_bytes};
    return mbr_drive_reserve(trial, self, &request, or_own(outcome, &own));
}

mbr_status mbr_try_unreserve(mbr_trial *trial, mbr_subject *self, uint64_t id, mbr_outcome *outcome)
{
    mbr_outcome own = {0};
    const mbr_unreserve_request request = {MBR_SIZED(mbr_unreserve_request), .reservation_id = id};
    return mbr_drive_unreserve(trial, self, &request, or_own(outcome, &own));
}

mbr_status mbr_try_create(mbr_trial *trial, mbr_subject *self, uint64_t id, uint64_t bytes,
    uint32_t flags, uint64_t max_owned_bytes, mbr_outcome *outcome)
{
    mbr_outcome own = {0};
    const mbr_extent_create_request request = {MBR_SIZED(mbr_extent_create_request), .flags = flags,
        .extent_id = id, .bytes = bytes, .max_owned_bytes = max_owned_bytes};
    return mbr_drive_extent_create(trial, self, &request, or_own(outcome, &own));
}

mbr_status mbr_try_destroy(mbr_trial *trial, mbr_subject *self, uint64_t id, mbr_outcome *outcome)
{
    mbr_outcome own = {0};
    const mbr_extent_destroy_request request = {
        MBR_SIZED(mbr_extent_destroy_request), .extent_id = id};
    return mbr_drive_extent_destroy(trial, self, &request, or_own(outcome, &own));
}

mbr_status mbr_try_map(mbr_trial *trial, mbr_subject *self, uint64_t reservation_id,
    uint64_t offset_bytes, uint64_t extent_id, mbr_outcome *outcome)
{
    mbr_outcome own = {0};
    const mbr_map_request request = {MBR_SIZED(mbr_map_request), .reservation_id = reservation_id,
        .offset_bytes = offset_bytes, .extent_id = extent_id};
    return mbr_drive_map(trial, self, &request, or_own(outcome, &own));
}

mbr_status mbr_try_share(mbr_trial *trial, mbr_subject *self, uint64_t reservation_id,
    uint64_t offset_bytes, uint64_t extent_id, uint32_t access, mbr_outcome *outcome)
{
    mbr_outcome own = {0};
    const mbr_access list = {trial->own_device_index, access};
    const mbr_map_shared_request request = {MBR_SIZED(mbr_map_shared_request), .access_count = 1,
        .reservation_id = reservation_id, .offset_bytes = offset_bytes, .extent_id = extent_id,
        .access = &list};
    return mbr_drive_map_shared(trial, self, &request, or_own(outcome, &own));
}

mbr_status mbr_try_protect(mbr_trial *trial, mbr_subject *self, uint64_t reservation_id,
    uint64_t offset_bytes, uint64_t bytes, uint32_t access, mbr_outcome *outcome)
{
    mbr_outcome own = {0};
    const mbr_access list = {trial->own_device_index, access};
    const mbr_protect_request request = {MBR_SIZED(mbr_protect_request), .access_count = 1,
        .reservation_id = reservation_id, .offset_bytes = offset_bytes, .bytes = bytes,
        .access = &list};
    mbr_status status = mbr_drive_protect(trial, self, &request, or_own(outcome, &own));
    if (MBR_STATUS_CLASS(status) <= MBR_CLASS_CALLER ||
        mbr_subject_fact(trial, self, MBR_FACT_PROTECT_MAY_FAIL_SPURIOUSLY, 0) == 0)
        return status;
    for (int tries = 1; status != MBR_OK && tries < SPURIOUS_TRIES; tries++)
        status = mbr_drive_protect(trial, self, &request, or_own(outcome, &own));
    return status;
}

mbr_status mbr_try_unmap(mbr_trial *trial, mbr_subject *self, uint64_t reservation_id,
    uint64_t offset_bytes, uint64_t bytes, mbr_outcome *outcome)
{
    mbr_outcome own = {0};
    const mbr_unmap_request request = {MBR_SIZED(mbr_unmap_request),
        .reservation_id = reservation_id, .offset_bytes = offset_bytes, .bytes = bytes};
    return mbr_drive_unmap(trial, self, &request, or_own(outcome, &own));
}

mbr_status mbr_try_query(mbr_trial *trial, mbr_subject *self, uint64_t reservation_id,
    uint64_t offset_bytes, mbr_query_outcome *outcome)
{
    mbr_query_outcome own = {0};
    const mbr_query_request request = {MBR_SIZED(mbr_query_request),
        .reservation_id = reservation_id, .offset_bytes = offset_bytes};
    return mbr_drive_query(trial, self, &request, outcome != NULL ? outcome : &own);
}

void mbr_expect_callers_bug(mbr_trial *trial, mbr_status got, const char *what)
{
    char expected[160];
    snprintf(expected, sizeof expected, "%s is refused as the caller's bug", what);
    MBR_EXPECT(
        trial, MBR_STATUS_CLASS(got) == MBR_CLASS_CALLER, expected, "%s", mbr_status_name(got));
}

/* ---- Steps ----------------------------------------------------------------------------------- */

uint64_t mbr_step_extent_limit(mbr_trial *trial)
{
    return mbr_subject_fact(trial, &trial->subject, MBR_FACT_EXTENT_MAX_BYTES, UINT64_MAX);
}

uint64_t mbr_step_reservation_limit(mbr_trial *trial)
{
    return mbr_subject_fact(trial, &trial->subject, MBR_FACT_RESERVATION_MAX_BYTES, UINT64_MAX);
}

static void need_fit(mbr_trial *trial, uint64_t bytes, uint64_t limit, const char *what)
{
    if (bytes > limit)
        mbr_trial_skip(
            trial, MBR_SKIP_FACT, "%s of %lu bytes; the fact says %lu at most", what, bytes, limit);
}

void mbr_step_extent_fits(mbr_trial *trial, uint64_t bytes)
{
    need_fit(trial, bytes, mbr_step_extent_limit(trial), "an extent");
}

mbr_place mbr_step_reserve(mbr_trial *trial, uint64_t granules)
{
    mbr_outcome outcome = {0};
    mbr_place place = {.id = mbr_trial_id(trial)};
    need_fit(
        trial, granules * trial->granule_bytes, mbr_step_reservation_limit(trial), "a reservation");
    mbr_need_ok(trial,
        mbr_try_reserve(
            trial, &trial->subject, place.id, granules * trial->granule_bytes, 0, &outcome),
        "reserve");
    place.address = outcome.address;
    return place;
}

uint64_t mbr_step_create(mbr_trial *trial, uint64_t granules)
{
    uint64_t id = mbr_trial_id(trial);
    mbr_step_extent_fits(trial, granules * trial->granule_bytes);
    mbr_need_ok(trial,
        mbr_try_create(
            trial, &trial->subject, id, granules * trial->granule_bytes, 0, UINT64_MAX, NULL),
        "extent_create");
    return id;
}

void mbr_step_destroy(mbr_trial *trial, uint64_t extent_id)
{
    mbr_need_ok(trial, mbr_try_destroy(trial, &trial->subject, extent_id, NULL), "extent_destroy");
}

void mbr_step_map(mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t extent_id)
{
    mbr_need_ok(trial,
        mbr_try_map(trial, &trial->subject, place->id, at * trial->granule_bytes, extent_id, NULL),
        "map");
}

void mbr_step_protect(
    mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t granules, uint32_t access)
{
    mbr_need_ok(trial,
        mbr_try_protect(trial, &trial->subject, place->id, at * trial->granule_bytes,
            granules * trial->granule_bytes, access, NULL),
        "protect");
}

void mbr_step_unmap(mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t granules)
{
    mbr_need_ok(trial,
        mbr_try_unmap(trial, &trial->subject, place->id, at * trial->granule_bytes,
            granules * trial->granule_bytes, NULL),
        "unmap");
}

void mbr_step_share(
    mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t extent_id, uint32_t access)
{
    mbr_need_ok(trial,
        mbr_try_share(
            trial, &trial->subject, place->id, at * trial->granule_bytes, extent_id, access, NULL),
        "map_shared");
}

uint64_t mbr_step_commit(mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t granules)
{
    uint64_t extent_id = mbr_step_create(trial, granules);
    mbr_step_map(trial, place, at, extent_id);
    mbr_step_protect(trial, place, at, granules, MBR_ACCESS_READ_WRITE);
    return extent_id;
}

void mbr_step_write(
    mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t granules, uint64_t seed)
{
    uint64_t address = place->address + at * trial->granule_bytes;
    MBR_NEED(trial,
        mbr_memory_write(trial, address, granules * trial->granule_bytes, seed) == MBR_MEMORY_OK,
        "a store at 0x%lx is refused", address);
}

mbr_memory mbr_step_look(
    mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t granules, uint64_t seed)
{
    return mbr_memory_read(
        trial, place->address + at * trial->granule_bytes, granules * trial->granule_bytes, seed);
}

mbr_mechanism_stats mbr_step_stats(mbr_trial *trial)
{
    const mbr_stats_request request = {MBR_SIZED(mbr_stats_request)};
    mbr_mechanism_stats stats = {0};
    mbr_need_ok(trial, mbr_drive_stats(trial, &trial->subject, &request, &stats), "stats");
    return stats;
}

mbr_query_outcome mbr_step_query(mbr_trial *trial, const mbr_place *place, uint64_t at)
{
    mbr_query_outcome outcome = {0};
    mbr_need_ok(trial,
        mbr_try_query(trial, &trial->subject, place->id, at * trial->granule_bytes, &outcome),
        "query");
    return outcome;
}

bool mbr_step_is_free_address(mbr_trial *trial, const mbr_place *place, uint64_t at)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    void *wanted = (void *)(uintptr_t)(place->address + at * trial->granule_bytes);
    void *got = mmap(wanted, page_bytes, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED)
        return false;
    munmap(got, page_bytes);
    return got == wanted; /* kernels before 4.17 take the address as a hint */
}

void mbr_step_open_another(mbr_trial *trial, mbr_subject *another)
{
    mbr_need_ok(trial, mbr_subject_open(trial, NULL, 0, another, NULL), "a second open");
}

uint64_t mbr_step_granules(const mbr_trial *trial, uint64_t bytes)
{
    return (bytes + trial->granule_bytes - 1) / trial->granule_bytes;
}
