/* Ranges: addresses cut into slots, the cache of ended ranges, the editor's mark. Reserves and
 * unreserves addresses; creates and destroys no extent. */
#include "host/backing/internal.h"

#include <string.h>
#include <utlist.h>

#define FIT_RANGE_COUNT 64 /* cached ranges of a shape looked at for the best */

/* ---- Slots ----------------------------------------------------------------------------------- */

uint64_t mbr_slot_offset(const mbr_range *range, uint64_t index)
{
    uint64_t offset;
    bool known = mbr_extent_rule_offset_of(&range->rule, index, &offset);
    MBR_CHECK(known);
    return offset;
}

uint64_t mbr_slot_bytes(const mbr_range *range, uint64_t index)
{
    return mbr_extent_rule_size_at(&range->rule, mbr_slot_offset(range, index));
}

void mbr_range_slots(
    const mbr_range *range, uint64_t offset_bytes, uint64_t bytes, uint64_t *first, uint64_t *end)
{
    uint64_t start = mbr_extent_rule_start_at(&range->rule, offset_bytes);
    *first = mbr_extent_rule_count(&range->rule, start);
    *end = bytes == 0 ? *first : mbr_extent_rule_count(&range->rule, offset_bytes + bytes);
}

void mbr_range_whole_slots(
    const mbr_range *range, uint64_t offset_bytes, uint64_t bytes, uint64_t *first, uint64_t *end)
{
    uint64_t boundary, stop = offset_bytes + bytes;
    if (!mbr_extent_rule_next_boundary(&range->rule, offset_bytes, &boundary))
        boundary = range->bytes;
    *first = mbr_extent_rule_count(&range->rule, mbr_min(boundary, range->bytes));
    *end = stop == range->bytes
        ? range->slot_count
        : mbr_extent_rule_count(&range->rule, mbr_extent_rule_start_at(&range->rule, stop));
    *end = mbr_max(*end, *first);
}

static uint64_t *bytes_in_state(mbr_range *range, mbr_slot_state state)
{
    switch (state) {
    case MBR_SLOT_PARKED:
        return &range->parked_bytes;
    case MBR_SLOT_COMMITTED:
        return &range->committed_bytes;
    case MBR_SLOT_ALIAS:
        return &range->alias_bytes;
    case MBR_SLOT_LEAVING:
        return &range->leaving_bytes;
    case MBR_SLOT_PARKED_ALIAS:
    case MBR_SLOT_STUCK:
    case MBR_SLOT_EMPTY:
        break;
    }
    return NULL;
}

static bool is_usable(mbr_slot_state state)
{
    return state == MBR_SLOT_COMMITTED || state == MBR_SLOT_ALIAS;
}

void mbr_range_set_slot(mbr_range *range, uint64_t index, mbr_slot_state state)
{
    mbr_slot *slot = &range->slots[index];
    uint64_t bytes = slot->extent != NULL ? slot->extent->bytes : mbr_slot_bytes(range, index);
    uint64_t *before = bytes_in_state(range, slot->state);
    uint64_t *after = bytes_in_state(range, state);
    if (before != NULL)
        *before -= bytes;
    if (after != NULL)
        *after += bytes;
    if (slot->state == MBR_SLOT_PARKED)
        range->backing->parked_bytes -= slot->extent->owned_bytes;
    if (slot->is_ahead)
        mbr_ahead_unmark_locked(range, index);
    if (slot->state == MBR_SLOT_PARKED_ALIAS)
        mbr_alias_uncount_locked(range, slot);
    if (state == MBR_SLOT_PARKED)
        range->backing->parked_bytes += slot->extent->owned_bytes;
    range->stuck_count += state == MBR_SLOT_STUCK;
    range->stuck_count -= slot->state == MBR_SLOT_STUCK;
    if (slot->extent != NULL) {
        slot->extent->stuck_count += state == MBR_SLOT_STUCK;
        slot->extent->stuck_count -= slot->state == MBR_SLOT_STUCK;
    }
    if (!is_usable(state)) {
        uint64_t offset = mbr_slot_offset(range, index);
        if (offset < atomic_load_explicit(&range->committed_end, memory_order_relaxed))
            atomic_store_explicit(&range->committed_end, offset, memory_order_release);
    }
    if (slot->is_sealed && state != MBR_SLOT_COMMITTED && state != MBR_SLOT_LEAVING) {
        MBR_ASSERT(state != MBR_SLOT_PARKED); /* whoever adopts it writes there */
        slot->is_sealed = false;
        range->sealed_count--;
    }
    slot->was_alias = state == MBR_SLOT_LEAVING && slot->state == MBR_SLOT_ALIAS;
    slot->state = state;
}

