/* Extents: parts of the memory file, backed when they are made and punched out when they end.
 * Never maps one. */
#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "plugins/common/answer.h"
#include "plugins/host/core.h"
#include "plugins/host/reservation.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

/* ---- Parts of the file ---------------------------------------------------------------------- */

/* Takes the next part of the file. Offsets rise as long as the file may grow, so that extents made
 * one after another and mapped one after another are one mapping to the kernel; what was freed in
 * between is used again when the file may not grow (or never: offsets last for 2^62 bytes). */
static bool take_part_locked(
    mbr_instance *instance, uint64_t limit_bytes, struct mbr_interval *part)
{
    uint64_t end, highest = mbr_max(limit_bytes, instance->file_bytes);
    if (mbr_add(instance->file_next_bytes, part->bytes, &end) &&
        end <= mbr_min(highest, MBR_HOST_FILE_MAX_BYTES)) {
        part->start = instance->file_next_bytes;
        instance->file_next_bytes = end;
        return true;
    }
    struct mbr_interval *free_part = mbr_interval_tree_first_fit(instance->free_parts, part->bytes);
    if (!free_part)
        return false;
    part->start = free_part->start;
    mbr_interval_tree_remove(&instance->free_parts, free_part);
    free_part->start += part->bytes;
    free_part->bytes -= part->bytes;
    if (free_part->bytes > 0)
        mbr_interval_tree_insert(&instance->free_parts, free_part);
    else
        mbr_heap_release(&instance->heap, free_part);
    return true;
}

/* Joins the extent's part with the free ones beside it; its struct becomes the free part's record
 * or is released. Takes no memory, so that giving back cannot fail. */
static void return_part_locked(mbr_instance *instance, struct mbr_host_extent *extent)
{
    struct mbr_interval *part = &extent->part;
    struct mbr_interval *before = mbr_interval_tree_floor(instance->free_parts, part->start);
    struct mbr_interval *after = mbr_interval_tree_ceiling(instance->free_parts, part->start);
    if (before && before->start + before->bytes == part->start) {
        mbr_interval_tree_remove(&instance->free_parts, before);
        part->start = before->start;
        part->bytes += before->bytes;
        mbr_heap_release(&instance->heap, before);
    }
    if (after && after->start == part->start + part->bytes) {
        mbr_interval_tree_remove(&instance->free_parts, after);
        part->bytes += after->bytes;
        mbr_heap_release(&instance->heap, after);
    }
    if (part->start + part->bytes == instance->file_next_bytes) {
        instance->file_next_bytes = part->start;
        mbr_heap_release(&instance->heap, extent);
    } else {
        mbr_interval_tree_insert(&instance->free_parts, part);
    }
}

/* ---- Backing -------------------------------------------------------------------------------- */

#define INTERRUPTION_LIMIT_COUNT 4096

/* A signal ends fallocate with EINTR, and the kernel then undoes that call. Smaller steps let it
 * come through under any storm of signals. */
static int allocate_part(const mbr_instance *instance, const struct mbr_interval *part)
{
    const struct mbr_host_os *os = &instance->os;
    uint64_t done_bytes = 0, step_bytes = part->bytes;
    uint32_t interruption_count = 0;
    while (done_bytes < part->bytes) {
        uint64_t bytes = mbr_min(step_bytes, part->bytes - done_bytes);
        int code =
            os->file_allocate(os->context, instance->file, 0, part->start + done_bytes, bytes);
        if (code == 0)
            done_bytes += bytes;
        else if (code != EINTR || ++interruption_count > INTERRUPTION_LIMIT_COUNT)
            return code;
        else
            step_bytes = mbr_max(step_bytes / 2 / os->page_bytes, 1) * os->page_bytes;
    }
    return 0;
}

/* Makes the file reach over the part, with its pages if the mechanism populates. 0 or an errno. */
static int back_part(mbr_instance *instance, const struct mbr_interval *part)
{
    uint64_t end = part->start + part->bytes;
    int code = instance->populate ? allocate_part(instance, part) : 0;
    mbr_host_lock(instance);
    /* A shorter file would cut another's part off: under the lock, and never backwards. */
    if (!instance->populate && end > instance->file_bytes)
        code = instance->os.file_truncate(instance->os.context, instance->file, end);
    if (code == 0)
        instance->file_bytes = mbr_max(instance->file_bytes, end);
    mbr_host_unlock(instance);
    return code;
}

