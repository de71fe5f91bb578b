/* The prefix store: makes tokens of block ids and asks a registry. Decides nothing about requests.
 */
#include "tools/cli/replay/store.h"

#include <stdlib.h>

#define ID_TOKENS 2 /* of a block whose id stands for it */

struct replay_store {
    replay_store_options options;
    mbr_registry *registry;
    uint64_t block_tokens; /* of the registry's blocks */
    uint32_t *tokens;      /* of the request in hand */
    uint64_t capacity;
};

replay_store *replay_store_create(const replay_store_options *options)
{
    replay_store *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return NULL;
    store->options = *options;
    store->block_tokens = options->whole_tokens ? MBR_TRACE_BLOCK_TOKENS : ID_TOKENS;
    mbr_registry_request request = {MBR_SIZED(mbr_registry_request),
        .block_tokens = (uint32_t)store->block_tokens, .hash = options->hash,
        .hash_context = options->context};
    if (mbr_registry_create(&request, &store->registry, NULL) == MBR_OK)
        return store;
    free(store);
    return NULL;
}

void replay_store_destroy(replay_store *store)
{
    if (store == NULL)
        return;
    mbr_registry_destroy(store->registry, NULL);
    free(store->tokens);
    free(store);
}

/* ---- Tokens */

static uint32_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)(value >> 31);
}

static void write_block(const replay_store *store, uint64_t id, uint32_t *tokens)
{
    if (!store->options.whole_tokens) {
        tokens[0] = (uint32_t)id;
        tokens[1] = (uint32_t)(id >> 32);
        return;
    }
    for (uint64_t i = 0; i < MBR_TRACE_BLOCK_TOKENS; i++)
        tokens[i] = mix(id * MBR_TRACE_BLOCK_TOKENS + i);
}

/* The tokens of the request's first blocks, as many as are whole and asked for; *count of them.
 * False: out of memory. */
static bool take_tokens(
    replay_store *store, const mbr_trace_request *request, uint64_t blocks, uint64_t *count)
{
    uint64_t whole = request->hash_count == 0 ? 0 : request->prompt_tokens / MBR_TRACE_BLOCK_TOKENS;
    blocks = blocks < whole ? blocks : whole; /* the last id may name a part of a block */
    *count = blocks * store->block_tokens;
    if (*count > store->capacity) {
        uint32_t *grown = realloc(store->tokens, *count * sizeof(*grown));
        if (grown == NULL)
            return false;
        store->tokens = grown;
        store->capacity = *count;
    }
    for (uint64_t i = 0; i < blocks; i++)
        write_block(store, request->hash_ids[i], &store->tokens[i * store->block_tokens]);
    if (store->options.change != NULL)
        store->options.change(store->options.context, request, store->tokens, *count);
    return true;
}

static mbr_registry_match find(replay_store *store, uint64_t count)
{
    mbr_registry_match match = {MBR_SIZED(mbr_registry_match)};
    mbr_registry_find(store->registry, 0, store->tokens, count, &match);
    return match;
}

/* ---- Entries */

replay_entry *replay_store_acquire(replay_store *store, const mbr_trace_request *request,
    const mbr_kv_prefix **prefix, uint64_t *tokens)
{
    uint64_t count;
    *tokens = 0;
    *prefix = NULL;
    if (!take_tokens(store, request, UINT64_MAX, &count))
        return NULL; /* not being able to share is no failure */
    mbr_registry_match match = find(store, count);
    *tokens = match.tokens / store->block_tokens * MBR_TRACE_BLOCK_TOKENS;
    *prefix = match.prefix;
    return match.entry;
}

void replay_store_release(replay_store *store, replay_entry *entry)
{
    mbr_registry_release(store->registry, entry);
}

bool replay_store_put(replay_store *store, const mbr_trace_request *request, uint32_t block_count,
    mbr_kv_prefix *prefix)
{
    uint64_t count;
    return take_tokens(store, request, block_count, &count) &&
        mbr_registry_put(store->registry, 0, store->tokens, count, prefix, NULL) == MBR_OK;
}

bool replay_store_covers(
    replay_store *store, const mbr_trace_request *request, uint32_t block_count)
{
    uint64_t count;
    if (block_count == 0)
        return true;
    if (!take_tokens(store, request, block_count, &count))
        return false;
    mbr_registry_match match = find(store, count);
    mbr_registry_release(store->registry, match.entry);
    return match.tokens == count;
}

/* ---- Giving up */

static mbr_registry_figures figures_of(const replay_store *store)
{
    mbr_registry_figures figures = {MBR_SIZED(mbr_registry_figures)};
    mbr_registry_read(store->registry, &figures);
    return figures;
}

bool replay_store_evict(replay_store *store)
{
    uint64_t before = replay_store_evicted(store);
    mbr_registry_give(store->registry, 1);
    return replay_store_evicted(store) != before;
}

uint64_t replay_store_count(const replay_store *store)
{
    return figures_of(store).entry_count;
}

uint64_t replay_store_evicted(const replay_store *store)
{
    return figures_of(store).given_count;
}
