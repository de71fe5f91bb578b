/* Extents: parts of the memory file, backed when they are made and punched out when they end.
 * Never maps one. */
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "plugins/host/core.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

/* ---- Parts of the file ---------------------------------------------------------------------- */

static void release_record(mbr_instance *instance, struct mbr_interval *part)
{
    mbr_heap_release(
        &instance->objects.heap, (char *)part - offsetof(struct mbr_host_extent, part));
}

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
        release_record(instance, free_part);
    return true;
}

/* Joins the part with the free ones beside it; its extent's record becomes the free part's or is
 * released. Takes no memory, so that giving back cannot fail. */
static void return_part_locked(mbr_instance *instance, struct mbr_interval *part)
{
    struct mbr_interval *beside[] = {
        mbr_interval_tree_floor(instance->free_parts, part->start),
        mbr_interval_tree_ceiling(instance->free_parts, part->start),
    };
    for (int i = 0; i < 2; i++) {
        struct mbr_interval *other = beside[i];
        if (!other ||
            (other->start + other->bytes != part->start &&
                part->start + part->bytes != other->start))
            continue;
        mbr_interval_tree_remove(&instance->free_parts, other);
        part->start = mbr_min(part->start, other->start);
        part->bytes += other->bytes;
        release_record(instance, other);
    }
    if (part->start + part->bytes == instance->file_next_bytes) {
        instance->file_next_bytes = part->start;
        release_record(instance, part);
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
    mbr_objects_lock(&instance->objects);
    /* A shorter file would cut another's part off: under the lock, and never backwards. */
    if (!instance->populate && end > instance->file_bytes)
        code = instance->os.file_truncate(instance->os.context, instance->file, end);
    if (code == 0)
        instance->file_bytes = mbr_max(instance->file_bytes, end);
    mbr_objects_unlock(&instance->objects);
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
    mbr_objects_lock(&instance->objects);
    uint64_t others_bytes = instance->file_owned_bytes - extent->owned_bytes;
    *is_exact = instance->populate && instance->file_claims_in_flight == 1 &&
        os->file_owned(os->context, instance->file, &blocks_bytes) == 0 &&
        mbr_sub(blocks_bytes, others_bytes, &left_bytes);
    mbr_objects_unlock(&instance->objects);
    return mbr_min(left_bytes, extent->owned_bytes);
}

/* Takes what was given back off the books and leaves the extent; with nothing left it is gone. */
static void settle(mbr_instance *instance, struct mbr_host_extent *extent, uint64_t left_bytes)
{
    mbr_objects_lock(&instance->objects);
    uint64_t gone_bytes = extent->owned_bytes - left_bytes;
    instance->file_claims_in_flight--;
    instance->file_owned_bytes -= gone_bytes;
    instance->objects.owned_bytes -= gone_bytes;
    extent->owned_bytes = left_bytes;
    extent->extent.object.busy = false;
    if (left_bytes == 0) {
        mbr_id_table_remove(&instance->objects.extents.ids, extent->extent.object.id);
        return_part_locked(instance, &extent->part);
    }
    mbr_objects_unlock(&instance->objects);
}

/* ---- Slots ---------------------------------------------------------------------------------- */

/* Books the extent's bytes and its part of the file. */
static mbr_status claim_locked(
    mbr_instance *instance, struct mbr_host_extent *extent, uint64_t limit_bytes, mbr_error *error)
{
    uint64_t bytes = extent->part.bytes;
    mbr_status status = mbr_host_claim_locked(instance, bytes, error);
    if (status != MBR_OK)
        return status;
    if (!take_part_locked(instance, limit_bytes, &extent->part)) {
        instance->objects.owned_bytes -= bytes;
        return mbr_fail(error, MBR_FILE_SIZE_LIMIT,
            "no %" PRIu64 " bytes are left in the memory file below RLIMIT_FSIZE, %" PRIu64, bytes,
            limit_bytes);
    }
    instance->file_owned_bytes += bytes;
    instance->file_claims_in_flight++;
    return MBR_OK;
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
            code, left_bytes, extent->extent.object.id);
    }
    extent->extent.broken = true;
    settle(instance, extent, left_bytes);
    return status;
}

