/* Extent records: their states, users and payers, and the pool of unmapped ones. Calls the plugin
 * only to destroy; maps nothing. */
#include "host/backing/internal.h"

#include <utlist.h>

#define POOL_LOOK_BACK_COUNT 8

static const char *const state_names[MBR_EXTENT_STATE_COUNT] = {
    "pooled", "mapped", "shared", "parked", "held", "quarantined", "retained", "destroyed"};

static const uint32_t state_successors[MBR_EXTENT_STATE_COUNT] = {
    [MBR_EXTENT_POOLED] = MBR_STATE_BIT(MBR_EXTENT_MAPPED) | MBR_STATE_BIT(MBR_EXTENT_DESTROYED) |
        MBR_STATE_BIT(MBR_EXTENT_QUARANTINED),
    [MBR_EXTENT_MAPPED] = MBR_STATE_BIT(MBR_EXTENT_SHARED) | MBR_STATE_BIT(MBR_EXTENT_PARKED) |
        MBR_STATE_BIT(MBR_EXTENT_POOLED) | MBR_STATE_BIT(MBR_EXTENT_HELD) |
        MBR_STATE_BIT(MBR_EXTENT_QUARANTINED) | MBR_STATE_BIT(MBR_EXTENT_RETAINED),
    [MBR_EXTENT_SHARED] = MBR_STATE_BIT(MBR_EXTENT_MAPPED) | MBR_STATE_BIT(MBR_EXTENT_QUARANTINED) |
        MBR_STATE_BIT(MBR_EXTENT_RETAINED),
    [MBR_EXTENT_PARKED] = MBR_STATE_BIT(MBR_EXTENT_MAPPED) | MBR_STATE_BIT(MBR_EXTENT_POOLED) |
        MBR_STATE_BIT(MBR_EXTENT_QUARANTINED),
    [MBR_EXTENT_HELD] = MBR_STATE_BIT(MBR_EXTENT_MAPPED) | MBR_STATE_BIT(MBR_EXTENT_POOLED),
    [MBR_EXTENT_QUARANTINED] = MBR_STATE_BIT(MBR_EXTENT_POOLED) |
        MBR_STATE_BIT(MBR_EXTENT_DESTROYED) | MBR_STATE_BIT(MBR_EXTENT_RETAINED),
    [MBR_EXTENT_RETAINED] = MBR_STATE_BIT(MBR_EXTENT_DESTROYED),
    [MBR_EXTENT_DESTROYED] = 0,
};

const mbr_state_table mbr_extent_states = {
    "extent", state_names, state_successors, MBR_EXTENT_STATE_COUNT};

static mbr_extent_state state_of(const mbr_extent *extent)
{
    return (mbr_extent_state)atomic_load_explicit(&extent->state, memory_order_relaxed);
}

void mbr_extent_move(mbr_backing *backing, mbr_extent *extent, mbr_extent_state to)
{
    mbr_extent_state from = state_of(extent);
    if (from == to)
        return;
    mbr_state_move(&mbr_extent_states, &extent->state, from, to);
    if (from == MBR_EXTENT_HELD)
        backing->held_bytes -= extent->owned_bytes;
    if (to == MBR_EXTENT_HELD)
        backing->held_bytes += extent->owned_bytes;
}

/* On whoever paid then: no user's coming or going changes that. */
static bool is_marked(const mbr_extent *extent)
{
    mbr_extent_state state = state_of(extent);
    return state == MBR_EXTENT_QUARANTINED || state == MBR_EXTENT_RETAINED;
}

/* A move between payers is a transfer, never a refund and a charge. */
void mbr_extent_pay(mbr_extent *extent, mbr_holder *payer)
{
    if (is_marked(extent))
        return;
    if (extent->payer != payer)
        mbr_transfer(extent->payer, payer, extent->owned_bytes);
    extent->payer = payer;
}

void mbr_extent_queue_slot(mbr_extent *extent, mbr_slot *slot)
{
    mbr_slot *parked = NULL; /* the first of them; a backing bounds how many there are */
    for (uint32_t i = 0; i < extent->parked_alias_count; i++)
        parked = parked == NULL ? extent->slots->prev : parked->prev;
    if (parked != NULL)
        DL_PREPEND_ELEM(extent->slots, parked, slot);
    else
        DL_APPEND(extent->slots, slot);
}

void mbr_extent_add_slot(mbr_extent *extent, mbr_slot *slot)
{
    slot->extent = extent;
    mbr_extent_queue_slot(extent, slot);
    extent->slot_count++;
}

