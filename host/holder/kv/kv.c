/* A KV cache: its geometry, laid out and cut into extents for one mechanism, and its figures.
 * Never takes memory itself: sequences do, through the client interface. */
#include "host/bind/seams.h"
#include "host/holder/kv/internal.h"

#include <utlist.h>

mbr_status mbr_kv_refuse(const mbr_geometry_error *refused, mbr_error *error)
{
    mbr_status status =
        refused->status == MBR_GEOMETRY_OVERFLOW ? MBR_OVERFLOW : MBR_INVALID_ARGUMENT;
    return mbr_fail(error, status, "%s", refused->text);
}

/* ---- Layout ---------------------------------------------------------------------------------- */

/* What the mechanism says about the memory of the cache. */
typedef struct mbr_kv_place {
    mbr_mechanism_figures mechanism;
    uint64_t granule_bytes;
    bool eager;
} mbr_kv_place;

static mbr_status read_place(
    mbr_manager *manager, const mbr_kv_request *request, mbr_kv_place *place, mbr_error *error)
{
    mbr_binding_figures binding = {MBR_SIZED(mbr_binding_figures)};
    mbr_status status = mbr_manager_read_binding(manager, request->binding, &binding, error);
    if (status != MBR_OK)
        return status;
    place->mechanism = (mbr_mechanism_figures){MBR_SIZED(mbr_mechanism_figures)};
    status = mbr_manager_read_mechanism(manager, binding.mechanism, &place->mechanism, error);
    if (status != MBR_OK)
        return status;
    place->eager = request->mode != MBR_KV_GROWING;
    if (request->mode > MBR_KV_EAGER_COPY)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "mode %u is none of MBR_KV_GROWING, MBR_KV_EAGER_WHOLE and MBR_KV_EAGER_COPY",
            request->mode);
    if (!place->eager && (place->mechanism.capabilities & MBR_CAPABILITY_VIRTUAL) == 0)
        return mbr_fail(error, MBR_UNSUPPORTED,
            "mechanism %s has no virtual memory: a cache cannot grow there; MBR_KV_EAGER_WHOLE or "
            "MBR_KV_EAGER_COPY would work",
            place->mechanism.name);
    place->granule_bytes =
        place->eager ? MBR_KV_EAGER_ALIGN_BYTES : place->mechanism.granule_min_bytes;
    return MBR_OK;
}

/* The mechanism's own limits on top of the geometry's. */
static mbr_status fit_mechanism(
    mbr_extents *extents, const mbr_mechanism_figures *mechanism, mbr_error *error)
{
    const mbr_layout *layout = &extents->layout;
    mbr_extent_rule *rule = &extents->rule;
    if (rule->unit_bytes > mechanism->extent_max_bytes)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "extents of %lu bytes are above the mechanism's largest, %lu; use %s", rule->unit_bytes,
            mechanism->extent_max_bytes,
            layout->kind == MBR_LAYOUT_WINDOW_MAJOR ? "smaller windows" : "smaller extents");
    rule->max_bytes = mbr_min(rule->max_bytes, mechanism->extent_max_bytes);
    bool fits =
        mbr_extent_rule_next_boundary(rule, layout->span_bytes, &extents->reservation_bytes);
    MBR_CHECK(fits); /* both are at most 2^62 */
    if (extents->reservation_bytes > mechanism->reservation_max_bytes)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "max-tokens %lu needs %lu bytes of addresses, the mechanism reserves at most %lu at "
            "once; fewer tokens would work",
            layout->max_tokens, extents->reservation_bytes, mechanism->reservation_max_bytes);
    return MBR_OK;
}

static mbr_status lay_out_group(mbr_kv_group *group, const mbr_layer_group *layers,
    const mbr_kv_request *request, const mbr_kv_place *place, mbr_layout_kind kind,
    mbr_error *error)
{
    mbr_geometry_error refused;
    mbr_layout layout;
    mbr_layout_request wanted = {.kind = kind,
        .max_tokens = request->max_tokens,
        .granule_bytes = place->granule_bytes,
        .window_tokens = request->window_tokens};
    if (mbr_layout_init(&layout, layers, &wanted, &refused) != MBR_GEOMETRY_OK)
        return mbr_kv_refuse(&refused, error);
    uint64_t extent_bytes = place->eager ? 0 : request->extent_bytes;
    if (extent_bytes == 0 && !place->eager && kind != MBR_LAYOUT_WINDOW_MAJOR)
        extent_bytes = place->mechanism.granule_recommended_bytes;
    if (mbr_extents_init(&group->extents, &layout, extent_bytes, &refused) != MBR_GEOMETRY_OK)
        return mbr_kv_refuse(&refused, error);
    group->token_bytes = mbr_layer_group_token_bytes(layers);
    if (place->eager)
        return MBR_OK;
    mbr_status status = fit_mechanism(&group->extents, &place->mechanism, error);
    const mbr_extent_rule *rule = &group->extents.rule;
    group->growth = (mbr_growth){rule->unit_bytes, rule->max_bytes, rule->divisor};
    return status;
}

