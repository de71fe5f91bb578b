/* A registry inside: a radix tree of blocks under salts, and the entries that end in it.
 *
 *   block   one block of tokens behind one path of blocks; `entry` is one that holds it
 *   entry   a prefix, ending at its deepest block; it names the blocks whose `entry` it is
 *
 * Invariants: a block has an entry, which every block above it has or another one, else it is gone
 * or empty and the first of a place where others stand; an entry that names no block and that
 * nobody uses is gone. */
#ifndef MEMBRANE_HOST_HOLDER_REGISTRY_INTERNAL_H
#define MEMBRANE_HOST_HOLDER_REGISTRY_INTERNAL_H

#include "abi/base/lock.h"
#include "abi/base/seam.h"
#include "membrane/registry.h"

#include <stdbool.h>

/* An allocation that fails leaves the table as it was; HASH_ADD then unsets `hh.tbl`. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

typedef struct mbr_block mbr_block;
typedef struct mbr_registry_payer mbr_registry_payer; /* of give.c: it answers for one holder */

/* Where a block stands. Blocks of one place differ in their tokens: a collision. */
typedef struct mbr_block_key {
    const mbr_block *parent; /* NULL: a prompt's first */
    uint64_t salt;
    uint64_t hash; /* of the block and all before it */
} mbr_block_key;

struct mbr_block {
    mbr_block_key key;
    mbr_block *above; /* key.parent, to be changed */
    mbr_block *twin;  /* the next of its place; only the first is in the table */
    mbr_block *children, *prev, *next;
    mbr_registry_entry *entry;
    mbr_registry_entry *ending; /* whose deepest block it is; never two */
    uint64_t depth;             /* blocks up to here */
    uint64_t child_count;
    UT_hash_handle hh;
    uint32_t tokens[];
};

struct mbr_registry_entry {
    mbr_kv_prefix *prefix;
    mbr_holder_handle holder; /* who pays for it while nobody shares it */
    mbr_block *deepest;
    uint64_t named_count;
    uint64_t user_count;
    mbr_registry_entry *prev, *next; /* the least recently used first */
    mbr_registry_entry *also;        /* the next of those that a put has left without a name */
};

struct mbr_registry {
    mbr_registry_hash hash;
    void *hash_context;
    const mbr_heap *heap;
    uint32_t block_tokens;
    mbr_lock lock; /* guards all below */
    mbr_block *table;
    mbr_registry_entry *entries;
    mbr_registry_payer *payers; /* one a holder, but for an instant */
    mbr_condition walked;       /* nobody looks for something to give any more */
    uint32_t walker_count;
    uint64_t entry_count, used_count, block_count, given_count, collision_count;
};

/* The same as mbr_registry_create, with a heap; for tests. */
mbr_status mbr_registry_create_on(const mbr_heap *heap, const mbr_registry_request *request,
    mbr_registry **registry, mbr_error *error);

/* ---- registry.c: entries */
/* An entry out of tree and list; the caller ends its prefix when the lock is dropped. */
void mbr_entry_take_out_locked(mbr_registry *registry, mbr_registry_entry *entry,
    mbr_registry_entry **gone) MBR_REQUIRES(&registry->lock);
void mbr_entries_end(mbr_registry *registry, mbr_registry_entry *gone);

/* ---- give.c: pressure */
/* Who pays for the prefix; the registry answers for that holder from now on. */
mbr_status mbr_registry_answer_for(mbr_registry *registry, const mbr_kv_prefix *prefix,
    mbr_holder_handle *holder, mbr_error *error);
/* Answers for nobody any more, once no call for one runs. */
void mbr_registry_answer_nobody(mbr_registry *registry);

/* ---- tree.c: blocks and names */
uint64_t mbr_block_bytes(const mbr_registry *registry);
/* The deepest block on the prompt's path, or NULL. */
mbr_block *mbr_tree_find_locked(mbr_registry *registry, uint64_t salt, const uint32_t *tokens,
    uint64_t block_count) MBR_REQUIRES(&registry->lock);
/* The path to the last of block_count blocks, made where it is missing. NULL: no memory, and the
 * tree is as it was. */
mbr_block *mbr_tree_make_locked(mbr_registry *registry, uint64_t salt, const uint32_t *tokens,
    uint64_t block_count) MBR_REQUIRES(&registry->lock);
/* Gives every block up to the entry's deepest the entry's name. Those that name none any more, by
 * `also`. */
mbr_registry_entry *mbr_tree_name_locked(mbr_registry *registry, mbr_registry_entry *entry)
    MBR_REQUIRES(&registry->lock);
/* Takes its names away: another entry below a block takes it over, else the block goes. */
void mbr_tree_unname_locked(mbr_registry *registry, mbr_registry_entry *entry)
    MBR_REQUIRES(&registry->lock);

#endif
