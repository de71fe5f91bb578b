/* Group SOK, level 5: random sequences of calls against the tool's own model, for as long as half
 * of the check's time limit. Sequences follow from the seed; the model knows what each call must
 * answer, and what the figures and contents are behind it. */
#include "tools/check/alc.h"
#include "tools/check/steps.h"

#include <string.h>

#define LIVE_MAX 64u
#define RESERVATIONS 6u
#define PLACES 12u /* granules of a reservation */
#define EXTENTS 16u

static uint64_t pick(mbr_trial *trial, uint64_t below)
{
    return mbr_trial_random(trial) % below;
}

/* When the run ends; `--timeout` says how long it may be. */
static uint64_t end_of_run(const mbr_trial *trial)
{
    return mbr_now_ns() + trial->page->timeout_ms * UINT64_C(500000);
}

static void expect(
    mbr_trial *trial, mbr_status got, mbr_status wanted, const char *what, uint64_t step)
{
    MBR_EXPECT(trial, got == wanted, "every call of a random sequence answers as the model does",
        "step %lu, %s: %s, and %s is right", step, what, mbr_status_name(got),
        mbr_status_name(wanted));
}

static bool reaches(const mbr_trial *trial)
{
    return (trial->subject.offered & MBR_NEEDS_HOST_ACCESS) != 0;
}

static void expect_contents(mbr_trial *trial, uint64_t address, uint64_t bytes, uint64_t seed,
    const char *what, uint64_t step)
{
    mbr_memory answer = mbr_memory_read(trial, address, bytes, seed);
    MBR_EXPECT(trial, answer == MBR_MEMORY_OK, "contents are what was written last",
        "step %lu, %s at 0x%lx: %s", step, what, address, mbr_memory_word(answer));
}

/* ---- Allocations ----------------------------------------------------------------------------- */

typedef struct heap_model {
    mbr_trial *trial;
    mbr_alc live[LIVE_MAX];
    uint32_t count;
    uint64_t step, owned_bytes, last_id, last_address;
} heap_model;

static uint64_t whole_words(uint64_t bytes)
{
    return bytes & ~UINT64_C(7);
}

static void grant(heap_model *self)
{
    mbr_trial *trial = self->trial;
    mbr_allocate_request request =
        mbr_alc_request(trial, 1 + pick(trial, UINT64_C(1) << (4 + pick(trial, 16))));
    mbr_alc *one = &self->live[self->count];
    request.align_bytes = pick(trial, 4) == 0 ? UINT64_C(1) << pick(trial, 17) : 0;
    expect(
        trial, mbr_alc_ask(trial, &trial->subject, request, one), MBR_OK, "allocate", self->step);
    self->count++;
    self->owned_bytes += one->owned_bytes;
    if (reaches(trial))
        MBR_EXPECT(trial,
            mbr_memory_write(trial, one->address, whole_words(one->bytes), one->id) ==
                MBR_MEMORY_OK,
            "what is granted can be written", "step %lu: no access at 0x%lx", self->step,
            one->address);
}

static void give(heap_model *self)
{
    mbr_trial *trial = self->trial;
    mbr_outcome outcome = {0};
    mbr_alc *one = &self->live[pick(trial, self->count)];
    if (reaches(trial))
        expect_contents(
            trial, one->address, whole_words(one->bytes), one->id, "an allocation", self->step);
    expect(trial, mbr_alc_release(trial, &trial->subject, one->id, one->address, &outcome), MBR_OK,
        "release", self->step);
    self->owned_bytes -= one->owned_bytes;
    self->last_id = one->id;
    self->last_address = one->address;
    *one = self->live[--self->count];
}

/* A call that must be refused. */
static void misuse(heap_model *self)
{
    mbr_trial *trial = self->trial;
    mbr_alc none;
    if (self->count > 0 && pick(trial, 2) == 0) {
        mbr_allocate_request request = mbr_alc_request(trial, 4096);
        request.allocation_id = self->live[pick(trial, self->count)].id;
        expect(trial, mbr_alc_ask(trial, &trial->subject, request, &none), MBR_ALREADY_EXISTS,
            "allocate under a live id", self->step);
    } else if (self->last_id != 0) {
        expect(trial,
            mbr_alc_release(trial, &trial->subject, self->last_id, self->last_address, NULL),
            MBR_UNKNOWN_OBJECT, "a second release", self->step);
    }
}

static void run_allocations(mbr_trial *trial)
{
    static heap_model self;
    self = (heap_model){.trial = trial};
    uint64_t end_ns = end_of_run(trial), empty_bytes = mbr_alc_stats(trial).owned_bytes;
    for (; mbr_now_ns() < end_ns; self.step++) {
        uint64_t kind = pick(trial, 16);
        if (kind == 0)
            misuse(&self);
        else if (self.count == LIVE_MAX || (self.count > 0 && kind < 8))
            give(&self);
        else
            grant(&self);
        uint64_t owned_bytes = mbr_alc_stats(trial).owned_bytes;
        MBR_EXPECT(trial,
            owned_bytes == MBR_UNKNOWN_BYTES || owned_bytes == empty_bytes + self.owned_bytes,
            "behind every step the figures are the model's",
            "step %lu: owned %lu, and %lu is right", self.step, owned_bytes,
            empty_bytes + self.owned_bytes);
    }
    mbr_trial_figures(trial, "%lu steps", self.step);
}

