/* Group PRF: what the main slots take, for the report. Figures are reported and not judged: the
 * limit is far from what any backend takes, also on a busy machine, and finds slots that wait. */
#include "tools/check/steps.h"

#include <stdlib.h>

#define SAMPLES_MAX 400u
#define WARM_COUNT 4u
#define SPAN_NS UINT64_C(1500000000)      /* for one check's samples */
#define MEDIAN_MAX_NS UINT64_C(100000000) /* of one round of calls */

typedef struct timing {
    mbr_trial *trial;
    mbr_place place;
    uint64_t extent_id;
} timing;

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* `round` in a loop, with the time of each; it runs alone. */
static void measure(timing *self, const char *what, void (*round)(timing *self))
{
    static uint64_t samples[SAMPLES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < WARM_COUNT; i++)
        round(self);
    uint64_t end_ns = mbr_now_ns() + SPAN_NS;
    while (count < SAMPLES_MAX && (count < 8 || mbr_now_ns() < end_ns)) {
        uint64_t start_ns = mbr_now_ns();
        round(self);
        samples[count++] = mbr_now_ns() - start_ns;
    }
    qsort(samples, count, sizeof samples[0], compare);
    uint64_t p50 = samples[count / 2], p99 = samples[count * 99 / 100];
    mbr_trial_figures(self->trial, "%s: p50 %lu ns, p99 %lu ns of %u", what, p50, p99, count);
    MBR_EXPECT(self->trial, p50 <= MEDIAN_MAX_NS,
        "the median of a round of small calls is below 100 ms", "%s: p50 %lu ns, p99 %lu ns", what,
        p50, p99);
}

/* The drivers' own work is the same in every round; figures hold it. */
static void round_allocate(timing *self)
{
    mbr_trial *trial = self->trial;
    mbr_outcome outcome = {0};
    const mbr_allocate_request allocate = {MBR_SIZED(mbr_allocate_request),
        .allocation_id = mbr_trial_id(trial), .bytes = 98304, .max_owned_bytes = UINT64_MAX};
    mbr_need_ok(trial, mbr_drive_allocate(trial, &trial->subject, &allocate, &outcome), "allocate");
    const mbr_release_request release = {MBR_SIZED(mbr_release_request),
        .allocation_id = allocate.allocation_id, .address = outcome.address};
    outcome = (mbr_outcome){0};
    mbr_need_ok(trial, mbr_drive_release(trial, &trial->subject, &release, &outcome), "release");
}

static void round_reserve(timing *self)
{
    mbr_place place = mbr_step_reserve(self->trial, 64);
    mbr_need_ok(self->trial, mbr_try_unreserve(self->trial, &self->trial->subject, place.id, NULL),
        "unreserve");
}

static void round_extent(timing *self)
{
    mbr_step_destroy(self->trial, mbr_step_create(self->trial, 1));
}

static void round_map(timing *self)
{
    mbr_step_map(self->trial, &self->place, 0, self->extent_id);
    mbr_step_protect(self->trial, &self->place, 0, 1, MBR_ACCESS_READ_WRITE);
    mbr_step_unmap(self->trial, &self->place, 0, 1);
}

static void round_look(timing *self)
{
    mbr_trial *trial = self->trial;
    (void)mbr_step_stats(trial);
    (void)mbr_subject_report(trial, &trial->subject);
}

static void run_allocate(mbr_trial *trial)
{
    measure(&(timing){.trial = trial}, "allocate and release of 96 KiB", round_allocate);
}

static void run_reserve(mbr_trial *trial)
{
    measure(&(timing){.trial = trial}, "reserve and unreserve of 64 granules", round_reserve);
}

static void run_extent(mbr_trial *trial)
{
    measure(
        &(timing){.trial = trial}, "extent_create and extent_destroy of a granule", round_extent);
}

static void run_map(mbr_trial *trial)
{
    timing self = {.trial = trial};
    self.place = mbr_step_reserve(trial, 4);
    self.extent_id = mbr_step_create(trial, 1);
    measure(&self, "map, protect and unmap of a granule", round_map);
}

static void run_look(mbr_trial *trial)
{
    measure(&(timing){.trial = trial}, "stats and report", round_look);
}

#define PRF(number, needs, title, why, run)                                                        \
    {                                                                                              \
        "PRF-" number, 4, MBR_STAGE_OPENED, needs, "C26", title, why, run, MBR_CHECK_ALONE, 0      \
    }

static const mbr_check checks[] = {
    PRF("001", 0, "allocate and release take a bounded time, p50 and p99 reported",
        "A host without virtual memory calls them for every tensor.", run_allocate),
    PRF("002", MBR_NEEDS_VIRTUAL, "reserve and unreserve take a bounded time, p50 and p99 reported",
        "One pair for each sequence.", run_reserve),
    PRF("003", MBR_NEEDS_VIRTUAL,
        "extent_create and extent_destroy take a bounded time, p50 and p99 reported",
        "The pool calls them as the load changes.", run_extent),
    PRF("004", MBR_NEEDS_VIRTUAL,
        "map, protect and unmap take a bounded time, p50 and p99 reported",
        "Growth calls them in the middle of a request.", run_map),
    PRF("005", 0, "stats and report take a bounded time, p50 and p99 reported",
        "The host asks before each large grant.", run_look),
};

const mbr_group mbr_group_prf = MBR_GROUP("PRF", "figures of the main slots", checks);
