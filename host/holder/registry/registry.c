/* Responsible for the entries of a registry: who is found, used and kept. Destroys prefixes with no
 * lock held, and decides nothing about requests. */
#include "abi/base/assert.h"
#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "host/holder/registry/internal.h"

#include <utlist.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define BLOCK_TOKENS 512
#define BLOCK_TOKENS_MAX 65536

static uint64_t hash_by_xxh3(
    void *context, uint64_t before, const uint32_t *tokens, uint64_t token_count)
{
    (void)context;
    return XXH3_64bits_withSeed(tokens, token_count * sizeof(*tokens), before);
}

/* ---- Life */

mbr_status mbr_registry_create_on(const mbr_heap *heap, const mbr_registry_request *request,
    mbr_registry **registry, mbr_error *error)
{
    *registry = NULL;
    mbr_registry_request known = {MBR_SIZED(mbr_registry_request)};
    mbr_status status = request == NULL
        ? MBR_OK
        : MBR_TAKE(&known, mbr_registry_request, hash_context, request, error);
    if (status != MBR_OK)
        return status;
    if (known.block_tokens > BLOCK_TOKENS_MAX)
        return mbr_fail_argument(error, MBR_OUT_OF_RANGE, 1,
            "blocks of %u tokens; 1 to %d would work, 0 means %d", known.block_tokens,
            BLOCK_TOKENS_MAX, BLOCK_TOKENS);
    mbr_registry *made = mbr_heap_allocate(heap, sizeof(*made));
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a prefix registry");
    made->heap = heap;
    made->block_tokens = known.block_tokens == 0 ? BLOCK_TOKENS : known.block_tokens;
    made->hash = known.hash == NULL ? hash_by_xxh3 : known.hash;
    made->hash_context = known.hash_context;
    mbr_lock_init(&made->lock, MBR_RANK_CLIENT);
    mbr_condition_init(&made->walked);
    *registry = made;
    return MBR_OK;
}

mbr_status mbr_registry_create(
    const mbr_registry_request *request, mbr_registry **registry, mbr_error *error)
{
    return mbr_registry_create_on(&mbr_heap_libc, request, registry, error);
}

void mbr_entry_take_out_locked(
    mbr_registry *registry, mbr_registry_entry *entry, mbr_registry_entry **gone)
{
    mbr_tree_unname_locked(registry, entry);
    DL_DELETE(registry->entries, entry);
    registry->entry_count--;
    entry->next = *gone;
    *gone = entry;
}

void mbr_entries_end(mbr_registry *registry, mbr_registry_entry *gone)
{
    while (gone != NULL) {
        mbr_registry_entry *next = gone->next;
        mbr_kv_prefix_destroy(gone->prefix, NULL); /* its extents live on with their sharers */
        mbr_heap_release(registry->heap, gone);
        gone = next;
    }
}

mbr_status mbr_registry_destroy(mbr_registry *registry, mbr_error *error)
{
    mbr_registry_entry *gone = NULL;
    mbr_lock_take(&registry->lock);
    while (registry->walker_count != 0) /* what it looks at counts as used */
        mbr_condition_wait(&registry->walked, &registry->lock, UINT64_MAX);
    uint64_t used_count = registry->used_count;
    while (used_count == 0 && registry->entries != NULL)
        mbr_entry_take_out_locked(registry, registry->entries, &gone);
    mbr_lock_drop(&registry->lock);
    if (used_count != 0)
        return mbr_fail(error, MBR_IN_USE,
            "%llu entries of the registry are in use; release them first",
            (unsigned long long)used_count);
    mbr_registry_answer_nobody(registry);
    mbr_entries_end(registry, gone);
    MBR_ASSERT(registry->table == NULL);
    mbr_condition_finish(&registry->walked);
    mbr_lock_finish(&registry->lock);
    mbr_heap_release(registry->heap, registry);
    return MBR_OK;
}

/* ---- Finding and using */

void mbr_registry_find(mbr_registry *registry, uint64_t salt, const uint32_t *tokens,
    uint64_t token_count, mbr_registry_match *match)
{
    mbr_registry_match found = {MBR_SIZED(mbr_registry_match)};
    mbr_lock_take(&registry->lock);
    mbr_block *deepest =
        mbr_tree_find_locked(registry, salt, tokens, token_count / registry->block_tokens);
    if (deepest != NULL) {
        mbr_registry_entry *entry = deepest->entry;
        registry->used_count += entry->user_count++ == 0;
        DL_DELETE(registry->entries, entry);
        DL_APPEND(registry->entries, entry);
        found.entry = entry;
        found.prefix = entry->prefix;
        found.tokens = deepest->depth * registry->block_tokens;
    }
    mbr_lock_drop(&registry->lock);
    mbr_growable_give(match, &found, sizeof(found));
}

