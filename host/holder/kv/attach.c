/* A prefix at the beginning of a new sequence: its whole extents mapped, what lies around them
 * copied where the source still has it. Copies no whole extent, and waits for no device. */
#include "host/holder/common/streams.h"
#include "host/holder/kv/internal.h"

/* ---- Mapping --------------------------------------------------------------------------------- */

typedef struct mbr_kv_targets {
    mbr_range_handle *ranges;
    uint64_t *limits_bytes;
    uint64_t taken_bytes;
} mbr_kv_targets;

static bool init_targets(mbr_kv_targets *targets, const mbr_kv_prefix *prefix)
{
    const mbr_heap *heap = &prefix->kv->heap;
    *targets = (mbr_kv_targets){0};
    targets->ranges = mbr_heap_allocate(heap, prefix->piece_count * sizeof(*targets->ranges));
    targets->limits_bytes =
        mbr_heap_allocate(heap, prefix->piece_count * sizeof(*targets->limits_bytes));
    return targets->ranges != NULL && targets->limits_bytes != NULL;
}

static void finish_targets(mbr_kv_targets *targets, const mbr_kv_prefix *prefix)
{
    mbr_heap_release(&prefix->kv->heap, targets->ranges);
    mbr_heap_release(&prefix->kv->heap, targets->limits_bytes);
}

static bool init_lists(mbr_sequence *sequence, const mbr_kv_prefix *prefix)
{
    const mbr_kv *kv = sequence->kv;
    for (uint32_t i = 0; i < kv->group_count; i++) {
        if (!mbr_kv_list_init(kv, &sequence->groups[i].shared, prefix->lists[i].count))
            return false;
    }
    return true;
}

/* Extents of a piece that end inside the first `tokens` tokens. */
static void take_piece(mbr_sequence *sequence, const mbr_kv_prefix *prefix, uint32_t index,
    uint64_t tokens, mbr_kv_targets *targets)
{
    const mbr_kv_piece *piece = &prefix->pieces[index];
    const mbr_kv_list *from = &prefix->lists[piece->group];
    mbr_kv_list *to = &sequence->groups[piece->group].shared;
    mbr_sharing_span span =
        mbr_sharing_span_at(&sequence->kv->groups[piece->group].extents, piece->span, tokens);
    uint64_t limit = span.shared.start == span.shared.end ? 0 : span.shared.end;
    limit = mbr_min(limit, piece->shared.end);
    targets->ranges[index] = sequence->groups[piece->group].range;
    targets->limits_bytes[index] = limit;
    for (uint32_t i = mbr_kv_list_find(from, piece->shared.start); i < from->count; i++) {
        if (from->items[i]->offset + from->items[i]->bytes > limit)
            break;
        mbr_kv_list_append(to, from->items[i]);
        targets->taken_bytes += from->items[i]->bytes;
    }
}

static mbr_status map_targets(mbr_sequence *sequence, const mbr_kv_prefix *prefix,
    const mbr_kv_targets *targets, mbr_error *error)
{
    const mbr_kv *kv = sequence->kv;
    mbr_prefix_attach_request request = {MBR_SIZED(mbr_prefix_attach_request),
        .target_count = prefix->piece_count, .prefix = prefix->handle, .holder = kv->holder,
        .targets = targets->ranges, .limit_bytes = targets->limits_bytes,
        .stream = sequence->stream};
    mbr_prefix_attach_result result = {MBR_SIZED(mbr_prefix_attach_result)};
    mbr_status status = mbr_prefix_attach(kv->manager, &request, &result, error);
    MBR_ASSERT(status != MBR_OK || result.shared_bytes == targets->taken_bytes);
    sequence->has_adopted = result.adopted_bytes == result.shared_bytes;
    return status;
}

mbr_status mbr_sequence_attach(
    mbr_sequence *sequence, const mbr_kv_prefix *prefix, uint64_t tokens, mbr_error *error)
{
    mbr_kv_targets targets;
    mbr_status status = MBR_OK;
    if (!init_targets(&targets, prefix) || !init_lists(sequence, prefix))
        status = mbr_fail(error, MBR_OUT_OF_HOST_MEMORY,
            "no host memory to attach a prefix of %u pieces", prefix->piece_count);
    if (status == MBR_OK) {
        for (uint32_t i = 0; i < prefix->piece_count; i++)
            take_piece(sequence, prefix, i, tokens, &targets);
        if (targets.taken_bytes != 0) /* a short prefix may lie between two boundaries */
            status = map_targets(sequence, prefix, &targets, error);
    }
    finish_targets(&targets, prefix);
    return status;
}