static mbr_status lay_out(
    mbr_kv *kv, const mbr_kv_request *request, const mbr_kv_place *place, mbr_error *error)
{
    mbr_geometry_error refused;
    mbr_geometry geometry;
    mbr_layout_kind kind = MBR_LAYOUT_WINDOW_MAJOR;
    uint64_t degree = request->tensor_parallel != 0 ? request->tensor_parallel : 1;
    if (request->geometry == NULL)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "geometry is NULL; a model's name or layers=…,heads=…,dim=…,bytes=…,planes=… would "
            "work");
    if (mbr_geometry_parse(request->geometry, &geometry, &refused) != MBR_GEOMETRY_OK ||
        mbr_geometry_shard(&geometry, degree, &geometry, &refused) != MBR_GEOMETRY_OK)
        return mbr_kv_refuse(&refused, error);
    if (request->layout != NULL &&
        mbr_layout_parse(request->layout, &kind, &refused) != MBR_GEOMETRY_OK)
        return mbr_kv_refuse(&refused, error);
    kv->group_count = geometry.group_count;
    kv->token_bytes = mbr_geometry_token_bytes(&geometry);
    for (uint32_t i = 0; i < geometry.group_count; i++) {
        mbr_status status =
            lay_out_group(&kv->groups[i], &geometry.groups[i], request, place, kind, error);
        if (status != MBR_OK)
            return status;
    }
    return MBR_OK;
}

/* ---- Life ------------------------------------------------------------------------------------ */

/* The holders are looked up now, so that a wrong one is refused here and not at the first
 * sequence. */
static mbr_status check_holders(
    mbr_manager *manager, const mbr_kv_request *request, mbr_error *error)
{
    mbr_holder_figures figures = {MBR_SIZED(mbr_holder_figures)};
    mbr_status status = mbr_manager_read_holder(manager, request->holder, &figures, error);
    if (status == MBR_OK && request->prefix_holder.value != 0)
        status = mbr_manager_read_holder(manager, request->prefix_holder, &figures, error);
    return status;
}

static uint64_t max_sequence_bytes(const mbr_kv *kv)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < kv->group_count; i++) {
        const mbr_extents *extents = &kv->groups[i].extents;
        bytes += kv->mode == MBR_KV_GROWING
            ? mbr_commit_bytes(extents, mbr_commit_live(extents, kv->max_tokens))
            : extents->layout.span_bytes;
    }
    return bytes;
}

/* An extent never shrinks with the offset. */
static uint64_t largest_extent_bytes(const mbr_kv *kv)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < kv->group_count && kv->mode == MBR_KV_GROWING; i++) {
        const mbr_extents *extents = &kv->groups[i].extents;
        bytes =
            mbr_max(bytes, mbr_extent_rule_size_at(&extents->rule, extents->reservation_bytes - 1));
    }
    return bytes;
}

static void finish(mbr_kv *kv)
{
    mbr_kv_end_ahead(kv);
    mbr_condition_finish(&kv->copied);
    mbr_lock_finish(&kv->lock);
    mbr_heap heap = kv->heap;
    mbr_heap_release(&heap, kv);
}

mbr_status mbr_kv_create(
    mbr_manager *manager, const mbr_kv_request *request, mbr_kv **kv, mbr_error *error)
{
    *kv = NULL;
    mbr_kv_place place;
    mbr_kv_request own;
    mbr_status status = MBR_TAKE(&own, mbr_kv_request, extent_bytes, request, error);
    request = &own;
    if (status == MBR_OK)
        status = mbr_flags_check(own.flags, MBR_KV_PROTECT_PREFIXES, "mbr_kv_request", error);
    if (status == MBR_OK)
        status = read_place(manager, request, &place, error);
    if (status == MBR_OK)
        status = check_holders(manager, request, error);
    if (status != MBR_OK)
        return status;
    mbr_kv *created = mbr_heap_allocate(mbr_manager_heap(manager), sizeof(*created));
    if (created == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a KV cache");
    created->manager = manager;
    created->heap = *mbr_manager_heap(manager);
    status = lay_out(created, request, &place, error);
    if (status != MBR_OK) {
        mbr_heap_release(mbr_manager_heap(manager), created);
        return status;
    }
    created->binding = request->binding;
    created->holder = request->holder;
    created->prefix_holder =
        request->prefix_holder.value != 0 ? request->prefix_holder : request->holder;
    created->mode = request->mode;
    created->protects = (request->flags & MBR_KV_PROTECT_PREFIXES) != 0;
    created->has_virtual = (place.mechanism.capabilities & MBR_CAPABILITY_VIRTUAL) != 0;
    created->has_shared = (place.mechanism.capabilities & MBR_CAPABILITY_SHARED) != 0;
    created->max_tokens = request->max_tokens;
    created->max_sequence_bytes = max_sequence_bytes(created);
    mbr_lock_init(&created->lock, MBR_RANK_CLIENT);
    mbr_condition_init(&created->copied);
    status = mbr_kv_begin_ahead(created, error);
    if (status != MBR_OK) {
        finish(created);
        return status;
    }
    *kv = created;
    return MBR_OK;
}

mbr_status mbr_kv_destroy(mbr_kv *kv, mbr_error *error)
{
    mbr_lock_take(&kv->lock);
    uint64_t sequences = kv->sequence_count, prefixes = kv->prefix_count;
    mbr_lock_drop(&kv->lock);
    if (sequences + prefixes != 0)
        return mbr_fail(error, MBR_IN_USE,
            "%lu sequences and %lu prefixes of the cache live; destroy them first", sequences,
            prefixes);
    mbr_status status = mbr_kv_pay_debts(kv, error);
    if (status != MBR_OK)
        return status;
    finish(kv);
    return MBR_OK;
}

/* ---- Figures --------------------------------------------------------------------------------- */

/* Under the lock: each record in the list learns the first token that this user still reads. */
static void note_first_live(const mbr_kv_list *list, uint64_t first)
{
    for (uint32_t i = 0; i < list->count; i++)
        list->items[i]->first_live = mbr_min(list->items[i]->first_live, first);
}

/* Under the lock: the rows that some user reads, each record once. */
static uint64_t take_live(const mbr_extents *extents, const mbr_kv_list *list)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->items[i]->first_live == UINT64_MAX)
            continue; /* counted through another user */
        bytes += mbr_kv_extent_live(extents, list->items[i], list->items[i]->first_live);
        list->items[i]->first_live = UINT64_MAX;
    }
    return bytes;
}

