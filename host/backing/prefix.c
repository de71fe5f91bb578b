/* Prefixes: extents that ordinary growth committed, kept and mapped read-only into other ranges.
 * Shares by whole extents only; copies nothing. */
#include "host/backing/internal.h"

#include <string.h>
#include <utlist.h>

/* ---- Making one ------------------------------------------------------------------------------ */

/* Whole slots inside the part, and whether every byte of the part is usable. */
static bool whole_slots(const mbr_range_part *part, uint64_t *first, uint64_t *end)
{
    const mbr_range *range = part->range;
    uint64_t from, to;
    mbr_range_slots(range, part->offset_bytes, part->bytes, &from, &to);
    for (uint64_t i = from; i < to; i++) {
        if (range->slots[i].state != MBR_SLOT_COMMITTED && range->slots[i].state != MBR_SLOT_ALIAS)
            return false;
    }
    mbr_range_whole_slots(range, part->offset_bytes, part->bytes, first, end);
    return true;
}

static mbr_status check_source(
    const mbr_backing *backing, const mbr_range_part *part, uint64_t *keep_count, mbr_error *error)
{
    const mbr_range *range = part->range;
    uint64_t end, first, last;
    if (range->backing != backing)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the piece is of another device or authority; a prefix is shared within one");
    if (range->ended || (part->handle != 0 && part->handle != range->handle))
        return mbr_fail(error, MBR_STALE, "the range was released");
    if (!mbr_add(part->offset_bytes, part->bytes, &end) || end > range->bytes)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "piece [%llu, +%llu) ends past the range's %llu bytes",
            (unsigned long long)part->offset_bytes, (unsigned long long)part->bytes,
            (unsigned long long)range->bytes);
    if (!whole_slots(part, &first, &last))
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "piece [%llu, +%llu) is not committed throughout; grow it first",
            (unsigned long long)part->offset_bytes, (unsigned long long)part->bytes);
    *keep_count += last - first;
    return MBR_OK;
}

static mbr_status check_sources_locked(const mbr_backing *backing, const mbr_range_part *parts,
    uint32_t part_count, uint64_t *keep_count, mbr_error *error)
{
    *keep_count = 0;
    mbr_status status = MBR_OK;
    for (uint32_t i = 0; i < part_count && status == MBR_OK; i++)
        status = check_source(backing, &parts[i], keep_count, error);
    if (status == MBR_OK && *keep_count == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "no whole extent lies inside the pieces; sharing works from %llu bytes on at this "
            "offset",
            part_count == 0 ? 0ULL
                            : (unsigned long long)mbr_extent_rule_size_at(
                                  &parts[0].range->rule, parts[0].offset_bytes));
    return status;
}

static void destroy_record(mbr_prefix *prefix)
{
    mbr_heap_release(prefix->backing->heap, prefix->keeps);
    mbr_heap_release(prefix->backing->heap, prefix->groups);
    mbr_heap_release(prefix->backing->heap, prefix->rules);
    mbr_heap_release(prefix->backing->heap, prefix);
}

static mbr_prefix *make_record(mbr_backing *backing, uint32_t piece_count, uint64_t keep_count)
{
    const mbr_heap *heap = backing->heap;
    mbr_prefix *prefix = mbr_heap_allocate(heap, sizeof(*prefix));
    if (prefix == NULL)
        return NULL;
    prefix->backing = backing;
    prefix->piece_count = piece_count;
    prefix->rules = mbr_heap_allocate(heap, piece_count * sizeof(*prefix->rules));
    prefix->groups = mbr_heap_allocate(heap, piece_count * sizeof(*prefix->groups));
    prefix->keeps = mbr_heap_allocate(heap, keep_count * sizeof(*prefix->keeps));
    if (prefix->rules == NULL || prefix->groups == NULL || prefix->keeps == NULL) {
        destroy_record(prefix);
        return NULL;
    }
    return prefix;
}

