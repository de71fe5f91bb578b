/* The life of a sequence: created as one transaction over all groups, ended behind its streams.
 * Commits nothing itself and maps no prefix: grow.c, attach.c and eager.c do. */
#include "host/holder/common/streams.h"
#include "host/holder/kv/internal.h"

#include <utlist.h>

uint64_t mbr_sequence_tokens(const mbr_sequence *sequence)
{
    return atomic_load_explicit(&sequence->tokens, memory_order_relaxed);
}

/* ---- Streams --------------------------------------------------------------------------------- */

static uint32_t add_stream(mbr_stream_handle *all, uint32_t count, mbr_stream_handle stream)
{
    if (stream.value == 0 || count == MBR_KV_STREAM_LIMIT_COUNT ||
        mbr_stream_index(all, count, stream) < count)
        return count;
    all[count] = stream;
    return count + 1;
}

/* A detached stream has no work left: kv.h asks that of whoever detaches it. One that is being
 * captured is attached. */
static bool is_attached(const mbr_kv *kv, mbr_stream_handle stream)
{
    mbr_status status = mbr_ep_copy(kv->manager, stream, 0, 0, 0, NULL);
    return status == MBR_OK || status == MBR_BUSY;
}

uint32_t mbr_sequence_streams(mbr_sequence *sequence, const mbr_stream_handle *streams,
    uint32_t stream_count, mbr_stream_handle all[MBR_KV_STREAM_LIMIT_COUNT])
{
    mbr_kv *kv = sequence->kv;
    mbr_stream_handle readers[MBR_KV_READER_LIMIT_COUNT];
    mbr_lock_take(&kv->lock);
    uint32_t reader_count = sequence->reader_count;
    memcpy(readers, sequence->readers, sizeof(readers));
    mbr_lock_drop(&kv->lock);
    uint32_t count = 0;
    if (is_attached(kv, sequence->stream))
        count = add_stream(all, count, sequence->stream);
    for (uint32_t i = 0; i < stream_count; i++)
        count = add_stream(all, count, streams[i]);
    for (uint32_t i = 0; i < reader_count; i++) {
        if (is_attached(kv, readers[i]))
            count = add_stream(all, count, readers[i]);
    }
    return count;
}

/* ---- Create ---------------------------------------------------------------------------------- */

static mbr_status check_request(
    const mbr_kv *kv, const mbr_sequence_request *request, mbr_error *error)
{
    const mbr_kv_prefix *prefix = request->prefix;
    if (request->tokens > kv->max_tokens)
        return mbr_fail(error, MBR_OUT_OF_RANGE, "%lu tokens are above the cache's max_tokens %lu",
            request->tokens, kv->max_tokens);
    if (kv->mode == MBR_KV_EAGER_COPY && request->stream.value == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "a sequence that grows by copying needs a stream to copy on; pass one");
    if (prefix == NULL && request->prefix_tokens != 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "prefix_tokens is %lu and prefix NULL; give both or none", request->prefix_tokens);
    if (prefix == NULL)
        return MBR_OK;
    if (prefix->kv != kv)
        return mbr_fail(
            error, MBR_INVALID_ARGUMENT, "the prefix is of another cache; it is shared within one");
    uint64_t most = mbr_min(prefix->tokens, request->tokens);
    if (request->prefix_tokens > most)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "prefix_tokens %lu is above the prefix's %lu or the sequence's %lu tokens",
            request->prefix_tokens, prefix->tokens, request->tokens);
    return MBR_OK;
}

static mbr_sequence *make_record(mbr_kv *kv, const mbr_sequence_request *request)
{
    mbr_sequence *sequence = mbr_heap_allocate(
        &kv->heap, sizeof(*sequence) + kv->group_count * sizeof(sequence->groups[0]));
    if (sequence == NULL)
        return NULL;
    sequence->kv = kv;
    sequence->stream = request->stream;
    sequence->tag = request->tag;
    for (uint32_t i = 0; i < kv->group_count; i++)
        sequence->groups[i].layout = kv->groups[i].extents.layout;
    return sequence;
}

