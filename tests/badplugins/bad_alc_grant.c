/* Faults of allocate and of the figures that follow it (group ALC). */
#include "tests/badplugins/bad_alc.h"

#include "abi/base/error.h"

#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES UINT64_C(4096)
#define MIB (UINT64_C(1) << 20)

static bool is_exhausted(mbr_status status)
{
    return status >= MBR_OUT_OF_MEMORY && status <= MBR_OUT_OF_MAPPINGS;
}

/* ---- Before the good slot: what the fault makes of the request ------------------------------- */

typedef void (*bend)(mbr_allocate_request *request);

static void bend_alignment(mbr_allocate_request *request)
{
    if ((request->align_bytes & (request->align_bytes - 1)) != 0)
        request->align_bytes = 0;
}

static void bend_size_zero(mbr_allocate_request *request)
{
    if (request->bytes == 0)
        request->bytes = 1;
}

static void bend_overflow(mbr_allocate_request *request)
{
    if (request->bytes > UINT64_MAX - 65536)
        request->bytes = ((request->bytes + 65535) & ~UINT64_C(65535)) + PAGE_BYTES;
}

static void bend_huge(mbr_allocate_request *request)
{
    if (request->bytes >= UINT64_C(1) << 47 && (uint32_t)request->bytes < MIB)
        request->bytes = (uint32_t)request->bytes;
}

static void bend_critical_flag(mbr_allocate_request *request)
{
    request->flags &= ~UINT32_C(0x8000);
}

/* Looks at the size before it is rounded. */
static void bend_budget(mbr_allocate_request *request)
{
    if (request->bytes <= request->max_owned_bytes)
        request->max_owned_bytes = UINT64_MAX;
}

static void bend_budget_by_one(mbr_allocate_request *request)
{
    if (request->max_owned_bytes != 0 && request->max_owned_bytes != UINT64_MAX)
        request->max_owned_bytes--;
}

static void bend_id_zero(mbr_allocate_request *request)
{
    if (request->allocation_id == 0)
        request->allocation_id = UINT64_C(1) << 61;
}

static void bend_zeroed(mbr_allocate_request *request)
{
    request->flags &= ~(uint32_t)MBR_ALLOCATE_ZEROED;
}

static const struct {
    const char *fault;
    bend before;
} bends[] = {
    {"alignment_not_checked", bend_alignment},
    {"size_zero_granted", bend_size_zero},
    {"size_overflow", bend_overflow},
    {"huge_size_cut_to_32_bits", bend_huge},
    {"critical_flag_ignored", bend_critical_flag},
    {"owns_more_than_allowed", bend_budget},
    {"budget_off_by_one", bend_budget_by_one},
    {"id_zero_accepted", bend_id_zero},
    {"zeroed_not_granted", bend_zeroed},
};

static bend bend_now;

static mbr_status allocate_bent(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    if (!bad_is_whole(request, sizeof *request, outcome))
        return bad_good->allocator.allocate(instance, request, outcome, error);
    mbr_allocate_request bent = *request;
    mbr_status status;
    bend_now(&bent);
    (void)bad_grant(instance, &bent, outcome, error, &status);
    if (status == MBR_OK && bend_now == bend_zeroed)
        outcome->content = MBR_CONTENT_UNDEFINED;
    return status;
}

/* ---- After the good slot: what the fault makes of a grant ------------------------------------ */

typedef void (*spoil)(struct bad_allocation *granted, mbr_outcome *outcome);

static void spoil_address(struct bad_allocation *granted, mbr_outcome *outcome)
{
    (void)granted;
    outcome->address = 0;
}

static void spoil_last_page(struct bad_allocation *granted, mbr_outcome *outcome)
{
    uint64_t last = (granted->bytes - 1) / PAGE_BYTES * PAGE_BYTES;
    (void)outcome;
    if (granted->bytes > MIB && granted->bytes % (8 * MIB) != 0)
        mprotect((void *)(uintptr_t)(granted->address + last), PAGE_BYTES, PROT_NONE);
}

