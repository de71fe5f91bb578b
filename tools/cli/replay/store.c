/* The prefix store. Knows block ids and prefixes; decides nothing about requests. */
#include "tools/cli/replay/store.h"

#include <stdlib.h>
#include <uthash.h>
#include <utlist.h>

struct replay_entry {
    mbr_kv_prefix *prefix;
    const uint64_t *ids; /* the trace's */
    uint32_t id_count;
    uint32_t named_count; /* ids whose newest entry this is */
    uint32_t user_count;
    struct replay_entry *next, *prev; /* least recently used first */
};

/* The newest entry of a block, and the block's place in it. */
typedef struct block_record {
    uint64_t id;
    replay_entry *entry;
    uint32_t index;
    UT_hash_handle hh;
} block_record;

struct replay_store {
    block_record *blocks;
    replay_entry *entries;
    uint64_t entry_count, evicted_count;
};

replay_store *replay_store_create(void)
{
    return calloc(1, sizeof(replay_store));
}

static block_record *find_block(const replay_store *store, uint64_t id)
{
    block_record *found;
    HASH_FIND(hh, store->blocks, &id, sizeof(id), found);
    return found;
}

static void drop_entry(replay_store *store, replay_entry *entry)
{
    for (uint32_t i = 0; i < entry->id_count && entry->named_count != 0; i++) {
        block_record *block = find_block(store, entry->ids[i]);
        if (block == NULL || block->entry != entry)
            continue;
        HASH_DEL(store->blocks, block);
        free(block);
        entry->named_count--;
    }
    DL_DELETE(store->entries, entry);
    store->entry_count--;
    mbr_kv_prefix_destroy(entry->prefix, NULL);
    free(entry);
}

void replay_store_destroy(replay_store *store)
{
    if (store == NULL)
        return;
    while (store->entries != NULL)
        drop_entry(store, store->entries);
    free(store);
}

replay_entry *replay_store_acquire(
    replay_store *store, const mbr_trace_request *request, uint64_t *tokens)
{
    *tokens = 0;
    const block_record *deepest = NULL;
    uint32_t whole = request->hash_count == 0 ? 0 : request->prompt_tokens / MBR_TRACE_BLOCK_TOKENS;
    for (uint32_t i = 0; i < whole; i++) { /* the last id may name a part of a block */
        const block_record *block = find_block(store, request->hash_ids[i]);
        if (block == NULL || block->index != i)
            break;
        deepest = block;
    }
    if (deepest == NULL)
        return NULL;
    replay_entry *entry = deepest->entry;
    *tokens = (uint64_t)(deepest->index + 1) * MBR_TRACE_BLOCK_TOKENS;
    entry->user_count++;
    DL_DELETE(store->entries, entry);
    DL_APPEND(store->entries, entry);
    return entry;
}

void replay_store_release(replay_store *store, replay_entry *entry)
{
    if (entry == NULL)
        return;
    entry->user_count--;
    if (entry->user_count == 0 && entry->named_count == 0)
        drop_entry(store, entry);
}

const mbr_kv_prefix *replay_entry_prefix(const replay_entry *entry)
{
    return entry->prefix;
}

/* Records for every block first, so that taking them over cannot fail half-way. */
static bool prepare_blocks(replay_store *store, const mbr_trace_request *request, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (find_block(store, request->hash_ids[i]) != NULL)
            continue;
        block_record *block = calloc(1, sizeof(*block));
        if (block == NULL)
            return false;
        block->id = request->hash_ids[i];
        HASH_ADD(hh, store->blocks, id, sizeof(block->id), block);
    }
    return true;
}

static void forget_empty_blocks(
    replay_store *store, const mbr_trace_request *request, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        block_record *block = find_block(store, request->hash_ids[i]);
        if (block != NULL && block->entry == NULL) {
            HASH_DEL(store->blocks, block);
            free(block);
        }
    }
}

bool replay_store_put(replay_store *store, const mbr_trace_request *request, uint32_t block_count,
    mbr_kv_prefix *prefix)
{
    replay_entry *entry = calloc(1, sizeof(*entry));
    if (entry == NULL || !prepare_blocks(store, request, block_count)) {
        forget_empty_blocks(store, request, block_count);
        free(entry);
        return false;
    }
    *entry = (replay_entry){.prefix = prefix, .ids = request->hash_ids, .id_count = block_count};
    DL_APPEND(store->entries, entry);
    store->entry_count++;
    for (uint32_t i = 0; i < block_count; i++) {
        block_record *block = find_block(store, request->hash_ids[i]);
        replay_entry *older = block->entry;
        if (older == entry)
            continue; /* the same id twice in one prompt: its first place counts */
        block->entry = entry;
        block->index = i;
        entry->named_count++;
        if (older != NULL && --older->named_count == 0 && older->user_count == 0)
            drop_entry(store, older);
    }
    return true;
}

bool replay_store_covers(
    const replay_store *store, const mbr_trace_request *request, uint32_t block_count)
{
    if (block_count == 0)
        return true;
    const block_record *last = find_block(store, request->hash_ids[block_count - 1]);
    return last != NULL && last->index == block_count - 1;
}

bool replay_store_evict(replay_store *store)
{
    for (replay_entry *entry = store->entries; entry != NULL; entry = entry->next) {
        if (entry->user_count != 0)
            continue;
        drop_entry(store, entry);
        store->evicted_count++;
        return true;
    }
    return false;
}

uint64_t replay_store_count(const replay_store *store)
{
    return store->entry_count;
}

uint64_t replay_store_evicted(const replay_store *store)
{
    return store->evicted_count;
}
