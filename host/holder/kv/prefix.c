/* Prefixes of a cache: the whole extents of a sequence's first tokens in all groups and fragments,
 * kept under one handle. Copies nothing, and protects nothing unless the cache says so. */
#include "host/holder/kv/prefix.h"
#include "host/bind/seams.h"
#include "host/holder/kv/internal.h"

#include <utlist.h>

/* ---- Whether it can be ----------------------------------------------------------------------- */

static mbr_status refuse_sharing(const mbr_kv *kv, uint64_t tokens, mbr_error *error)
{
    mbr_sharing_refusal best = {0}, refusal;
    if (kv->mode != MBR_KV_GROWING)
        return mbr_fail(error, MBR_UNSUPPORTED,
            "an eager cache has no extents to share; a cache of the mode MBR_KV_GROWING on a "
            "mechanism with virtual and shared would work");
    for (uint32_t i = 0; i < kv->group_count; i++) {
        if (mbr_sharing_check(
                &kv->groups[i].extents, tokens, kv->has_virtual, kv->has_shared, &refusal))
            continue;
        if (best.text[0] == '\0' ||
            (refusal.prefix_tokens != 0 &&
                (best.prefix_tokens == 0 || refusal.prefix_tokens < best.prefix_tokens)))
            best = refusal;
    }
    mbr_status status =
        (best.failed & MBR_SHARING_MECHANISM) != 0 ? MBR_UNSUPPORTED : MBR_INVALID_ARGUMENT;
    return mbr_fail(error, status, "%s", best.text);
}

static mbr_status check_source(const mbr_sequence *sequence, uint64_t tokens, mbr_error *error)
{
    const mbr_kv *kv = sequence->kv;
    uint64_t length = mbr_sequence_tokens(sequence);
    if (sequence->ending)
        return mbr_fail(error, MBR_STALE, "the sequence is being destroyed; destroy it again");
    if (kv->mode != MBR_KV_GROWING || !kv->has_shared)
        return refuse_sharing(kv, mbr_min(tokens, kv->max_tokens), error);
    if (tokens > length)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "a prefix of %lu tokens is longer than the sequence's %lu", tokens, length);
    for (uint32_t i = 0; i < kv->group_count; i++) {
        uint64_t first = mbr_commit_live(&kv->groups[i].extents, tokens).first;
        if (first < sequence->groups[i].held_first)
            return mbr_fail(error, MBR_INVALID_ARGUMENT,
                "the sliding layers have left the tokens before %lu behind, a prefix of %lu needs "
                "them from %lu on; one of %lu tokens would work",
                sequence->groups[i].held_first, tokens, first, length);
    }
    return MBR_OK;
}

/* ---- What it consists of --------------------------------------------------------------------- */

/* Walks the spans with a whole extent; counts where `pieces` is NULL. */
static uint32_t walk_spans(const mbr_kv *kv, uint64_t tokens, mbr_kv_piece *pieces,
    uint64_t extent_counts[MBR_KV_GROUPS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < kv->group_count; i++) {
        const mbr_extents *extents = &kv->groups[i].extents;
        extent_counts[i] = 0;
        for (uint64_t span = 0; span < mbr_layout_span_count(&extents->layout); span++) {
            mbr_byte_range shared = mbr_sharing_span_at(extents, span, tokens).shared;
            if (shared.start == shared.end)
                continue;
            if (pieces != NULL)
                pieces[count] = (mbr_kv_piece){i, span, shared};
            extent_counts[i] += mbr_extent_rule_count(&extents->rule, shared.end) -
                mbr_extent_rule_count(&extents->rule, shared.start);
            count++;
        }
    }
    return count;
}

static void destroy_record(mbr_kv_prefix *prefix)
{
    mbr_kv *kv = prefix->kv;
    for (uint32_t i = 0; i < kv->group_count; i++)
        mbr_kv_list_finish(kv, &prefix->lists[i]);
    mbr_heap_release(&kv->heap, prefix->pieces);
    mbr_heap_release(&kv->heap, prefix);
}

static mbr_kv_prefix *make_record(mbr_kv *kv, uint64_t tokens, uint32_t piece_count)
{
    uint64_t extent_counts[MBR_KV_GROUPS_MAX];
    mbr_kv_prefix *prefix = mbr_heap_allocate(&kv->heap, sizeof(*prefix));
    if (prefix == NULL)
        return NULL;
    prefix->kv = kv;
    prefix->tokens = tokens;
    prefix->pieces = mbr_heap_allocate(&kv->heap, piece_count * sizeof(*prefix->pieces));
    bool made = prefix->pieces != NULL;
    if (made)
        prefix->piece_count = walk_spans(kv, tokens, prefix->pieces, extent_counts);
    for (uint32_t i = 0; i < kv->group_count && made; i++)
        made = mbr_kv_list_init(kv, &prefix->lists[i], extent_counts[i]);
    if (made)
        return prefix;
    destroy_record(prefix);
    return NULL;
}

