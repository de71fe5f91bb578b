/* Sequences on plain allocations: the maximum at once, or doubled by copying. Used where a
 * mechanism has no virtual memory, by the caller's choice alone. */
#include "host/holder/kv/internal.h"

/* ---- Room ------------------------------------------------------------------------------------ */

/* New memory for every group, of one capacity. */
typedef struct mbr_kv_room {
    mbr_allocation_handle allocations[MBR_KV_GROUPS_MAX];
    uint64_t addresses[MBR_KV_GROUPS_MAX];
    mbr_layout layouts[MBR_KV_GROUPS_MAX];
    uint64_t charged_bytes;
} mbr_kv_room;

/* The cache's own layout was accepted for max_tokens, so that a shorter one is too. */
static mbr_layout layout_for(const mbr_kv *kv, uint32_t group, uint64_t capacity_tokens)
{
    const mbr_layout *whole = &kv->groups[group].extents.layout;
    mbr_layout layout;
    mbr_layout_request request = {.kind = whole->kind,
        .max_tokens = capacity_tokens,
        .granule_bytes = whole->granule_bytes,
        .window_tokens = whole->window_tokens};
    mbr_geometry_status status = mbr_layout_init(&layout, &whole->group, &request, NULL);
    MBR_CHECK(status == MBR_GEOMETRY_OK);
    return layout;
}

/* Nothing was submitted that touches it; but what was given again, or made in a capture, has to go
 * through the queue all the same, and is owed if that is full. */
static void free_unused_room(mbr_sequence *sequence, const mbr_kv_room *room)
{
    const mbr_kv *kv = sequence->kv;
    for (uint32_t i = kv->group_count; i-- > 0;) {
        if (room->allocations[i].value == 0)
            continue;
        mbr_free_request request = {
            MBR_SIZED(mbr_free_request), .flags = MBR_FREE_NOW, .allocation = room->allocations[i]};
        if (mbr_free(kv->manager, &request, NULL) != MBR_OK)
            sequence->groups[i].owed = room->allocations[i];
    }
}

static mbr_status make_room(mbr_sequence *sequence, uint64_t capacity_tokens, mbr_kv_room *room,
    mbr_refusal *refusal, mbr_error *error)
{
    const mbr_kv *kv = sequence->kv;
    mbr_status status = MBR_OK;
    *room = (mbr_kv_room){0};
    for (uint32_t i = 0; i < kv->group_count && status == MBR_OK; i++) {
        room->layouts[i] = layout_for(kv, i, capacity_tokens);
        mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .binding = kv->binding,
            .holder = kv->holder, .stream = sequence->stream, .bytes = room->layouts[i].span_bytes,
            .align_bytes = MBR_KV_EAGER_ALIGN_BYTES, .tag = sequence->tag, .refusal = refusal};
        mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
        status = mbr_alloc(kv->manager, &request, &result, error);
        room->allocations[i] = result.allocation;
        room->addresses[i] = result.address;
        room->charged_bytes += result.charged_bytes;
    }
    if (status != MBR_OK)
        free_unused_room(sequence, room);
    return status;
}

static void move_in(mbr_sequence *sequence, const mbr_kv_room *room)
{
    mbr_kv *kv = sequence->kv;
    for (uint32_t i = 0; i < kv->group_count; i++) {
        mbr_sequence_group *group = &sequence->groups[i];
        group->owed = group->allocation;
        group->allocation = room->allocations[i];
        group->address = room->addresses[i];
        group->layout = room->layouts[i];
    }
    mbr_lock_take(&kv->lock);
    sequence->committed_bytes = room->charged_bytes;
    mbr_lock_drop(&kv->lock);
}

mbr_status mbr_sequence_allocate(
    mbr_sequence *sequence, uint64_t tokens, mbr_refusal *refusal, mbr_error *error)
{
    const mbr_kv *kv = sequence->kv;
    uint64_t capacity = kv->mode == MBR_KV_EAGER_WHOLE ? kv->max_tokens : mbr_max(tokens, 1);
    mbr_kv_room room;
    mbr_status status = make_room(sequence, capacity, &room, refusal, error);
    if (status == MBR_OK)
        move_in(sequence, &room);
    return status;
}

