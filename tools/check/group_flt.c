/* Group FLT: every failure of the system below is an answer, the books stay right, and everything
 * works again behind it. A scenario of all slots is run with the 1st, the 2nd, … event failing
 * until a run meets no failure; each run has an instance of its own. */
#include "tools/check/faults.h"
#include "tools/check/oracle.h"
#include "tools/check/steps.h"

#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define OBJECT_BYTES (3 * MIB)         /* above the oracle's slack */
#define RESERVATION_BYTES (64 * MIB)   /* above the slack of addresses */
#define ADDRESS_SLACK_BYTES (40 * MIB) /* heaps of the C library's threads */
#define ROUNDS_MAX 400

typedef struct flt {
    mbr_trial *trial;
    mbr_subject subject;
    bool is_unjudged; /* how calls meet failures is another check's */
    bool is_left;     /* something is left for good: the run's rest says nothing */
    bool has_failed;  /* a call was refused */
} flt;

/* ---- One call -------------------------------------------------------------------------------- */

static mbr_mechanism_stats stats_of(flt *self)
{
    const mbr_stats_request request = {MBR_SIZED(mbr_stats_request)};
    mbr_mechanism_stats stats = {0};
    mbr_need_ok(
        self->trial, mbr_drive_stats(self->trial, &self->subject, &request, &stats), "stats");
    return stats;
}

/* What a figure grew by is what the outcome says; of a failure that left something, the residual of
 * a call that takes, or what went away of one that gives back. Figures that nobody can tell are
 * left alone. */
static void expect_figure(flt *self, mbr_slot slot, const char *name, uint64_t before,
    uint64_t after, uint64_t taken, uint64_t given, uint64_t residual, uint32_t state)
{
    bool takes = given == 0 &&
        (taken != 0 || slot == MBR_SLOT_allocate || slot == MBR_SLOT_extent_create ||
            slot == MBR_SLOT_map || slot == MBR_SLOT_map_shared);
    uint64_t wanted = taken - given;
    if (before == MBR_UNKNOWN_BYTES || after == MBR_UNKNOWN_BYTES)
        return;
    if (state == MBR_STATE_PARTIAL && takes)
        wanted = residual;
    MBR_EXPECT(self->trial, after - before == wanted,
        "a call that meets a failure changes the figures by what it says",
        "%s, %s, state %u: %s bytes %lu before and %lu after, the outcome says %ld",
        mbr_slot_name(slot), mbr_faults_words(), state, name, before, after, (int64_t)wanted);
}

static void judge(flt *self, mbr_slot slot, mbr_status status, const mbr_outcome *outcome,
    const mbr_mechanism_stats *before)
{
    int32_t class = MBR_STATUS_CLASS(status);
    MBR_EXPECT(self->trial,
        status == MBR_OK || class == MBR_CLASS_EXHAUSTED || class == MBR_CLASS_BROKEN,
        "a failure of the system is of class exhausted or broken", "%s, %s: %s",
        mbr_slot_name(slot), mbr_faults_words(), mbr_status_name(status));
    if (outcome->state == MBR_STATE_QUARANTINED)
        return;
    mbr_mechanism_stats after = stats_of(self);
    expect_figure(self, slot, "owned", before->owned_bytes, after.owned_bytes,
        outcome->newly_owned_bytes, outcome->released_bytes, outcome->residual_owned_bytes,
        outcome->state);
    expect_figure(self, slot, "mapped", before->mapped_bytes, after.mapped_bytes,
        outcome->newly_mapped_bytes, outcome->unmapped_bytes, outcome->residual_mapped_bytes,
        outcome->state);
}