/* The committed start grows over the usable slots behind it; mbr_range_set_slot lets it fall back.
 */
void mbr_range_update_committed_end(mbr_range *range)
{
    uint64_t end = atomic_load_explicit(&range->committed_end, memory_order_relaxed);
    uint64_t index = mbr_extent_rule_count(&range->rule, end);
    while (index < range->slot_count && is_usable(range->slots[index].state))
        index++;
    end = index == range->slot_count ? range->bytes : mbr_slot_offset(range, index);
    atomic_store_explicit(&range->committed_end, end, memory_order_release);
}

/* ---- The editor's mark ----------------------------------------------------------------------- */

void mbr_range_await_editor(mbr_backing *backing, mbr_range *range)
{
    while (range->editor != NULL)
        mbr_condition_wait(&backing->edited, &backing->lock, UINT64_MAX);
}

mbr_status mbr_backing_await_free(
    mbr_backing *backing, bool (*is_free)(const void *what), const void *what, mbr_error *error)
{
    if (is_free(what))
        return MBR_OK;
    uint64_t deadline_ns;
    if (!mbr_add(mbr_clock_now(&mbr_clock_monotonic), backing->busy_wait_ns, &deadline_ns))
        deadline_ns = UINT64_MAX;
    bool is_in_time = true;
    while (!is_free(what) && is_in_time)
        is_in_time = mbr_condition_wait(&backing->edited, &backing->lock, deadline_ns);
    if (is_free(what))
        return MBR_OK;
    return mbr_fail(error, MBR_BUSY,
        "another call has been inside one of these ranges for %llu ms; nothing was changed, try "
        "again when it has returned",
        (unsigned long long)(backing->busy_wait_ns / 1000000));
}

static bool has_no_editor(const void *what)
{
    const mbr_range *range = what;
    return range->editor == NULL;
}

mbr_status mbr_range_try_await_editor(mbr_backing *backing, mbr_range *range, mbr_error *error)
{
    return mbr_backing_await_free(backing, has_no_editor, range, error);
}

void mbr_range_begin_edit(mbr_range *range, const void *editor)
{
    MBR_ASSERT(range->editor == NULL);
    range->editor = editor;
}

void mbr_range_end_edit(mbr_range *range)
{
    range->editor = NULL;
    mbr_condition_signal_all(&range->backing->edited);
}

/* ---- The cache of ended ranges --------------------------------------------------------------- */

static uint32_t bucket_of(uint64_t bytes, const mbr_extent_rule *rule, uint32_t isolation_group)
{
    uint64_t hash = bytes ^ (rule->unit_bytes << 1) ^ (rule->divisor << 7) ^ isolation_group;
    hash *= UINT64_C(0x9E3779B97F4A7C15); /* 2^64 / golden ratio: spreads multiples of a granule */
    return (uint32_t)(hash >> 56) % MBR_RANGE_BUCKET_COUNT;
}

void mbr_range_cache(mbr_range *range)
{
    mbr_backing *backing = range->backing;
    uint32_t bucket = bucket_of(range->bytes, &range->rule, range->isolation_group);
    range->cached = true;
    range->context = NULL;
    DL_APPEND(backing->cached, range);
    DL_APPEND2(backing->buckets[bucket], range, bucket_prev, bucket_next);
    backing->cached_count++;
}

void mbr_range_uncache(mbr_range *range)
{
    mbr_backing *backing = range->backing;
    uint32_t bucket = bucket_of(range->bytes, &range->rule, range->isolation_group);
    range->cached = false;
    DL_DELETE(backing->cached, range);
    DL_DELETE2(backing->buckets[bucket], range, bucket_prev, bucket_next);
    backing->cached_count--;
}

