/* Faults against the caller (group UNW). Some look at calls with NULL or with short structs. */
#include "tests/badplugins/bad_alc.h"

#include "abi/base/error.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

/* ---- Sizes of structs ------------------------------------------------------------------------ */

/* Not at a page's end: there it would be a crash of another check. */
static mbr_status report_beyond(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    mbr_status status = bad_good->plugin.report(instance, request, outcome, error);
    if (status == MBR_OK && ((uintptr_t)(outcome + 1) & 4095) != 0)
        memset(outcome + 1, 0, 8);
    return status;
}

/* The whole outcome, whatever its size. */
static mbr_status stats_whole(mbr_instance *instance, const mbr_stats_request *request,
    mbr_mechanism_stats *outcome, mbr_error *error)
{
    mbr_mechanism_stats whole = {MBR_SIZED(mbr_mechanism_stats)};
    if (request == NULL || outcome == NULL || outcome->struct_size >= sizeof whole)
        return bad_good->allocator.stats(instance, request, outcome, error);
    mbr_status status = bad_good->allocator.stats(instance, request, &whole, error);
    memcpy((char *)outcome + 4, (char *)&whole + 4, sizeof whole - 4);
    return status;
}

/* Also where nobody is told the address. */
static mbr_status reserve_untold(mbr_instance *instance, const mbr_reserve_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_outcome whole = {MBR_SIZED(mbr_outcome)};
    if (outcome == NULL || outcome->struct_size < 4 || MBR_HAS(mbr_outcome, outcome, address))
        return bad_good->virtual_.reserve(instance, request, outcome, error);
    mbr_status status = bad_good->virtual_.reserve(instance, request, &whole, error);
    memcpy((char *)outcome + 4, (char *)&whole + 4, outcome->struct_size - 4);
    return status;
}

/* The last field of a request, also where the host's struct ends before it. */
static mbr_status allocate_whole(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    if (request == NULL || request->struct_size != offsetof(mbr_allocate_request, max_owned_bytes))
        return bad_good->allocator.allocate(instance, request, outcome, error);
    mbr_allocate_request whole = *request;
    whole.struct_size = sizeof whole;
    return bad_good->allocator.allocate(instance, &whole, outcome, error);
}

/* The last bytes of a request, also where they are half of a field. */
static mbr_status allocate_half(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_allocate_request whole = {0};
    if (request == NULL || request->struct_size < 4 || request->struct_size >= sizeof whole ||
        request->struct_size % 8 == 0)
        return bad_good->allocator.allocate(instance, request, outcome, error);
    memcpy(&whole, request, request->struct_size);
    whole.struct_size = sizeof whole;
    return bad_good->allocator.allocate(instance, &whole, outcome, error);
}

static mbr_status trim_exact(
    mbr_instance *instance, const mbr_trim_request *request, mbr_outcome *outcome, mbr_error *error)
{
    if (request != NULL && request->struct_size >= 4 && request->struct_size != sizeof *request &&
        outcome != NULL && outcome->struct_size >= sizeof *outcome)
        return mbr_fail(error, MBR_VERSION_MISMATCH, "struct_size %u", request->struct_size);
    return bad_good->allocator.trim(instance, request, outcome, error);
}

static mbr_status stats_sized(mbr_instance *instance, const mbr_stats_request *request,
    mbr_mechanism_stats *outcome, mbr_error *error)
{
    mbr_status status = bad_good->allocator.stats(instance, request, outcome, error);
    if (status == MBR_OK && outcome->struct_size > sizeof *outcome)
        outcome->struct_size = sizeof *outcome;
    return status;
}

/* Believes the size that the host states, in a copy of its own. */
static mbr_status quiesce_trusting(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    if (request != NULL && request->struct_size > UINT32_C(1) << 30)
        for (uint32_t at = 0; at < request->struct_size; at += 8)
            (void)((const volatile unsigned char *)request)[at];
    return bad_good->plugin.quiesce(instance, request, outcome, error);
}