/* ---- Virtual memory -------------------------------------------------------------------------- */

typedef struct room {
    mbr_place place;
    uint32_t extent[PLACES]; /* index + 1 of what is mapped there */
    bool is_start[PLACES], is_first[PLACES];
    uint32_t access[PLACES];
} room;

typedef struct piece {
    uint64_t id, granules, seed;
    uint32_t mapping_count;
} piece;

typedef struct space_model {
    mbr_trial *trial;
    room rooms[RESERVATIONS];
    piece pieces[EXTENTS];
    uint64_t step, granule;
    uint64_t mapped_granules;
} space_model;

static bool is_free(const room *at, uint64_t from, uint64_t granules)
{
    for (uint64_t i = from; i < from + granules; i++)
        if (i >= PLACES || at->extent[i] != 0)
            return false;
    return true;
}

static bool is_empty(const room *at)
{
    return is_free(at, 0, PLACES);
}

static void toggle_room(space_model *self, room *at)
{
    mbr_trial *trial = self->trial;
    if (at->place.id == 0) {
        mbr_outcome outcome = {0};
        at->place.id = mbr_trial_id(trial);
        expect(trial,
            mbr_try_reserve(
                trial, &trial->subject, at->place.id, PLACES * self->granule, 0, &outcome),
            MBR_OK, "reserve", self->step);
        at->place.address = outcome.address;
        return;
    }
    bool was_empty = is_empty(at);
    expect(trial, mbr_try_unreserve(trial, &trial->subject, at->place.id, NULL),
        was_empty ? MBR_OK : MBR_BUSY, "unreserve", self->step);
    if (was_empty)
        memset(at, 0, sizeof *at);
}

static void toggle_piece(space_model *self, piece *one)
{
    mbr_trial *trial = self->trial;
    if (one->id == 0) {
        *one = (piece){.id = mbr_trial_id(trial), .granules = 1 + pick(trial, 3)};
        expect(trial,
            mbr_try_create(trial, &trial->subject, one->id, one->granules * self->granule, 0,
                UINT64_MAX, NULL),
            MBR_OK, "extent_create", self->step);
        return;
    }
    bool was_mapped = one->mapping_count > 0;
    expect(trial, mbr_try_destroy(trial, &trial->subject, one->id, NULL),
        was_mapped ? MBR_BUSY : MBR_OK, "extent_destroy", self->step);
    if (was_mapped)
        return;
    *one = (piece){0};
}

static void put(space_model *self, room *at, uint64_t from, uint32_t index, uint32_t access)
{
    piece *one = &self->pieces[index];
    for (uint64_t i = from; i < from + one->granules; i++) {
        at->extent[i] = index + 1;
        at->is_start[i] = i == from;
        at->access[i] = access;
    }
    one->mapping_count++;
    self->mapped_granules += one->granules;
}

/* The first mapping by map, further ones by map_shared; a place that is taken is refused. */
static void map(space_model *self, room *at, uint32_t index)
{
    mbr_trial *trial = self->trial;
    piece *one = &self->pieces[index];
    uint64_t from = pick(trial, PLACES);
    if (at->place.id == 0 || one->id == 0 || from + one->granules > PLACES)
        return;
    mbr_status wanted = is_free(at, from, one->granules) ? MBR_OK : MBR_ALREADY_EXISTS;
    bool is_further = one->mapping_count > 0;
    if (is_further && (trial->subject.offered & MBR_NEEDS_SHARED) == 0)
        return;
    uint32_t access = is_further ? MBR_ACCESS_READ_WRITE : MBR_ACCESS_NONE;
    mbr_status got = is_further
        ? mbr_try_share(
              trial, &trial->subject, at->place.id, from * self->granule, one->id, access, NULL)
        : mbr_try_map(trial, &trial->subject, at->place.id, from * self->granule, one->id, NULL);
    if (is_further && wanted != MBR_OK) /* its contract names no code */
        MBR_EXPECT(trial, MBR_STATUS_CLASS(got) == MBR_CLASS_CALLER,
            "every call of a random sequence answers as the model does",
            "step %lu, map_shared over a mapping: %s", self->step, mbr_status_name(got));
    else
        expect(trial, got, wanted, is_further ? "map_shared" : "map", self->step);
    if (wanted == MBR_OK)
        put(self, at, from, index, access);
}

/* Where a mapping starts, or PLACES. */
static uint64_t find_mapping(space_model *self, const room *at)
{
    uint64_t from = pick(self->trial, PLACES);
    for (uint64_t i = 0; i < PLACES; i++, from = (from + 1) % PLACES)
        if (at->extent[from] != 0 && at->is_start[from])
            return from;
    return PLACES;
}