/* The source's lists as they will be: what it shares already, and the prefix. */
typedef struct mbr_kv_merge {
    mbr_kv_list lists[MBR_KV_GROUPS_MAX];
    uint64_t new_bytes; /* private to the source so far */
} mbr_kv_merge;

/* Records that nobody uses yet are this call's own. */
static void drop_merge(mbr_kv_prefix *prefix, mbr_kv_merge *merge)
{
    mbr_kv *kv = prefix->kv;
    mbr_lock_take(&kv->lock);
    for (uint32_t i = 0; i < kv->group_count; i++) {
        for (uint32_t k = 0; k < prefix->lists[i].count; k++) {
            if (prefix->lists[i].items[k]->user_count == 0)
                mbr_heap_release(&kv->heap, prefix->lists[i].items[k]);
        }
        mbr_kv_list_finish(kv, &merge->lists[i]);
    }
    mbr_lock_drop(&kv->lock);
}

/* The record of the extent at `offset`: the source's, or a new one. */
static mbr_kv_extent *record_at(
    mbr_sequence *source, uint32_t group, uint64_t offset, uint64_t bytes, uint64_t *new_bytes)
{
    const mbr_kv_list *shared = &source->groups[group].shared;
    uint32_t index = mbr_kv_list_find(shared, offset);
    if (index < shared->count && shared->items[index]->offset == offset)
        return shared->items[index];
    mbr_kv_extent *made =
        mbr_kv_extent_create(source->kv, &source->kv->groups[group].extents, offset, bytes);
    if (made != NULL)
        *new_bytes += bytes;
    return made;
}

static bool fill_lists(mbr_kv_prefix *prefix, mbr_sequence *source, mbr_kv_merge *merge)
{
    for (uint32_t i = 0; i < prefix->piece_count; i++) {
        const mbr_kv_piece *piece = &prefix->pieces[i];
        const mbr_extent_rule *rule = &prefix->kv->groups[piece->group].extents.rule;
        for (uint64_t offset = piece->shared.start; offset < piece->shared.end;) {
            uint64_t bytes = mbr_extent_rule_size_at(rule, offset);
            mbr_kv_extent *extent =
                record_at(source, piece->group, offset, bytes, &merge->new_bytes);
            if (extent == NULL)
                return false;
            mbr_kv_list_append(&prefix->lists[piece->group], extent);
            offset += bytes;
        }
    }
    return true;
}

static void merge_group(mbr_kv_list *merged, const mbr_kv_list *own, const mbr_kv_list *added)
{
    uint32_t i = 0, k = 0;
    while (i < own->count || k < added->count) {
        bool from_own = k == added->count ||
            (i < own->count && own->items[i]->offset <= added->items[k]->offset);
        mbr_kv_extent *next = from_own ? own->items[i] : added->items[k];
        mbr_kv_list_append(merged, next);
        i += i < own->count && own->items[i] == next;
        k += k < added->count && added->items[k] == next;
    }
}

