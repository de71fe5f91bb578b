/* What a sequence tells: its figures, its strides, where an element lies, what it alone may write.
 * Changes nothing. */
#include "host/holder/kv/internal.h"

mbr_status mbr_sequence_read(
    const mbr_sequence *sequence, mbr_sequence_figures *figures, mbr_error *error)
{
    (void)error;
    mbr_kv *kv = sequence->kv;
    const mbr_kv_list *lists[MBR_KV_GROUPS_MAX];
    mbr_lock_take(&kv->lock); /* what is adopted ahead is counted meanwhile */
    uint64_t committed_bytes = sequence->committed_bytes;
    mbr_lock_drop(&kv->lock);
    mbr_sequence_figures whole = {.group_count = kv->group_count,
        .tokens = mbr_sequence_tokens(sequence),
        .capacity_tokens = sequence->capacity_tokens,
        .valid_tokens = sequence->valid_tokens,
        .committed_bytes = committed_bytes,
        .tag = sequence->tag};
    for (uint32_t i = 0; i < kv->group_count; i++) {
        lists[i] = &sequence->groups[i].shared;
        whole.shared_bytes += lists[i]->bytes;
    }
    uint64_t readable;
    if (whole.shared_bytes != 0)
        whole.shared_tokens = mbr_kv_shared_tokens(kv, lists, whole.tokens, &readable);
    mbr_growable_give(figures, &whole, sizeof(whole));
    return MBR_OK;
}

mbr_status mbr_kv_need_bytes(mbr_kv *kv, uint64_t tokens, uint64_t *bytes, mbr_error *error)
{
    *bytes = 0;
    if (kv->mode != MBR_KV_GROWING)
        return mbr_fail(error, MBR_UNSUPPORTED,
            "an eager cache takes whole allocations; its need is known for growing ones alone");
    if (tokens > kv->max_tokens)
        return mbr_fail(error, MBR_OUT_OF_RANGE, "%lu tokens; a sequence has at most %lu", tokens,
            kv->max_tokens);
    for (uint32_t i = 0; i < kv->group_count; i++)
        *bytes += mbr_commit_bytes(&kv->groups[i].extents, (mbr_token_range){0, tokens});
    return MBR_OK;
}

static mbr_status check_index(const char *what, uint64_t index, uint64_t count, mbr_error *error)
{
    if (index < count)
        return MBR_OK;
    return mbr_fail(
        error, MBR_OUT_OF_RANGE, "%s %lu of %lu; they count from 0", what, index, count);
}

mbr_status mbr_sequence_strides(
    const mbr_sequence *sequence, uint32_t group, mbr_kv_strides *strides, mbr_error *error)
{
    mbr_growable_give(strides, NULL, 0);
    mbr_status status = check_index("group", group, sequence->kv->group_count, error);
    if (status != MBR_OK)
        return status;
    const mbr_layout_strides *from = &sequence->groups[group].layout.strides;
    mbr_kv_strides whole = {.element_bytes = (uint32_t)from->element_bytes,
        .address = sequence->groups[group].address,
        .window_tokens = from->window_tokens,
        .window_bytes = from->window_bytes,
        .token_bytes = from->token_bytes,
        .layer_bytes = from->layer_bytes,
        .plane_bytes = from->plane_bytes,
        .head_bytes = from->head_bytes};
    mbr_growable_give(strides, &whole, sizeof(whole));
    return MBR_OK;
}

mbr_status mbr_sequence_locate(const mbr_sequence *sequence, uint32_t group, uint32_t layer,
    uint32_t plane, uint32_t head, uint64_t token, uint64_t *address, mbr_error *error)
{
    *address = 0;
    mbr_status status = check_index("group", group, sequence->kv->group_count, error);
    if (status != MBR_OK)
        return status;
    const mbr_sequence_group *in = &sequence->groups[group];
    const mbr_layer_group *layers = &in->layout.group;
    status = check_index("layer", layer, layers->layers, error);
    if (status == MBR_OK)
        status = check_index("plane", plane, layers->planes, error);
    if (status == MBR_OK)
        status = check_index("head", head, layers->heads, error);
    if (status == MBR_OK)
        status = check_index("token", token, mbr_sequence_tokens(sequence), error);
    if (status == MBR_OK)
        *address = in->address + mbr_layout_offset(&in->layout, layer, plane, head, token);
    return status;
}

