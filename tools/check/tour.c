/* The tour's calls and their order. Never judges: a visitor does. */
#include "tools/check/tour.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

typedef struct tour {
    mbr_trial *trial;
    mbr_tour_visit visit;
    const void *lent; /* to the present call; taken away behind it */
    uint64_t lent_bytes;
    union {
        unsigned char bytes[MBR_TOUR_OUTCOME_BYTES];
        mbr_outcome change;
        mbr_open_outcome open;
        mbr_stream_create_outcome stream;
    } outcome; /* of the last call */
} tour;

/* What a request points to: read-only, at the end of its page, for this call alone. */
static const void *lend(tour *self, const void *bytes, uint64_t count)
{
    self->lent = mbr_lay_input(self->trial, bytes, count);
    self->lent_bytes = count;
    return self->lent;
}

static void take_back(tour *self)
{
    if (self->lent != NULL)
        mprotect((void *)((uintptr_t)self->lent & ~(uintptr_t)4095), 4096, PROT_NONE);
    self->lent = NULL;
}

static mbr_status visit_in(
    tour *self, mbr_subject *subject, mbr_slot slot, bool is_good, const void *request)
{
    memset(&self->outcome, 0, sizeof self->outcome);
    mbr_status status = self->visit == NULL
        ? mbr_drive(self->trial, subject, slot, request, &self->outcome)
        : self->visit(self->trial, subject, slot, is_good, request, &self->outcome);
    take_back(self);
    return status;
}

static void good(tour *self, mbr_slot slot, const void *request)
{
    mbr_status status = visit_in(self, &self->trial->subject, slot, true, request);
    MBR_NEED(self->trial, status == MBR_OK, "%s: %s: %s", mbr_slot_name(slot),
        mbr_status_name(status), mbr_last_error()->text);
}

/* A plugin that takes it breaks a rule of another check. */
static void bad(tour *self, mbr_slot slot, const void *request)
{
    (void)visit_in(self, &self->trial->subject, slot, false, request);
}