static bool make_merge(mbr_kv_prefix *prefix, mbr_sequence *source, mbr_kv_merge *merge)
{
    *merge = (mbr_kv_merge){0};
    if (!fill_lists(prefix, source, merge))
        return false;
    for (uint32_t i = 0; i < prefix->kv->group_count; i++) {
        const mbr_kv_list *own = &source->groups[i].shared, *added = &prefix->lists[i];
        if (!mbr_kv_list_init(prefix->kv, &merge->lists[i], (uint64_t)own->count + added->count))
            return false;
        merge_group(&merge->lists[i], own, added);
    }
    return true;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static mbr_status keep_extents(mbr_kv_prefix *prefix, const mbr_sequence *source, mbr_error *error)
{
    mbr_kv *kv = prefix->kv;
    mbr_piece *pieces = mbr_heap_allocate(&kv->heap, prefix->piece_count * sizeof(*pieces));
    if (pieces == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for %u pieces of a prefix",
            prefix->piece_count);
    for (uint32_t i = 0; i < prefix->piece_count; i++) {
        const mbr_kv_piece *piece = &prefix->pieces[i];
        pieces[i] = (mbr_piece){source->groups[piece->group].range, piece->shared.start,
            piece->shared.end - piece->shared.start};
    }
    mbr_prefix_request request = {MBR_SIZED(mbr_prefix_request), .piece_count = prefix->piece_count,
        .holder = kv->prefix_holder, .pieces = pieces};
    mbr_prefix_result result = {MBR_SIZED(mbr_prefix_result)};
    mbr_status status = mbr_prefix_create(kv->manager, &request, &result, error);
    prefix->handle = result.prefix;
    mbr_heap_release(&kv->heap, pieces);
    return status;
}

/* For debugging (MBR_KV_PROTECT_PREFIXES): whoever writes what others read is to fault. */
static mbr_status protect_extents(
    const mbr_kv_prefix *prefix, mbr_sequence *source, mbr_error *error)
{
    const mbr_kv *kv = prefix->kv;
    mbr_stream_handle streams[MBR_KV_STREAM_LIMIT_COUNT];
    mbr_prefix_protect_request request = {MBR_SIZED(mbr_prefix_protect_request),
        .stream_count = mbr_sequence_streams(source, NULL, 0, streams), .prefix = prefix->handle,
        .streams = streams,
        .deadline_ns = mbr_clock_now(&mbr_clock_monotonic) + MBR_KV_PROTECT_WAIT_NS};
    return mbr_prefix_protect(kv->manager, &request, error);
}

/* All of it, or nothing is kept. */
static mbr_status make_extents_shared(mbr_kv_prefix *prefix, mbr_sequence *source, mbr_error *error)
{
    mbr_status status = keep_extents(prefix, source, error);
    if (status != MBR_OK || !prefix->kv->protects)
        return status;
    status = protect_extents(prefix, source, error);
    if (status != MBR_OK)
        mbr_prefix_release(prefix->kv->manager, prefix->handle, NULL);
    return status;
}

static void publish(mbr_kv_prefix *prefix, mbr_sequence *source, mbr_kv_merge *merge)
{
    mbr_kv *kv = prefix->kv;
    const mbr_kv_list *lists[MBR_KV_GROUPS_MAX];
    for (uint32_t i = 0; i < kv->group_count; i++)
        lists[i] = &prefix->lists[i];
    uint64_t valid_tokens;
    prefix->shared_tokens = mbr_kv_shared_tokens(kv, lists, prefix->tokens, &valid_tokens);
    prefix->source = source;
    mbr_lock_take(&kv->lock);
    for (uint32_t i = 0; i < kv->group_count; i++) {
        mbr_kv_list old = source->groups[i].shared;
        source->groups[i].shared = merge->lists[i];
        mbr_kv_list_use_locked(kv, i, &prefix->lists[i]);
        mbr_kv_list_use_locked(kv, i, &merge->lists[i]);
        mbr_kv_list_drop_locked(kv, i, &old);
        mbr_kv_list_finish(kv, &old);
    }
    source->committed_bytes -= merge->new_bytes;
    DL_APPEND(kv->prefixes, prefix);
    kv->prefix_count++;
    mbr_lock_drop(&kv->lock);
}

mbr_status mbr_kv_prefix_create(
    mbr_sequence *sequence, uint64_t tokens, mbr_kv_prefix **prefix, mbr_error *error)
{
    mbr_kv *kv = sequence->kv;
    uint64_t extent_counts[MBR_KV_GROUPS_MAX];
    *prefix = NULL;
    mbr_status status = check_source(sequence, tokens, error);
    if (status != MBR_OK)
        return status;
    uint32_t piece_count = walk_spans(kv, tokens, NULL, extent_counts);
    if (piece_count == 0)
        return refuse_sharing(kv, tokens, error);
    mbr_kv_prefix *made = make_record(kv, tokens, piece_count);
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a prefix");
    mbr_kv_merge merge;
    status = make_merge(made, sequence, &merge)
        ? make_extents_shared(made, sequence, error)
        : mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for the extents of a prefix");
    if (status != MBR_OK) {
        drop_merge(made, &merge);
        destroy_record(made);
        return status;
    }
    publish(made, sequence, &merge);
    *prefix = made;
    return MBR_OK;
}

mbr_status mbr_kv_prefix_destroy(mbr_kv_prefix *prefix, mbr_error *error)
{
    mbr_kv *kv = prefix->kv;
    mbr_status status = mbr_prefix_release(kv->manager, prefix->handle, error);
    if (status != MBR_OK)
        return status;
    mbr_lock_take(&kv->lock);
    for (uint32_t i = 0; i < kv->group_count; i++)
        mbr_kv_list_drop_locked(kv, i, &prefix->lists[i]);
    DL_DELETE(kv->prefixes, prefix);
    destroy_record(prefix);
    kv->prefix_count--; /* last: from here on another thread may end the cache */
    mbr_lock_drop(&kv->lock);
    return MBR_OK;
}

mbr_holder_handle mbr_kv_prefix_payer(const mbr_kv_prefix *prefix, mbr_manager **manager)
{
    *manager = prefix->kv->manager;
    return prefix->kv->prefix_holder;
}

bool mbr_kv_prefix_is_held(const mbr_kv_prefix *prefix)
{
    return mbr_manager_is_capturing(prefix->kv->manager, prefix->kv->binding);
}

mbr_status mbr_kv_prefix_read(
    const mbr_kv_prefix *prefix, mbr_kv_prefix_figures *figures, mbr_error *error)
{
    mbr_prefix_figures kept = {MBR_SIZED(mbr_prefix_figures)};
    mbr_growable_give(figures, NULL, 0);
    mbr_status status = mbr_prefix_read(prefix->kv->manager, prefix->handle, &kept, error);
    if (status != MBR_OK)
        return status;
    mbr_kv_prefix_figures whole = {.sharer_count = kept.sharer_count,
        .tokens = prefix->tokens,
        .shared_tokens = prefix->shared_tokens,
        .shared_bytes = kept.shared_bytes,
        .exclusive_bytes = kept.exclusive_bytes,
        .protected_bytes = kept.protected_bytes};
    mbr_growable_give(figures, &whole, sizeof(whole));
    return MBR_OK;
}