/* All of a short error but its text. */
static mbr_status release_whole_error(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_give(instance, request, outcome, error);
    if (status != MBR_OK && error != NULL && error->struct_size < offsetof(mbr_error, text))
        memset((char *)error + 4, 0, offsetof(mbr_error, text) - 4);
    return status;
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static mbr_status trim_rounding(
    mbr_instance *instance, const mbr_trim_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_trim_request *own;
    memcpy(&own, &request, sizeof own);
    own->keep_bytes = (own->keep_bytes + 4095) & ~UINT64_C(4095);
    return bad_good->allocator.trim(instance, request, outcome, error);
}

/* A newer header's field, without a look at the size. */
static mbr_status report_reading(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    (void)*(const volatile uint64_t *)(request + 1);
    return bad_good->plugin.report(instance, request, outcome, error);
}

static mbr_status trim_keeping(
    mbr_instance *instance, const mbr_trim_request *request, mbr_outcome *outcome, mbr_error *error)
{
    static const mbr_trim_request *last;
    if (last != NULL)
        (void)*(const volatile uint64_t *)&last->keep_bytes;
    last = request;
    return bad_good->allocator.trim(instance, request, outcome, error);
}

static mbr_status trim_unguarded(
    mbr_instance *instance, const mbr_trim_request *request, mbr_outcome *outcome, mbr_error *error)
{
    (void)*(const volatile uint64_t *)&request->keep_bytes;
    return bad_good->allocator.trim(instance, request, outcome, error);
}

/* Takes an id for the address of its own record. */
static mbr_status release_following(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    uint64_t id = request->allocation_id;
    if (id >> 40 != 0 && id >> 47 == 0)
        (void)*(const volatile uint64_t *)(uintptr_t)id;
    return bad_give(instance, request, outcome, error);
}

/* ---- Leaving --------------------------------------------------------------------------------- */

/* As a C++ plugin does that lets an exception go: nobody catches it, and the runtime aborts. */
static mbr_status capability_throwing(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *outcome, mbr_error *error)
{
    static struct _Unwind_Exception exception;
    if (request->id != NULL && strlen(request->id) > 1000) {
        _Unwind_RaiseException(&exception);
        abort();
    }
    return bad_good->plugin.capability(instance, request, outcome, error);
}

static mbr_status release_exiting(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    if (request->allocation_id == UINT64_MAX && request->address == UINT64_MAX)
        exit(0);
    return bad_give(instance, request, outcome, error);
}

static mbr_status fact_crashing(mbr_instance *instance, const mbr_fact_request *request,
    mbr_fact_outcome *outcome, mbr_error *error)
{
    static const volatile uint64_t table[64];
    volatile int32_t at = (int32_t)request->fact; /* negative from 2^31 on */
    if (at < (int32_t)(sizeof table / sizeof table[0]))
        (void)table[at];
    return bad_good->allocator.fact(instance, request, outcome, error);
}

static mbr_status quiesce_hanging(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    while (request->deadline_ns == 1)
        pause();
    return bad_good->plugin.quiesce(instance, request, outcome, error);
}

static void install_part(const char *fault, void *slot, const void *function)
{
    if (!bad_is(fault))
        return;
    memcpy(slot, function, sizeof(void (*)(void)));
    bad_see_parts();
}

#define PART(fault, table, slot, function)                                                         \
    do {                                                                                           \
        __typeof__(bad.table.slot) function_ = (function);                                         \
        install_part((fault), &bad.table.slot, &function_);                                        \
    } while (0)

#define WHOLE(fault, table, slot, function)                                                        \
    do {                                                                                           \
        if (bad_is(fault))                                                                         \
            bad.table.slot = (function);                                                           \
    } while (0)

void bad_install_unw(void)
{
    WHOLE("writes_beyond_struct_size", plugin, report, report_beyond);
    PART("writes_whole_outcome", allocator, stats, stats_whole);
    PART("reserve_without_room", virtual_, reserve, reserve_untold);
    PART("reads_whole_request", allocator, allocate, allocate_whole);
    PART("reads_half_a_field", allocator, allocate, allocate_half);
    PART("wants_its_own_size", allocator, trim, trim_exact);
    WHOLE("writes_const_input", allocator, trim, trim_rounding);
    WHOLE("reads_behind_request", plugin, report, report_reading);
    PART("sets_size_of_outcome", allocator, stats, stats_sized);
    WHOLE("writes_whole_error", allocator, release, release_whole_error);
    PART("derefs_null_request", allocator, trim, trim_unguarded);
    WHOLE("derefs_bad_id", allocator, release, release_following);
    PART("trusts_struct_size", plugin, quiesce, quiesce_trusting);
    WHOLE("keeps_argument_pointer", allocator, trim, trim_keeping);
    WHOLE("throws_in_slot_capability", plugin, capability, capability_throwing);
    WHOLE("exits_in_slot_release", allocator, release, release_exiting);
    WHOLE("crashes_in_slot_fact", allocator, fact, fact_crashing);
    WHOLE("hangs_in_slot_quiesce", plugin, quiesce, quiesce_hanging);
}