/* One call under the plan; after a failure that changed nothing, once more without. */
static void call(flt *self, mbr_slot slot, const void *request, mbr_outcome *outcome)
{
    mbr_mechanism_stats before = stats_of(self);
    bool was_struck = mbr_faults_struck();
    *outcome = (mbr_outcome){0};
    mbr_manner manner = *mbr_manner_now();
    mbr_status status = mbr_drive(self->trial, &self->subject, slot, request, outcome);
    bool is_struck = mbr_faults_struck();
    if (status != MBR_OK && !is_struck)
        mbr_need_ok(self->trial, status, mbr_slot_name(slot));
    mbr_manner_now()->before = mbr_manner_now()->after = NULL;
    if (!self->is_unjudged && (status != MBR_OK || is_struck != was_struck))
        judge(self, slot, status, outcome, &before);
    self->has_failed |= status != MBR_OK;
    if (status != MBR_OK && outcome->state == MBR_STATE_UNCHANGED) {
        *outcome = (mbr_outcome){0};
        status = mbr_drive(self->trial, &self->subject, slot, request, outcome);
        MBR_EXPECT(self->trial, self->is_unjudged || status == MBR_OK,
            "after a failure that changed nothing the same call works", "%s behind %s: %s: %s",
            mbr_slot_name(slot), mbr_faults_words(), mbr_status_name(status),
            mbr_last_error()->text);
    }
    self->is_left |= status != MBR_OK;
    *mbr_manner_now() = manner;
}

/* Slots that look at something, with hooks off: no part of the sweep's counting. */
static void expect_usable(flt *self, uint64_t address, uint64_t bytes, const char *what)
{
    if (self->is_left || (self->trial->subject.offered & MBR_NEEDS_HOST_ACCESS) == 0)
        return;
    mbr_memory answer = mbr_memory_write(self->trial, address, bytes, address);
    if (answer == MBR_MEMORY_OK)
        answer = mbr_memory_read(self->trial, address, bytes, address);
    MBR_EXPECT(self->trial, answer == MBR_MEMORY_OK, "what a call granted can be used",
        "%s behind %s: %s", what, mbr_faults_words(), mbr_memory_word(answer));
}

/* ---- The scenario ---------------------------------------------------------------------------- */

static void run_allocations(flt *self)
{
    mbr_outcome outcome;
    mbr_release_request releases[2];
    for (uint32_t i = 0; i < 2 && !self->is_left; i++) {
        const mbr_allocate_request allocate = {MBR_SIZED(mbr_allocate_request),
            .allocation_id = mbr_trial_id(self->trial), .bytes = OBJECT_BYTES,
            .align_bytes = i * MIB, .max_owned_bytes = UINT64_MAX};
        call(self, MBR_SLOT_allocate, &allocate, &outcome);
        releases[i] = (mbr_release_request){MBR_SIZED(mbr_release_request),
            .allocation_id = allocate.allocation_id, .address = outcome.address};
        expect_usable(self, outcome.address, OBJECT_BYTES, "an allocation");
    }
    for (uint32_t i = 0; i < 2 && !self->is_left; i++)
        call(self, MBR_SLOT_release, &releases[i], &outcome);
}

static void protect(flt *self, uint64_t reservation_id, uint64_t bytes, uint32_t access)
{
    mbr_outcome outcome;
    const mbr_access list = {self->trial->own_device_index, access};
    const mbr_protect_request request = {MBR_SIZED(mbr_protect_request), .access_count = 1,
        .reservation_id = reservation_id, .bytes = bytes, .access = &list};
    if (!self->is_left)
        call(self, MBR_SLOT_protect, &request, &outcome);
}

static void unmap(flt *self, uint64_t reservation_id, uint64_t offset_bytes, uint64_t bytes)
{
    mbr_outcome outcome;
    const mbr_unmap_request request = {MBR_SIZED(mbr_unmap_request),
        .reservation_id = reservation_id, .offset_bytes = offset_bytes, .bytes = bytes};
    if (!self->is_left)
        call(self, MBR_SLOT_unmap, &request, &outcome);
}