static void keep_part_locked(mbr_prefix *prefix, uint32_t piece, const mbr_range_part *part)
{
    uint64_t first = 0, end = 0;
    bool usable = whole_slots(part, &first, &end);
    MBR_CHECK(usable);
    prefix->rules[piece] = part->range->rule;
    prefix->groups[piece] = part->range->isolation_group;
    for (uint64_t i = first; i < end; i++) {
        mbr_extent *extent = part->range->slots[i].extent;
        mbr_keep *keep = &prefix->keeps[prefix->keep_count++];
        *keep = (mbr_keep){.extent = extent,
            .prefix = prefix,
            .piece = piece,
            .source = part->range,
            .offset_bytes = mbr_slot_offset(part->range, i)};
        DL_APPEND(extent->keeps, keep);
        if (extent->keeps == keep) /* the first prefix that keeps it pays */
            mbr_extent_pay(extent, prefix->holder);
        prefix->shared_bytes += extent->bytes;
    }
}

mbr_status mbr_backing_make_prefix(mbr_backing *backing, const mbr_range_part *parts,
    uint32_t part_count, mbr_holder *holder, mbr_prefix **prefix, mbr_prefix_result *result,
    mbr_error *error)
{
    *prefix = NULL;
    *result = (mbr_prefix_result){.struct_size = result->struct_size};
    if (!backing->mechanism->has_shared)
        return mbr_fail(error, MBR_UNSUPPORTED,
            "mechanism %s maps an extent at one address only; nothing can be shared there",
            backing->mechanism->description.name);
    uint64_t keep_count, again, asked = 0;
    mbr_lock_take(&backing->lock);
    mbr_status status = check_sources_locked(backing, parts, part_count, &keep_count, error);
    mbr_lock_drop(&backing->lock);
    if (status != MBR_OK)
        return status;
    mbr_prefix *made = make_record(backing, part_count, keep_count);
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY,
            "no host memory for a prefix of %llu extents", (unsigned long long)keep_count);
    made->holder = holder;
    /* Checked again and kept under one lock: another thread may have given parts back meanwhile. */
    mbr_lock_take(&backing->lock);
    status = check_sources_locked(backing, parts, part_count, &again, error);
    if (status == MBR_OK && again != keep_count)
        status = mbr_fail(error, MBR_BUSY, "the ranges change meanwhile; try again");
    for (uint32_t i = 0; i < part_count && status == MBR_OK; i++) {
        keep_part_locked(made, i, &parts[i]);
        asked += parts[i].bytes;
    }
    if (status == MBR_OK) {
        DL_APPEND(backing->prefixes, made);
        backing->prefix_count++;
    }
    mbr_lock_drop(&backing->lock);
    if (status != MBR_OK) {
        destroy_record(made);
        return status;
    }
    result->extent_count = made->keep_count;
    result->shared_bytes = made->shared_bytes;
    result->boundary_bytes = asked - made->shared_bytes;
    *prefix = made;
    return MBR_OK;
}

/* ---- Mapping it into others ------------------------------------------------------------------ */

typedef struct mbr_attach {
    mbr_prefix *prefix;
    mbr_range *const *targets;
    uint32_t target_count;
    const uint64_t *limit_bytes;
    mbr_holder *holder;
    mbr_error *error;
    bool inside; /* the gate: no capture is open, and none begins */
} mbr_attach;

static bool takes(const mbr_attach *attach, const mbr_keep *keep)
{
    return attach->limit_bytes == NULL ||
        keep->offset_bytes + keep->extent->bytes <= attach->limit_bytes[keep->piece];
}

static uint64_t target_slot(const mbr_attach *attach, const mbr_keep *keep)
{
    return mbr_extent_rule_count(&attach->targets[keep->piece]->rule, keep->offset_bytes);
}

static mbr_status check_target(const mbr_attach *attach, uint32_t piece)
{
    const mbr_prefix *prefix = attach->prefix;
    const mbr_range *target = attach->targets[piece];
    if (target->backing != prefix->backing)
        return mbr_fail(attach->error, MBR_INVALID_ARGUMENT,
            "target %u is of another device or authority than the prefix", piece);
    if (target->ended)
        return mbr_fail(attach->error, MBR_STALE, "target %u was released", piece);
    if (mbr_range_is_lost(target))
        return mbr_fail(
            attach->error, MBR_DEVICE_LOST, "the device of target %u's EP is lost", piece);
    if (memcmp(&target->rule, &prefix->rules[piece], sizeof(target->rule)) != 0)
        return mbr_fail(attach->error, MBR_INVALID_ARGUMENT,
            "target %u has another growth rule than the prefix; reserve it with the same", piece);
    if (target->isolation_group != prefix->groups[piece])
        return mbr_fail(attach->error, MBR_INVALID_ARGUMENT,
            "target %u is of isolation group %u, the prefix of %u", piece, target->isolation_group,
            prefix->groups[piece]);
    return mbr_context_check_active(target->context, attach->error);
}

