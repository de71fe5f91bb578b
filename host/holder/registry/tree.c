/* Responsible for the radix tree of blocks: finding a prompt's path, making it, and saying which
 * entry holds a block. Takes no memory from a device and destroys no prefix. */
#include "host/holder/registry/internal.h"

#include <string.h>
#include <utlist.h>

#define FEW_CHILDREN 4

uint64_t mbr_block_bytes(const mbr_registry *registry)
{
    return sizeof(mbr_block) + registry->block_tokens * sizeof(uint32_t);
}

static bool is_equal(const mbr_registry *registry, const mbr_block *block, const uint32_t *tokens)
{
    return memcmp(block->tokens, tokens, registry->block_tokens * sizeof(uint32_t)) == 0;
}

static mbr_block *first_at_locked(mbr_registry *registry, const mbr_block_key *key)
    MBR_REQUIRES(&registry->lock)
{
    mbr_block *found;
    HASH_FIND(hh, registry->table, key, sizeof(*key), found);
    return found;
}

static mbr_block *in_table_locked(mbr_registry *registry, const mbr_block_key *key,
    const uint32_t *tokens) MBR_REQUIRES(&registry->lock)
{
    mbr_block *block = first_at_locked(registry, key);
    for (; block != NULL && !is_equal(registry, block, tokens); block = block->twin)
        registry->collision_count++;
    return block;
}

/* Of all that follow the parent. */
static mbr_block *among_children_locked(mbr_registry *registry, const mbr_block_key *key,
    const uint32_t *tokens) MBR_REQUIRES(&registry->lock)
{
    mbr_block *child;
    DL_FOREACH(key->parent->children, child)
    {
        if (child->key.hash != key->hash)
            continue;
        if (is_equal(registry, child, tokens))
            return child;
        registry->collision_count++;
    }
    return NULL;
}

/* The block behind `parent` with these tokens; where there is none, *key gets its place. Most
 * blocks have one that follows them, which is compared before anything is hashed; or few, by whose
 * hashes the right one is found sooner than in the table. */
static mbr_block *child_locked(mbr_registry *registry, const mbr_block *parent, uint64_t salt,
    const uint32_t *tokens, mbr_block_key *key) MBR_REQUIRES(&registry->lock)
{
    if (parent != NULL && parent->child_count == 1 && is_equal(registry, parent->children, tokens))
        return parent->children;
    uint64_t before = parent == NULL ? salt : parent->key.hash;
    *key = (mbr_block_key){.parent = parent,
        .salt = salt,
        .hash = registry->hash(registry->hash_context, before, tokens, registry->block_tokens)};
    if (parent != NULL && parent->child_count <= FEW_CHILDREN)
        return among_children_locked(registry, key, tokens);
    return in_table_locked(registry, key, tokens);
}

mbr_block *mbr_tree_find_locked(
    mbr_registry *registry, uint64_t salt, const uint32_t *tokens, uint64_t block_count)
{
    mbr_block *deepest = NULL;
    mbr_block_key key;
    for (uint64_t i = 0; i < block_count; i++) {
        mbr_block *block =
            child_locked(registry, deepest, salt, &tokens[i * registry->block_tokens], &key);
        if (block == NULL || block->entry == NULL)
            break;
        deepest = block;
    }
    return deepest;
}

/* ---- Making and ending */

static mbr_block *add_locked(mbr_registry *registry, mbr_block *parent, const mbr_block_key *key,
    const uint32_t *tokens) MBR_REQUIRES(&registry->lock)
{
    mbr_block *block = mbr_heap_allocate(registry->heap, mbr_block_bytes(registry));
    if (block == NULL)
        return NULL;
    block->key = *key;
    block->above = parent;
    block->depth = parent == NULL ? 1 : parent->depth + 1;
    memcpy(block->tokens, tokens, registry->block_tokens * sizeof(uint32_t));
    mbr_block *first = first_at_locked(registry, key);
    if (first != NULL) {
        block->twin = first->twin;
        first->twin = block;
    } else {
        HASH_ADD(hh, registry->table, key, sizeof(block->key), block);
        if (block->hh.tbl == NULL) {
            mbr_heap_release(registry->heap, block);
            return NULL;
        }
    }
    if (parent != NULL) {
        DL_APPEND(parent->children, block);
        parent->child_count++;
    }
    registry->block_count++;
    return block;
}

