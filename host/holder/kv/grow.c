/* Appending: within capacity one comparison; past it one transaction over all groups and fragments,
 * after what the windows left behind was given back. Publishes a length last. */
#include "host/bind/adopt.h"
#include "host/holder/kv/internal.h"

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* A sequence of fewer tokens has no whole extent behind the window of this group: the first row of
 * what is held has not left its extent in any span. */
static uint64_t release_tokens(const mbr_extents *extents, uint64_t held_first, uint64_t tokens)
{
    const mbr_layout *layout = &extents->layout;
    uint64_t first = UINT64_MAX;
    if (layout->group.window_tokens == 0 || held_first == tokens)
        return UINT64_MAX;
    for (uint64_t span = 0; span < mbr_layout_span_count(layout); span++) {
        mbr_byte_range held = mbr_layout_span_touched(layout, span, held_first, tokens);
        uint64_t start = mbr_extent_rule_start_at(&extents->rule, held.start);
        uint64_t end = start + mbr_extent_rule_size_at(&extents->rule, start);
        uint64_t inside = end - span * layout->fragment_stride_bytes;
        uint64_t leaves = layout->kind == MBR_LAYOUT_WINDOW_MAJOR
            ? end / layout->window_bytes * layout->window_tokens
            : inside / layout->row_bytes + (inside % layout->row_bytes != 0);
        first = mbr_min(first, leaves);
    }
    return first + layout->group.window_tokens; /* both far below 2^63 */
}

uint64_t mbr_kv_capacity_of(const mbr_kv *kv, uint64_t tokens)
{
    uint64_t capacity = kv->max_tokens;
    for (uint32_t i = 0; i < kv->group_count; i++)
        capacity = mbr_min(capacity, mbr_commit_capacity_tokens(&kv->groups[i].extents, tokens));
    return capacity;
}

/* Of a growing one. */
static uint64_t trim_tokens(const mbr_sequence *sequence, uint64_t tokens)
{
    const mbr_kv *kv = sequence->kv;
    uint64_t least = sequence->is_lent ? 0 : UINT64_MAX;
    for (uint32_t i = 0; i < kv->group_count; i++)
        least = mbr_min(
            least, release_tokens(&kv->groups[i].extents, sequence->groups[i].held_first, tokens));
    return least;
}

void mbr_sequence_publish(mbr_sequence *sequence, uint64_t tokens)
{
    mbr_kv *kv = sequence->kv;
    bool grows = kv->mode == MBR_KV_GROWING;
    uint64_t capacity = grows ? mbr_kv_capacity_of(kv, tokens)
                              : sequence->groups[kv->group_count - 1].layout.max_tokens;
    sequence->trim_tokens = grows ? trim_tokens(sequence, tokens) : UINT64_MAX;
    mbr_lock_take(&kv->lock);
    capacity = mbr_max(capacity, sequence->adopted_tokens);
    atomic_store_explicit(&sequence->capacity_tokens, capacity, memory_order_relaxed);
    sequence->is_growing = false;
    mbr_lock_drop(&kv->lock);
    sequence->quiet_tokens = mbr_min(capacity, sequence->trim_tokens);
    atomic_store_explicit(&sequence->tokens, tokens, memory_order_relaxed);
}

/* ---- What was adopted ahead ------------------------------------------------------------------ */

/* By the sequence's thread: it is the sequence's for good. False: there was none. The chore ordered
 * the memory before its offer. */
static bool take_offer(mbr_sequence *sequence, uint64_t to)
{
    uint64_t offered = atomic_exchange_explicit(&sequence->offered_tokens, 0, memory_order_acq_rel);
    if (offered == 0)
        return false;
    uint64_t capacity = atomic_load_explicit(&sequence->capacity_tokens, memory_order_relaxed);
    MBR_ASSERT(offered > capacity);
    atomic_store_explicit(&sequence->capacity_tokens, offered, memory_order_relaxed);
    sequence->quiet_tokens = mbr_min(offered, sequence->trim_tokens);
    if (to > capacity && to <= offered) {
        uint64_t count = atomic_load_explicit(&sequence->taken_count, memory_order_relaxed);
        atomic_store_explicit(&sequence->taken_count, count + 1, memory_order_relaxed);
    }
    return true;
}

/* From here until the next mbr_sequence_publish nobody adopts for it, and nothing is offered. True:
 * it took an offer. */
static bool begin_growth(mbr_sequence *sequence, uint64_t to)
{
    mbr_kv *kv = sequence->kv;
    mbr_lock_take(&kv->lock);
    while (sequence->is_adopting)
        mbr_condition_wait(&kv->copied, &kv->lock, UINT64_MAX);
    sequence->is_growing = true;
    bool took = take_offer(sequence, to);
    mbr_lock_drop(&kv->lock);
    return took;
}

