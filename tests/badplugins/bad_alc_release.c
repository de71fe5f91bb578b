/* Faults of release, stats and trim (group ALC). */
#include "tests/badplugins/bad_alc.h"

#include "abi/base/error.h"

#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES UINT64_C(4096)
#define MIB (UINT64_C(1) << 20)

/* ---- A release that the good slot refuses: another one that the fault takes for it ----------- */

typedef struct bad_allocation *(*mistake)(
    const mbr_instance *instance, const mbr_release_request *request);

static struct bad_allocation *take_foreign(
    const mbr_instance *instance, const mbr_release_request *request)
{
    struct bad_allocation *named = bad_allocation_find(request->allocation_id);
    return named != NULL && named->is_live && named->instance != instance ? named : NULL;
}

static bool is_live(uint64_t id)
{
    const struct bad_allocation *named = bad_allocation_find(id);
    return named != NULL && named->is_live;
}

static struct bad_allocation *take_by_address(
    const mbr_instance *instance, const mbr_release_request *request)
{
    return is_live(request->allocation_id) ? bad_allocation_at(instance, request->address) : NULL;
}

static struct bad_allocation *take_around(
    const mbr_instance *instance, const mbr_release_request *request)
{
    struct bad_allocation *one = bad_allocation_around(instance, request->address);
    return one != NULL && one->id == request->allocation_id ? one : NULL;
}

static struct bad_allocation *take_stale(
    const mbr_instance *instance, const mbr_release_request *request)
{
    const struct bad_allocation *named = bad_allocation_find(request->allocation_id);
    return named != NULL && !named->is_live ? bad_allocation_at(instance, request->address) : NULL;
}

static const struct {
    const char *fault;
    mistake taken;
} mistakes[] = {
    {"foreign_release_accepted", take_foreign},
    {"released_by_address", take_by_address},
    {"interior_release_accepted", take_around},
    {"aba_by_pointer", take_stale},
    {"refused_release_takes_effect", take_around},
};

static mistake mistake_now;

static mbr_status release_another(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_give(instance, request, outcome, error);
    if (status == MBR_OK || !bad_is_whole(request, sizeof *request, outcome))
        return status;
    struct bad_allocation *taken = mistake_now(instance, request);
    mbr_outcome unseen = {MBR_SIZED(mbr_outcome)};
    if (taken == NULL)
        return status;
    if (bad_is("refused_release_takes_effect")) {
        (void)bad_give_instead(taken, &unseen, NULL);
        return status;
    }
    return bad_give_instead(taken, outcome, NULL);
}

/* ---- A release that the good slot refuses: accepted without effect --------------------------- */

static bool is_accepted(const mbr_instance *instance, const mbr_release_request *request)
{
    const struct bad_allocation *named = bad_allocation_find(request->allocation_id);
    if (bad_is("refuses_nothing"))
        return true;
    if (bad_is("unknown_release_accepted"))
        return named == NULL && request->allocation_id != 0;
    return named != NULL && !named->is_live && named->address == request->address &&
        bad_allocation_at(instance, request->address) == NULL;
}

static mbr_status release_accepted(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_error unseen = {MBR_SIZED(mbr_error)};
    if (!bad_is_whole(request, sizeof *request, outcome) || instance == NULL)
        return bad_good->allocator.release(instance, request, outcome, error);
    mbr_status status = bad_give(instance, request, outcome, &unseen);
    if (status == MBR_OK)
        return status;
    if (is_accepted(instance, request)) {
        outcome->state = MBR_STATE_DONE;
        return MBR_OK;
    }
    if (error != NULL)
        mbr_error_copy(error, &unseen);
    return status;
}

/* ---- A release that works, and what the fault makes of it ------------------------------------ */