/* Gives the part's pages back. Returns the bytes that are still there, all of them where nobody can
 * tell; *is_exact says whether the system told. *code is 0 or an errno. */
static uint64_t punch_part(
    mbr_instance *instance, const struct mbr_host_extent *extent, int *code, bool *is_exact)
{
    const struct mbr_host_os *os = &instance->os;
    *is_exact = true;
    *code = os->file_allocate(os->context, instance->file,
        FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, extent->part.start, extent->part.bytes);
    if (*code == 0)
        return 0;
    /* The file's blocks tell what is left if this slot alone is changing them. */
    uint64_t blocks_bytes, left_bytes = extent->owned_bytes;
    mbr_host_lock(instance);
    uint64_t others_bytes = instance->file_owned_bytes - extent->owned_bytes;
    *is_exact = instance->populate && instance->file_claims_in_flight == 1 &&
        os->file_owned(os->context, instance->file, &blocks_bytes) == 0 &&
        mbr_sub(blocks_bytes, others_bytes, &left_bytes);
    mbr_host_unlock(instance);
    return mbr_min(left_bytes, extent->owned_bytes);
}

/* Takes what was given back off the books; with nothing left the extent is gone. */
static void settle_locked(
    mbr_instance *instance, struct mbr_host_extent *extent, uint64_t left_bytes)
{
    uint64_t gone_bytes = extent->owned_bytes - left_bytes;
    instance->file_claims_in_flight--;
    instance->file_owned_bytes -= gone_bytes;
    instance->owned_bytes -= gone_bytes;
    extent->owned_bytes = left_bytes;
    extent->busy = false;
    if (left_bytes == 0) {
        mbr_id_table_remove(&instance->extents, extent->id);
        return_part_locked(instance, extent);
    }
}

/* ---- Slots ---------------------------------------------------------------------------------- */

static mbr_status check_create(
    const mbr_instance *instance, const mbr_extent_create_request *request, mbr_error *error)
{
    mbr_status status = mbr_host_check_flags(request->flags, MBR_EXTENT_ZEROED, error);
    if (status == MBR_OK)
        status = mbr_host_check_size(instance, request->bytes, error);
    if (status != MBR_OK)
        return status;
    if (request->extent_id == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the id is 0");
    if (request->bytes > MBR_HOST_OBJECT_MAX_BYTES)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "%" PRIu64 " bytes are above the largest extent, %" PRIu64, request->bytes,
            MBR_HOST_OBJECT_MAX_BYTES);
    return mbr_host_check_budget(request->bytes, request->max_owned_bytes, error);
}

/* Books the extent and its part of the file, busy. */
static mbr_status claim(mbr_instance *instance, struct mbr_host_extent *extent, mbr_error *error)
{
    uint64_t bytes = extent->part.bytes, limit_bytes;
    int code = instance->os.file_size_limit(instance->os.context, &limit_bytes);
    if (code != 0)
        return mbr_host_fail(error, code, "extent_create: getrlimit", bytes);
    mbr_host_lock(instance);
    mbr_status status =
        mbr_host_publish_locked(instance, &instance->extents, extent->id, extent, "extent", error);
    if (status != MBR_OK)
        goto unlock;
    status = mbr_host_claim_locked(instance, bytes, error);
    if (status != MBR_OK)
        goto unpublish;
    if (!take_part_locked(instance, limit_bytes, &extent->part)) {
        /* Asked first, because the kernel answers with SIGXFSZ. */
        status = mbr_fail(error, MBR_FILE_SIZE_LIMIT,
            "no %" PRIu64 " bytes are left in the memory file below RLIMIT_FSIZE, %" PRIu64, bytes,
            limit_bytes);
        goto unclaim;
    }
    instance->file_owned_bytes += bytes;
    instance->file_claims_in_flight++;
    mbr_host_unlock(instance);
    return MBR_OK;

unclaim:
    instance->owned_bytes -= bytes;
unpublish:
    mbr_id_table_remove(&instance->extents, extent->id);
unlock:
    mbr_host_unlock(instance);
    return status;
}

/* After a failure to back it: gives everything back, or leaves a broken extent with an exact
 * residual that destroy can take up again. */