static mbr_status extent_create(mbr_instance *instance, const mbr_extent_create_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = &instance->objects;
    struct mbr_answer_ask ask = {
        .flags = request->flags,
        .known_flags = MBR_EXTENT_ZEROED,
        .id = request->extent_id,
        .bytes = request->bytes,
        .unit_bytes = objects->granule_bytes,
        .largest_bytes = MBR_HOST_OBJECT_MAX_BYTES,
        .max_owned_bytes = request->max_owned_bytes,
    };
    mbr_status status = mbr_answer_check(&ask, error);
    if (status != MBR_OK)
        return status;
    uint64_t limit_bytes; /* asked first, because the kernel answers with SIGXFSZ */
    int code = instance->os.file_size_limit(instance->os.context, &limit_bytes);
    if (code != 0)
        return mbr_answer_errno(
            error, code, MBR_OUT_OF_MEMORY, "extent_create: getrlimit", ask.bytes);
    struct mbr_host_extent *extent = mbr_object_create(
        objects, &objects->extents, ask.id, ask.bytes, sizeof(*extent), &status, error);
    if (!extent)
        return status;
    extent->extent.content = MBR_CONTENT_ZERO;
    extent->part.bytes = extent->owned_bytes = ask.bytes;
    mbr_objects_lock(objects);
    status = claim_locked(instance, extent, limit_bytes, error);
    mbr_objects_unlock(objects);
    if (status != MBR_OK) {
        mbr_object_end(objects, &objects->extents, &extent->extent.object);
        return status;
    }
    code = back_part(instance, &extent->part);
    if (code != 0) {
        status = mbr_answer_errno(
            error, code, MBR_OUT_OF_MEMORY, "extent_create: fallocate or ftruncate", ask.bytes);
        return undo_create(instance, extent, status, answer, error);
    }
    answer->content = MBR_CONTENT_ZERO;
    answer->granted_flags = request->flags & MBR_EXTENT_ZEROED;
    answer->newly_owned_bytes = ask.bytes;
    settle(instance, extent, ask.bytes);
    return MBR_OK;
}

static mbr_status extent_destroy(mbr_instance *instance, const mbr_extent_destroy_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    mbr_status status = MBR_OK;
    struct mbr_host_extent *extent =
        mbr_space_enter_extent(&instance->objects, request->extent_id, &status, error);
    if (!extent)
        return status;
    mbr_objects_lock(&instance->objects);
    instance->file_claims_in_flight++;
    mbr_objects_unlock(&instance->objects);

    int code;
    bool is_exact;
    uint64_t owned_bytes = extent->owned_bytes;
    uint64_t left_bytes = punch_part(instance, extent, &code, &is_exact);
    bool is_unchanged = is_exact && left_bytes == owned_bytes;
    answer->released_bytes = owned_bytes - left_bytes;
    if (left_bytes > 0) /* else it is gone, also where the call failed after its effect */
        status = mbr_answer_errno(
            error, code, MBR_OUT_OF_MEMORY, "extent_destroy: fallocate", left_bytes);
    if (left_bytes > 0 && !is_unchanged) {
        answer->state = MBR_STATE_PARTIAL;
        answer->residual_owned_bytes = left_bytes;
        extent->extent.broken = true; /* its contents are no longer whole */
    }
    settle(instance, extent, left_bytes);
    return status;
}

MBR_ANSWER_CHANGE(, mbr_host_slot_extent_create, extent_create, mbr_extent_create_request)
MBR_ANSWER_CHANGE(, mbr_host_slot_extent_destroy, extent_destroy, mbr_extent_destroy_request)