static mbr_status check_targets_locked(const mbr_attach *attach)
{
    const mbr_prefix *prefix = attach->prefix;
    for (uint32_t i = 0; i < attach->target_count; i++) {
        mbr_status status = check_target(attach, i);
        if (status != MBR_OK)
            return status;
    }
    for (uint32_t i = 0; i < prefix->keep_count; i++) {
        const mbr_keep *keep = &prefix->keeps[i];
        const mbr_range *target = attach->targets[keep->piece];
        if (!takes(attach, keep))
            continue;
        uint32_t extent_state = atomic_load_explicit(&keep->extent->state, memory_order_relaxed);
        if (extent_state == MBR_EXTENT_QUARANTINED)
            return mbr_fail(attach->error, MBR_BUSY,
                "the prefix's extent at offset %llu is quarantined and never named again; do "
                "without the prefix",
                (unsigned long long)keep->offset_bytes);
        if (keep->offset_bytes + keep->extent->bytes > target->bytes)
            return mbr_fail(attach->error, MBR_OUT_OF_RANGE,
                "target %u has %llu bytes, the prefix reaches %llu", keep->piece,
                (unsigned long long)target->bytes,
                (unsigned long long)(keep->offset_bytes + keep->extent->bytes));
        mbr_slot_state state = target->slots[target_slot(attach, keep)].state;
        if (state != MBR_SLOT_EMPTY && state != MBR_SLOT_PARKED && state != MBR_SLOT_PARKED_ALIAS)
            return mbr_fail(attach->error, MBR_ALREADY_EXISTS,
                "target %u is committed at offset %llu already; attach before it grows",
                keep->piece, (unsigned long long)keep->offset_bytes);
    }
    return MBR_OK;
}

static bool may_begin(const void *what)
{
    const mbr_attach *attach = what;
    for (uint32_t i = 0; i < attach->target_count; i++) {
        if (attach->targets[i]->editor != NULL && attach->targets[i]->editor != attach)
            return false;
    }
    return !attach->prefix->backing->attaching;
}

static mbr_status begin_attach(const mbr_attach *attach)
{
    mbr_backing *backing = attach->prefix->backing;
    mbr_lock_take(&backing->lock);
    mbr_status status = mbr_backing_await_free(backing, may_begin, attach, attach->error);
    if (status == MBR_OK)
        status = check_targets_locked(attach);
    if (status == MBR_OK) {
        backing->attaching = true;
        for (uint32_t i = 0; i < attach->target_count; i++)
            attach->targets[i]->editor = attach;
    }
    mbr_lock_drop(&backing->lock);
    return status;
}

static void finish_attach(const mbr_attach *attach)
{
    mbr_backing *backing = attach->prefix->backing;
    mbr_lock_take(&backing->lock);
    backing->attaching = false;
    for (uint32_t i = 0; i < attach->target_count; i++) {
        mbr_range_update_committed_end(attach->targets[i]);
        attach->targets[i]->editor = NULL;
    }
    mbr_condition_signal_all(&backing->edited);
    mbr_lock_drop(&backing->lock);
    mbr_backing_look_again(backing);
}

static bool is_mapped(mbr_backing *backing, const mbr_extent *extent)
{
    mbr_lock_take(&backing->lock);
    bool mapped = extent->slot_count + extent->attaching_count != 0;
    mbr_lock_drop(&backing->lock);
    return mapped;
}

static mbr_status map_first(const mbr_attach *attach, const mbr_keep *keep, mbr_answer *answer)
{
    mbr_port *port = attach->prefix->backing->port;
    uint64_t reservation = attach->targets[keep->piece]->reservation_id;
    uint64_t bytes = keep->extent->bytes;
    mbr_status status = mbr_port_map(
        port, reservation, keep->offset_bytes, keep->extent->id, bytes, answer, attach->error);
    if (status == MBR_OK)
        status = mbr_port_protect(
            port, reservation, keep->offset_bytes, bytes, MBR_ACCESS_READ, NULL, attach->error);
    return status;
}

/* The first mapping of a held extent is `map`, a further one `map_shared`. Another thread may unmap
 * the last one in between: then the other way is tried, once. */