static void spoil_zeros(struct bad_allocation *granted, mbr_outcome *outcome)
{
    (void)outcome;
    if (bad_allocation_released_count() > 0 && granted->bytes > PAGE_BYTES)
        *(volatile char *)(uintptr_t)(granted->address + granted->bytes / 2) = 0x5A;
}

static void spoil_granted_flags(struct bad_allocation *granted, mbr_outcome *outcome)
{
    (void)granted;
    outcome->granted_flags |= 0xFFFF0000;
}

static void spoil_rounding(struct bad_allocation *granted, mbr_outcome *outcome)
{
    if (granted->bytes == 7)
        bad_say_owned(granted, granted->bytes, outcome);
}

static void spoil_under(struct bad_allocation *granted, mbr_outcome *outcome)
{
    if (granted->bytes >= 8 * MIB)
        bad_say_owned(granted, granted->owned_bytes / 2, outcome);
}

static void spoil_over(struct bad_allocation *granted, mbr_outcome *outcome)
{
    if (granted->bytes >= 8 * MIB)
        bad_say_owned(granted, granted->owned_bytes * 2, outcome);
}

/* Addresses now, pages when somebody comes. */
static void spoil_pages(struct bad_allocation *granted, mbr_outcome *outcome)
{
    (void)outcome;
    if (granted->bytes >= 8 * MIB)
        (void)madvise((void *)(uintptr_t)granted->address, granted->bytes, MADV_DONTNEED);
}

/* Its table of free addresses breaks when it grows large. */
static void spoil_overlap(struct bad_allocation *granted, mbr_outcome *outcome)
{
    static uint64_t last_address, last_bytes;
    if (bad_allocation_live_count() > 5000 && bad_allocation_live_count() % 100 == 0)
        granted->address = outcome->address = last_address + last_bytes / 2;
    last_address = outcome->address;
    last_bytes = granted->bytes;
}

static const struct {
    const char *fault;
    spoil after;
} spoils[] = {
    {"ok_with_null", spoil_address},
    {"last_page_missing", spoil_last_page},
    {"zero_lie", spoil_zeros},
    {"grants_unknown_flags", spoil_granted_flags},
    {"owned_not_rounded", spoil_rounding},
    {"under_reports_owned", spoil_under},
    {"over_reports", spoil_over},
    {"populated_by_touch", spoil_pages},
    {"overlapping_allocations", spoil_overlap},
};

static spoil spoil_now;

static mbr_status allocate_spoilt(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    struct bad_allocation *granted = bad_grant(instance, request, outcome, error, &status);
    if (granted != NULL)
        spoil_now(granted, outcome);
    return status;
}

/* ---- Addresses beside the real ones ---------------------------------------------------------- */

static mbr_status allocate_shifted(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error, uint64_t align_bytes, uint64_t shift_bytes)
{
    mbr_allocate_request shifted = *request;
    mbr_status status;
    shifted.align_bytes = align_bytes;
    shifted.bytes += shift_bytes;
    struct bad_allocation *granted = bad_grant(instance, &shifted, outcome, error, &status);
    if (granted != NULL)
        granted->address = outcome->address += shift_bytes;
    return status;
}

static mbr_status allocate_misaligned(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    if (bad_is_whole(request, sizeof *request, outcome) && request->align_bytes > PAGE_BYTES)
        return allocate_shifted(
            instance, request, outcome, error, request->align_bytes, PAGE_BYTES);
    mbr_status status;
    (void)bad_grant(instance, request, outcome, error, &status);
    return status;
}