static void destroy_record(mbr_sequence *sequence)
{
    mbr_kv *kv = sequence->kv;
    for (uint32_t i = 0; i < kv->group_count; i++)
        mbr_kv_list_finish(kv, &sequence->groups[i].shared);
    mbr_heap_release(&kv->heap, sequence);
}

/* Of a refused creation: kept while it owes something. */
static void give_up_record(mbr_sequence *sequence)
{
    mbr_kv *kv = sequence->kv;
    bool owes = false;
    for (uint32_t i = 0; i < kv->group_count; i++)
        owes = owes || sequence->groups[i].owed.value != 0 || sequence->groups[i].range.value != 0;
    if (!owes) {
        destroy_record(sequence);
        return;
    }
    mbr_lock_take(&kv->lock);
    DL_APPEND(kv->debtors, sequence);
    mbr_lock_drop(&kv->lock);
}

/* Nothing was submitted that touches the ranges: what a refused growth or attach left is unmapped
 * at once, so that every figure is as before. Aliases that stood there before are left again. In a
 * capture it goes through the queue all the same, and is owed if that is full. */
static mbr_status release_new_ranges(mbr_sequence *sequence, mbr_error *error)
{
    const mbr_kv *kv = sequence->kv;
    mbr_status first = MBR_OK;
    for (uint32_t i = kv->group_count; i-- > 0;) {
        mbr_sequence_group *group = &sequence->groups[i];
        if (group->range.value == 0)
            continue;
        mbr_range_release_request request = {MBR_SIZED(mbr_range_release_request),
            .flags = MBR_FREE_NOW,
            .piece = {group->range, 0, kv->groups[i].extents.reservation_bytes}};
        mbr_range_decommit_result result = {MBR_SIZED(mbr_range_decommit_result)};
        if (!sequence->has_adopted)
            mbr_range_decommit(kv->manager, &request, &result, NULL);
        request.piece.bytes = 0;
        mbr_status status =
            mbr_range_release(kv->manager, &request, first == MBR_OK ? error : NULL);
        if (status == MBR_OK)
            group->range.value = 0;
        else if (first == MBR_OK)
            first = status;
    }
    return first;
}

mbr_status mbr_kv_pay_debts(mbr_kv *kv, mbr_error *error)
{
    for (;;) {
        mbr_lock_take(&kv->lock);
        mbr_sequence *debtor = kv->debtors;
        if (debtor != NULL)
            DL_DELETE(kv->debtors, debtor);
        mbr_lock_drop(&kv->lock);
        if (debtor == NULL)
            return MBR_OK;
        mbr_status status = mbr_sequence_free_owed(debtor, NULL, 0, error);
        if (status == MBR_OK)
            status = release_new_ranges(debtor, error);
        give_up_record(debtor);
        if (status != MBR_OK)
            return status;
    }
}

/* The first piece of the prefix in this group, as a hint. */
static void hint_at(mbr_range_reserve_request *request, const mbr_kv_prefix *prefix, uint32_t group)
{
    for (uint32_t i = 0; i < prefix->piece_count; i++) {
        if (prefix->pieces[i].group != group)
            continue;
        request->prefix = prefix->handle;
        request->prefix_piece = i;
        return;
    }
}

static mbr_status reserve_group(mbr_sequence *sequence, uint32_t index,
    const mbr_sequence_request *wanted, const mbr_kv_prefix *prefix, mbr_error *error)
{
    const mbr_kv *kv = sequence->kv;
    /* What is parked where the prefix goes must be unmapped, what is parked behind it is adopted.
     */
    bool plain = prefix != NULL && wanted->prefix_tokens > wanted->tokens / 2;
    uint64_t bytes = kv->groups[index].extents.reservation_bytes;
    mbr_range_reserve_request request = {MBR_SIZED(mbr_range_reserve_request),
        .flags = plain ? MBR_RANGE_UNPARKED : 0, .binding = kv->binding, .bytes = bytes,
        .growth = kv->groups[index].growth,
        .expected_bytes = bytes / kv->max_tokens * wanted->tokens};
    if (prefix != NULL)
        hint_at(&request, prefix, index);
    mbr_range_reserve_result result = {MBR_SIZED(mbr_range_reserve_result)};
    mbr_status status = mbr_range_reserve(kv->manager, &request, &result, error);
    if (status != MBR_OK)
        return status;
    sequence->groups[index].range = result.range;
    sequence->groups[index].address = result.address;
    sequence->reserved_bytes += result.bytes;
    return MBR_OK;
}