static mbr_status map_alias(const mbr_attach *attach, const mbr_keep *keep, mbr_answer *answer)
{
    mbr_backing *backing = attach->prefix->backing;
    if (is_mapped(backing, keep->extent)) {
        mbr_status status = mbr_port_map_shared(backing->port,
            attach->targets[keep->piece]->reservation_id, keep->offset_bytes, keep->extent->id,
            keep->extent->bytes, MBR_ACCESS_READ, answer, attach->error);
        bool is_unchanged = !answer->quarantined && answer->mapped_bytes == 0;
        if (MBR_STATUS_CLASS(status) != MBR_CLASS_CALLER || !is_unchanged)
            return status;
    }
    return map_first(attach, keep, answer);
}

static void add_alias_locked(const mbr_attach *attach, const mbr_keep *keep, mbr_slot_state state)
{
    mbr_extent *extent = keep->extent;
    mbr_range *target = attach->targets[keep->piece];
    extent->attaching_count--;
    uint64_t index = target_slot(attach, keep);
    mbr_extent_add_slot(extent, &target->slots[index]);
    target->slots[index].holder = attach->holder;
    /* Another of its places may have been stuck since the attach began. */
    if (atomic_load_explicit(&extent->state, memory_order_relaxed) != MBR_EXTENT_QUARANTINED)
        mbr_extent_move(attach->prefix->backing, extent,
            extent->slot_count > 1 ? MBR_EXTENT_SHARED : MBR_EXTENT_MAPPED);
    mbr_range_set_slot(target, index, state);
}

/* A mapping that could not be taken back: the slot is stuck, the extent stays with its users; where
 * nobody knows what became of it, it is never named again. */
static void strand_alias(
    const mbr_attach *attach, const mbr_keep *keep, bool quarantined, const mbr_answer *undone)
{
    mbr_backing *backing = attach->prefix->backing;
    bool may_retry = undone->unchanged;
    mbr_lock_take(&backing->lock);
    add_alias_locked(attach, keep, MBR_SLOT_STUCK);
    attach->targets[keep->piece]->slots[target_slot(attach, keep)].may_retry = may_retry;
    backing->retry_count += may_retry;
    if (quarantined)
        mbr_extent_withhold(backing, keep->extent);
    else
        backing->quarantined_count++;
    mbr_lock_drop(&backing->lock);
    if (mbr_answer_keeps(undone))
        mbr_backing_note_kept(backing);
    mbr_mapped_add(attach->holder, keep->extent->bytes);
}

/* A prefix may keep one extent twice: its second mapping is a shared one from the first on. */
static void count_mapping(const mbr_attach *attach, const mbr_keep *keep, int32_t by)
{
    mbr_backing *backing = attach->prefix->backing;
    mbr_lock_take(&backing->lock);
    keep->extent->attaching_count += (uint32_t)by;
    mbr_lock_drop(&backing->lock);
}

/* A sharer before left it there. */
static bool is_parked_there(const mbr_attach *attach, const mbr_keep *keep)
{
    const mbr_slot *slot = &attach->targets[keep->piece]->slots[target_slot(attach, keep)];
    return slot->state == MBR_SLOT_PARKED_ALIAS && slot->extent == keep->extent;
}

static bool is_in_the_way(const mbr_attach *attach, const mbr_keep *keep)
{
    const mbr_slot *slot = &attach->targets[keep->piece]->slots[target_slot(attach, keep)];
    return takes(attach, keep) && slot->state != MBR_SLOT_EMPTY && !is_parked_there(attach, keep);
}

/* Before anything is mapped, and inside the gate: what is parked may be an alias of another prefix,
 * which a capture must not strand. */
static mbr_status clear_places(const mbr_attach *attach)
{
    const mbr_prefix *prefix = attach->prefix;
    const mbr_keep *keep = prefix->keeps, *end = keep + prefix->keep_count;
    while (keep < end && !is_in_the_way(attach, keep))
        keep++;
    if (keep == end)
        return MBR_OK;
    if (!attach->inside)
        return mbr_fail(attach->error, MBR_BUSY,
            "something is parked at offset %llu, and nothing is unmapped while a graph is being "
            "captured; reserve the target with MBR_RANGE_UNPARKED",
            (unsigned long long)keep->offset_bytes);
    bool clear = true;
    for (; keep < end && clear; keep++)
        clear = !is_in_the_way(attach, keep) ||
            mbr_range_unmap_slot(attach->targets[keep->piece], target_slot(attach, keep));
    if (clear)
        return MBR_OK;
    return mbr_fail(attach->error, MBR_BUSY,
        "what was parked at offset %llu cannot be unmapped; use another range",
        (unsigned long long)keep[-1].offset_bytes);
}

