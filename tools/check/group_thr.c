/* Group THR: many threads. Each slot is called as its thread tag allows and never otherwise: what
 * is [serial: OBJECT] is called at once for different objects only. Where a race must be met, it is
 * tried many times; a plugin that is right is right each time. */
#include "tools/check/steps.h"
#include "tools/check/team.h"

#include <sched.h>
#include <string.h>

#define PAGE_BYTES UINT64_C(4096)

/* ---- Counters -------------------------------------------------------------------------------- */

static mbr_report report_of(mbr_trial *trial)
{
    const mbr_report_request request = {MBR_SIZED(mbr_report_request)};
    mbr_report report = {MBR_SIZED(mbr_report)};
    mbr_need_ok(trial, mbr_drive_report(trial, &trial->subject, &request, &report), "report");
    return report;
}

static void allocate_and_keep(mbr_member *self)
{
    mbr_alc live[4];
    for (uint32_t i = 0; i < 4; i++)
        live[i] = mbr_team_take(self, (self->index + 1) * PAGE_BYTES);
    for (uint32_t round = 0; round < 100; round++) {
        uint64_t pages = 1 + mbr_trial_random(self->trial) % 16;
        mbr_team_give(self, &live[round % 4]);
        live[round % 4] = mbr_team_take(self, pages * PAGE_BYTES);
    }
}

static void run_counters(mbr_trial *trial)
{
    mbr_team all;
    uint64_t owned = mbr_alc_stats(trial).owned_bytes, mapped = mbr_alc_stats(trial).mapped_bytes;
    mbr_team_run(trial, &all, MBR_TEAM_MAX, allocate_and_keep, NULL);
    mbr_mechanism_stats after = mbr_alc_stats(trial);
    const mbr_ledger *books = &trial->subject.ledger;
    MBR_EXPECT(trial, owned == MBR_UNKNOWN_BYTES || after.owned_bytes - owned == books->owned_bytes,
        "after 16 threads allocated and released, owned_bytes is what the outcomes say",
        "%lu grown from %lu, %lu by the outcomes", after.owned_bytes, owned, books->owned_bytes);
    MBR_EXPECT(trial,
        mapped == MBR_UNKNOWN_BYTES || after.mapped_bytes - mapped == books->mapped_bytes,
        "after 16 threads allocated and released, mapped_bytes is what the outcomes say",
        "%lu grown from %lu, %lu by the outcomes", after.mapped_bytes, mapped, books->mapped_bytes);
    uint64_t count = report_of(trial).allocation_count;
    MBR_EXPECT(trial, count == books->count[MBR_OBJECT_ALLOCATION],
        "after 16 threads allocated and released, report counts what lives", "%lu of %lu", count,
        books->count[MBR_OBJECT_ALLOCATION]);
}

static void map_and_unmap(mbr_member *self)
{
    mbr_trial *trial = self->trial;
    mbr_place place = mbr_step_reserve(trial, 2);
    for (uint32_t round = 0; round < 20; round++) {
        uint64_t extent = mbr_step_commit(trial, &place, round % 2, 1);
        mbr_step_unmap(trial, &place, round % 2, 1);
        mbr_step_destroy(trial, extent);
    }
    mbr_need_ok(trial, mbr_try_unreserve(trial, self->self, place.id, NULL), "unreserve");
}

static void run_virtual_counters(mbr_trial *trial)
{
    mbr_team all;
    mbr_mechanism_stats before = mbr_step_stats(trial);
    mbr_team_run(trial, &all, MBR_TEAM_MAX, map_and_unmap, NULL);
    mbr_mechanism_stats after = mbr_step_stats(trial);
    MBR_EXPECT(trial,
        before.owned_bytes == after.owned_bytes && before.mapped_bytes == after.mapped_bytes &&
            before.reserved_bytes == after.reserved_bytes,
        "after 16 threads mapped and unmapped, the figures are as before",
        "owned %lu and %lu, mapped %lu and %lu, reserved %lu and %lu", before.owned_bytes,
        after.owned_bytes, before.mapped_bytes, after.mapped_bytes, before.reserved_bytes,
        after.reserved_bytes);
}

