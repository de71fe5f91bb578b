/* Faults that show only where the system below fails (group FLT). */
#include "abi/base/error.h"
#include "tests/badplugins/bad_alc.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define SMALL_MAX_BYTES (128 * MIB) /* what is refused above may be a limit of another kind */

static mbr_status say(mbr_outcome *outcome, mbr_error *error, mbr_status status)
{
    *outcome = (mbr_outcome){.struct_size = outcome->struct_size};
    return mbr_fail(error, status, "said by the bad plugin");
}

static bool is_struck(mbr_status status)
{
    int32_t class = MBR_STATUS_CLASS(status);
    return class == MBR_CLASS_EXHAUSTED || class == MBR_CLASS_BROKEN;
}

/* ---- Which call failed ------------------------------------------------------------------------
 * Several checks fail different calls below the same slot: a fault answers for one of them. */

static const char *failed_call = ""; /* the last one */
static struct mbr_host_os under;

static int noted(int code, const char *call)
{
    if (code != 0)
        failed_call = call;
    return code;
}

static int note_mmap(void *context, uint64_t *address, uint64_t bytes, int protection, int flags,
    int file, uint64_t offset_bytes)
{
    return noted(
        under.mmap(context, address, bytes, protection, flags, file, offset_bytes), "mmap");
}

static int note_mprotect(void *context, uint64_t address, uint64_t bytes, int protection)
{
    return noted(under.mprotect(context, address, bytes, protection), "mprotect");
}

static int note_madvise(void *context, uint64_t address, uint64_t bytes, int advice)
{
    return noted(under.madvise(context, address, bytes, advice), "madvise");
}

static mbr_status open_noting(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->plugin.open(none, request, outcome, error);
    if (status != MBR_OK)
        return status;
    struct mbr_host_os *os = &outcome->instance->os;
    under = *os;
    os->mmap = note_mmap;
    os->mprotect = note_mprotect;
    os->madvise = note_madvise;
    return status;
}

static bool has_failed(mbr_status status, const char *call)
{
    return is_struck(status) && strcmp(failed_call, call) == 0;
}

/* Whether addresses are scarce by the administrator's will. */
static bool has_address_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* ---- open ------------------------------------------------------------------------------------ */

/* Of allocate, since the last open. */
static uint32_t granted_count;
static bool has_met;

static mbr_status open_instance(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    granted_count = 0;
    has_met = false;
    mbr_status status = bad_good->plugin.open(none, request, outcome, error);
    if (bad_is("open_leaks_on_failure") && status == MBR_OUT_OF_HOST_MEMORY)
        (void)!dup(0);
    if (bad_is("open_failure_is_no_device") && status == MBR_OUT_OF_DESCRIPTORS)
        return mbr_fail(error, MBR_NO_DEVICE, "no memory file, no device");
    return status;
}

/* ---- Allocations ----------------------------------------------------------------------------- */

static mbr_status allocate(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    if (bad_is("never_itself_again") && has_met && ++granted_count > 40)
        return say(outcome, error, MBR_OUT_OF_HOST_MEMORY);
    (void)bad_grant(instance, request, outcome, error, &status);
    has_met |= status == MBR_OUT_OF_HOST_MEMORY;
    if (bad_is("heap_failure_is_callers_bug") && status == MBR_OUT_OF_HOST_MEMORY)
        return say(outcome, error, MBR_INVALID_ARGUMENT);
    if (bad_is("heap_failure_stays_owned") && status == MBR_OUT_OF_HOST_MEMORY)
        bad_skew(request->bytes);
    return status;
}

static mbr_status release(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_give(instance, request, outcome, error);
    const struct bad_allocation *one = bad_allocation_find(request->allocation_id);
    if (MBR_STATUS_CLASS(status) != MBR_CLASS_BROKEN || one == NULL)
        return status;
    if (bad_is("failed_release_ends_id")) {
        struct bad_allocation *gone = bad_allocation_find(request->allocation_id);
        gone->real_address++; /* what comes again is unknown */
        return status;
    }
    outcome->state = MBR_STATE_DONE;
    outcome->released_bytes = outcome->unmapped_bytes = one->owned_bytes;
    return MBR_OK;
}

/* ---- Virtual memory -------------------------------------------------------------------------- */