static void run_mappings(
    flt *self, uint64_t reservation_id, uint64_t address, uint64_t extent_id, uint64_t bytes)
{
    mbr_outcome outcome;
    const mbr_access list = {self->trial->own_device_index, MBR_ACCESS_READ_WRITE};
    const mbr_map_request map = {
        MBR_SIZED(mbr_map_request), .reservation_id = reservation_id, .extent_id = extent_id};
    const mbr_map_shared_request share = {MBR_SIZED(mbr_map_shared_request), .access_count = 1,
        .reservation_id = reservation_id, .offset_bytes = 2 * bytes, .extent_id = extent_id,
        .access = &list};
    bool has_shared = (self->subject.offered & MBR_NEEDS_SHARED) != 0;
    if (!self->is_left)
        call(self, MBR_SLOT_map, &map, &outcome);
    protect(self, reservation_id, bytes, MBR_ACCESS_READ_WRITE);
    expect_usable(self, address, bytes, "a mapping");
    if (has_shared && !self->is_left) {
        call(self, MBR_SLOT_map_shared, &share, &outcome);
        expect_usable(self, address + share.offset_bytes, bytes, "a shared mapping");
        unmap(self, reservation_id, share.offset_bytes, bytes);
    }
    protect(self, reservation_id, bytes, MBR_ACCESS_READ);
    unmap(self, reservation_id, 0, bytes);
}

static void run_virtual(flt *self)
{
    uint64_t granule = self->trial->granule_bytes;
    uint64_t bytes = mbr_step_granules(self->trial, OBJECT_BYTES) * granule;
    mbr_outcome outcome;
    const mbr_reserve_request reserve = {MBR_SIZED(mbr_reserve_request),
        .reservation_id = mbr_trial_id(self->trial),
        .bytes = bytes * 3 > RESERVATION_BYTES
            ? bytes * 3
            : mbr_step_granules(self->trial, RESERVATION_BYTES) * granule};
    const mbr_unreserve_request unreserve = {
        MBR_SIZED(mbr_unreserve_request), .reservation_id = reserve.reservation_id};
    const mbr_extent_create_request create = {MBR_SIZED(mbr_extent_create_request),
        .extent_id = mbr_trial_id(self->trial), .bytes = bytes, .max_owned_bytes = UINT64_MAX};
    const mbr_extent_destroy_request destroy = {
        MBR_SIZED(mbr_extent_destroy_request), .extent_id = create.extent_id};
    call(self, MBR_SLOT_reserve, &reserve, &outcome);
    uint64_t address = outcome.address;
    if (!self->is_left)
        call(self, MBR_SLOT_extent_create, &create, &outcome);
    run_mappings(self, reserve.reservation_id, address, create.extent_id, bytes);
    if (!self->is_left)
        call(self, MBR_SLOT_extent_destroy, &destroy, &outcome);
    if (!self->is_left)
        call(self, MBR_SLOT_unreserve, &unreserve, &outcome);
}

/* ---- One run --------------------------------------------------------------------------------- */

static void open_instance(flt *self)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status = mbr_subject_open(self->trial, NULL, 0, &self->subject, &error);
    MBR_NEED(
        self->trial, status == MBR_OK, "open: %s: %.100s", mbr_status_name(status), error.text);
}

static void close_instance(flt *self)
{
    mbr_need_ok(self->trial, mbr_subject_close(self->trial, &self->subject), "close");
}

static void expect_nothing_left(mbr_trial *trial, const mbr_footing *before)
{
    mbr_footing after = mbr_footing_read(trial);
    MBR_EXPECT(trial, after.oracle.descriptor_count == before->oracle.descriptor_count,
        "a failure leaves no descriptor behind", "%s: %lu, were %lu", mbr_faults_words(),
        after.oracle.descriptor_count, before->oracle.descriptor_count);
    MBR_EXPECT(trial, after.address_bytes <= before->address_bytes + ADDRESS_SLACK_BYTES,
        "a failure leaves no addresses behind", "%s: %lu bytes, were %lu", mbr_faults_words(),
        after.address_bytes, before->address_bytes);
    MBR_EXPECT(trial,
        after.oracle.owned_bytes <= before->oracle.owned_bytes + MBR_ORACLE_SLACK_BYTES,
        "a failure leaves no memory behind", "%s: %lu bytes by the system, were %lu",
        mbr_faults_words(), after.oracle.owned_bytes, before->oracle.owned_bytes);
}