static bool fits(const mbr_range *range, const mbr_range *wanted)
{
    return range->editor == NULL && range->stuck_count == 0 && range->bytes == wanted->bytes &&
        range->isolation_group == wanted->isolation_group &&
        range->align_bytes >= wanted->align_bytes &&
        memcmp(&range->rule, &wanted->rule, sizeof(range->rule)) == 0;
}

/* Whether `parked` bytes serve better than `other`: the least that is enough, else the most. */
static bool serves_better(uint64_t parked, uint64_t other, uint64_t expected_bytes)
{
    if ((parked >= expected_bytes) != (other >= expected_bytes))
        return parked >= expected_bytes;
    return parked >= expected_bytes ? parked < other : parked > other;
}

static bool has_alias(const mbr_range *range, const mbr_alias_hint *hint)
{
    if (range->parked_alias_count == 0)
        return false;
    uint64_t index = mbr_extent_rule_count(&range->rule, hint->offset_bytes);
    if (index >= range->slot_count) /* the prefix was made under another rule */
        return false;
    const mbr_slot *slot = &range->slots[index];
    return slot->state == MBR_SLOT_PARKED_ALIAS && slot->extent->id == hint->extent_id;
}

/* The warmest that has aliases of the very prefix. */
static mbr_range *find_aliased(
    mbr_backing *backing, const mbr_range *wanted, const mbr_alias_hint *hint)
{
    uint32_t bucket = bucket_of(wanted->bytes, &wanted->rule, wanted->isolation_group), seen = 0;
    mbr_range *head = backing->buckets[bucket];
    if (hint->extent_id == 0 || hint->offset_bytes >= wanted->bytes ||
        backing->parked_alias_count == 0)
        return NULL;
    for (mbr_range *range = head != NULL ? head->bucket_prev : NULL;
         range != NULL && seen < FIT_RANGE_COUNT;
         range = range == head ? NULL : range->bucket_prev) {
        seen++;
        if (fits(range, wanted) && has_alias(range, hint))
            return range;
    }
    return NULL;
}

/* The warmest that fits and has something parked, or one that has about as much parked as is
 * expected; with `plain`, the warmest with nothing parked. What is parked and not adopted would be
 * moved elsewhere later, one extent a time; aliases would, too, and are left to sharers. */
static mbr_range *find_cached(
    mbr_backing *backing, const mbr_range *wanted, uint64_t expected_bytes, bool plain)
{
    uint32_t bucket = bucket_of(wanted->bytes, &wanted->rule, wanted->isolation_group), seen = 0;
    mbr_range *head = backing->buckets[bucket];
    mbr_range *best = NULL, *spare = NULL;
    for (mbr_range *range = head != NULL ? head->bucket_prev : NULL;
         range != NULL && (best == NULL || seen < FIT_RANGE_COUNT);
         range = range == head ? NULL : range->bucket_prev) {
        seen++;
        if (!fits(range, wanted) || range->parked_alias_count != 0)
            continue;
        bool chosen = (range->parked_bytes == 0) == plain;
        if (chosen && (plain || expected_bytes == 0))
            return range;
        if (chosen &&
            (best == NULL ||
                serves_better(range->parked_bytes, best->parked_bytes, expected_bytes)))
            best = range;
        if (spare == NULL && range->parked_bytes == 0)
            spare = range;
    }
    return best != NULL ? best : spare;
}

/* ---- Reserve --------------------------------------------------------------------------------- */

