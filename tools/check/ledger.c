/* Keeps the second set of books. Believes no sum of the plugin's: adds up what each call answered.
 * Never asks the plugin or the system. */
#include "tools/check/ledger.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

typedef struct entry_key {
    uint64_t class, id, offset_bytes; /* the offset of mappings; id is their reservation */
} entry_key;

struct mbr_entry {
    entry_key key;
    uint64_t bytes, owned_bytes, address, other_id;
    UT_hash_handle hh;
};

void mbr_ledger_init(mbr_ledger *ledger)
{
    memset(ledger, 0, sizeof *ledger);
    pthread_mutex_init(&ledger->lock, NULL);
}

static mbr_entry *find_locked(mbr_ledger *ledger, mbr_object_class class, uint64_t id, uint64_t at)
{
    const entry_key key = {class, id, at};
    mbr_entry *entry;
    HASH_FIND(hh, ledger->entries, &key, sizeof key, entry);
    return entry;
}

static mbr_entry *add_locked(mbr_ledger *ledger, mbr_object_class class, uint64_t id, uint64_t at)
{
    mbr_entry *entry = calloc(1, sizeof *entry);
    ledger->count[class]++;
    if (entry == NULL)
        return NULL;
    entry->key = (entry_key){class, id, at};
    HASH_ADD(hh, ledger->entries, key, sizeof entry->key, entry);
    return entry;
}

static void remove_locked(mbr_ledger *ledger, mbr_entry *entry)
{
    if (entry == NULL)
        return;
    if (entry->key.class == MBR_OBJECT_RESERVATION)
        ledger->reserved_bytes -= entry->bytes;
    ledger->count[entry->key.class]--;
    HASH_DEL(ledger->entries, entry);
    free(entry);
}

static void made_locked(mbr_ledger *ledger, mbr_object_class class, uint64_t id, uint64_t bytes,
    const mbr_outcome *outcome)
{
    mbr_entry *entry = add_locked(ledger, class, id, 0);
    if (class == MBR_OBJECT_RESERVATION)
        ledger->reserved_bytes += bytes;
    if (entry == NULL)
        return;
    entry->bytes = bytes;
    entry->owned_bytes = outcome->newly_owned_bytes;
    entry->address = outcome->address;
}

static void mapped_locked(
    mbr_ledger *ledger, uint64_t reservation_id, uint64_t at, uint64_t extent_id)
{
    mbr_entry *extent = find_locked(ledger, MBR_OBJECT_EXTENT, extent_id, 0);
    mbr_entry *mapping = add_locked(ledger, MBR_OBJECT_MAPPING, reservation_id, at);
    if (mapping == NULL)
        return;
    mapping->bytes = extent == NULL ? 0 : extent->bytes;
    mapping->other_id = extent_id;
}

static void unmapped_locked(mbr_ledger *ledger, const mbr_unmap_request *request)
{
    mbr_entry *entry, *next;
    HASH_ITER(hh, ledger->entries, entry, next)
    if (entry->key.class == MBR_OBJECT_MAPPING && entry->key.id == request->reservation_id &&
        entry->key.offset_bytes >= request->offset_bytes &&
        entry->key.offset_bytes - request->offset_bytes < request->bytes)
        remove_locked(ledger, entry);
}

static void done_locked(
    mbr_ledger *ledger, mbr_slot slot, const void *request, const mbr_outcome *outcome)
{
    const mbr_allocate_request *allocate = request;
    const mbr_release_request *release = request;
    const mbr_reserve_request *reserve = request;
    const mbr_extent_create_request *create = request;
    const mbr_map_request *map = request;
    const mbr_map_shared_request *share = request;
    const mbr_unreserve_request *unreserve = request;
    const mbr_extent_destroy_request *destroy = request;
    switch (slot) {
    case MBR_SLOT_allocate:
        made_locked(
            ledger, MBR_OBJECT_ALLOCATION, allocate->allocation_id, allocate->bytes, outcome);
        break;
    case MBR_SLOT_release:
        remove_locked(
            ledger, find_locked(ledger, MBR_OBJECT_ALLOCATION, release->allocation_id, 0));
        break;
    case MBR_SLOT_reserve:
        made_locked(
            ledger, MBR_OBJECT_RESERVATION, reserve->reservation_id, reserve->bytes, outcome);
        break;
    case MBR_SLOT_unreserve:
        remove_locked(
            ledger, find_locked(ledger, MBR_OBJECT_RESERVATION, unreserve->reservation_id, 0));
        break;
    case MBR_SLOT_extent_create:
        made_locked(ledger, MBR_OBJECT_EXTENT, create->extent_id, create->bytes, outcome);
        break;
    case MBR_SLOT_extent_destroy:
        remove_locked(ledger, find_locked(ledger, MBR_OBJECT_EXTENT, destroy->extent_id, 0));
        break;
    case MBR_SLOT_map:
        mapped_locked(ledger, map->reservation_id, map->offset_bytes, map->extent_id);
        break;
    case MBR_SLOT_map_shared:
        mapped_locked(ledger, share->reservation_id, share->offset_bytes, share->extent_id);
        break;
    case MBR_SLOT_unmap:
        unmapped_locked(ledger, request);
        break;
    case MBR_SLOT_line_open:
        ledger->count[MBR_OBJECT_LINE]++;
        break;
    case MBR_SLOT_line_close:
        ledger->count[MBR_OBJECT_LINE]--;
        break;
    case MBR_SLOT_stream_create:
        ledger->count[MBR_OBJECT_STREAM]++;
        break;
    case MBR_SLOT_stream_destroy:
        ledger->count[MBR_OBJECT_STREAM]--;
        break;
    default:
        break;
    }
}

void mbr_ledger_note(mbr_ledger *ledger, mbr_slot slot, mbr_status status, const void *request,
    const mbr_outcome *outcome)
{
    pthread_mutex_lock(&ledger->lock);
    if (mbr_slots[slot].changes) {
        ledger->owned_bytes += outcome->newly_owned_bytes - outcome->released_bytes;
        ledger->mapped_bytes += outcome->newly_mapped_bytes - outcome->unmapped_bytes;
    }
    if (status == MBR_OK)
        done_locked(ledger, slot, request, outcome);
    pthread_mutex_unlock(&ledger->lock);
}

bool mbr_ledger_find(mbr_ledger *ledger, mbr_object_class class, uint64_t id, uint64_t *bytes,
    uint64_t *owned_bytes, uint64_t *address)
{
    pthread_mutex_lock(&ledger->lock);
    const mbr_entry *entry = find_locked(ledger, class, id, 0);
    bool is_there = entry != NULL;
    *bytes = is_there ? entry->bytes : 0;
    *owned_bytes = is_there ? entry->owned_bytes : 0;
    *address = is_there ? entry->address : 0;
    pthread_mutex_unlock(&ledger->lock);
    return is_there;
}