/* ---- Which tokens that makes readable -------------------------------------------------------- */

/* Tokens [first, end) of one group have every live row in shared extents; of these, rows are really
 * there from `rows_first` on. */
typedef struct mbr_kv_shared_rows {
    uint64_t first, end, rows_first;
} mbr_kv_shared_rows;

static mbr_kv_shared_rows rows_of_span(
    const mbr_layout *layout, uint64_t span, mbr_token_range live, const mbr_kv_list *list)
{
    mbr_byte_range touched = mbr_layout_span_touched(layout, span, live.first, live.end);
    mbr_byte_range run = mbr_kv_list_run(list, touched);
    mbr_kv_shared_rows rows;
    if (run.start == run.end)
        return (mbr_kv_shared_rows){0, live.first, live.first};
    if (layout->kind == MBR_LAYOUT_WINDOW_MAJOR) {
        rows.rows_first = run.start / layout->window_bytes * layout->window_tokens;
        rows.end = run.end / layout->window_bytes * layout->window_tokens;
    } else {
        uint64_t base = span * layout->fragment_stride_bytes;
        uint64_t inside = run.start - base;
        rows.rows_first = inside / layout->row_bytes + (inside % layout->row_bytes != 0);
        rows.end = (run.end - base) / layout->row_bytes;
    }
    rows.first = run.start <= touched.start ? 0 : rows.rows_first;
    return rows;
}

static mbr_kv_shared_rows rows_of_group(
    const mbr_extents *extents, uint64_t tokens, const mbr_kv_list *list)
{
    mbr_kv_shared_rows all = {0, tokens, 0};
    mbr_token_range live = mbr_commit_live(extents, tokens);
    for (uint64_t span = 0; span < mbr_layout_span_count(&extents->layout); span++) {
        mbr_kv_shared_rows rows = rows_of_span(&extents->layout, span, live, list);
        all.first = mbr_max(all.first, rows.first);
        all.end = mbr_min(all.end, rows.end);
        all.rows_first = mbr_max(all.rows_first, rows.rows_first);
    }
    return all;
}

uint64_t mbr_kv_shared_tokens(
    const mbr_kv *kv, const mbr_kv_list *const *lists, uint64_t tokens, uint64_t *valid_tokens)
{
    mbr_kv_shared_rows all = {0, tokens, 0}, rows[MBR_KV_GROUPS_MAX];
    for (uint32_t i = 0; i < kv->group_count; i++) {
        rows[i] = rows_of_group(&kv->groups[i].extents, tokens, lists[i]);
        all.first = mbr_max(all.first, rows[i].first);
        all.end = mbr_min(all.end, rows[i].end);
    }
    *valid_tokens = all.first == 0 ? all.end : 0;
    for (uint32_t i = 0; i < kv->group_count; i++) {
        /* A window reaches back from there: what it needs must be there too. */
        if (rows[i].rows_first > mbr_commit_live(&kv->groups[i].extents, all.end).first)
            *valid_tokens = 0;
    }
    return all.end > all.first ? all.end - all.first : 0;
}

/* ---- The boundary ---------------------------------------------------------------------------- */

static bool knows_reader(const mbr_sequence *source, mbr_stream_handle stream)
{
    return source->stream.value == stream.value ||
        mbr_stream_index(source->readers, source->reader_count, stream) < source->reader_count;
}

static bool can_copy_locked(const mbr_sequence *source, mbr_stream_handle stream, uint64_t tokens)
{
    if (source == NULL || source->ending || stream.value == 0 ||
        (!knows_reader(source, stream) && source->reader_count == MBR_KV_READER_LIMIT_COUNT))
        return false;
    for (uint32_t i = 0; i < source->kv->group_count; i++) {
        uint64_t first = mbr_commit_live(&source->kv->groups[i].extents, tokens).first;
        if (source->groups[i].readable_first > first)
            return false;
    }
    return true;
}