static void free_block_locked(mbr_registry *registry, mbr_block *block)
    MBR_REQUIRES(&registry->lock)
{
    if (block->above != NULL) {
        DL_DELETE(block->above->children, block);
        block->above->child_count--;
    }
    registry->block_count--;
    mbr_heap_release(registry->heap, block);
}

static bool is_empty(const mbr_block *block)
{
    return block->entry == NULL && block->children == NULL;
}

/* An empty block goes; the first of its place stays, empty, as long as others are found by it. */
static void end_locked(mbr_registry *registry, mbr_block *block) MBR_REQUIRES(&registry->lock)
{
    mbr_block *first = first_at_locked(registry, &block->key);
    if (first != block) {
        mbr_block *before = first;
        while (before->twin != block)
            before = before->twin;
        before->twin = block->twin;
        free_block_locked(registry, block);
    }
    if (first->twin != NULL || !is_empty(first))
        return;
    HASH_DEL(registry->table, first);
    free_block_locked(registry, first);
}

/* From a block upwards: what holds nothing and leads to nothing goes. */
static void prune_locked(mbr_registry *registry, mbr_block *block) MBR_REQUIRES(&registry->lock)
{
    while (block != NULL && is_empty(block)) {
        mbr_block *above = block->above;
        end_locked(registry, block);
        block = above;
    }
}

mbr_block *mbr_tree_make_locked(
    mbr_registry *registry, uint64_t salt, const uint32_t *tokens, uint64_t block_count)
{
    mbr_block *deepest = NULL;
    mbr_block_key key = {0};
    for (uint64_t i = 0; i < block_count; i++) {
        const uint32_t *these = &tokens[i * registry->block_tokens];
        mbr_block *block = child_locked(registry, deepest, salt, these, &key);
        if (block == NULL)
            block = add_locked(registry, deepest, &key, these);
        if (block == NULL) {
            prune_locked(registry, deepest);
            return NULL;
        }
        deepest = block;
    }
    return deepest;
}

/* ---- Names */

static void set_entry(mbr_block *block, mbr_registry_entry *entry)
{
    if (block->entry != NULL)
        block->entry->named_count--;
    block->entry = entry;
    if (entry != NULL)
        entry->named_count++;
}

mbr_registry_entry *mbr_tree_name_locked(mbr_registry *registry, mbr_registry_entry *entry)
{
    (void)registry;
    mbr_registry_entry *nameless = NULL;
    entry->deepest->ending = entry;
    for (mbr_block *block = entry->deepest; block != NULL; block = block->above) {
        mbr_registry_entry *before = block->entry;
        set_entry(block, entry);
        if (before != NULL && before->named_count == 0) {
            before->also = nameless;
            nameless = before;
        }
    }
    return nameless;
}

/* Another entry that holds this block: it ends here, or goes on below. */
static mbr_registry_entry *other_entry(const mbr_block *block)
{
    const mbr_block *child;
    if (block->ending != NULL)
        return block->ending;
    DL_FOREACH(block->children, child)
    if (child->entry != NULL)
        return child->entry;
    return NULL;
}

void mbr_tree_unname_locked(mbr_registry *registry, mbr_registry_entry *entry)
{
    mbr_block *block = entry->deepest;
    block->ending = NULL;
    while (block != NULL) { /* upwards: a block's children are right before it is asked */
        mbr_block *above = block->above;
        if (block->entry == entry)
            set_entry(block, other_entry(block));
        if (is_empty(block))
            end_locked(registry, block);
        block = above;
    }
}