#define GOOD(self, slot, type, ...)                                                                \
    good((self), MBR_SLOT_##slot, &(const type){MBR_SIZED(type), __VA_ARGS__})
#define BAD(self, slot, type, ...)                                                                 \
    bad((self), MBR_SLOT_##slot, &(const type){MBR_SIZED(type), __VA_ARGS__})

/* ---- The plugin's table ---------------------------------------------------------------------- */

static void log_nothing(void *context, uint32_t level, const char *text, uint64_t text_bytes)
{
    (void)context, (void)level, (void)text, (void)text_bytes;
}

static const char *lend_text(tour *self, const char *text)
{
    return lend(self, text, strlen(text) + 1);
}

static void open_and_close(tour *self)
{
    mbr_trial *trial = self->trial;
    GOOD(self, open, mbr_open_request, .mechanism = lend_text(self, trial->mechanism),
        .log = log_nothing);
    mbr_subject second = trial->subject;
    second.instance = self->outcome.open.instance;
    mbr_ledger_init(&second.ledger);
    MBR_NEED(trial, second.instance != NULL && second.instance != trial->subject.instance,
        "a second open gave instance %p", (void *)second.instance);
    const mbr_close_request request = {MBR_SIZED(mbr_close_request)};
    mbr_status status = visit_in(self, &second, MBR_SLOT_close, true, &request);
    MBR_NEED(trial, status == MBR_OK, "close: %s", mbr_status_name(status));
}

static uint32_t known_fact(mbr_trial *trial)
{
    for (uint32_t fact = 1; fact <= MBR_FACT_QUIRKS; fact++)
        if (mbr_subject_fact(trial, &trial->subject, fact, 0) != 0)
            return fact;
    return 0;
}

static void visit_plugin(tour *self)
{
    GOOD(self, mechanisms, mbr_mechanisms_request, .index = self->trial->page->device_index);
    BAD(self, mechanisms, mbr_mechanisms_request, .index = 77);
    open_and_close(self);
    BAD(self, open, mbr_open_request, .mechanism = lend_text(self, "none of that name"),
        .log = log_nothing);
    GOOD(self, capability, mbr_capability_request, .id = lend_text(self, MBR_ID_ALLOCATOR));
    BAD(self, capability, mbr_capability_request, .id = lend_text(self, "acme.unheard_of"));
    uint32_t fact = known_fact(self->trial);
    if (fact != 0)
        GOOD(self, fact, mbr_fact_request, .fact = fact);
    BAD(self, fact, mbr_fact_request, .fact = 9999);
    GOOD(self, report, mbr_report_request, .reserved_0 = 0);
    GOOD(self, quiesce, mbr_quiesce_request, .deadline_ns = mbr_now_ns() + UINT64_C(1000000000));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static uint64_t unknown_id(mbr_trial *trial)
{
    return mbr_trial_id(trial) + 500000;
}

/* The value of a signal; where the visitor's outcome had no room for it, of a second one. */
static uint64_t value_of_signal(tour *self, uint64_t line)
{
    const mbr_line_request request = {MBR_SIZED(mbr_line_request), .line_id = line};
    mbr_outcome outcome = self->outcome.change;
    mbr_status status = MBR_OK;
    if (outcome.value == 0) {
        outcome = (mbr_outcome){MBR_SIZED(mbr_outcome)};
        status =
            mbr_tour_go_on(self->trial, &self->trial->subject, MBR_SLOT_signal, &request, &outcome);
    }
    MBR_NEED(self->trial, status == MBR_OK, "signal: %s", mbr_status_name(status));
    return outcome.value;
}

static void visit_transfer(tour *self, uint64_t address, uint64_t bytes)
{
    mbr_trial *trial = self->trial;
    if ((trial->subject.offered & MBR_NEEDS_TRANSFER) == 0)
        return;
    GOOD(self, stream_create, mbr_stream_create_request, .flags = 0);
    mbr_native stream = self->outcome.stream.stream;
    GOOD(self, fill, mbr_fill_request, .stream = stream, .address = address, .bytes = bytes);
    BAD(self, fill, mbr_fill_request, .stream = stream, .address = address);
    GOOD(self, copy, mbr_copy_request, .stream = stream, .to_address = address,
        .from_address = address + bytes / 2, .bytes = bytes / 2);
    BAD(self, copy, mbr_copy_request, .stream = stream, .to_address = address,
        .from_address = address + bytes / 2);
    if ((trial->subject.offered & MBR_NEEDS_ORDER) != 0) {
        uint64_t line = mbr_trial_id(trial);
        GOOD(self, line_open, mbr_line_open_request, .line_id = line, .stream = stream);
        GOOD(self, signal, mbr_line_request, .line_id = line);
        uint64_t value = value_of_signal(self, line);
        uint64_t deadline_ns = mbr_now_ns() + UINT64_C(5000000000);
        BAD(self, signal, mbr_line_request, .line_id = unknown_id(trial));
        GOOD(self, wait, mbr_line_wait_request, .line_id = line, .value = value,
            .deadline_ns = deadline_ns);
        GOOD(self, reached, mbr_line_request, .line_id = line);
        BAD(self, reached, mbr_line_request, .line_id = unknown_id(trial));
        GOOD(self, stream_wait, mbr_stream_wait_request, .line_id = line, .value = value,
            .stream = stream);
        BAD(self, line_close, mbr_line_request, .line_id = unknown_id(trial));
        GOOD(self, line_close, mbr_line_request, .line_id = line);
    }
    GOOD(self, stream_destroy, mbr_stream_destroy_request, .stream = stream);
}

static void visit_allocator(tour *self)
{
    mbr_trial *trial = self->trial;
    uint64_t id = mbr_trial_id(trial);
    GOOD(self, allocate, mbr_allocate_request, .allocation_id = id, .bytes = 8192,
        .max_owned_bytes = UINT64_MAX);
    uint64_t address = self->outcome.change.address;
    BAD(self, allocate, mbr_allocate_request, .allocation_id = mbr_trial_id(trial),
        .max_owned_bytes = UINT64_MAX);
    GOOD(self, stats, mbr_stats_request, .reserved_0 = 0);
    GOOD(self, trim, mbr_trim_request, .keep_bytes = 0);
    BAD(self, close, mbr_close_request, .flags = 0); /* something lives */
    visit_transfer(self, address, 8192);
    BAD(self, release, mbr_release_request, .allocation_id = unknown_id(trial), .address = address);
    GOOD(self, release, mbr_release_request, .allocation_id = id, .address = address);
}

typedef struct stay {
    uint64_t reservation_id, extent_id, granule_bytes;
    mbr_access access;
} stay;

static void visit_shared(tour *self, const stay *at)
{
    uint64_t unknown = unknown_id(self->trial);
    if ((self->trial->subject.offered & MBR_NEEDS_SHARED) == 0)
        return;
    GOOD(self, map_shared, mbr_map_shared_request, .access_count = 1,
        .reservation_id = at->reservation_id, .offset_bytes = at->granule_bytes,
        .extent_id = at->extent_id, .access = lend(self, &at->access, sizeof at->access));
    BAD(self, map_shared, mbr_map_shared_request, .access_count = 1, .reservation_id = unknown,
        .extent_id = at->extent_id, .access = lend(self, &at->access, sizeof at->access));
    GOOD(self, unmap, mbr_unmap_request, .reservation_id = at->reservation_id,
        .offset_bytes = at->granule_bytes, .bytes = at->granule_bytes);
}

static void visit_mapping(tour *self, const stay *at)
{
    uint64_t unknown = unknown_id(self->trial);
    BAD(self, map, mbr_map_request, .reservation_id = at->reservation_id, .extent_id = unknown);
    GOOD(self, map, mbr_map_request, .reservation_id = at->reservation_id,
        .extent_id = at->extent_id);
    BAD(self, protect, mbr_protect_request, .access_count = 1, .reservation_id = unknown,
        .bytes = at->granule_bytes, .access = lend(self, &at->access, sizeof at->access));
    GOOD(self, protect, mbr_protect_request, .access_count = 1,
        .reservation_id = at->reservation_id, .bytes = at->granule_bytes,
        .access = lend(self, &at->access, sizeof at->access));
    GOOD(self, query, mbr_query_request, .reservation_id = at->reservation_id);
    BAD(self, query, mbr_query_request, .reservation_id = unknown);
    visit_shared(self, at);
    BAD(self, unmap, mbr_unmap_request, .reservation_id = unknown, .bytes = at->granule_bytes);
    GOOD(self, unmap, mbr_unmap_request, .reservation_id = at->reservation_id,
        .bytes = at->granule_bytes);
}

static void visit_virtual(tour *self)
{
    mbr_trial *trial = self->trial;
    const stay at = {mbr_trial_id(trial), mbr_trial_id(trial), trial->granule_bytes,
        {trial->own_device_index, MBR_ACCESS_READ_WRITE}};
    if ((trial->subject.offered & MBR_NEEDS_VIRTUAL) == 0)
        return;
    GOOD(self, reserve, mbr_reserve_request, .reservation_id = at.reservation_id,
        .bytes = 2 * at.granule_bytes);
    BAD(self, reserve, mbr_reserve_request, .reservation_id = mbr_trial_id(trial));
    GOOD(self, extent_create, mbr_extent_create_request, .extent_id = at.extent_id,
        .bytes = at.granule_bytes, .max_owned_bytes = UINT64_MAX);
    BAD(self, extent_create, mbr_extent_create_request, .extent_id = mbr_trial_id(trial),
        .max_owned_bytes = UINT64_MAX);
    visit_mapping(self, &at);
    BAD(self, extent_destroy, mbr_extent_destroy_request, .extent_id = unknown_id(trial));
    GOOD(self, extent_destroy, mbr_extent_destroy_request, .extent_id = at.extent_id);
    BAD(self, unreserve, mbr_unreserve_request, .reservation_id = unknown_id(trial));
    GOOD(self, unreserve, mbr_unreserve_request, .reservation_id = at.reservation_id);
}

void mbr_tour(mbr_trial *trial, mbr_tour_visit visit)
{
    tour self = {.trial = trial, .visit = visit};
    visit_plugin(&self);
    visit_allocator(&self);
    visit_virtual(&self);
}

mbr_status mbr_tour_go_on(
    mbr_trial *trial, mbr_subject *subject, mbr_slot slot, const void *request, void *outcome)
{
    mbr_manner_now()->is_unverified = true;
    mbr_status status = mbr_drive(trial, subject, slot, request, outcome);
    mbr_manner_now()->is_unverified = false;
    return status;
}

/* ---- What is known of requests --------------------------------------------------------------- */

#define END(type, field) (uint32_t)(offsetof(type, field) + sizeof(((type *)0)->field))

typedef struct request_facts {
    uint32_t least_bytes, enough_bytes;
    uint32_t id_offsets[2]; /* 0: none */
    bool makes;
} request_facts;

#define ID(type, field) (uint32_t) offsetof(type, field)

static const request_facts requests[MBR_SLOT_COUNT] = {
    [MBR_SLOT_mechanisms] = {0, END(mbr_mechanisms_request, index), {0}, false},
    [MBR_SLOT_open] = {END(mbr_open_request, mechanism), sizeof(mbr_open_request), {0}, true},
    [MBR_SLOT_capability] = {END(mbr_capability_request, id), END(mbr_capability_request, id), {0},
        false},
    [MBR_SLOT_close] = {0, 4, {0}, false},
    [MBR_SLOT_report] = {0, 4, {0}, false},
    [MBR_SLOT_quiesce] = {0, sizeof(mbr_quiesce_request), {0}, false},
    [MBR_SLOT_fact] = {END(mbr_fact_request, fact), END(mbr_fact_request, fact), {0}, false},
    [MBR_SLOT_allocate] = {END(mbr_allocate_request, max_owned_bytes),
        END(mbr_allocate_request, max_owned_bytes), {ID(mbr_allocate_request, allocation_id)},
        true},
    [MBR_SLOT_release] = {END(mbr_release_request, address), END(mbr_release_request, address),
        {ID(mbr_release_request, allocation_id)}, false},
    [MBR_SLOT_stats] = {0, 4, {0}, false},
    [MBR_SLOT_trim] = {0, 4, {0}, false},
    [MBR_SLOT_reserve] = {END(mbr_reserve_request, bytes), END(mbr_reserve_request, bytes),
        {ID(mbr_reserve_request, reservation_id)}, true},
    [MBR_SLOT_unreserve] = {END(mbr_unreserve_request, reservation_id),
        END(mbr_unreserve_request, reservation_id), {ID(mbr_unreserve_request, reservation_id)},
        false},
    [MBR_SLOT_extent_create] = {END(mbr_extent_create_request, max_owned_bytes),
        END(mbr_extent_create_request, max_owned_bytes), {ID(mbr_extent_create_request, extent_id)},
        true},
    [MBR_SLOT_extent_destroy] = {END(mbr_extent_destroy_request, extent_id),
        END(mbr_extent_destroy_request, extent_id), {ID(mbr_extent_destroy_request, extent_id)},
        false},
    [MBR_SLOT_map] = {END(mbr_map_request, extent_id), END(mbr_map_request, extent_id),
        {ID(mbr_map_request, reservation_id), ID(mbr_map_request, extent_id)}, false},
    [MBR_SLOT_protect] = {END(mbr_protect_request, access), END(mbr_protect_request, access),
        {ID(mbr_protect_request, reservation_id)}, false},
    [MBR_SLOT_unmap] = {END(mbr_unmap_request, bytes), END(mbr_unmap_request, bytes),
        {ID(mbr_unmap_request, reservation_id)}, false},
    [MBR_SLOT_query] = {END(mbr_query_request, reservation_id),
        END(mbr_query_request, reservation_id), {ID(mbr_query_request, reservation_id)}, false},
    [MBR_SLOT_map_shared] = {END(mbr_map_shared_request, access),
        END(mbr_map_shared_request, access),
        {ID(mbr_map_shared_request, reservation_id), ID(mbr_map_shared_request, extent_id)}, false},
    [MBR_SLOT_line_open] = {END(mbr_line_open_request, line_id), sizeof(mbr_line_open_request),
        {ID(mbr_line_open_request, line_id)}, true},
    [MBR_SLOT_signal] = {END(mbr_line_request, line_id), END(mbr_line_request, line_id),
        {ID(mbr_line_request, line_id)}, false},
    [MBR_SLOT_reached] = {END(mbr_line_request, line_id), END(mbr_line_request, line_id),
        {ID(mbr_line_request, line_id)}, false},
    [MBR_SLOT_wait] = {END(mbr_line_wait_request, line_id), sizeof(mbr_line_wait_request),
        {ID(mbr_line_wait_request, line_id)}, false},
    [MBR_SLOT_stream_wait] = {END(mbr_stream_wait_request, line_id),
        sizeof(mbr_stream_wait_request), {ID(mbr_stream_wait_request, line_id)}, false},
    [MBR_SLOT_line_close] = {END(mbr_line_request, line_id), END(mbr_line_request, line_id),
        {ID(mbr_line_request, line_id)}, false},
    [MBR_SLOT_stream_create] = {0, 4, {0}, true},
    [MBR_SLOT_stream_destroy] = {0, sizeof(mbr_stream_destroy_request), {0}, false},
    [MBR_SLOT_fill] = {END(mbr_fill_request, bytes), END(mbr_fill_request, bytes), {0}, false},
    [MBR_SLOT_copy] = {END(mbr_copy_request, bytes), END(mbr_copy_request, bytes), {0}, false},
};

bool mbr_tour_makes(mbr_slot slot)
{
    return requests[slot].makes;
}

bool mbr_tour_set_ids(mbr_slot slot, void *request, uint64_t id)
{
    for (uint32_t i = 0; i < 2; i++)
        if (requests[slot].id_offsets[i] != 0)
            memcpy((char *)request + requests[slot].id_offsets[i], &id, sizeof id);
    return requests[slot].id_offsets[0] != 0;
}

void mbr_tour_refresh(mbr_trial *trial, mbr_slot slot, void *request)
{
    if (requests[slot].makes)
        (void)mbr_tour_set_ids(slot, request, mbr_trial_id(trial));
}

uint32_t mbr_tour_least_bytes(mbr_slot slot)
{
    return requests[slot].least_bytes;
}

uint32_t mbr_tour_enough_bytes(mbr_slot slot)
{
    return requests[slot].enough_bytes;
}
