/* Recomputes the backing's totals from its records; changes nothing. */
#include "host/backing/internal.h"

#include <utlist.h>

typedef struct mbr_totals {
    uint64_t extents, pooled, parked, ahead, aliases, held, committed_ends_wrong, states_wrong,
        seals_wrong;
} mbr_totals;

/* Every extent is counted where its list of users begins. */
static void count_extent(const mbr_extent *extent, mbr_totals *totals)
{
    uint32_t state = atomic_load_explicit(&extent->state, memory_order_relaxed);
    uint32_t slots = 0;
    const mbr_slot *slot;
    DL_FOREACH(extent->slots, slot)
    {
        slots++;
        totals->states_wrong += slot->extent != extent;
    }
    bool fits = slots == extent->slot_count;
    fits = fits && (state != MBR_EXTENT_POOLED || (slots == 0 && extent->keeps == NULL));
    fits = fits && (state != MBR_EXTENT_HELD || (slots == 0 && extent->keeps != NULL));
    fits = fits && (state != MBR_EXTENT_MAPPED || slots == 1);
    fits = fits && (state != MBR_EXTENT_PARKED || (slots == 1 && extent->keeps == NULL));
    fits = fits && (state != MBR_EXTENT_SHARED || slots > 1);
    totals->states_wrong += !fits;
    totals->extents++;
    totals->held += state == MBR_EXTENT_HELD ? extent->owned_bytes : 0;
}

static void count_range(const mbr_range *range, mbr_totals *totals)
{
    uint64_t usable_end = 0, sealed = 0;
    bool usable = true;
    for (uint64_t i = 0; i < range->slot_count; i++) {
        const mbr_slot *slot = &range->slots[i];
        usable = usable && (slot->state == MBR_SLOT_COMMITTED || slot->state == MBR_SLOT_ALIAS);
        if (usable)
            usable_end = mbr_slot_offset(range, i) + mbr_slot_bytes(range, i);
        sealed += slot->is_sealed;
        totals->seals_wrong +=
            slot->is_sealed && slot->state != MBR_SLOT_COMMITTED && slot->state != MBR_SLOT_LEAVING;
        totals->states_wrong += (slot->state == MBR_SLOT_EMPTY) != (slot->extent == NULL);
        if (slot->extent == NULL)
            continue;
        if (slot->state == MBR_SLOT_PARKED)
            totals->parked += slot->extent->owned_bytes;
        if (slot->is_ahead)
            totals->ahead += slot->extent->owned_bytes;
        totals->aliases += slot->state == MBR_SLOT_PARKED_ALIAS;
        totals->states_wrong += slot->is_ahead && slot->state != MBR_SLOT_PARKED;
        if (slot->extent->slots == slot)
            count_extent(slot->extent, totals);
    }
    totals->seals_wrong += sealed != range->sealed_count;
    totals->committed_ends_wrong +=
        usable_end != atomic_load_explicit(&range->committed_end, memory_order_relaxed);
}

static void count_all_locked(const mbr_backing *backing, mbr_totals *totals)
{
    const mbr_range *lists[] = {backing->live, backing->cached, backing->retained};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const mbr_range *range;
        DL_FOREACH(lists[i], range)
        count_range(range, totals);
    }
    for (uint32_t i = 0; i < backing->pool_class_count; i++) {
        const mbr_extent *extent;
        DL_FOREACH(backing->pool[i].extents, extent)
        {
            count_extent(extent, totals);
            totals->pooled += extent->owned_bytes;
        }
    }
    const mbr_extent *withheld;
    DL_FOREACH(backing->withheld, withheld)
    totals->extents++;
    const mbr_prefix *prefix;
    DL_FOREACH(backing->prefixes, prefix)
    {
        for (uint32_t i = 0; i < prefix->keep_count; i++) {
            const mbr_keep *keep = &prefix->keeps[i];
            if (keep->extent->slots == NULL && keep->extent->keeps == keep)
                count_extent(keep->extent, totals);
        }
    }
}

mbr_status mbr_backing_audit(mbr_backing *backing, mbr_error *error)
{
    mbr_totals totals = {0};
    mbr_lock_take(&backing->lock);
    count_all_locked(backing, &totals);
    const struct {
        const char *what;
        uint64_t booked, counted;
    } rows[] = {
        {"extents", backing->extent_count, totals.extents},
        {"pooled bytes", backing->pooled_bytes, totals.pooled},
        {"parked bytes", backing->parked_bytes, totals.parked},
        {"bytes ahead of need", backing->ahead_bytes, totals.ahead},
        {"parked aliases", backing->parked_alias_count, totals.aliases},
        {"held bytes", backing->held_bytes, totals.held},
        {"extents whose state does not fit their users", 0, totals.states_wrong},
        {"seals without a place that may have one", 0, totals.seals_wrong},
        {"ranges whose committed end is wrong", 0, totals.committed_ends_wrong},
    };
    mbr_lock_drop(&backing->lock);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].booked != rows[i].counted)
            return mbr_fail(error, MBR_INTERNAL, "backing: %s: booked %llu, counted %llu",
                rows[i].what, (unsigned long long)rows[i].booked,
                (unsigned long long)rows[i].counted);
    }
    return MBR_OK;
}