static mbr_status check_growth(mbr_backing *backing, const mbr_range_options *options,
    mbr_extent_rule *rule, uint64_t *bytes, mbr_error *error)
{
    const mbr_mechanism *mechanism = backing->mechanism;
    uint64_t granule = mechanism->granule_min_bytes;
    mbr_growth growth = options->growth;
    if (growth.unit_bytes == 0)
        growth.unit_bytes = mechanism->granule_recommended_bytes;
    if (growth.max_bytes == 0)
        growth.max_bytes = growth.unit_bytes;
    if (growth.unit_bytes % granule != 0)
        return mbr_fail(error, MBR_MISALIGNED,
            "growth unit %llu is no multiple of the granule %llu; %llu would work",
            (unsigned long long)growth.unit_bytes, (unsigned long long)granule,
            (unsigned long long)(mbr_align_down(growth.unit_bytes, granule) + granule));
    growth.max_bytes = mbr_min(growth.max_bytes, mechanism->extent_max_bytes);
    if (growth.unit_bytes > mechanism->extent_max_bytes)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "growth unit %llu is above the mechanism's largest extent %llu",
            (unsigned long long)growth.unit_bytes, (unsigned long long)mechanism->extent_max_bytes);
    *rule = (mbr_extent_rule){granule, growth.unit_bytes, growth.max_bytes, growth.divisor};
    if (options->align_bytes != 0 && !mbr_is_power_of_two(options->align_bytes))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "alignment %llu is no power of two",
            (unsigned long long)options->align_bytes);
    if (!mbr_extent_rule_next_boundary(rule, options->bytes, bytes))
        return mbr_fail(error, MBR_OVERFLOW,
            "a range of %llu bytes does not fit 64 bits in whole extents",
            (unsigned long long)options->bytes);
    *bytes =
        mbr_max(*bytes, growth.unit_bytes); /* also for no bytes at all: addresses cost nothing */
    if (*bytes > mechanism->reservation_max_bytes)
        return mbr_fail(error, MBR_OUT_OF_ADDRESSES,
            "a range of %llu bytes is above the mechanism's largest reservation %llu",
            (unsigned long long)*bytes, (unsigned long long)mechanism->reservation_max_bytes);
    return MBR_OK;
}

/* A record with slots, from the spare ones or the heap; ended until somebody has it, for who still
 * knows it from its life before (seal.c). */
static mbr_range *make_record(mbr_backing *backing, uint64_t slot_count)
{
    mbr_slot *slots = mbr_heap_allocate(backing->heap, slot_count * sizeof(*slots));
    if (slots == NULL)
        return NULL;
    const mbr_range empty = {
        .backing = backing, .ended = true, .slots = slots, .slot_count = slot_count};
    mbr_lock_take(&backing->lock);
    mbr_range *range = backing->spare;
    if (range != NULL) { /* under the lock: who waited for its editor looks once more */
        DL_DELETE(backing->spare, range);
        *range = empty;
    }
    mbr_lock_drop(&backing->lock);
    if (range != NULL)
        return range;
    range = mbr_heap_allocate(backing->heap, sizeof(*range));
    if (range == NULL)
        mbr_heap_release(backing->heap, slots);
    else
        *range = empty;
    return range;
}

void mbr_range_make_spare(mbr_range *range)
{
    mbr_backing *backing = range->backing;
    mbr_heap_release(backing->heap, range->slots);
    mbr_lock_take(&backing->lock);
    *range = (mbr_range){.backing = backing, .ended = true};
    DL_APPEND(backing->spare, range);
    mbr_lock_drop(&backing->lock);
}

static void count_withheld_addresses(mbr_backing *backing)
{
    mbr_lock_take(&backing->lock);
    backing->quarantined_count++;
    mbr_lock_drop(&backing->lock);
    mbr_authority_note_violation(backing->authority);
}

static mbr_status reserve_new(
    mbr_backing *backing, const mbr_range *wanted, mbr_range **range, mbr_error *error)
{
    uint64_t slot_count = mbr_extent_rule_count(&wanted->rule, wanted->bytes);
    if (slot_count > MBR_SLOT_LIMIT_COUNT)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "a range of %llu bytes would hold %llu extents, above %llu; use a larger growth unit",
            (unsigned long long)wanted->bytes, (unsigned long long)slot_count,
            (unsigned long long)MBR_SLOT_LIMIT_COUNT);
    mbr_range *made = make_record(backing, slot_count);
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a range of %llu extents",
            (unsigned long long)slot_count);
    mbr_answer answer;
    mbr_status status =
        mbr_port_reserve(backing->port, wanted->bytes, wanted->align_bytes, &answer, error);
    if (answer.quarantined) /* leaked on purpose: nobody knows whose addresses they are */
        count_withheld_addresses(backing);
    if (status != MBR_OK) {
        mbr_range_make_spare(made);
        return status;
    }
    made->reservation_id = answer.id;
    made->address = answer.address;
    made->bytes = wanted->bytes;
    made->align_bytes = wanted->align_bytes;
    made->rule = wanted->rule;
    made->isolation_group = wanted->isolation_group;
    *range = made;
    return MBR_OK;
}