/* ---- Committing ------------------------------------------------------------------------------ */

/* Tokens [from, to) are to come. */
typedef struct mbr_kv_reach {
    uint64_t from, to;
    bool ahead; /* knows nothing of what is held before, which then costs nothing either */
} mbr_kv_reach;

typedef struct mbr_kv_pieces {
    mbr_piece *pieces;
    uint32_t count;
    mbr_piece inline_pieces[MBR_KV_PIECE_INLINE_COUNT];
} mbr_kv_pieces;

/* Writes the first `room` of them; how many there are. */
static uint32_t walk_pieces(
    const mbr_sequence *sequence, mbr_kv_reach reach, mbr_piece *pieces, uint32_t room)
{
    const mbr_kv *kv = sequence->kv;
    uint32_t count = 0;
    for (uint32_t i = 0; i < kv->group_count; i++) {
        const mbr_sequence_group *group = &sequence->groups[i];
        uint64_t first = reach.ahead ? reach.from : group->held_first;
        mbr_token_range held = {first, mbr_max(reach.from, first)};
        mbr_token_range wanted = {first, mbr_max(reach.to, first)};
        mbr_commit_delta delta = mbr_commit_between(&kv->groups[i].extents, held, wanted);
        mbr_byte_range bytes;
        for (; mbr_commit_delta_next(&delta, &bytes); count++) {
            if (count < room)
                pieces[count] = (mbr_piece){group->range, bytes.start, bytes.end - bytes.start};
        }
    }
    return count;
}

static mbr_status make_pieces(
    const mbr_sequence *sequence, mbr_kv_reach reach, mbr_kv_pieces *pieces, mbr_error *error)
{
    pieces->pieces = pieces->inline_pieces;
    pieces->count = walk_pieces(sequence, reach, pieces->inline_pieces, MBR_KV_PIECE_INLINE_COUNT);
    if (pieces->count <= MBR_KV_PIECE_INLINE_COUNT)
        return MBR_OK;
    pieces->pieces =
        mbr_heap_allocate(&sequence->kv->heap, pieces->count * sizeof(*pieces->pieces));
    if (pieces->pieces == NULL)
        return mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no host memory for %u pieces", pieces->count);
    walk_pieces(sequence, reach, pieces->pieces, pieces->count);
    return MBR_OK;
}

static void release_pieces(const mbr_sequence *sequence, mbr_kv_pieces *pieces)
{
    if (pieces->pieces != pieces->inline_pieces)
        mbr_heap_release(&sequence->kv->heap, pieces->pieces);
}

/* What the growth is to commit: that from 0 on passes over what was attached. */
static uint64_t missing_bytes(
    const mbr_sequence *sequence, mbr_kv_reach reach, const mbr_kv_pieces *pieces)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < pieces->count; i++)
        bytes += pieces->pieces[i].bytes;
    for (uint32_t i = 0; i < sequence->kv->group_count && reach.from == 0; i++)
        bytes -= sequence->groups[i].shared.bytes;
    return bytes;
}

/* One for a length takes back, where it is refused, what other sequences are offered, and tries
 * once more. */
static mbr_status grow(mbr_sequence *sequence, mbr_kv_reach reach, mbr_refusal *refusal,
    mbr_range_grow_result *result, mbr_error *error)
{
    mbr_kv *kv = sequence->kv;
    mbr_kv_pieces pieces;
    *result = (mbr_range_grow_result){MBR_SIZED(mbr_range_grow_result)};
    mbr_status status = make_pieces(sequence, reach, &pieces, error);
    if (status != MBR_OK || pieces.count == 0)
        return status;
    mbr_range_grow_request request = {MBR_SIZED(mbr_range_grow_request),
        .flags = reach.ahead ? MBR_GROW_AHEAD : 0, .holder = kv->holder, .stream = sequence->stream,
        .pieces = pieces.pieces, .piece_count = pieces.count, .refusal = refusal};
    /* MBR_BUSY: in a split layout the end of a fragment may lie in the extent that the window took
     * with the beginning of the next one, and that other streams than its own are not done with. */
    status = mbr_range_grow(kv->manager, &request, result, error);
    if (!reach.ahead && MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED &&
        mbr_kv_give(kv, missing_bytes(sequence, reach, &pieces)) != 0)
        status = mbr_range_grow(kv->manager, &request, result, error);
    release_pieces(sequence, &pieces);
    return status;
}

