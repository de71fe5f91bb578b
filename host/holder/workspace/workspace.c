/* Workspace arenas: two growing ranges and a pointer into each. Knows nothing of who computes what,
 * and waits for no device but where it is asked for bytes.
 *
 *     used <= committed <= bytes of the range, in each area
 *     committed_bytes of both = charged to the holder, once no release is queued and none stuck
 *
 * Locking: `lock` guards the areas; the client interface is called without it, and the area is
 * marked as moving meanwhile: who has to commit, or ends, waits for that, and who is asked for
 * bytes gives none of it. What is committed may be taken all the while: so who gives lowers
 * `committed` first, under the lock and no further than `used`. */
#include "membrane/workspace.h"
#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "abi/base/lock.h"
#include "host/bind/giver.h"
#include "host/bind/seams.h"
#include "host/holder/common/gone.h"
#include "host/holder/common/quiet.h"
#include "membrane/manager.h"
#include "membrane/memory.h"
#include "membrane/range.h"

#define TAKE_ALIGN_BYTES 256
#define MARK_DECAY_DIVISOR 16 /* a mark that is not reached falls by this part each step */
#define SLACK_DIVISOR 8       /* committed bytes above the mark that are worth a decommit */

typedef struct mbr_area {
    mbr_range_handle range; /* 0: not used */
    uint64_t address, bytes;
    uint64_t used, committed;
    bool is_moving;
} mbr_area;

struct mbr_workspace {
    mbr_manager *manager;
    mbr_heap heap;
    mbr_binding_handle binding;
    mbr_holder_handle holder;
    mbr_giver giver;
    mbr_stream_handle stream;
    uint64_t unit_bytes, granule_bytes;
    mbr_lock lock;
    mbr_condition moved; /* an area is not moving any more */
    mbr_area areas[MBR_WORKSPACE_SCOPE_COUNT];
    uint64_t mark_bytes, peak_bytes, step_count, grow_count;
};

MBR_GIVER_CALLS_DEFINE(mbr_workspace, giver_calls);

/* ---- Life */

static mbr_status read_granules(mbr_manager *manager, const mbr_workspace_request *request,
    mbr_mechanism_figures *mechanism, mbr_error *error)
{
    mbr_binding_figures binding = {MBR_SIZED(mbr_binding_figures)};
    mbr_holder_figures holder = {MBR_SIZED(mbr_holder_figures)};
    *mechanism = (mbr_mechanism_figures){MBR_SIZED(mbr_mechanism_figures)};
    mbr_status status = mbr_manager_read_binding(manager, request->binding, &binding, error);
    if (status == MBR_OK)
        status = mbr_manager_read_holder(manager, request->holder, &holder, error);
    return status == MBR_OK
        ? mbr_manager_read_mechanism(manager, binding.mechanism, mechanism, error)
        : status;
}

/* Behind the stream, or `now`. */
static mbr_range_release_request release_of(
    const mbr_workspace *workspace, mbr_piece piece, bool now)
{
    uint32_t stream_count = !now && workspace->stream.value != 0;
    return (mbr_range_release_request){MBR_SIZED(mbr_range_release_request),
        .flags = stream_count == 0 ? MBR_FREE_NOW : 0, .piece = piece,
        .streams = &workspace->stream, .stream_count = stream_count};
}

static mbr_status release_area(
    const mbr_workspace *workspace, const mbr_area *area, bool now, mbr_error *error)
{
    mbr_range_release_request request =
        release_of(workspace, (mbr_piece){.range = area->range}, now);
    return area->range.value != 0 ? mbr_range_release(workspace->manager, &request, error) : MBR_OK;
}

/* Looked up now, so that a wrong one is refused here and not when the workspace is to end. */
static mbr_status check_stream(
    const mbr_workspace *workspace, const mbr_area *area, mbr_error *error)
{
    mbr_range_release_request nothing =
        release_of(workspace, (mbr_piece){.range = area->range}, false);
    mbr_range_decommit_result result = {MBR_SIZED(mbr_range_decommit_result)};
    return mbr_range_decommit(workspace->manager, &nothing, &result, error);
}