mbr_status mbr_backing_reserve(
    mbr_backing *backing, const mbr_range_options *options, mbr_range **range, mbr_error *error)
{
    *range = NULL;
    if (!backing->mechanism->has_virtual)
        return mbr_fail(error, MBR_UNSUPPORTED,
            "mechanism %s has no virtual memory: ranges cannot grow; allocate the maximum at once "
            "or copy",
            backing->mechanism->description.name);
    mbr_range wanted = {.isolation_group = options->isolation_group,
        .align_bytes = mbr_max(options->align_bytes, backing->mechanism->granule_min_bytes)};
    mbr_status status = check_growth(backing, options, &wanted.rule, &wanted.bytes, error);
    if (status != MBR_OK)
        return status;
    status = mbr_mechanism_check_process(backing->mechanism, error);
    if (status == MBR_OK)
        status = mbr_context_pin(options->context, error);
    if (status != MBR_OK)
        return status;

    mbr_graphs graphs = mbr_context_graphs_now(options->context, 0);
    bool gated = mbr_port_is_gated(backing->port); /* what of them is not adopted would stay */
    mbr_port_serve_group(backing->port, options->isolation_group);
    mbr_lock_take(&backing->lock);
    mbr_range *found = gated ? NULL : find_aliased(backing, &wanted, &options->alias);
    if (found == NULL)
        found = find_cached(
            backing, &wanted, options->expected_bytes, (options->flags & MBR_RANGE_UNPARKED) != 0);
    if (found != NULL)
        mbr_range_uncache(found);
    mbr_lock_drop(&backing->lock);
    if (found == NULL)
        status = reserve_new(backing, &wanted, &found, error);
    /* What is kept for other shapes may be all that is left: of addresses, or of mappings. */
    if ((status == MBR_OUT_OF_ADDRESSES || status == MBR_OUT_OF_MAPPINGS) &&
        mbr_backing_discard_cached(backing))
        status = reserve_new(backing, &wanted, &found, error);
    if (status != MBR_OK) {
        mbr_context_unpin(options->context);
        return status;
    }
    mbr_lock_take(&backing->lock);
    found->context = options->context;
    found->handle = options->handle;
    found->ended = found->end_waits = found->lost = false; /* of its life before */
    found->graphs = graphs;
    found->remap_epoch = 1;
    found->view_count = 0;
    DL_APPEND(backing->live, found);
    backing->live_count++;
    mbr_lock_drop(&backing->lock);
    *range = found;
    return MBR_OK;
}

/* What a device took along is gone without a call. */
static mbr_status unreserve_if_there(const mbr_range *range)
{
    mbr_backing *backing = range->backing;
    switch (mbr_backing_device(backing)) {
    case MBR_DEVICE_IS_LOST:
        return MBR_DEVICE_LOST;
    case MBR_DEVICE_HAS_ENDED:
        mbr_port_forget_reservation(backing->port, range->address, range->bytes);
        return MBR_OK;
    default:
        return mbr_port_unreserve(
            backing->port, range->reservation_id, range->address, range->bytes, NULL);
    }
}

void mbr_range_dissolve(mbr_range *range)
{
    mbr_backing *backing = range->backing;
    MBR_ASSERT(range->committed_bytes + range->alias_bytes + range->parked_bytes == 0);
    MBR_ASSERT(range->parked_alias_count == 0);
    mbr_status status = unreserve_if_there(range);
    if (status == MBR_OK) {
        mbr_range_make_spare(range);
        return;
    }
    /* The addresses are withheld: never handed out again (I10), counted, not used. */
    mbr_lock_take(&backing->lock);
    range->retained = true;
    backing->quarantined_count++;
    DL_APPEND(backing->retained, range);
    mbr_lock_drop(&backing->lock);
    mbr_authority_note_violation(backing->authority);
}

bool mbr_range_is_lost(const mbr_range *range)
{
    return !range->backing->mechanism->releasable_after_loss && range->context != NULL &&
        mbr_context_state(range->context) == MBR_CONTEXT_LOST;
}