/* Shared rows of one sliding group, once. */
static uint64_t sliding_shared_locked(mbr_kv *kv, uint32_t group)
{
    const mbr_extents *extents = &kv->groups[group].extents;
    mbr_sequence *sequence;
    mbr_kv_prefix *prefix;
    uint64_t bytes = 0;
    DL_FOREACH(kv->sequences, sequence)
    note_first_live(&sequence->groups[group].shared,
        mbr_commit_live(extents, mbr_sequence_tokens(sequence)).first);
    DL_FOREACH(kv->prefixes, prefix)
    note_first_live(&prefix->lists[group], mbr_commit_live(extents, prefix->tokens).first);
    DL_FOREACH(kv->sequences, sequence)
    bytes += take_live(extents, &sequence->groups[group].shared);
    DL_FOREACH(kv->prefixes, prefix)
    bytes += take_live(extents, &prefix->lists[group]);
    return bytes;
}

/* Live rows of one sequence outside shared extents. */
static uint64_t private_live_locked(const mbr_sequence *sequence)
{
    const mbr_kv *kv = sequence->kv;
    uint64_t tokens = mbr_sequence_tokens(sequence), bytes = 0;
    for (uint32_t i = 0; i < kv->group_count; i++) {
        const mbr_extents *extents = &kv->groups[i].extents;
        const mbr_kv_list *shared = &sequence->groups[i].shared;
        mbr_token_range live = mbr_commit_live(extents, tokens);
        bytes += (live.end - live.first) * kv->groups[i].token_bytes;
        if (extents->layout.group.window_tokens == 0) {
            bytes -= shared->data_bytes;
            continue;
        }
        for (uint32_t k = 0; k < shared->count; k++)
            bytes -= mbr_kv_extent_live(extents, shared->items[k], live.first);
    }
    return bytes;
}

mbr_status mbr_kv_read(mbr_kv *kv, mbr_kv_figures *figures, mbr_error *error)
{
    (void)error;
    mbr_kv_figures whole = {.group_count = kv->group_count,
        .token_bytes = kv->token_bytes,
        .largest_extent_bytes = largest_extent_bytes(kv),
        .max_sequence_bytes = kv->max_sequence_bytes};
    mbr_sequence *sequence;
    mbr_lock_take(&kv->lock);
    whole.sequence_count = kv->sequence_count;
    whole.prefix_count = kv->prefix_count;
    whole.shared_bytes = kv->shared_bytes;
    whole.copied_bytes = kv->copied_bytes;
    whole.growth_count = kv->growth_count;
    whole.adopted_count = kv->adopted_count;
    whole.live_bytes = kv->shared_data_bytes;
    DL_FOREACH(kv->sequences, sequence)
    {
        whole.live_tokens += mbr_sequence_tokens(sequence);
        whole.live_bytes += private_live_locked(sequence);
        uint64_t taken = atomic_load_explicit(&sequence->taken_count, memory_order_relaxed);
        whole.growth_count += taken;
        whole.adopted_count += taken;
        whole.committed_bytes += sequence->committed_bytes;
        whole.reserved_bytes += sequence->reserved_bytes;
    }
    for (uint32_t i = 0; i < kv->group_count; i++) {
        if (kv->groups[i].extents.layout.group.window_tokens != 0)
            whole.live_bytes += sliding_shared_locked(kv, i);
    }
    mbr_lock_drop(&kv->lock);
    mbr_growable_give(figures, &whole, sizeof(whole));
    return MBR_OK;
}