/* Returns whether a run went without any failure. */
static bool run_once(mbr_trial *trial, mbr_fault_source source, uint64_t nth, bool for_good)
{
    static flt self;
    self = (flt){.trial = trial};
    mbr_faults_plan(source, 0, false);
    open_instance(&self);
    mbr_footing before = mbr_footing_read(trial);
    mbr_mechanism_stats empty = stats_of(&self);
    mbr_faults_plan(source, nth, for_good);
    run_allocations(&self);
    if (!self.is_left && (trial->subject.offered & MBR_NEEDS_VIRTUAL) != 0)
        run_virtual(&self);
    bool is_over = source < MBR_FAULT_ADDRESSES ? !mbr_faults_struck() : !self.has_failed;
    mbr_fault_source kept = source;
    if (!self.is_left) {
        mbr_mechanism_stats rest = stats_of(&self);
        MBR_EXPECT(trial,
            rest.owned_bytes == empty.owned_bytes && rest.mapped_bytes == empty.mapped_bytes &&
                rest.reserved_bytes == empty.reserved_bytes,
            "with everything given back the figures are as before",
            "%s: owned %lu, mapped %lu, reserved %lu", mbr_faults_words(), rest.owned_bytes,
            rest.mapped_bytes, rest.reserved_bytes);
        if (nth != 0)
            expect_nothing_left(trial, &before);
        mbr_faults_plan(kept, 0, false);
        close_instance(&self);
    }
    return is_over;
}

/* The failures that were met, for the report: a plugin that asks the system for nothing has 0. */
static uint32_t failure_count;

static void sweep_in(mbr_trial *trial, mbr_fault_source source, bool for_good)
{
    for (uint64_t nth = 1; nth <= ROUNDS_MAX; nth++, failure_count++)
        if (run_once(trial, source, nth, for_good))
            break;
    mbr_trial_figures(trial, "%u failures met", failure_count);
}

/* What is left where nothing fails is no failure's: group LIF finds it. */
static void need_clean_run(mbr_trial *trial, mbr_fault_source source)
{
    mbr_footing before = mbr_footing_read(trial);
    (void)run_once(trial, source, 0, false);
    mbr_footing after = mbr_footing_read(trial);
    MBR_NEED(trial,
        after.oracle.descriptor_count <= before.oracle.descriptor_count &&
            after.address_bytes <= before.address_bytes + ADDRESS_SLACK_BYTES &&
            after.oracle.owned_bytes <= before.oracle.owned_bytes + MBR_ORACLE_SLACK_BYTES,
        "a run without a failure leaves something: descriptors %lu, were %lu; addresses %lu, were "
        "%lu; memory %lu, was %lu",
        after.oracle.descriptor_count, before.oracle.descriptor_count, after.address_bytes,
        before.address_bytes, after.oracle.owned_bytes, before.oracle.owned_bytes);
}

static void sweep(mbr_trial *trial, mbr_fault_source source)
{
    mbr_faults_prepare(trial, source);
    (void)run_once(trial, source, 0, false); /* warm: what is made once is made */
    need_clean_run(trial, source);
    sweep_in(trial, source, false);
    if (source < MBR_FAULT_ADDRESSES)
        sweep_in(trial, source, true);
}

static void run_heap(mbr_trial *trial)
{
    sweep(trial, MBR_FAULT_HEAP);
}

static void run_mmap(mbr_trial *trial)
{
    sweep(trial, MBR_FAULT_MMAP);
}

static void run_munmap(mbr_trial *trial)
{
    sweep(trial, MBR_FAULT_MUNMAP);
}

static void run_mprotect(mbr_trial *trial)
{
    sweep(trial, MBR_FAULT_MPROTECT);
}