static mbr_status attach_one(const mbr_attach *attach, const mbr_keep *keep, uint64_t *residual)
{
    mbr_range *target = attach->targets[keep->piece];
    if (is_parked_there(attach, keep))
        return MBR_OK; /* adopted when all the others are there */
    mbr_answer answer;
    mbr_status status = map_alias(attach, keep, &answer);
    if (status == MBR_OK || answer.mapped_bytes != 0)
        count_mapping(attach, keep, 1);
    if (status == MBR_OK || answer.mapped_bytes == 0)
        return status;
    mbr_answer undone = {0};
    if (answer.quarantined ||
        mbr_range_unmap_if_there(target, keep->offset_bytes, keep->extent->bytes, &undone, NULL) !=
            MBR_OK) {
        strand_alias(attach, keep, answer.quarantined || undone.quarantined, &undone);
        *residual += keep->extent->bytes;
    } else {
        count_mapping(attach, keep, -1);
    }
    return status;
}

/* Takes back the aliases of keeps before `end`, in reverse. Returns what stays. */
static uint64_t undo_aliases(const mbr_attach *attach, uint32_t end)
{
    const mbr_prefix *prefix = attach->prefix;
    uint64_t residual = 0;
    for (uint32_t i = end; i-- > 0;) {
        const mbr_keep *keep = &prefix->keeps[i];
        mbr_answer answer;
        if (!takes(attach, keep) || is_parked_there(attach, keep))
            continue;
        if (mbr_range_unmap_if_there(attach->targets[keep->piece], keep->offset_bytes,
                keep->extent->bytes, &answer, NULL) == MBR_OK) {
            count_mapping(attach, keep, -1);
            continue;
        }
        strand_alias(attach, keep, answer.quarantined, &answer);
        residual += keep->extent->bytes;
    }
    return residual;
}

static void publish_aliases(const mbr_attach *attach, mbr_prefix_attach_result *result)
{
    const mbr_prefix *prefix = attach->prefix;
    uint64_t mapped = 0;
    mbr_lock_take(&prefix->backing->lock);
    for (uint32_t i = 0; i < prefix->keep_count; i++) {
        const mbr_keep *keep = &prefix->keeps[i];
        if (!takes(attach, keep))
            continue;
        if (is_parked_there(attach, keep)) {
            mbr_alias_adopt_locked(
                attach->targets[keep->piece], target_slot(attach, keep), attach->holder);
            result->adopted_bytes += keep->extent->bytes;
        } else {
            add_alias_locked(attach, keep, MBR_SLOT_ALIAS);
            mapped += keep->extent->bytes;
        }
        result->extent_count++;
        result->shared_bytes += keep->extent->bytes;
    }
    mbr_lock_drop(&prefix->backing->lock);
    mbr_mapped_add(attach->holder, mapped);
}

/* What an earlier sharer of more left behind it would be in the way of a growth, which can unmap
 * nothing in a capture, and of mapping ahead, which never does. */
static void strip_targets(const mbr_attach *attach)
{
    for (uint32_t i = 0; i < attach->target_count; i++)
        mbr_alias_strip(attach->targets[i], 0, attach->targets[i]->slot_count);
}

static mbr_status map_aliases(const mbr_attach *attach, mbr_prefix_attach_result *result)
{
    const mbr_prefix *prefix = attach->prefix;
    mbr_status status = MBR_OK;
    uint32_t done = 0;
    for (; done < prefix->keep_count && status == MBR_OK; done++) {
        if (takes(attach, &prefix->keeps[done]))
            status = attach_one(attach, &prefix->keeps[done], &result->residual_bytes);
    }
    if (status == MBR_OK) {
        publish_aliases(attach, result);
        strip_targets(attach);
    } else {
        result->residual_bytes += undo_aliases(attach, done - 1);
    }
    return status;
}