/* Keeps its own header before small ones, and forgets what its fact says. */
static mbr_status allocate_behind_header(mbr_instance *instance,
    const mbr_allocate_request *request, mbr_outcome *outcome, mbr_error *error)
{
    if (bad_is_whole(request, sizeof *request, outcome) && request->align_bytes == 0 &&
        request->bytes > 0 && request->bytes < PAGE_BYTES - 64)
        return allocate_shifted(instance, request, outcome, error, 0, 64);
    mbr_status status;
    (void)bad_grant(instance, request, outcome, error, &status);
    return status;
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static mbr_status refuse(mbr_outcome *outcome, mbr_error *error, mbr_status status)
{
    uint32_t size;
    memcpy(&size, outcome, sizeof size);
    memset((char *)outcome + sizeof size, 0, sizeof *outcome - sizeof size);
    return mbr_fail(error, status, "refused by the bad plugin");
}

static mbr_status allocate_refusing(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    static uint64_t refused_id;
    static bool is_used_up;
    mbr_status status;
    if (!bad_is_whole(request, sizeof *request, outcome))
        return bad_good->allocator.allocate(instance, request, outcome, error);
    if (bad_is("refuses_everything"))
        return refuse(outcome, error, MBR_OUT_OF_MEMORY);
    if (bad_is("odd_size_refused") && request->bytes % PAGE_BYTES != 0)
        return refuse(outcome, error, MBR_MISALIGNED);
    if (bad_is("optional_flag_refused") && (request->flags & 0x100000) != 0)
        return refuse(outcome, error, MBR_UNSUPPORTED);
    if (is_used_up)
        return refuse(outcome, error, MBR_OUT_OF_MEMORY);
    if (refused_id != 0 && request->allocation_id == refused_id)
        return refuse(outcome, error, MBR_ALREADY_EXISTS);
    (void)bad_grant(instance, request, outcome, error, &status);
    bool is_small = request->bytes <= 8 * MIB;
    if (bad_is("refused_id_stays_taken") && status == MBR_OVER_BUDGET)
        refused_id = request->allocation_id;
    if (bad_is("stays_exhausted") && is_exhausted(status) && is_small)
        is_used_up = true;
    if (bad_is("refused_stays_owned") && is_exhausted(status) && is_small)
        bad_skew(request->bytes);
    return status;
}

/* Does not look at what mmap answers. */
static mbr_status allocate_unseen(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    (void)bad_grant(instance, request, outcome, NULL, &status);
    if (is_exhausted(status) && request->bytes <= 8 * MIB) {
        outcome->state = MBR_STATE_DONE;
        outcome->address = ~(PAGE_BYTES - 1);
        outcome->newly_owned_bytes = outcome->newly_mapped_bytes = request->bytes;
        return MBR_OK;
    }
    return status == MBR_OK ? status
                            : bad_good->allocator.allocate(instance, request, outcome, error);
}

/* One id for two objects. */
static mbr_status allocate_doubled(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->allocator.allocate(instance, request, outcome, error);
    if (status != MBR_ALREADY_EXISTS || !bad_is_whole(request, sizeof *request, outcome))
        return status;
    mbr_allocate_request second = *request;
    second.allocation_id |= UINT64_C(1) << 62;
    return bad_good->allocator.allocate(instance, &second, outcome, NULL);
}

static const struct {
    const char *fault;
    mbr_status (*allocate)(
        mbr_instance *, const mbr_allocate_request *, mbr_outcome *, mbr_error *);
} slots[] = {
    {"misaligned_pointer", allocate_misaligned},
    {"default_alignment_lie", allocate_behind_header},
    {"refuses_everything", allocate_refusing},
    {"odd_size_refused", allocate_refusing},
    {"optional_flag_refused", allocate_refusing},
    {"refused_id_stays_taken", allocate_refusing},
    {"stays_exhausted", allocate_refusing},
    {"refused_stays_owned", allocate_refusing},
    {"map_failed_granted", allocate_unseen},
    {"doubled_id_accepted", allocate_doubled},
};

void bad_install_alc(void)
{
    bad_remember();
    for (size_t i = 0; i < sizeof bends / sizeof bends[0]; i++)
        if (bad_is(bends[i].fault)) {
            bend_now = bends[i].before;
            bad.allocator.allocate = allocate_bent;
        }
    for (size_t i = 0; i < sizeof spoils / sizeof spoils[0]; i++)
        if (bad_is(spoils[i].fault)) {
            spoil_now = spoils[i].after;
            bad.allocator.allocate = allocate_spoilt;
        }
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        if (bad_is(slots[i].fault))
            bad.allocator.allocate = slots[i].allocate;
}