static mbr_status reserve_area(mbr_workspace *workspace, const mbr_workspace_request *request,
    uint32_t scope, mbr_error *error)
{
    mbr_range_reserve_request reserve = {MBR_SIZED(mbr_range_reserve_request),
        .binding = request->binding, .bytes = request->most_bytes[scope],
        .growth = {workspace->unit_bytes, workspace->unit_bytes, 0}};
    mbr_range_reserve_result result = {MBR_SIZED(mbr_range_reserve_result)};
    if (reserve.bytes == 0)
        return MBR_OK;
    mbr_status status = mbr_range_reserve(workspace->manager, &reserve, &result, error);
    workspace->areas[scope] =
        (mbr_area){.range = result.range, .address = result.address, .bytes = result.bytes};
    return status == MBR_OK ? check_stream(workspace, &workspace->areas[scope], error) : status;
}

static void finish(mbr_workspace *workspace)
{
    mbr_condition_finish(&workspace->moved);
    mbr_lock_finish(&workspace->lock);
    mbr_heap heap = workspace->heap;
    mbr_heap_release(&heap, workspace);
}

mbr_status mbr_workspace_create(mbr_manager *manager, const mbr_workspace_request *request,
    mbr_workspace **workspace, mbr_error *error)
{
    *workspace = NULL;
    mbr_workspace_request own;
    mbr_mechanism_figures mechanism;
    mbr_status status = MBR_TAKE(&own, mbr_workspace_request, unit_bytes, request, error);
    if (status == MBR_OK)
        status = read_granules(manager, &own, &mechanism, error);
    if (status != MBR_OK)
        return status;
    mbr_workspace *made = mbr_heap_allocate(mbr_manager_heap(manager), sizeof(*made));
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a workspace");
    *made = (mbr_workspace){.manager = manager,
        .heap = *mbr_manager_heap(manager),
        .binding = own.binding,
        .holder = own.holder,
        .stream = own.stream,
        .unit_bytes = own.unit_bytes != 0 ? own.unit_bytes : mechanism.granule_recommended_bytes,
        .granule_bytes = mechanism.granule_min_bytes};
    for (uint32_t i = 0; i < MBR_WORKSPACE_SCOPE_COUNT && status == MBR_OK; i++)
        status = reserve_area(made, &own, i, error);
    mbr_lock_init(&made->lock, MBR_RANK_CLIENT);
    mbr_condition_init(&made->moved);
    if (status == MBR_OK)
        status = mbr_giver_join(manager, own.holder, &giver_calls, made, &made->giver, error);
    if (status != MBR_OK) {
        for (uint32_t i = 0; i < MBR_WORKSPACE_SCOPE_COUNT; i++) /* nothing is mapped: accepted */
            (void)release_area(made, &made->areas[i], true, NULL);
        finish(made);
        return status;
    }
    *workspace = made;
    return MBR_OK;
}

/* ---- Moving an area */

static void begin_move_locked(mbr_workspace *workspace, mbr_area *area)
    MBR_REQUIRES(&workspace->lock)
{
    while (area->is_moving)
        mbr_condition_wait(&workspace->moved, &workspace->lock, UINT64_MAX);
    area->is_moving = true;
}

static void end_move_locked(mbr_workspace *workspace, mbr_area *area) MBR_REQUIRES(&workspace->lock)
{
    area->is_moving = false;
    mbr_condition_signal_all(&workspace->moved);
}

static mbr_status commit_locked(mbr_workspace *workspace, mbr_area *area, uint64_t end,
    mbr_refusal *refusal, mbr_error *error) MBR_REQUIRES(&workspace->lock)
{
    begin_move_locked(workspace, area);
    uint64_t committed = area->committed;
    mbr_lock_drop(&workspace->lock);
    mbr_piece piece = {area->range, committed, end - mbr_min(end, committed)};
    mbr_range_grow_request request = {MBR_SIZED(mbr_range_grow_request),
        .holder = workspace->holder, .stream = workspace->stream, .pieces = &piece,
        .piece_count = 1, .refusal = refusal};
    mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
    mbr_status status = mbr_range_grow(workspace->manager, &request, &result, error);
    mbr_lock_take(&workspace->lock);
    if (status == MBR_OK) { /* outward to whole extents, all of which are a unit; others may have
                             * been there already, behind a decommit that was refused */
        end += workspace->unit_bytes - 1 - (end - 1) % workspace->unit_bytes;
        area->committed = mbr_max(area->committed, end);
        workspace->grow_count++;
    }
    end_move_locked(workspace, area);
    return status;
}