static void run_madvise(mbr_trial *trial)
{
    sweep(trial, MBR_FAULT_MADVISE);
}

static void run_file_space(mbr_trial *trial)
{
    sweep(trial, MBR_FAULT_MEMFD);
    sweep(trial, MBR_FAULT_FILE_SPACE);
}

static void run_addresses(mbr_trial *trial)
{
    sweep(trial, MBR_FAULT_ADDRESSES);
}

static void run_descriptors(mbr_trial *trial)
{
    sweep(trial, MBR_FAULT_DESCRIPTORS);
}

static void run_file_size(mbr_trial *trial)
{
    sweep(trial, MBR_FAULT_FILE_SIZE);
}

/* ---- Open ------------------------------------------------------------------------------------ */

static void log_nothing(void *context, uint32_t level, const char *text, uint64_t text_bytes)
{
    (void)context, (void)level, (void)text, (void)text_bytes;
}

/* Whether an open went without any failure. */
static bool open_once(mbr_trial *trial, mbr_fault_source source, uint64_t nth)
{
    const mbr_open_request request = {
        MBR_SIZED(mbr_open_request), .mechanism = trial->mechanism, .log = log_nothing};
    mbr_open_outcome opened = {0};
    mbr_footing before = mbr_footing_read(trial);
    mbr_faults_plan(source, nth, false);
    mbr_status status = mbr_drive_open(trial, &trial->subject, &request, &opened);
    bool is_struck = mbr_faults_struck(); /* of limits always: what counts is the answer */
    mbr_faults_plan(source, 0, false);
    int32_t class = MBR_STATUS_CLASS(status);
    if (status == MBR_OK) {
        static flt self;
        self = (flt){.trial = trial, .subject = trial->subject};
        self.subject.instance = opened.instance;
        close_instance(&self);
        return source >= MBR_FAULT_ADDRESSES || !is_struck;
    }
    if (!is_struck)
        mbr_need_ok(trial, status, "open");
    mbr_faults_plan(source, nth, false); /* for the words */
    MBR_EXPECT(trial, class == MBR_CLASS_EXHAUSTED || class == MBR_CLASS_BROKEN,
        "an open that the system refuses is of class exhausted or broken", "%s: %s",
        mbr_faults_words(), mbr_status_name(status));
    MBR_EXPECT(trial, opened.instance == NULL, "a refused open gives no instance", "%p",
        (void *)opened.instance);
    expect_nothing_left(trial, &before);
    return false;
}

static void open_under(mbr_trial *trial, mbr_fault_source source)
{
    mbr_faults_prepare(trial, source);
    (void)open_once(trial, source, 0);
    for (uint64_t nth = 1; nth <= ROUNDS_MAX; nth++)
        if (open_once(trial, source, nth))
            break;
    MBR_EXPECT(trial, open_once(trial, source, 0), "behind refused opens one works", "it fails");
}

static void run_open_heap(mbr_trial *trial)
{
    open_under(trial, MBR_FAULT_HEAP);
}

static void run_open_calls(mbr_trial *trial)
{
    open_under(trial, MBR_FAULT_MEMFD);
    open_under(trial, MBR_FAULT_MMAP);
    open_under(trial, MBR_FAULT_DESCRIPTORS);
}

/* ---- Behind a fault -------------------------------------------------------------------------- */