static void unmap(space_model *self, room *at)
{
    uint64_t from = find_mapping(self, at);
    if (from == PLACES)
        return;
    piece *one = &self->pieces[at->extent[from] - 1];
    uint64_t granules = one->granules;
    expect(self->trial,
        mbr_try_unmap(self->trial, &self->trial->subject, at->place.id, from * self->granule,
            granules * self->granule, NULL),
        MBR_OK, "unmap", self->step);
    one->mapping_count--;
    self->mapped_granules -= granules;
    for (uint64_t i = from; i < from + granules; i++) {
        at->extent[i] = 0;
        at->is_start[i] = false;
    }
}

/* Access as it comes; what can be read holds what was written last through any mapping. */
static void touch(space_model *self, room *at)
{
    mbr_trial *trial = self->trial;
    static const uint32_t accesses[] = {MBR_ACCESS_NONE, MBR_ACCESS_READ, MBR_ACCESS_READ_WRITE};
    uint64_t from = find_mapping(self, at);
    if (from == PLACES)
        return;
    piece *one = &self->pieces[at->extent[from] - 1];
    uint32_t access = accesses[pick(trial, 3)];
    uint64_t address = at->place.address + from * self->granule;
    uint64_t bytes = one->granules * self->granule;
    expect(trial,
        mbr_try_protect(
            trial, &trial->subject, at->place.id, from * self->granule, bytes, access, NULL),
        MBR_OK, "protect", self->step);
    at->access[from] = access;
    if (!reaches(trial) || access == MBR_ACCESS_NONE)
        return;
    if (one->seed != 0)
        expect_contents(trial, address, bytes, one->seed, "an extent", self->step);
    if (access != MBR_ACCESS_READ_WRITE)
        return;
    one->seed = mbr_trial_random(trial) | 1;
    MBR_EXPECT(trial, mbr_memory_write(trial, address, bytes, one->seed) == MBR_MEMORY_OK,
        "what is readable and writable can be written", "step %lu: no access at 0x%lx", self->step,
        address);
}

static void look(space_model *self, const room *at)
{
    mbr_query_outcome found = {0};
    uint64_t place = pick(self->trial, PLACES);
    if (at->place.id == 0)
        return;
    expect(self->trial,
        mbr_try_query(
            self->trial, &self->trial->subject, at->place.id, place * self->granule, &found),
        MBR_OK, "query", self->step);
    uint64_t wanted = at->extent[place] == 0 ? 0 : self->pieces[at->extent[place] - 1].id;
    MBR_EXPECT(self->trial, found.extent_id == wanted, "query tells what the model has there",
        "step %lu: extent %lu, and %lu is right", self->step, found.extent_id, wanted);
}

static void step(space_model *self)
{
    room *at = &self->rooms[pick(self->trial, RESERVATIONS)];
    uint32_t index = (uint32_t)pick(self->trial, EXTENTS);
    uint64_t kind = pick(self->trial, 16);
    if (kind == 0)
        toggle_room(self, at);
    else if (kind < 4)
        toggle_piece(self, &self->pieces[index]);
    else if (kind < 8)
        map(self, at, index);
    else if (kind < 11)
        unmap(self, at);
    else if (kind < 15)
        touch(self, at);
    else
        look(self, at);
}

static void run_virtual(mbr_trial *trial)
{
    static space_model self;
    self = (space_model){.trial = trial, .granule = trial->granule_bytes};
    uint64_t end_ns = end_of_run(trial);
    mbr_mechanism_stats empty = mbr_step_stats(trial);
    for (; mbr_now_ns() < end_ns; self.step++) {
        step(&self);
        mbr_mechanism_stats now = mbr_step_stats(trial);
        MBR_EXPECT(trial,
            now.mapped_bytes == MBR_UNKNOWN_BYTES ||
                now.mapped_bytes == empty.mapped_bytes + self.mapped_granules * self.granule,
            "behind every step the figures are the model's", "step %lu: mapped %lu, not %lu",
            self.step, now.mapped_bytes, self.mapped_granules * self.granule);
        MBR_EXPECT(trial,
            now.owned_bytes == MBR_UNKNOWN_BYTES ||
                now.owned_bytes == trial->subject.ledger.owned_bytes + empty.owned_bytes,
            "behind every step the figures are the model's", "step %lu: owned %lu, not %lu",
            self.step, now.owned_bytes, trial->subject.ledger.owned_bytes + empty.owned_bytes);
    }
    mbr_trial_figures(trial, "%lu steps", self.step);
}

static const mbr_check checks[] = {
    {"SOK-001", 5, MBR_STAGE_OPENED, 0, "C5, C22, C24",
        "random allocations and releases follow the model for as long as the time limit lets them",
        "What needs a sequence of calls is met in production alone.", run_allocations, 0, 0},
    {"SOK-002", 5, MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL, "C5, C22, C24",
        "random work on ranges and extents follows the model for as long as the time limit lets it",
        "What needs a sequence of calls is met in production alone.", run_virtual, 0, 0},
};

const mbr_group mbr_group_sok = MBR_GROUP("SOK", "soak: random sequences against a model", checks);