mbr_status mbr_prefix_map_into(mbr_prefix *prefix, mbr_range *const *targets, uint32_t target_count,
    const uint64_t *limit_bytes, mbr_holder *holder, mbr_prefix_attach_result *result,
    mbr_error *error)
{
    *result = (mbr_prefix_attach_result){.struct_size = result->struct_size};
    if (target_count != prefix->piece_count)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the prefix has %u pieces, the call names %u targets; name one for each piece",
            prefix->piece_count, target_count);
    mbr_attach attach = {prefix, targets, target_count, limit_bytes, holder, error, false};
    mbr_status status = begin_attach(&attach);
    if (status != MBR_OK)
        return status;
    /* No capture begins before all is mapped or undone. One that is open has its graph noted. */
    mbr_port *port = prefix->backing->port;
    attach.inside = mbr_port_try_enter_gate(port);
    for (uint32_t i = 0; i < target_count; i++)
        mbr_range_note_graphs(targets[i], 0);
    status = clear_places(&attach);
    if (status == MBR_OK)
        status = map_aliases(&attach, result);
    if (attach.inside)
        mbr_port_leave_gate(port);
    finish_attach(&attach);
    if (result->residual_bytes != 0)
        return mbr_fail(error, MBR_RESIDUAL,
            "an alias could not be taken back: %llu bytes stay mapped; release the target, its "
            "private path is forbidden",
            (unsigned long long)result->residual_bytes);
    return status;
}

mbr_alias_hint mbr_prefix_hint(mbr_prefix *prefix, uint32_t piece)
{
    mbr_alias_hint hint = {0, 0};
    for (uint32_t i = 0; i < prefix->keep_count && hint.extent_id == 0; i++) {
        if (prefix->keeps[i].piece == piece)
            hint = (mbr_alias_hint){prefix->keeps[i].extent->id, prefix->keeps[i].offset_bytes};
    }
    return hint;
}

/* ---- Its end --------------------------------------------------------------------------------- */

void mbr_prefix_end(mbr_prefix *prefix)
{
    mbr_backing *backing = prefix->backing;
    for (uint32_t i = 0; i < prefix->keep_count; i++) {
        mbr_extent *extent = prefix->keeps[i].extent;
        mbr_lock_take(&backing->lock);
        bool gives_up = extent->keeps == &prefix->keeps[i] && prefix->keeps[i].next == NULL &&
            extent->parked_alias_count != 0;
        if (gives_up) { /* while the prefix still keeps it */
            mbr_lock_drop(&backing->lock);
            mbr_alias_give_up_of(backing, extent);
            mbr_lock_take(&backing->lock);
        }
        while (backing->attaching)
            mbr_condition_wait(&backing->edited, &backing->lock, UINT64_MAX);
        DL_DELETE(extent->keeps, &prefix->keeps[i]);
        bool used = mbr_extent_settle_users(backing, extent);
        if (extent->keeps == NULL && extent->parked_alias_count != 0)
            atomic_store(&backing->has_orphans, true); /* parked meanwhile, or none was unmapped */
        mbr_lock_drop(&backing->lock);
        if (!used)
            mbr_extent_recycle(backing, extent);
    }
    mbr_lock_take(&backing->lock);
    DL_DELETE(backing->prefixes, prefix);
    backing->prefix_count--;
    mbr_lock_drop(&backing->lock);
    destroy_record(prefix);
    mbr_alias_catch_up(backing);
    mbr_backing_look_again(backing);
    mbr_backing_keep_watermark(backing);
}

void mbr_prefix_figures_read(mbr_prefix *prefix, mbr_prefix_figures *figures)
{
    mbr_backing *backing = prefix->backing;
    mbr_prefix_figures whole = {
        .struct_size = figures->struct_size, .shared_bytes = prefix->shared_bytes};
    mbr_lock_take(&backing->lock);
    for (uint32_t i = 0; i < prefix->keep_count; i++) {
        const mbr_extent *extent = prefix->keeps[i].extent;
        uint32_t users = extent->slot_count - extent->parked_alias_count;
        whole.sharer_count = (uint32_t)mbr_max(whole.sharer_count, users);
        if (users == 0 && extent->keeps->next == NULL)
            whole.exclusive_bytes += extent->bytes;
        const mbr_slot *own = mbr_seal_place_locked(&prefix->keeps[i]);
        if (own != NULL && own->is_sealed)
            whole.protected_bytes += extent->bytes;
    }
    mbr_lock_drop(&backing->lock);
    mbr_growable_give(figures, &whole, sizeof(whole));
}