mbr_status mbr_sequence_commit(
    mbr_sequence *sequence, uint64_t from, uint64_t to, mbr_refusal *refusal, mbr_error *error)
{
    mbr_kv *kv = sequence->kv;
    mbr_range_grow_result result;
    mbr_status status = grow(sequence, (mbr_kv_reach){from, to, false}, refusal, &result, error);
    if (status != MBR_OK || result.new_bytes == 0)
        return status;
    mbr_lock_take(&kv->lock);
    sequence->committed_bytes += result.new_bytes;
    kv->growth_count++;
    kv->adopted_count += result.parked_bytes == result.new_bytes;
    mbr_lock_drop(&kv->lock);
    return MBR_OK;
}

mbr_status mbr_sequence_map_ahead(mbr_sequence *sequence, uint64_t from, uint64_t to)
{
    mbr_range_grow_result result;
    return grow(sequence, (mbr_kv_reach){from, to, true}, NULL, &result, NULL);
}

typedef bool (*mbr_kv_move)(
    mbr_manager *manager, const mbr_range_grow_request *request, uint64_t *bytes);

static bool move_ahead(
    mbr_sequence *sequence, mbr_kv_reach reach, mbr_kv_move move, uint64_t *bytes)
{
    const mbr_kv *kv = sequence->kv;
    mbr_kv_pieces pieces;
    *bytes = 0;
    if (make_pieces(sequence, reach, &pieces, NULL) != MBR_OK)
        return false;
    mbr_range_grow_request request = {MBR_SIZED(mbr_range_grow_request), .holder = kv->holder,
        .pieces = pieces.pieces, .piece_count = pieces.count};
    bool moved = pieces.count == 0 || move(kv->manager, &request, bytes);
    release_pieces(sequence, &pieces);
    return moved;
}

bool mbr_sequence_adopt(mbr_sequence *sequence, uint64_t from, uint64_t to, uint64_t *bytes)
{
    return move_ahead(sequence, (mbr_kv_reach){from, to, false}, mbr_range_adopt, bytes);
}

bool mbr_sequence_disown(mbr_sequence *sequence, uint64_t from, uint64_t to, uint64_t *bytes)
{
    return move_ahead(sequence, (mbr_kv_reach){from, to, false}, mbr_range_disown, bytes);
}

/* ---- Behind the window ----------------------------------------------------------------------- */

static mbr_status decommit(mbr_sequence *sequence, uint32_t index, mbr_byte_range bytes)
{
    mbr_kv *kv = sequence->kv;
    mbr_sequence_group *group = &sequence->groups[index];
    mbr_stream_handle streams[MBR_KV_STREAM_LIMIT_COUNT];
    mbr_range_release_request request = {MBR_SIZED(mbr_range_release_request),
        .piece = {group->range, bytes.start, bytes.end - bytes.start}, .streams = streams,
        .stream_count = mbr_sequence_streams(sequence, NULL, 0, streams)};
    mbr_range_decommit_result result = {MBR_SIZED(mbr_range_decommit_result)};
    mbr_status status = mbr_range_decommit(kv->manager, &request, &result, NULL);
    if (status != MBR_OK)
        return status;
    mbr_lock_take(&kv->lock);
    uint64_t shared = mbr_kv_list_cut_locked(kv, index, &group->shared, bytes);
    sequence->committed_bytes -= result.decommitted_bytes - shared;
    mbr_lock_drop(&kv->lock);
    return MBR_OK;
}

/* Nobody begins to copy what is about to leave; false while somebody still does. */
static bool forbid_copies_before(mbr_sequence *sequence, uint32_t index, uint64_t first)
{
    mbr_kv *kv = sequence->kv;
    mbr_lock_take(&kv->lock);
    bool mine = sequence->copying_count == 0;
    if (mine)
        sequence->groups[index].readable_first = first;
    mbr_lock_drop(&kv->lock);
    return mine;
}

/* What cannot be given back now (a full queue, a copy under way) is given back by a later growth:
 * held_first stays, and with it the figures. What was adopted ahead stays: in a split layout it may
 * lie in one extent with what the window leaves. */
static void trim_group(mbr_sequence *sequence, uint32_t index, uint64_t tokens)
{
    const mbr_extents *extents = &sequence->kv->groups[index].extents;
    mbr_sequence_group *group = &sequence->groups[index];
    uint64_t first = mbr_commit_live(extents, tokens).first;
    if (first <= group->held_first || !forbid_copies_before(sequence, index, first))
        return;
    uint64_t reached = mbr_max(tokens, sequence->adopted_tokens);
    mbr_token_range held = {group->held_first, reached}, live = {first, reached};
    mbr_commit_delta delta = mbr_commit_between(extents, live, held);
    mbr_byte_range bytes;
    while (mbr_commit_delta_next(&delta, &bytes)) {
        if (decommit(sequence, index, bytes) != MBR_OK)
            return;
    }
    group->held_first = first;
}

/* ---- Asleep ---------------------------------------------------------------------------------- */