/* Where nothing is committed nobody looks at the stream; a wrong one would be found when the
 * sequence is to be destroyed, and keep it for ever. */
static mbr_status check_stream(const mbr_sequence *sequence, mbr_error *error)
{
    mbr_range_release_request request = {MBR_SIZED(mbr_range_release_request),
        .piece = {.range = sequence->groups[0].range}, .streams = &sequence->stream,
        .stream_count = sequence->stream.value != 0};
    mbr_range_decommit_result result = {MBR_SIZED(mbr_range_decommit_result)};
    return mbr_range_decommit(sequence->kv->manager, &request, &result, error);
}

static mbr_status reserve_and_commit(
    mbr_sequence *sequence, const mbr_sequence_request *request, mbr_error *error)
{
    mbr_kv *kv = sequence->kv;
    bool shares = request->prefix != NULL && request->prefix_tokens != 0;
    const mbr_kv_prefix *prefix = shares ? request->prefix : NULL;
    uint64_t first = shares ? request->prefix_tokens : 0;
    mbr_status status = MBR_OK;
    for (uint32_t i = 0; i < kv->group_count && status == MBR_OK; i++) {
        status = reserve_group(sequence, i, request, prefix, error);
        uint64_t held = mbr_commit_live(&kv->groups[i].extents, first).first;
        sequence->groups[i].held_first = sequence->groups[i].readable_first = held;
    }
    if (status == MBR_OK)
        status = check_stream(sequence, error);
    if (status == MBR_OK && shares)
        status = mbr_sequence_attach(sequence, prefix, request->prefix_tokens, error);
    if (status == MBR_OK)
        status = mbr_sequence_commit(sequence, 0, request->tokens, request->refusal, error);
    if (status != MBR_OK)
        release_new_ranges(sequence, NULL); /* what stays is owed */
    return status;
}

static void publish_new(mbr_sequence *sequence)
{
    mbr_kv *kv = sequence->kv;
    mbr_lock_take(&kv->lock);
    for (uint32_t i = 0; i < kv->group_count; i++)
        mbr_kv_list_use_locked(kv, i, &sequence->groups[i].shared);
    DL_APPEND(kv->sequences, sequence);
    kv->sequence_count++;
    mbr_lock_drop(&kv->lock);
}