void mbr_extent_remove_slot(mbr_extent *extent, mbr_slot *slot)
{
    DL_DELETE(extent->slots, slot);
    slot->extent = NULL;
    slot->holder = NULL;
    extent->slot_count--;
}

/* The first prefix that keeps it, else the oldest user, else the cache for aliases that are parked.
 */
static mbr_holder *payer_of(const mbr_backing *backing, const mbr_extent *extent)
{
    if (extent->keeps != NULL)
        return extent->keeps->prefix->holder;
    if (extent->slot_count == extent->parked_alias_count)
        return backing->cache;
    return extent->slots->holder;
}

bool mbr_extent_settle_users(mbr_backing *backing, mbr_extent *extent)
{
    if (extent->slot_count == 0 && extent->keeps == NULL)
        return false;
    mbr_seal_note_locked(backing, extent);
    if (is_marked(extent)) { /* what is stuck with nobody left may be tried again now */
        if (extent->keeps == NULL && extent->slot_count == extent->stuck_count)
            mbr_backing_note_kept(backing);
        return true;
    }
    if (extent->slot_count == 0) {
        mbr_extent_move(backing, extent, MBR_EXTENT_HELD);
    } else if (extent->slot_count == 1) {
        mbr_extent_move(backing, extent, MBR_EXTENT_MAPPED);
    }
    mbr_extent_pay(extent, payer_of(backing, extent));
    if (extent->lost_count != 0 && extent->lost_count == extent->slot_count &&
        extent->keeps == NULL) { /* nobody is left who could still give it back */
        mbr_extent_move(backing, extent, MBR_EXTENT_RETAINED);
        mbr_retain(extent->payer, extent->owned_bytes);
        backing->retained_bytes += extent->owned_bytes;
    }
    return true;
}

static mbr_pool_class *find_class(mbr_backing *backing, uint64_t bytes)
{
    for (uint32_t i = 0; i < backing->pool_class_count; i++) {
        if (backing->pool[i].bytes == bytes)
            return &backing->pool[i];
    }
    return NULL;
}

static mbr_pool_class *find_or_add_class(mbr_backing *backing, uint64_t bytes)
{
    mbr_pool_class *found = find_class(backing, bytes);
    if (found != NULL)
        return found;
    for (uint32_t i = 0; i < backing->pool_class_count; i++) { /* one that has run empty */
        if (backing->pool[i].extents == NULL) {
            backing->pool[i].bytes = bytes;
            return &backing->pool[i];
        }
    }
    if (backing->pool_class_count == MBR_POOL_CLASS_LIMIT_COUNT)
        return NULL;
    found = &backing->pool[backing->pool_class_count++];
    *found = (mbr_pool_class){.bytes = bytes};
    return found;
}

bool mbr_extent_pool_put(mbr_backing *backing, mbr_extent *extent)
{
    MBR_ASSERT(extent->slot_count == 0 && extent->keeps == NULL);
    mbr_pool_class *pool_class = find_or_add_class(backing, extent->bytes);
    if (pool_class == NULL)
        return false;
    mbr_extent_move(backing, extent, MBR_EXTENT_POOLED);
    mbr_extent_pay(extent, backing->cache);
    extent->pooled_serial = ++backing->pool_serial;
    DL_APPEND(pool_class->extents, extent);
    backing->pooled_bytes += extent->owned_bytes;
    return true;
}

static mbr_extent *take_from(mbr_backing *backing, mbr_pool_class *pool_class, mbr_extent *extent)
{
    DL_DELETE(pool_class->extents, extent);
    backing->pooled_bytes -= extent->owned_bytes;
    return extent;
}

/* The warmest of the same isolation group among the last few, since it needs no fill; else the
 * warmest. */
mbr_extent *mbr_extent_pool_take(mbr_backing *backing, uint64_t bytes, uint32_t isolation_group)
{
    mbr_pool_class *pool_class = find_class(backing, bytes);
    if (pool_class == NULL || pool_class->extents == NULL)
        return NULL;
    mbr_extent *warmest = pool_class->extents->prev;
    mbr_extent *found = warmest;
    for (uint32_t i = 0; i < POOL_LOOK_BACK_COUNT; i++) {
        if (found->isolation_group == isolation_group)
            return take_from(backing, pool_class, found);
        if (found == pool_class->extents)
            break;
        found = found->prev;
    }
    return take_from(backing, pool_class, warmest);
}