static mbr_status reserve(mbr_instance *instance, const mbr_reserve_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    static uint64_t kept_id;
    if (kept_id != 0 && request->reservation_id == kept_id)
        return say(outcome, error, MBR_ALREADY_EXISTS);
    mbr_status status = bad_good->virtual_.reserve(instance, request, outcome, error);
    bool is_there_room = status != MBR_OUT_OF_ADDRESSES || request->bytes > SMALL_MAX_BYTES;
    if (is_there_room)
        return status;
    if (bad_is("failed_reserve_keeps_id") && !has_address_limit())
        kept_id = request->reservation_id;
    if (bad_is("no_addresses_is_unsupported") && has_address_limit())
        return say(outcome, error, MBR_UNSUPPORTED);
    return status;
}

static mbr_status create_with_file(mbr_instance *instance, const mbr_extent_create_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    bool is_memory = bad_is("dies_of_file_size");
    int file = is_memory ? memfd_create("bad", MFD_CLOEXEC) : open("/dev/null", O_CLOEXEC);
    if (file < 0 && bad_is("descriptor_limit_is_callers_bug"))
        return say(outcome, error, MBR_INVALID_ARGUMENT);
    if (is_memory)
        (void)!ftruncate(file, (off_t)MIB);
    close(file);
    return bad_good->virtual_.extent_create(instance, request, outcome, error);
}

/* What was tried first is forgotten when a second try under another id works. */
static mbr_status create_leaving(mbr_instance *instance, const mbr_extent_create_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->virtual_.extent_create(instance, request, outcome, error);
    if (status != MBR_OUT_OF_MEMORY || request->bytes > 8 * MIB)
        return status;
    mbr_extent_create_request other = *request;
    other.extent_id |= UINT64_C(1) << 62;
    (void)bad_good->virtual_.extent_create(instance, &other, outcome, NULL);
    return say(outcome, error, status);
}

/* Its second step failed, and the first is not taken back. */
static mbr_status map_leaving(
    mbr_instance *instance, const mbr_map_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->virtual_.map(instance, request, outcome, error);
    if (!has_failed(status, "mmap") ||
        bad_good->virtual_.map(instance, request, outcome, NULL) != MBR_OK)
        return status;
    return say(outcome, error, status);
}

static mbr_status share_leaving(mbr_instance *instance, const mbr_map_shared_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->shared.map_shared(instance, request, outcome, error);
    if (!has_failed(status, "madvise") ||
        bad_good->shared.map_shared(instance, request, outcome, NULL) != MBR_OK)
        return status;
    return say(outcome, error, status);
}

static mbr_status protect_unseen(mbr_instance *instance, const mbr_protect_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->virtual_.protect(instance, request, outcome, error);
    if (!has_failed(status, "mprotect"))
        return status;
    *outcome = (mbr_outcome){.struct_size = outcome->struct_size, .state = MBR_STATE_DONE};
    return MBR_OK;
}

void bad_install_flt(void)
{
    static const char *const of_a_call[] = {"failed_map_leaves_mapping",
        "failed_share_leaves_mapping", "mprotect_failure_ignored", NULL};
    if (bad_is_any(of_a_call))
        bad.plugin.open = open_noting;
    if (bad_is("open_leaks_on_failure") || bad_is("open_failure_is_no_device") ||
        bad_is("never_itself_again"))
        bad.plugin.open = open_instance;
    if (bad_is("heap_failure_is_callers_bug") || bad_is("heap_failure_stays_owned") ||
        bad_is("never_itself_again"))
        bad.allocator.allocate = allocate;
    if (bad_is("munmap_failure_ignored") || bad_is("failed_release_ends_id"))
        bad.allocator.release = release;
    if (bad_is("failed_map_leaves_mapping"))
        bad.virtual_.map = map_leaving;
    if (bad_is("failed_share_leaves_mapping"))
        bad.shared.map_shared = share_leaving;
    if (bad_is("mprotect_failure_ignored"))
        bad.virtual_.protect = protect_unseen;
    if (bad_is("failed_create_leaves_extent"))
        bad.virtual_.extent_create = create_leaving;
    if (bad_is("no_addresses_is_unsupported") || bad_is("failed_reserve_keeps_id"))
        bad.virtual_.reserve = reserve;
    if (bad_is("descriptor_limit_is_callers_bug") || bad_is("dies_of_file_size"))
        bad.virtual_.extent_create = create_with_file;
}