/* ---- Private ranges -------------------------------------------------------------------------- */

/* The cursor is the group above the offset in its memory, which no address reaches. */
#define OFFSET_BITS 58
#define OFFSET_MASK ((UINT64_C(1) << OFFSET_BITS) - 1)

/* What follows `offset` in one span outside shared extents; empty if nothing does. */
static mbr_byte_range private_in(const mbr_kv_list *shared, mbr_byte_range touched, uint64_t offset)
{
    mbr_byte_range part = {mbr_max(touched.start, offset), touched.end};
    uint32_t index = mbr_kv_list_find(shared, part.start);
    for (; index < shared->count && shared->items[index]->offset <= part.start; index++)
        part.start = shared->items[index]->offset + shared->items[index]->bytes;
    if (part.start >= part.end)
        return (mbr_byte_range){part.end, part.end};
    if (index < shared->count)
        part.end = mbr_min(part.end, shared->items[index]->offset);
    return part;
}

static mbr_byte_range private_in_group(
    const mbr_sequence_group *group, mbr_token_range held, uint64_t offset)
{
    uint64_t spans = mbr_layout_span_count(&group->layout);
    uint64_t span = spans == 1 ? 0 : offset / group->layout.fragment_stride_bytes;
    for (; span < spans; span++) {
        mbr_byte_range touched =
            mbr_layout_span_touched(&group->layout, span, held.first, held.end);
        mbr_byte_range part = private_in(&group->shared, touched, offset);
        if (part.start != part.end)
            return part;
    }
    return (mbr_byte_range){0, 0};
}

mbr_status mbr_sequence_next_private(const mbr_sequence *sequence, uint64_t *cursor,
    uint64_t *address, uint64_t *bytes, mbr_error *error)
{
    (void)error;
    const mbr_kv *kv = sequence->kv;
    uint64_t tokens = mbr_sequence_tokens(sequence), offset = *cursor & OFFSET_MASK;
    *address = *bytes = 0;
    for (uint64_t i = *cursor >> OFFSET_BITS; i < kv->group_count; i++, offset = 0) {
        const mbr_sequence_group *group = &sequence->groups[i];
        mbr_token_range held = {group->held_first, tokens};
        if (kv->mode != MBR_KV_GROWING) /* nothing is given back, but dead rows are not copied */
            held = mbr_commit_live(&kv->groups[i].extents, tokens);
        mbr_byte_range part = private_in_group(group, held, offset);
        if (part.start == part.end)
            continue;
        *cursor = i << OFFSET_BITS | part.end;
        *address = group->address + part.start;
        *bytes = part.end - part.start;
        return MBR_OK;
    }
    return MBR_OK;
}

mbr_status mbr_sequence_next_shared(const mbr_sequence *sequence, uint64_t *cursor,
    uint64_t *address, uint64_t *bytes, mbr_error *error)
{
    (void)error;
    uint64_t index = *cursor & OFFSET_MASK;
    *address = *bytes = 0;
    for (uint64_t i = *cursor >> OFFSET_BITS; i < sequence->kv->group_count; i++, index = 0) {
        const mbr_sequence_group *group = &sequence->groups[i];
        if (index >= group->shared.count)
            continue;
        *cursor = i << OFFSET_BITS | (index + 1);
        *address = group->address + group->shared.items[index]->offset;
        *bytes = group->shared.items[index]->bytes;
        return MBR_OK;
    }
    return MBR_OK;
}