void mbr_registry_release(mbr_registry *registry, mbr_registry_entry *entry)
{
    mbr_registry_entry *gone = NULL;
    if (entry == NULL)
        return;
    mbr_lock_take(&registry->lock);
    MBR_CHECK(entry->user_count != 0); /* one too many: it would never be given up */
    registry->used_count -= --entry->user_count == 0;
    if (entry->user_count == 0 && entry->named_count == 0)
        mbr_entry_take_out_locked(registry, entry, &gone);
    mbr_lock_drop(&registry->lock);
    mbr_entries_end(registry, gone);
}

/* ---- Keeping */

static mbr_status put_locked(mbr_registry *registry, uint64_t salt, const uint32_t *tokens,
    uint64_t block_count, mbr_registry_entry *entry, mbr_registry_entry **gone)
    MBR_REQUIRES(&registry->lock)
{
    const mbr_block *known = mbr_tree_find_locked(registry, salt, tokens, block_count);
    if (known != NULL && known->depth == block_count)
        return MBR_ALREADY_EXISTS;
    entry->deepest = mbr_tree_make_locked(registry, salt, tokens, block_count);
    if (entry->deepest == NULL)
        return MBR_OUT_OF_HOST_MEMORY;
    mbr_registry_entry *held = mbr_tree_name_locked(registry, entry); /* whole by this one */
    for (; held != NULL; held = held->also)
        if (held->user_count == 0)
            mbr_entry_take_out_locked(registry, held, gone);
    DL_APPEND(registry->entries, entry);
    registry->entry_count++;
    return MBR_OK;
}

static mbr_status explain_put(mbr_status status, uint64_t block_count, mbr_error *error)
{
    if (status == MBR_ALREADY_EXISTS)
        return mbr_fail(error, status, "an entry holds all %llu blocks already; find it",
            (unsigned long long)block_count);
    return mbr_fail(error, status, "no host memory to keep %llu blocks of tokens",
        (unsigned long long)block_count);
}

mbr_status mbr_registry_put(mbr_registry *registry, uint64_t salt, const uint32_t *tokens,
    uint64_t token_count, mbr_kv_prefix *prefix, mbr_error *error)
{
    uint64_t block_count = token_count / registry->block_tokens;
    if (block_count == 0)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 3,
            "%llu tokens are less than a block; %u and more would work",
            (unsigned long long)token_count, registry->block_tokens);
    mbr_registry_entry *entry = mbr_heap_allocate(registry->heap, sizeof(*entry));
    if (entry == NULL)
        return explain_put(MBR_OUT_OF_HOST_MEMORY, block_count, error);
    entry->prefix = prefix;
    mbr_registry_entry *gone = NULL;
    mbr_status status = mbr_registry_answer_for(registry, prefix, &entry->holder, error);
    if (status != MBR_OK) {
        mbr_heap_release(registry->heap, entry);
        return status;
    }
    mbr_lock_take(&registry->lock);
    status = put_locked(registry, salt, tokens, block_count, entry, &gone);
    mbr_lock_drop(&registry->lock);
    mbr_entries_end(registry, gone);
    if (status == MBR_OK)
        return MBR_OK;
    mbr_heap_release(registry->heap, entry);
    return explain_put(status, block_count, error);
}

/* ---- Figures */

void mbr_registry_read(mbr_registry *registry, mbr_registry_figures *figures)
{
    mbr_registry_figures now = {MBR_SIZED(mbr_registry_figures)};
    mbr_lock_take(&registry->lock);
    now.block_tokens = registry->block_tokens;
    now.entry_count = registry->entry_count;
    now.used_count = registry->used_count;
    now.block_count = registry->block_count;
    now.host_bytes = registry->block_count * mbr_block_bytes(registry) +
        registry->entry_count * sizeof(mbr_registry_entry);
    now.given_count = registry->given_count;
    now.collision_count = registry->collision_count;
    mbr_lock_drop(&registry->lock);
    mbr_growable_give(figures, &now, sizeof(now));
}