static void paint_and_look(mbr_member *self)
{
    for (uint32_t round = 0; round < 100; round++) {
        mbr_alc one = mbr_team_take(self, 2 * PAGE_BYTES);
        mbr_alc_paint(&one);
        sched_yield();
        uint64_t at = mbr_alc_first_changed(&one);
        MBR_EXPECT(self->trial, at == one.bytes, "what two threads allocate never overlaps",
            "allocation %lu at 0x%lx changed at offset %lu", one.id, one.address, at);
        mbr_team_give(self, &one);
    }
}

static void run_apart(mbr_trial *trial)
{
    mbr_team all;
    mbr_team_run(trial, &all, 8, paint_and_look, NULL);
}

/* ---- Races ----------------------------------------------------------------------------------- */

static void release_shared(mbr_member *self)
{
    const mbr_alc *one = self->team->shared;
    self->status = mbr_alc_release(self->trial, self->self, one->id, one->address, NULL);
}

static void run_double_release(mbr_trial *trial)
{
    for (uint32_t round = 0; round < 100; round++) {
        mbr_team all;
        mbr_alc one = mbr_alc_take(trial, PAGE_BYTES);
        mbr_team_run(trial, &all, 4, release_shared, &one);
        MBR_EXPECT(trial, mbr_team_ok_count(&all) == 1,
            "of several releases of one allocation at once exactly one is done",
            "round %u: %u of 4 answered MBR_OK", round, mbr_team_ok_count(&all));
    }
}

static void allocate_shared(mbr_member *self)
{
    mbr_alc taken;
    mbr_allocate_request request = mbr_alc_request(self->trial, PAGE_BYTES);
    memcpy(&request.allocation_id, self->team->shared, sizeof request.allocation_id);
    self->status = mbr_alc_ask(self->trial, self->self, request, &taken);
}

static void run_doubled_id(mbr_trial *trial)
{
    for (uint32_t round = 0; round < 100; round++) {
        mbr_team all;
        uint64_t id = mbr_trial_id(trial);
        mbr_team_run(trial, &all, 4, allocate_shared, &id);
        MBR_EXPECT(trial, mbr_team_ok_count(&all) == 1,
            "of several allocations under one id at once exactly one is done",
            "round %u: %u of 4 answered MBR_OK", round, mbr_team_ok_count(&all));
    }
}

typedef struct contest {
    mbr_place places[4];
    uint64_t extent_id;
} contest;

static void map_shared_extent(mbr_member *self)
{
    const contest *it = self->team->shared;
    self->status =
        mbr_try_map(self->trial, self->self, it->places[self->index].id, 0, it->extent_id, NULL);
}

static void run_one_extent(mbr_trial *trial)
{
    contest it;
    for (uint32_t i = 0; i < 4; i++)
        it.places[i] = mbr_step_reserve(trial, 1);
    for (uint32_t round = 0; round < 100; round++) {
        mbr_team all;
        it.extent_id = mbr_step_create(trial, 1);
        mbr_team_run(trial, &all, 4, map_shared_extent, &it);
        MBR_EXPECT(trial, mbr_team_ok_count(&all) == 1,
            "of several maps of one extent at once exactly one is done",
            "round %u: %u of 4 answered MBR_OK", round, mbr_team_ok_count(&all));
        for (uint32_t i = 0; i < 4; i++)
            if (all.members[i].status == MBR_OK)
                mbr_step_unmap(trial, &it.places[i], 0, 1);
        mbr_step_destroy(trial, it.extent_id);
    }
}

/* Each gives back what the next one took. */
static mbr_alc handed[MBR_TEAM_MAX];
static void hand_on(mbr_member *self)
{
    for (uint32_t round = 0; round < 50; round++) {
        handed[self->index] = mbr_team_take(self, (1 + round % 3) * PAGE_BYTES);
        mbr_team_meet(self);
        const mbr_alc *other = &handed[(self->index + 1) % self->team->count];
        mbr_status status =
            mbr_alc_release(self->trial, self->self, other->id, other->address, NULL);
        MBR_EXPECT(self->trial, status == MBR_OK, "any thread may release",
            "thread %u releases what another one took: %s", self->index, mbr_status_name(status));
        mbr_team_meet(self);
    }
}

static void run_handed_on(mbr_trial *trial)
{
    mbr_team all;
    mbr_team_run(trial, &all, MBR_TEAM_MAX, hand_on, NULL);
}

/* ---- Answers --------------------------------------------------------------------------------- */

typedef struct span {
    uint64_t low, high;
} span;