mbr_status mbr_sequence_create(
    mbr_kv *kv, const mbr_sequence_request *request, mbr_sequence **sequence, mbr_error *error)
{
    *sequence = NULL;
    mbr_sequence_request own;
    mbr_status status = MBR_TAKE(&own, mbr_sequence_request, refusal, request, error);
    request = &own;
    if (status == MBR_OK)
        status = check_request(kv, request, error);
    if (status != MBR_OK)
        return status;
    mbr_kv_pay_debts(kv, NULL); /* else a later one does */
    mbr_sequence *created = make_record(kv, request);
    if (created == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a sequence");
    status = kv->mode == MBR_KV_GROWING
        ? reserve_and_commit(created, request, error)
        : mbr_sequence_allocate(created, request->tokens, request->refusal, error);
    if (status != MBR_OK) {
        give_up_record(created);
        return status;
    }
    /* From here on nothing fails: what cannot be copied is left for the caller to write. */
    if (request->prefix != NULL && request->prefix_tokens != 0)
        mbr_sequence_fill_boundary(created, request->prefix, request->prefix_tokens);
    mbr_sequence_publish(created, request->tokens);
    publish_new(created);
    mbr_kv_wake_ahead(kv);
    *sequence = created;
    return MBR_OK;
}

/* ---- Destroy --------------------------------------------------------------------------------- */

/* No copy from it begins any more, nor is anything done ahead of it, and neither is under way. */
static void begin_end(mbr_sequence *sequence)
{
    mbr_kv *kv = sequence->kv;
    mbr_lock_take(&kv->lock);
    sequence->ending = true;
    while (sequence->copying_count != 0 || sequence->is_mapping_ahead || sequence->is_adopting)
        mbr_condition_wait(&kv->copied, &kv->lock, UINT64_MAX);
    mbr_lock_drop(&kv->lock);
}

static mbr_status release_group(mbr_sequence *sequence, uint32_t index,
    const mbr_stream_handle *streams, uint32_t stream_count, mbr_error *error)
{
    mbr_sequence_group *group = &sequence->groups[index];
    mbr_manager *manager = sequence->kv->manager;
    mbr_status status = MBR_OK;
    if (group->range.value != 0) {
        mbr_range_release_request request = {MBR_SIZED(mbr_range_release_request),
            .piece = {.range = group->range}, .streams = streams, .stream_count = stream_count};
        status = mbr_range_release(manager, &request, error);
    } else if (group->allocation.value != 0) {
        mbr_free_request request = {MBR_SIZED(mbr_free_request), .allocation = group->allocation,
            .flags = stream_count == 0 ? MBR_FREE_NOW : 0, /* no stream has work left: kv.h */
            .streams = streams, .stream_count = stream_count};
        status = mbr_free(manager, &request, error);
    }
    if (status == MBR_OK) {
        group->range.value = 0;
        group->allocation.value = 0;
    }
    return status;
}

/* False once a part of it is gone: then only destroying it again is left. */
static bool is_whole(const mbr_sequence *sequence)
{
    for (uint32_t i = 0; i < sequence->kv->group_count; i++) {
        const mbr_sequence_group *group = &sequence->groups[i];
        if (group->range.value == 0 && group->allocation.value == 0)
            return false;
    }
    return true;
}

/* The count goes last: from there on another thread may end the cache. */
static void end_record(mbr_sequence *sequence)
{
    mbr_kv *kv = sequence->kv;
    mbr_kv_prefix *prefix;
    mbr_lock_take(&kv->lock);
    DL_FOREACH(kv->prefixes, prefix)
    {
        if (prefix->source == sequence)
            prefix->source = NULL;
    }
    for (uint32_t i = 0; i < kv->group_count; i++)
        mbr_kv_list_drop_locked(kv, i, &sequence->groups[i].shared);
    uint64_t taken = atomic_load_explicit(&sequence->taken_count, memory_order_relaxed);
    kv->growth_count += taken;
    kv->adopted_count += taken;
    DL_DELETE(kv->sequences, sequence);
    destroy_record(sequence);
    kv->sequence_count--;
    mbr_lock_drop(&kv->lock);
}

mbr_status mbr_sequence_destroy(mbr_sequence *sequence, const mbr_stream_handle *streams,
    uint32_t stream_count, mbr_error *error)
{
    mbr_kv *kv = sequence->kv;
    if (stream_count > MBR_KV_STREAM_LIMIT_COUNT - MBR_KV_READER_LIMIT_COUNT - 1)
        return mbr_fail(error, MBR_OUT_OF_RANGE, "%u streams in one call; at most %u", stream_count,
            MBR_KV_STREAM_LIMIT_COUNT - MBR_KV_READER_LIMIT_COUNT - 1);
    for (uint32_t i = 0; i < stream_count; i++) {
        if (streams[i].value == 0)
            return mbr_fail(error, MBR_INVALID_ARGUMENT, "stream %u of the list is 0", i);
    }
    begin_end(sequence);
    mbr_stream_handle all[MBR_KV_STREAM_LIMIT_COUNT];
    uint32_t count = mbr_sequence_streams(sequence, streams, stream_count, all);
    mbr_status status = mbr_sequence_free_owed(sequence, all, count, error);
    for (uint32_t i = 0; i < kv->group_count && status == MBR_OK; i++)
        status = release_group(sequence, i, all, count, error);
    if (status != MBR_OK) {
        mbr_lock_take(&kv->lock);
        sequence->ending = !is_whole(sequence);
        if (sequence->ending)
            sequence->quiet_tokens = sequence->trim_tokens =
                0; /* an append is refused from now on */
        mbr_lock_drop(&kv->lock);
        return status;
    }
    end_record(sequence);
    return MBR_OK;
}