/* Whole extents from `keep` bytes on, all of which nobody has taken. Returns the bytes; 0: the
 * queue is full, or the range pinned; with `now` also where some of them are not gone yet. The area
 * is moving. */
static uint64_t decommit_locked(mbr_workspace *workspace, mbr_area *area, uint64_t keep, bool now)
    MBR_REQUIRES(&workspace->lock)
{
    uint64_t before = area->committed;
    area->committed = keep;
    mbr_lock_drop(&workspace->lock);
    mbr_range_release_request request =
        release_of(workspace, (mbr_piece){area->range, keep, before - keep}, now);
    mbr_range_decommit_result result = {MBR_SIZED(mbr_range_decommit_result)};
    mbr_status status = mbr_range_decommit(workspace->manager, &request, &result, NULL);
    bool is_given = status == MBR_OK &&
        (!now || mbr_range_is_gone(workspace->manager, area->range, keep, before - keep));
    mbr_lock_take(&workspace->lock);
    if (status != MBR_OK)
        area->committed = before;
    return is_given ? before - keep : 0;
}

/* ---- End of life */

/* Whoever is at the area is awaited. It stays, where that is refused. */
static mbr_status end_area(mbr_workspace *workspace, mbr_area *area, mbr_error *error)
{
    mbr_lock_take(&workspace->lock);
    begin_move_locked(workspace, area);
    mbr_lock_drop(&workspace->lock);
    mbr_status status = release_area(workspace, area, false, error);
    mbr_lock_take(&workspace->lock);
    if (status == MBR_OK)
        *area = (mbr_area){0};
    end_move_locked(workspace, area);
    mbr_lock_drop(&workspace->lock);
    return status;
}

mbr_status mbr_workspace_destroy(mbr_workspace *workspace, mbr_error *error)
{
    for (uint32_t i = 0; i < MBR_WORKSPACE_SCOPE_COUNT; i++) {
        mbr_status status = end_area(workspace, &workspace->areas[i], error);
        if (status != MBR_OK)
            return status;
    }
    mbr_giver_leave(&workspace->giver);
    finish(workspace);
    return MBR_OK;
}

/* ---- Taking */

static mbr_status place(const mbr_workspace *workspace, const mbr_area *area, uint64_t bytes,
    uint64_t align_bytes, uint64_t *start, uint64_t *end, mbr_error *error)
{
    if (!mbr_is_power_of_two(align_bytes) || align_bytes > workspace->granule_bytes)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "alignment %llu; powers of two up to the granule %llu would work",
            (unsigned long long)align_bytes, (unsigned long long)workspace->granule_bytes);
    if (!mbr_align_up(area->used, align_bytes, start) || !mbr_add(*start, mbr_max(bytes, 1), end) ||
        *end > area->bytes)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "%llu bytes do not fit behind %llu taken: the scope has addresses for %llu",
            (unsigned long long)bytes, (unsigned long long)area->used,
            (unsigned long long)area->bytes);
    return MBR_OK;
}

mbr_status mbr_workspace_take(mbr_workspace *workspace, uint32_t scope, uint64_t bytes,
    uint64_t align_bytes, uint64_t *address, mbr_refusal *refusal, mbr_error *error)
{
    uint64_t start = 0, end = 0;
    *address = 0;
    if (scope >= MBR_WORKSPACE_SCOPE_COUNT)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "scope %u is none", scope);
    mbr_area *area = &workspace->areas[scope];
    mbr_lock_take(&workspace->lock);
    mbr_status status = place(workspace, area, bytes,
        align_bytes != 0 ? align_bytes : TAKE_ALIGN_BYTES, &start, &end, error);
    while (status == MBR_OK && end > area->committed)
        status = commit_locked(workspace, area, end, refusal, error);
    if (status == MBR_OK) {
        area->used = end;
        *address = area->address + start;
    }
    mbr_lock_drop(&workspace->lock);
    return status;
}

/* ---- Ending */

/* Counts a step that ends, and moves the mark. Returns what of its area is kept: down to the mark,
 * if much is above it. */