static void stats_or_toggle(mbr_member *self)
{
    const span *it = self->team->shared;
    for (uint32_t round = 0; round < 300 && self->index == 0; round++) {
        mbr_alc one = mbr_team_take(self, 8 * PAGE_BYTES);
        mbr_team_give(self, &one);
    }
    for (uint32_t round = 0; round < 300 && self->index != 0; round++) {
        uint64_t owned = mbr_alc_stats(self->trial).owned_bytes;
        MBR_EXPECT(self->trial, owned >= it->low && owned <= it->high,
            "stats tells at least what is held, and at most what is being taken besides",
            "%lu owned; between %lu and %lu are possible", owned, it->low, it->high);
    }
}

static void run_stats(mbr_trial *trial)
{
    mbr_team all;
    (void)mbr_alc_take(trial, 32 * PAGE_BYTES);
    span possible = {.low = mbr_alc_stats(trial).owned_bytes};
    mbr_alc one = mbr_alc_take(trial, 8 * PAGE_BYTES);
    possible.high = mbr_alc_stats(trial).owned_bytes;
    mbr_alc_give(trial, &one);
    if (possible.low == MBR_UNKNOWN_BYTES)
        return;
    MBR_NEED(trial, mbr_alc_stats(trial).owned_bytes == possible.low, "release keeps memory");
    mbr_team_run(trial, &all, 6, stats_or_toggle, &possible);
}

static void query_own(mbr_member *self)
{
    mbr_trial *trial = self->trial;
    uint64_t granules = self->index + 1, granule = trial->granule_bytes;
    mbr_place place = mbr_step_reserve(trial, 2 * granules);
    uint64_t extent = mbr_step_create(trial, granules);
    for (uint32_t round = 0; round < 40; round++) {
        mbr_step_map(trial, &place, round % 2 * granules, extent);
        for (uint32_t i = 0; i < 5; i++) {
            mbr_query_outcome seen = mbr_step_query(trial, &place, round % 2 * granules);
            MBR_EXPECT(trial,
                seen.extent_id == extent && seen.bytes == granules * granule &&
                    seen.offset_bytes == round % 2 * granules * granule,
                "query tells of the reservation that it was asked of",
                "extent %lu, %lu bytes at %lu, where %lu with %lu bytes is mapped at %lu",
                seen.extent_id, seen.bytes, seen.offset_bytes, extent, granules * granule,
                round % 2 * granules * granule);
        }
        mbr_step_unmap(trial, &place, round % 2 * granules, granules);
    }
}

static void run_query(mbr_trial *trial)
{
    mbr_team all;
    mbr_team_run(trial, &all, 6, query_own, NULL);
}

static const mbr_check checks[] = {
    {"THR-001", 4, MBR_STAGE_OPENED, 0, "C25", "figures are exact after 16 threads allocated",
        "A byte that is lost in a race is missing for ever, or never there.", run_counters, 0, 0},
    {"THR-002", 4, MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL, "C25",
        "figures are exact after 16 threads mapped",
        "The host finds what leaks by comparing these figures with its own.", run_virtual_counters,
        0, 0},
    {"THR-003", 4, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ACCESS, "C25",
        "what two threads allocate never overlaps",
        "One request's contents would appear in another's.", run_apart, 0, 0},
    {"THR-004", 4, MBR_STAGE_OPENED, 0, "C22, C25",
        "of several releases of one allocation exactly one is done",
        "The second one would free what a third thread has just been given.", run_double_release, 0,
        0},
    {"THR-005", 4, MBR_STAGE_OPENED, 0, "C22, C25",
        "of several allocations under one id one is done", "The others could never be released.",
        run_doubled_id, 0, 0},
    {"THR-006", 4, MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL, "C25",
        "of several maps of one extent exactly one is done",
        "Two tenants would share memory that each takes for its own.", run_one_extent, 0, 0},
    {"THR-007", 4, MBR_STAGE_OPENED, 0, "C25", "memory goes from thread to thread",
        "Runtimes release on other threads than they allocate.", run_handed_on, 0, 0},
    {"THR-008", 4, MBR_STAGE_OPENED, 0, "C25", "stats is never torn",
        "A figure from the middle of a call refuses or grants what it should not.", run_stats, 0,
        0},
    {"THR-009", 4, MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL, "C25", "query is never torn",
        "An answer about another reservation leads to an unmap of live memory.", run_query, 0, 0},
};

const mbr_group mbr_group_thr = MBR_GROUP("THR", "many threads: figures and races", checks);
