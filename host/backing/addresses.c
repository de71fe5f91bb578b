/* Which addresses are out. Decides nothing and calls nobody. */
#include "host/backing/addresses.h"

#include "abi/base/assert.h"

#include <stddef.h>

static mbr_addresses_entry *entry_of(struct mbr_interval *interval)
{
    return (mbr_addresses_entry *)((char *)interval - offsetof(mbr_addresses_entry, interval));
}

void mbr_addresses_init(mbr_addresses *addresses)
{
    mbr_lock_init(&addresses->lock, MBR_RANK_ADDRESSES);
    addresses->root = NULL;
}

void mbr_addresses_finish(mbr_addresses *addresses)
{
    MBR_CHECK(addresses->root == NULL);
    mbr_lock_finish(&addresses->lock);
}

/* The entries are disjoint: only the one before and the one behind the start can overlap. */
static struct mbr_interval *find_overlap(struct mbr_interval *root, uint64_t start, uint64_t bytes)
{
    struct mbr_interval *before = mbr_interval_tree_floor(root, start);
    if (before != NULL && start - before->start < before->bytes)
        return before;
    struct mbr_interval *behind = mbr_interval_tree_ceiling(root, start);
    return behind != NULL && behind->start - start < bytes ? behind : NULL;
}

bool mbr_addresses_enter(mbr_addresses *addresses, mbr_addresses_entry *entry, const void *owner,
    uint64_t address, uint64_t bytes, uint64_t *taken)
{
    *taken = 0;
    mbr_lock_take(&addresses->lock);
    const struct mbr_interval *overlap = find_overlap(addresses->root, address, bytes);
    if (overlap != NULL) {
        *taken = overlap->start;
    } else {
        *entry =
            (mbr_addresses_entry){.interval = {.start = address, .bytes = bytes}, .owner = owner};
        mbr_interval_tree_insert(&addresses->root, &entry->interval);
    }
    mbr_lock_drop(&addresses->lock);
    return overlap == NULL;
}

mbr_addresses_entry *mbr_addresses_leave(
    mbr_addresses *addresses, const void *owner, uint64_t address)
{
    mbr_lock_take(&addresses->lock);
    struct mbr_interval *found = mbr_interval_tree_floor(addresses->root, address);
    bool is_ours = found != NULL && found->start == address && entry_of(found)->owner == owner;
    if (is_ours)
        mbr_interval_tree_remove(&addresses->root, found);
    mbr_lock_drop(&addresses->lock);
    return is_ours ? entry_of(found) : NULL;
}

mbr_addresses_entry *mbr_addresses_leave_first(mbr_addresses *addresses, const void *owner)
{
    mbr_lock_take(&addresses->lock);
    struct mbr_interval *found = mbr_interval_tree_ceiling(addresses->root, 0);
    while (found != NULL && entry_of(found)->owner != owner)
        found = mbr_interval_tree_ceiling(addresses->root, found->start + 1);
    if (found != NULL)
        mbr_interval_tree_remove(&addresses->root, found);
    mbr_lock_drop(&addresses->lock);
    return found != NULL ? entry_of(found) : NULL;
}