static uint64_t count_step_locked(mbr_workspace *workspace, const mbr_area *area)
    MBR_REQUIRES(&workspace->lock)
{
    uint64_t keep;
    workspace->step_count++;
    workspace->peak_bytes = mbr_max(workspace->peak_bytes, area->used);
    workspace->mark_bytes -= workspace->mark_bytes / MARK_DECAY_DIVISOR;
    workspace->mark_bytes = mbr_max(workspace->mark_bytes, area->used);
    if (!mbr_align_up(workspace->mark_bytes, workspace->unit_bytes, &keep) ||
        keep > area->committed || area->committed - keep <= area->committed / SLACK_DIVISOR)
        return area->committed;
    return keep;
}

void mbr_workspace_end(mbr_workspace *workspace, uint32_t scope)
{
    if (scope >= MBR_WORKSPACE_SCOPE_COUNT)
        return;
    mbr_area *area = &workspace->areas[scope];
    mbr_lock_take(&workspace->lock);
    begin_move_locked(workspace, area);
    uint64_t keep = scope == MBR_WORKSPACE_STEP ? count_step_locked(workspace, area) : 0;
    area->used = 0;
    if (keep < area->committed)
        decommit_locked(workspace, area, keep, false);
    end_move_locked(workspace, area);
    mbr_lock_drop(&workspace->lock);
}

/* ---- Giving */

/* Nothing holds what is committed behind `keep`. */
static bool is_free(const mbr_workspace *workspace, const mbr_area *area, uint64_t keep)
{
    mbr_range_figures figures = {MBR_SIZED(mbr_range_figures)};
    return mbr_stream_is_quiet(workspace->manager, workspace->stream) &&
        mbr_range_read(workspace->manager, area->range, 0, &figures, NULL) == MBR_OK &&
        figures.pin_count == 0 &&
        !mbr_range_is_held(workspace->manager, workspace->binding, area->range, keep);
}

/* What of one area is above its use, given or only counted. */
static uint64_t give_area_locked(mbr_workspace *workspace, mbr_area *area, uint64_t wanted_bytes,
    bool gives) MBR_REQUIRES(&workspace->lock)
{
    uint64_t keep, least, bytes = 0;
    if (area->is_moving || wanted_bytes == 0 ||
        !mbr_align_up(area->used, workspace->unit_bytes, &least) || least >= area->committed)
        return 0;
    area->is_moving = true;
    uint64_t most = area->committed - mbr_min(area->committed, wanted_bytes);
    keep = mbr_max(least, mbr_align_down(most, workspace->unit_bytes));
    mbr_lock_drop(&workspace->lock);
    bool may_give = is_free(workspace, area, keep);
    mbr_lock_take(&workspace->lock);
    if (may_give && area->used <= keep) /* it may have been taken meanwhile */
        bytes = gives ? decommit_locked(workspace, area, keep, true) : area->committed - keep;
    end_move_locked(workspace, area);
    return bytes;
}

static uint64_t give(mbr_workspace *workspace, uint64_t wanted_bytes, bool gives)
{
    uint64_t bytes = 0;
    mbr_lock_take(&workspace->lock);
    for (uint32_t i = 0; i < MBR_WORKSPACE_SCOPE_COUNT; i++)
        bytes += give_area_locked(
            workspace, &workspace->areas[i], wanted_bytes - mbr_min(wanted_bytes, bytes), gives);
    mbr_lock_drop(&workspace->lock);
    return bytes;
}

uint64_t mbr_workspace_could_give(mbr_workspace *workspace, uint64_t wanted_bytes)
{
    return mbr_min(give(workspace, wanted_bytes, false), wanted_bytes);
}

uint64_t mbr_workspace_give(mbr_workspace *workspace, uint64_t wanted_bytes)
{
    return give(workspace, wanted_bytes, true);
}

void mbr_workspace_read(mbr_workspace *workspace, mbr_workspace_figures *figures)
{
    mbr_workspace_figures now = {MBR_SIZED(mbr_workspace_figures)};
    mbr_lock_take(&workspace->lock);
    for (uint32_t i = 0; i < MBR_WORKSPACE_SCOPE_COUNT; i++) {
        now.used_bytes[i] = workspace->areas[i].used;
        now.committed_bytes[i] = workspace->areas[i].committed;
    }
    now.mark_bytes = workspace->mark_bytes;
    now.peak_bytes = workspace->peak_bytes;
    now.step_count = workspace->step_count;
    now.grow_count = workspace->grow_count;
    mbr_lock_drop(&workspace->lock);
    mbr_growable_give(figures, &now, sizeof(now));
}