/* A full round of work on an instance that has met some, which may be in its figures. */
static void run_afterwards(mbr_trial *trial)
{
    enum { COUNT = 64 };
    static flt self;
    mbr_outcome outcome;
    mbr_release_request releases[COUNT];
    self = (flt){.trial = trial, .is_unjudged = true};
    mbr_faults_prepare(trial, MBR_FAULT_HEAP);
    open_instance(&self);
    for (uint64_t nth = 1; nth <= 8 && !self.is_left; nth++) {
        mbr_faults_plan(MBR_FAULT_HEAP, nth, false);
        run_allocations(&self);
    }
    MBR_NEED(trial, !self.is_left, "a failure left something");
    mbr_faults_plan(MBR_FAULT_HEAP, 0, false);
    mbr_mechanism_stats empty = stats_of(&self);
    for (uint32_t i = 0; i < COUNT; i++) {
        const mbr_allocate_request allocate = {MBR_SIZED(mbr_allocate_request),
            .allocation_id = mbr_trial_id(trial), .bytes = 1 + mbr_trial_random(trial) % 100000,
            .max_owned_bytes = UINT64_MAX};
        outcome = (mbr_outcome){0};
        mbr_status status = mbr_drive_allocate(trial, &self.subject, &allocate, &outcome);
        MBR_EXPECT(trial, status == MBR_OK, "an instance that met failures grants as before",
            "allocation %u behind them: %s", i, mbr_status_name(status));
        expect_usable(&self, outcome.address, allocate.bytes, "an allocation");
        releases[i] = (mbr_release_request){MBR_SIZED(mbr_release_request),
            .allocation_id = allocate.allocation_id, .address = outcome.address};
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        outcome = (mbr_outcome){0};
        mbr_status status = mbr_drive_release(trial, &self.subject, &releases[i], &outcome);
        MBR_EXPECT(trial, status == MBR_OK, "an instance that met failures takes back as before",
            "%s", mbr_status_name(status));
    }
    mbr_mechanism_stats rest = stats_of(&self);
    MBR_EXPECT(trial, rest.owned_bytes == empty.owned_bytes,
        "an instance that met failures counts as before", "%lu bytes owned, were %lu",
        rest.owned_bytes, empty.owned_bytes);
    close_instance(&self);
}

/* Of memory that the kernel counts alone: below another mechanism lies a driver, whose own calls
 * would be failed in the place of the plugin's. */
#define FLT(number, title, why, run)                                                               \
    {                                                                                              \
        "FLT-" number, 4, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ORACLE, "C5, C6, C7", title, why, run,  \
            0, 0                                                                                   \
    }

static const mbr_check checks[] = {
    FLT("001", "an open whose nth malloc fails is refused and leaves nothing",
        "A host that cannot bind a device goes on without it; what the attempt left stays for "
        "ever.",
        run_open_heap),
    FLT("002", "every call whose nth malloc fails does all or nothing",
        "Host memory runs out under load; the books must be right then too.", run_heap),
    FLT("003", "every call whose nth mmap fails does all or nothing",
        "Mappings and addresses are limited, and a serving process comes near both.", run_mmap),
    FLT("004", "every call whose nth munmap fails does all or nothing",
        "A refund for memory that is still there lets the host grant more than there is.",
        run_munmap),
    FLT("005", "every call whose nth mprotect fails does all or nothing",
        "A range that is said to be readable and is not ends in a fault of the kernel.",
        run_mprotect),
    FLT("006", "every call whose nth madvise fails does all or nothing",
        "Page tables and pages are made by advice; what a refused one leaves is charged to nobody.",
        run_madvise),
    FLT("007", "an open that lacks a system call or descriptor is refused and leaves nothing",
        "The class tells a host whether to try again, and where nothing is left it may.",
        run_open_calls),
    FLT("008", "every call whose nth request for room in a memory file fails does all or nothing",
        "A memory file fills up in the middle of an extent.", run_file_space),
    FLT("009", "every call under a limit of addresses does all or nothing",
        "Services run under RLIMIT_AS.", run_addresses),
    FLT("010", "every call under a limit of descriptors does all or nothing",
        "Servers hold thousands of connections; the last descriptor may be gone.", run_descriptors),
    FLT("011", "every call under a limit of file sizes does all or nothing",
        "RLIMIT_FSIZE comes as a signal that ends the whole server where nobody asked first.",
        run_file_size),
    FLT("012", "an instance that met failures works as before",
        "A host retries after pressure; an instance that is never itself again is a lost device.",
        run_afterwards),
};

const mbr_group mbr_group_flt = MBR_GROUP("FLT", "injected faults and limits", checks);