mbr_extent *mbr_extent_pool_take_coldest(mbr_backing *backing)
{
    mbr_pool_class *found = NULL;
    for (uint32_t i = 0; i < backing->pool_class_count; i++) {
        mbr_pool_class *other = &backing->pool[i];
        if (other->extents != NULL &&
            (found == NULL || other->extents->pooled_serial < found->extents->pooled_serial))
            found = other;
    }
    return found == NULL ? NULL : take_from(backing, found, found->extents);
}

void mbr_extent_withhold(mbr_backing *backing, mbr_extent *extent)
{
    backing->quarantined_count++;
    if (state_of(extent) == MBR_EXTENT_QUARANTINED)
        return; /* another of its places is stuck already: the mark stands once */
    mbr_extent_move(backing, extent, MBR_EXTENT_QUARANTINED);
    mbr_quarantine(extent->payer, extent->owned_bytes);
}

/* What a device took along is gone without a call. */
static mbr_status destroy_if_there(mbr_backing *backing, mbr_extent *extent, bool *keeps)
{
    mbr_answer answer = {0};
    mbr_status status;
    extent->may_retry = *keeps = false;
    switch (mbr_backing_device(backing)) {
    case MBR_DEVICE_IS_LOST:
        extent->may_retry = *keeps = true;
        return MBR_DEVICE_LOST;
    case MBR_DEVICE_HAS_ENDED:
        mbr_port_forget_extent(backing->port, extent->owned_bytes);
        return MBR_OK;
    default:
        status =
            mbr_port_extent_destroy(backing->port, extent->id, extent->owned_bytes, &answer, NULL);
        extent->may_retry = status != MBR_OK && answer.unchanged;
        *keeps = status != MBR_OK && mbr_answer_keeps(&answer);
        return status;
    }
}

/* The bytes that go home. */
static uint64_t end_record(mbr_backing *backing, mbr_extent *extent)
{
    mbr_lock_take(&backing->lock);
    mbr_extent_move(backing, extent, MBR_EXTENT_DESTROYED);
    backing->extent_count--;
    mbr_lock_drop(&backing->lock);
    uint64_t released_bytes = extent->owned_bytes;
    mbr_refund(extent->payer, released_bytes);
    mbr_heap_release(backing->heap, extent);
    return released_bytes;
}

static uint64_t retry(mbr_backing *backing, mbr_extent *extent)
{
    bool keeps;
    bool is_gone = extent->may_retry && destroy_if_there(backing, extent, &keeps) == MBR_OK;
    mbr_lock_take(&backing->lock);
    if (is_gone)
        backing->quarantined_count--;
    else
        DL_APPEND(backing->withheld, extent);
    mbr_lock_drop(&backing->lock);
    if (!is_gone)
        return 0;
    mbr_quarantine_settle(extent->payer, extent->owned_bytes);
    return end_record(backing, extent);
}

uint64_t mbr_extent_retry_withheld(mbr_backing *backing)
{
    uint64_t released_bytes = 0;
    mbr_lock_take(&backing->lock);
    mbr_extent *withheld = backing->withheld;
    backing->withheld = NULL;
    mbr_lock_drop(&backing->lock);
    while (withheld != NULL) {
        mbr_extent *extent = withheld;
        DL_DELETE(withheld, extent);
        released_bytes += retry(backing, extent);
    }
    return released_bytes;
}

uint64_t mbr_extent_destroy(mbr_backing *backing, mbr_extent *extent)
{
    bool keeps;
    mbr_status status = destroy_if_there(backing, extent, &keeps);
    mbr_lock_take(&backing->lock);
    if (status != MBR_OK) { /* nobody else knows it: I7, unmapped and destroy failed */
        mbr_extent_withhold(backing, extent);
        DL_APPEND(backing->withheld, extent);
        mbr_lock_drop(&backing->lock);
        if (keeps)
            mbr_backing_note_kept(backing);
        else
            mbr_authority_note_violation(backing->authority);
        return 0;
    }
    mbr_lock_drop(&backing->lock);
    return end_record(backing, extent);
}

void mbr_extent_recycle(mbr_backing *backing, mbr_extent *extent)
{
    mbr_lock_take(&backing->lock);
    bool pooled = mbr_extent_pool_put(backing, extent);
    if (!pooled)
        mbr_extent_move(backing, extent, MBR_EXTENT_POOLED);
    mbr_lock_drop(&backing->lock);
    if (!pooled)
        mbr_extent_destroy(backing, extent);
}