/* ---- Growth by copying ----------------------------------------------------------------------- */

mbr_status mbr_sequence_free_owed(mbr_sequence *sequence, const mbr_stream_handle *streams,
    uint32_t stream_count, mbr_error *error)
{
    for (uint32_t i = 0; i < sequence->kv->group_count; i++) {
        mbr_sequence_group *group = &sequence->groups[i];
        if (group->owed.value == 0)
            continue;
        mbr_free_request request = {MBR_SIZED(mbr_free_request), .allocation = group->owed,
            .flags = stream_count == 0 ? MBR_FREE_NOW : 0, .streams = streams,
            .stream_count = stream_count};
        mbr_status status = mbr_free(sequence->kv->manager, &request, error);
        if (status != MBR_OK)
            return status;
        group->owed.value = 0;
    }
    return MBR_OK;
}

static mbr_status copy_over(mbr_sequence *sequence, const mbr_kv_room *room, mbr_error *error)
{
    mbr_kv *kv = sequence->kv;
    mbr_status status = MBR_OK;
    uint64_t copied_bytes = 0;
    for (uint32_t i = 0; i < kv->group_count && status == MBR_OK; i++) {
        const mbr_sequence_group *group = &sequence->groups[i];
        mbr_token_range live =
            mbr_commit_live(&kv->groups[i].extents, mbr_sequence_tokens(sequence));
        mbr_kv_copy copy = {.manager = kv->manager,
            .stream = sequence->stream,
            .to_layout = &room->layouts[i],
            .from_layout = &group->layout,
            .to_address = room->addresses[i],
            .from_address = group->address,
            .error = error};
        uint64_t spans = mbr_layout_span_count(&group->layout);
        for (uint64_t span = 0; span < spans && status == MBR_OK; span++)
            status = mbr_kv_copy_span(&copy, span, live, NULL);
        copied_bytes += copy.copied_bytes;
    }
    mbr_lock_take(&kv->lock);
    kv->copied_bytes += copied_bytes;
    mbr_lock_drop(&kv->lock);
    return status;
}

/* Copies into it may be under way: it is freed behind the stream, or owed if the queue is full. */
static void give_up_room(mbr_sequence *sequence, const mbr_kv_room *room)
{
    const mbr_kv *kv = sequence->kv;
    for (uint32_t i = 0; i < kv->group_count; i++) {
        mbr_free_request request = {MBR_SIZED(mbr_free_request), .allocation = room->allocations[i],
            .streams = &sequence->stream, .stream_count = 1};
        if (mbr_free(kv->manager, &request, NULL) != MBR_OK)
            sequence->groups[i].owed = room->allocations[i];
    }
}

mbr_status mbr_sequence_regrow(
    mbr_sequence *sequence, uint64_t tokens, mbr_refusal *refusal, mbr_error *error)
{
    const mbr_kv *kv = sequence->kv;
    /* Before the new room is made, which a capture's graph would own. */
    mbr_status status = mbr_ep_copy(kv->manager, sequence->stream, 0, 0, 0, error);
    if (status == MBR_OK)
        status = mbr_sequence_free_owed(sequence, &sequence->stream, 1, error);
    if (status != MBR_OK)
        return status;
    uint64_t doubled = mbr_min(2 * sequence->capacity_tokens, kv->max_tokens); /* below 2^63 */
    mbr_kv_room room;
    status = make_room(sequence, mbr_max(doubled, tokens), &room, refusal, error);
    if (status != MBR_OK)
        return status;
    status = copy_over(sequence, &room, error);
    if (status != MBR_OK) {
        give_up_room(sequence, &room);
        return status;
    }
    move_in(sequence, &room);
    mbr_sequence_free_owed(sequence, &sequence->stream, 1, NULL); /* else the next growth does */
    mbr_sequence_publish(sequence, tokens);
    return MBR_OK;
}