static void end_copy(mbr_sequence *source, uint64_t copied_bytes)
{
    mbr_kv *kv = source->kv;
    mbr_lock_take(&kv->lock);
    kv->copied_bytes += copied_bytes;
    if (--source->copying_count == 0)
        mbr_condition_signal_all(&kv->copied);
    mbr_lock_drop(&kv->lock);
}

static void let_sleep(const mbr_sequence *source, uint32_t group_count)
{
    for (uint32_t i = 0; i < group_count; i++)
        mbr_range_unpin(source->kv->manager, source->groups[i].range, NULL);
}

/* What is pinned does not fall asleep, and what sleeps is not pinned. */
static bool keep_awake(const mbr_sequence *source)
{
    for (uint32_t i = 0; i < source->kv->group_count; i++) {
        if (mbr_range_pin(source->kv->manager, source->groups[i].range, NULL) == MBR_OK)
            continue;
        let_sleep(source, i);
        return false;
    }
    return true;
}

/* The source, kept from ending and from giving rows back until end_copy; or NULL. *is_lent: and
 * kept awake, until let_sleep. */
static mbr_sequence *begin_copy(
    const mbr_kv_prefix *prefix, mbr_stream_handle stream, uint64_t tokens, bool *is_lent)
{
    mbr_kv *kv = prefix->kv;
    mbr_lock_take(&kv->lock);
    mbr_sequence *source = prefix->source;
    bool can = can_copy_locked(source, stream, tokens);
    if (can) {
        source->copying_count++;
        if (!knows_reader(source, stream))
            source->readers[source->reader_count++] = stream;
    }
    *is_lent = can && source->is_lent;
    mbr_lock_drop(&kv->lock);
    if (!*is_lent || keep_awake(source))
        return can ? source : NULL;
    end_copy(source, 0);
    return NULL;
}

static mbr_status copy_group(mbr_sequence *sequence, const mbr_sequence *source, uint32_t index,
    uint64_t tokens, uint64_t *copied_bytes)
{
    const mbr_kv *kv = sequence->kv;
    const mbr_extents *extents = &kv->groups[index].extents;
    mbr_sequence_group *to = &sequence->groups[index];
    mbr_kv_copy copy = {.manager = kv->manager,
        .stream = sequence->stream,
        .to_layout = &extents->layout,
        .from_layout = &extents->layout,
        .to_address = to->address,
        .from_address = source->groups[index].address};
    mbr_token_range live = mbr_commit_live(extents, tokens);
    mbr_status status = MBR_OK;
    uint64_t spans = mbr_layout_span_count(&extents->layout);
    for (uint64_t span = 0; span < spans && status == MBR_OK; span++) {
        mbr_byte_range touched =
            mbr_layout_span_touched(&extents->layout, span, live.first, live.end);
        mbr_byte_range run = mbr_kv_list_run(&to->shared, touched);
        status = mbr_kv_copy_span(&copy, span, live, &run);
    }
    *copied_bytes += copy.copied_bytes;
    return status;
}

static bool copy_boundary(mbr_sequence *sequence, const mbr_kv_prefix *prefix, uint64_t tokens)
{
    bool is_lent;
    mbr_sequence *source = begin_copy(prefix, sequence->stream, tokens, &is_lent);
    if (source == NULL)
        return false;
    mbr_status status = MBR_OK;
    uint64_t copied_bytes = 0;
    for (uint32_t i = 0; i < sequence->kv->group_count && status == MBR_OK; i++)
        status = copy_group(sequence, source, i, tokens, &copied_bytes);
    if (is_lent)
        let_sleep(source, sequence->kv->group_count);
    end_copy(source, copied_bytes);
    return status == MBR_OK;
}

void mbr_sequence_fill_boundary(
    mbr_sequence *sequence, const mbr_kv_prefix *prefix, uint64_t tokens)
{
    const mbr_kv *kv = sequence->kv;
    const mbr_kv_list *lists[MBR_KV_GROUPS_MAX];
    for (uint32_t i = 0; i < kv->group_count; i++)
        lists[i] = &sequence->groups[i].shared;
    mbr_kv_shared_tokens(kv, lists, tokens, &sequence->valid_tokens);
    if (sequence->valid_tokens != tokens && copy_boundary(sequence, prefix, tokens))
        sequence->valid_tokens = tokens;
}