mbr_status mbr_sequence_lend(
    mbr_sequence *sequence, uint32_t group, mbr_range_handle *range, mbr_error *error)
{
    mbr_kv *kv = sequence->kv;
    range->value = 0;
    if (kv->mode != MBR_KV_GROWING)
        return mbr_fail(error, MBR_UNSUPPORTED,
            "an eager sequence has no range that could sleep; a growing cache would work");
    if (group >= kv->group_count)
        return mbr_fail(error, MBR_OUT_OF_RANGE, "group %u of %u", group, kv->group_count);
    begin_growth(sequence, 0); /* what it is offered sleeps with it; no more is offered */
    mbr_lock_take(&kv->lock);
    sequence->is_lent = true; /* who copies from it from now on keeps it awake */
    while (sequence->copying_count != 0)
        mbr_condition_wait(&kv->copied, &kv->lock, UINT64_MAX);
    mbr_lock_drop(&kv->lock);
    mbr_sequence_publish(sequence, mbr_sequence_tokens(sequence));
    *range = sequence->groups[group].range;
    return MBR_OK;
}

/* A growth by nothing is refused where a range sleeps, and makes the range a graph's in a capture:
 * the stream's, or of every open one. */
static mbr_status grow_by_nothing(
    const mbr_sequence *sequence, mbr_stream_handle stream, mbr_error *error)
{
    const mbr_kv *kv = sequence->kv;
    mbr_piece pieces[MBR_KV_GROUPS_MAX + 1];
    for (uint32_t i = 0; i < kv->group_count; i++)
        pieces[i] = (mbr_piece){.range = sequence->groups[i].range};
    pieces[kv->group_count] = pieces[0]; /* two at least: one alone is answered without a look */
    mbr_range_grow_request request = {MBR_SIZED(mbr_range_grow_request), .holder = kv->holder,
        .stream = stream, .pieces = pieces, .piece_count = kv->group_count + 1};
    mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
    return mbr_range_grow(kv->manager, &request, &result, error);
}

/* ---- Append ---------------------------------------------------------------------------------- */

/* Kept out of its caller, whose frame would otherwise be this one's. */
__attribute__((noinline)) static mbr_status append_past_quiet(
    mbr_sequence *sequence, uint64_t from, uint64_t tokens, mbr_refusal *refusal, mbr_error *error)
{
    const mbr_kv *kv = sequence->kv;
    uint64_t to;
    if (sequence->ending)
        return mbr_fail(error, MBR_STALE, "the sequence is being destroyed; destroy it again");
    if (!mbr_add(from, tokens, &to) || to > kv->max_tokens)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "%lu tokens and %lu more are above the cache's max_tokens %lu", from, tokens,
            kv->max_tokens);
    if (kv->mode != MBR_KV_GROWING)
        return to <= sequence->capacity_tokens /* of 0 tokens: nothing is to be given back */
            ? MBR_OK
            : mbr_sequence_regrow(sequence, to, refusal, error);
    mbr_status status =
        sequence->is_lent ? grow_by_nothing(sequence, (mbr_stream_handle){0}, error) : MBR_OK;
    if (status != MBR_OK)
        return status;
    if (begin_growth(sequence, to) && mbr_chore_is_capturing(&kv->ahead))
        status = grow_by_nothing(sequence, sequence->stream, error);
    for (uint32_t i = 0; i < kv->group_count; i++)
        trim_group(sequence, i, from);
    if (status == MBR_OK)
        status = mbr_sequence_commit(sequence, from, to, refusal, error);
    mbr_sequence_publish(sequence, status == MBR_OK ? to : from);
    mbr_kv_wake_ahead(sequence->kv);
    return status;
}

/* Asks for an offer only where there is one: the exchange costs more than the rest. What is taken
 * in a capture is its graph's, and no quiet affair. */
static inline bool is_quiet(mbr_sequence *sequence, uint64_t to)
{
    if (to <= sequence->quiet_tokens)
        return true;
    return to <= sequence->trim_tokens &&
        atomic_load_explicit(&sequence->offered_tokens, memory_order_relaxed) >= to &&
        !mbr_chore_is_capturing(&sequence->kv->ahead) && take_offer(sequence, to) &&
        to <= sequence->quiet_tokens;
}

mbr_status mbr_sequence_append(
    mbr_sequence *sequence, uint64_t tokens, mbr_refusal *refusal, mbr_error *error)
{
    uint64_t from = atomic_load_explicit(&sequence->tokens, memory_order_relaxed);
    if (from + tokens > from && is_quiet(sequence, from + tokens)) {
        atomic_store_explicit(&sequence->tokens, from + tokens, memory_order_relaxed);
        return MBR_OK;
    }
    return append_past_quiet(sequence, from, tokens, refusal, error);
}