mbr_status mbr_range_unmap_if_there(const mbr_range *range, uint64_t offset_bytes, uint64_t bytes,
    mbr_answer *answer, mbr_error *error)
{
    mbr_backing *backing = range->backing;
    *answer = (mbr_answer){.status = MBR_DEVICE_LOST, .unchanged = true};
    switch (mbr_backing_device(backing)) {
    case MBR_DEVICE_IS_LOST:
        return mbr_fail(error, MBR_DEVICE_LOST, "the device is lost: nothing is unmapped there");
    case MBR_DEVICE_HAS_ENDED:
        mbr_port_forget_mapping(backing->port, bytes);
        return MBR_OK;
    default:
        return mbr_port_unmap(
            backing->port, range->reservation_id, offset_bytes, bytes, answer, error);
    }
}

void mbr_slot_strand(mbr_range *range, uint64_t index, bool may_retry)
{
    mbr_slot *slot = &range->slots[index];
    mbr_extent_withhold(range->backing, slot->extent);
    mbr_range_set_slot(range, index, MBR_SLOT_STUCK);
    slot->may_retry = may_retry;
    range->backing->retry_count += may_retry;
    mbr_seal_note_locked(range->backing, slot->extent);
}

bool mbr_range_unmap_slot(mbr_range *range, uint64_t index)
{
    mbr_backing *backing = range->backing;
    mbr_slot *slot = &range->slots[index];
    mbr_extent *extent = slot->extent;
    uint64_t bytes = extent->bytes;
    mbr_answer answer;
    mbr_status status = mbr_slot_unmap_if_there(range, index, &answer);
    mbr_lock_take(&backing->lock);
    if (status != MBR_OK) { /* I7, unmap failed: neither axis moves */
        mbr_slot_strand(range, index, answer.unchanged);
        mbr_lock_drop(&backing->lock);
        if (mbr_answer_keeps(&answer))
            mbr_backing_note_kept(backing);
        else
            mbr_authority_note_violation(backing->authority);
        return false;
    }
    mbr_holder *holder = slot->holder != NULL ? slot->holder : backing->cache;
    mbr_range_set_slot(range, index, MBR_SLOT_EMPTY);
    mbr_extent_remove_slot(extent, slot);
    bool used = mbr_extent_settle_users(backing, extent);
    mbr_lock_drop(&backing->lock);
    mbr_mapped_sub(holder, bytes);
    if (!used)
        mbr_extent_recycle(backing, extent);
    return true;
}

void mbr_range_discard(mbr_range *range)
{
    mbr_backing *backing = range->backing;
    for (uint64_t i = 0; i < range->slot_count; i++) {
        if (range->slots[i].state == MBR_SLOT_PARKED ||
            range->slots[i].state == MBR_SLOT_PARKED_ALIAS)
            mbr_range_unmap_slot(range, i);
    }
    mbr_lock_take(&backing->lock);
    mbr_range_end_edit(range); /* without parked aliases nobody finds it any more */
    bool dissolves = range->stuck_count == 0;
    if (!dissolves) {
        range->retained = true; /* its addresses are never handed out again (I10) */
        DL_APPEND(backing->retained, range);
    }
    mbr_lock_drop(&backing->lock);
    if (dissolves)
        mbr_range_dissolve(range);
}

/* ---- Reading --------------------------------------------------------------------------------- */

uint64_t mbr_range_address(const mbr_range *range)
{
    return range->address;
}

uint64_t mbr_range_bytes(const mbr_range *range)
{
    return range->bytes;
}

bool mbr_range_is_committed_to(const mbr_range *range, uint64_t end_bytes)
{
    return end_bytes <= atomic_load_explicit(&range->committed_end, memory_order_acquire);
}

void mbr_range_figures_read(mbr_range *range, mbr_range_figures *figures)
{
    mbr_backing *backing = range->backing;
    mbr_lock_take(&backing->lock);
    uint64_t extents = 0;
    for (uint64_t i = 0; i < range->slot_count; i++)
        extents += range->slots[i].extent != NULL;
    mbr_range_figures whole = {
        .struct_size = figures->struct_size,
        .extent_count = (uint32_t)extents,
        .range = {range->handle},
        .address = range->address,
        .bytes = range->bytes,
        .committed_bytes = range->committed_bytes + range->alias_bytes,
        .shared_bytes = range->alias_bytes,
        .parked_bytes = range->parked_bytes,
        .remap_epoch = range->remap_epoch,
        .pin_count = range->pin_count,
        .view_count = range->view_count,
    };
    mbr_lock_drop(&backing->lock);
    mbr_growable_give(figures, &whole, sizeof(whole));
}