static mbr_status release_spoilt(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    if (!bad_is_whole(request, sizeof *request, outcome))
        return bad_good->allocator.release(instance, request, outcome, error);
    const struct bad_allocation *named = bad_allocation_find(request->allocation_id);
    if (bad_is("release_refused") ||
        (bad_is("thread_bound_release") && named != NULL &&
            !pthread_equal(named->thread, pthread_self()))) {
        memset((char *)outcome + sizeof(uint32_t), 0, sizeof *outcome - sizeof(uint32_t));
        return mbr_fail(error, MBR_BUSY, "refused by the bad plugin");
    }
    mbr_status status = bad_give(instance, request, outcome, error);
    if (status != MBR_OK || named == NULL)
        return status;
    if (bad_is("refund_differs") && named->bytes > PAGE_BYTES && named->bytes % PAGE_BYTES == 1) {
        outcome->released_bytes -= PAGE_BYTES;
        bad_skew(PAGE_BYTES);
    }
    if (bad_is("unmapped_not_told"))
        outcome->unmapped_bytes = 0;
    if (bad_is("release_keeps_memory") && named->bytes >= 8 * MIB) {
        void *kept = mmap(NULL, named->bytes, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        (void)kept; /* a cache that nobody knows */
    }
    return status;
}

/* ---- Stats and trim -------------------------------------------------------------------------- */

static mbr_status stats_spoilt(mbr_instance *instance, const mbr_stats_request *request,
    mbr_mechanism_stats *outcome, mbr_error *error)
{
    static uint64_t highest_bytes;
    mbr_status status = bad_good->allocator.stats(instance, request, outcome, error);
    if (status != MBR_OK || !MBR_HAS(mbr_mechanism_stats, outcome, owned_bytes))
        return status;
    if (bad_is("zero_for_unknown"))
        outcome->total_bytes = 0;
    if (bad_is("stats_tell_the_peak")) {
        highest_bytes = outcome->owned_bytes > highest_bytes ? outcome->owned_bytes : highest_bytes;
        outcome->owned_bytes = highest_bytes;
    }
    return status;
}

static void drop(struct bad_allocation *allocation)
{
    uint64_t whole = (allocation->bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    madvise((void *)(uintptr_t)allocation->real_address, whole, MADV_DONTNEED);
}

static mbr_status trim_spoilt(
    mbr_instance *instance, const mbr_trim_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->allocator.trim(instance, request, outcome, error);
    if (status != MBR_OK || !bad_is_whole(request, sizeof *request, outcome))
        return status;
    if (bad_is("trim_drops_contents"))
        bad_allocation_each(drop);
    if (bad_is("trim_claims"))
        outcome->released_bytes = MIB;
    if (bad_is("trim_refused")) {
        outcome->state = MBR_STATE_UNCHANGED;
        return mbr_fail(error, MBR_UNSUPPORTED, "there is no cache");
    }
    return status;
}

void bad_install_alc_release(void)
{
    static const char *const accepting[] = {
        "unknown_release_accepted", "double_release_accepted", "refuses_nothing"};
    static const char *const spoiling[] = {"release_refused", "thread_bound_release",
        "refund_differs", "unmapped_not_told", "release_keeps_memory"};
    static const char *const stats[] = {"zero_for_unknown", "stats_tell_the_peak"};
    static const char *const trim[] = {"trim_drops_contents", "trim_claims", "trim_refused"};
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++)
        if (bad_is(mistakes[i].fault)) {
            mistake_now = mistakes[i].taken;
            bad.allocator.release = release_another;
        }
    for (size_t i = 0; i < sizeof accepting / sizeof accepting[0]; i++)
        if (bad_is(accepting[i]))
            bad.allocator.release = release_accepted;
    for (size_t i = 0; i < sizeof spoiling / sizeof spoiling[0]; i++)
        if (bad_is(spoiling[i]))
            bad.allocator.release = release_spoilt;
    for (size_t i = 0; i < sizeof stats / sizeof stats[0]; i++)
        if (bad_is(stats[i]))
            bad.allocator.stats = stats_spoilt;
    for (size_t i = 0; i < sizeof trim / sizeof trim[0]; i++)
        if (bad_is(trim[i]))
            bad.allocator.trim = trim_spoilt;
}