static mbr_status undo_create(mbr_instance *instance, struct mbr_host_extent *extent,
    mbr_status status, mbr_outcome *answer, mbr_error *error)
{
    int code = 0;
    bool is_exact;
    uint64_t left_bytes = instance->populate ? punch_part(instance, extent, &code, &is_exact) : 0;
    if (left_bytes > 0) {
        answer->state = MBR_STATE_PARTIAL;
        answer->newly_owned_bytes = answer->residual_owned_bytes = left_bytes;
        status = mbr_fail(error, MBR_RESIDUAL,
            "extent_create failed, and so did the hole (errno %d): %" PRIu64
            " bytes stay owned by extent %" PRIu64,
            code, left_bytes, extent->id);
    }
    mbr_host_lock(instance);
    extent->broken = true;
    settle_locked(instance, extent, left_bytes);
    mbr_host_unlock(instance);
    return status;
}

mbr_status mbr_host_slot_extent_create(mbr_instance *instance, const mbr_extent_create_request *raw,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_extent_create_request request;
    mbr_outcome answer = {0};
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status == MBR_OK)
        status = check_create(instance, &request, error);
    if (status != MBR_OK)
        return status;
    struct mbr_host_extent *extent = mbr_heap_allocate(&instance->heap, sizeof(*extent));
    if (!extent)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for an extent's record");
    *extent = (struct mbr_host_extent){
        .part = {.bytes = request.bytes},
        .id = request.extent_id,
        .owned_bytes = request.bytes,
        .busy = true,
    };
    status = claim(instance, extent, error);
    if (status != MBR_OK) {
        mbr_heap_release(&instance->heap, extent);
        return status;
    }

    int code = back_part(instance, &extent->part);
    if (code == 0) {
        answer.state = MBR_STATE_DONE;
        answer.content = MBR_CONTENT_ZERO;
        answer.granted_flags = request.flags & MBR_EXTENT_ZEROED;
        answer.newly_owned_bytes = request.bytes;
        mbr_host_lock(instance);
        instance->file_claims_in_flight--;
        extent->busy = false;
        mbr_host_unlock(instance);
    } else {
        status = mbr_host_fail(error, code,
            instance->populate ? "extent_create: fallocate" : "extent_create: ftruncate",
            request.bytes);
        status = undo_create(instance, extent, status, &answer, error);
    }
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return status;
}

/* The extent, marked busy, or NULL with the reason. */
static struct mbr_host_extent *begin_destroy(
    mbr_instance *instance, uint64_t id, mbr_status *status, mbr_error *error)
{
    mbr_host_lock(instance);
    struct mbr_host_extent *extent = mbr_id_table_find(&instance->extents, id);
    if (!extent)
        *status = mbr_fail(error, MBR_UNKNOWN_OBJECT, "no extent %" PRIu64, id);
    else if (extent->busy || extent->mapping_count > 0)
        *status = mbr_fail(error, MBR_BUSY, "extent %" PRIu64 " has %u mappings%s", id,
            extent->mapping_count, extent->busy ? " and is in another call" : "");
    if (*status == MBR_OK) {
        extent->busy = true;
        instance->file_claims_in_flight++;
    }
    mbr_host_unlock(instance);
    return *status == MBR_OK ? extent : NULL;
}

mbr_status mbr_host_slot_extent_destroy(mbr_instance *instance,
    const mbr_extent_destroy_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    mbr_extent_destroy_request request;
    mbr_outcome answer = {0};
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status != MBR_OK)
        return status;
    struct mbr_host_extent *extent = begin_destroy(instance, request.extent_id, &status, error);
    if (!extent)
        return status;

    int code;
    bool is_exact;
    uint64_t owned_bytes = extent->owned_bytes;
    uint64_t left_bytes = punch_part(instance, extent, &code, &is_exact);
    answer.released_bytes = owned_bytes - left_bytes;
    if (left_bytes == 0) { /* also where the call failed after its effect */
        answer.state = MBR_STATE_DONE;
    } else {
        status = mbr_host_fail(error, code, "extent_destroy: fallocate", left_bytes);
        bool is_unchanged = is_exact && left_bytes == owned_bytes;
        if (!is_unchanged) {
            answer.state = MBR_STATE_PARTIAL;
            answer.residual_owned_bytes = left_bytes;
        }
        extent->broken = extent->broken || !is_unchanged; /* its contents are no longer whole */
    }
    mbr_host_lock(instance);
    settle_locked(instance, extent, left_bytes);
    mbr_host_unlock(instance);
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return status;
}
