/* Prefix registries: which prompts begin alike, found by their tokens alone.
 *
 * A registry keeps prefixes of KV caches under the tokens that they hold. Prompts are cut into
 * blocks; each block is keyed by a hash of itself and of all before it, and compared token by token
 * on a hit, so that a collision of hashes shares nothing wrongly. The blocks form a radix tree:
 * what two prompts have in common stands there once.
 *
 * The registry is a user of its prefixes. An entry is given up whole, the least recently used
 * first, and never while somebody uses it. A salt, one a tenant, keeps tenants apart: none finds,
 * or can learn from timing, what another has asked.
 *
 * Thread rule: any thread; calls of one registry wait for each other. Prefixes are destroyed inside
 * of release, put, give and destroy, with no lock held. */
#ifndef MEMBRANE_REGISTRY_H
#define MEMBRANE_REGISTRY_H

#include "membrane/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_registry mbr_registry;
typedef struct mbr_registry_entry mbr_registry_entry;

typedef uint64_t (*mbr_registry_hash)(
    void *context, uint64_t before, const uint32_t *tokens, uint64_t token_count);

typedef struct mbr_registry_request {
    uint32_t struct_size;
    uint32_t block_tokens; /* prompts are found by whole blocks; 0: 512; at most 65536 */
    /* Of a block and of the hash of all before it; NULL: XXH3. A worse one costs time, never
     * contents. Called under the registry's lock: it calls no registry. */
    mbr_registry_hash hash;
    void *hash_context;
} mbr_registry_request;

/* Errors: MBR_OUT_OF_RANGE (block_tokens), MBR_OUT_OF_HOST_MEMORY. `request` may be NULL. */
MBR_API mbr_status mbr_registry_create(
    const mbr_registry_request *request, mbr_registry **registry, mbr_error *error);
/* Gives every entry up. MBR_IN_USE with the count while one is used. */
MBR_API mbr_status mbr_registry_destroy(mbr_registry *registry, mbr_error *error);

typedef struct mbr_registry_match {
    uint32_t struct_size;
    uint32_t reserved_0;
    mbr_registry_entry *entry;   /* in use until mbr_registry_release; NULL: nothing is alike */
    const mbr_kv_prefix *prefix; /* valid while the entry is in use */
    uint64_t tokens;             /* how many of the prompt's first tokens it holds: whole blocks */
} mbr_registry_match;

/* The entry with the most leading blocks equal to the prompt's. Changes nothing but its place among
 * the least recently used. */
MBR_API void mbr_registry_find(mbr_registry *registry, uint64_t salt, const uint32_t *tokens,
    uint64_t token_count, mbr_registry_match *match);
MBR_API void mbr_registry_release(mbr_registry *registry, mbr_registry_entry *entry);

/* Keeps `prefix` for the whole blocks of the first token_count tokens; the registry's from now on.
 * What of older entries is all found in newer ones is given up. Errors, and then the prefix stays
 * the caller's: MBR_INVALID_ARGUMENT (less than one block), MBR_ALREADY_EXISTS (an entry holds all
 * of these blocks already), MBR_OUT_OF_HOST_MEMORY, MBR_OUT_OF_DESCRIPTORS (the prefix's holder
 * cannot be asked for bytes: too many of its authority are). */
MBR_API mbr_status mbr_registry_put(mbr_registry *registry, uint64_t salt, const uint32_t *tokens,
    uint64_t token_count, mbr_kv_prefix *prefix, mbr_error *error);

/* A holder that pays for prefixes of the registry is asked for bytes: without callbacks of the
 * client's (mbr_holder_request) the registry answers for what that one pays by itself. Of all
 * holders: what would become free if every entry that nobody uses were
 * given up, at most `wanted_bytes`; and giving it, the least recently used entries first, none of
 * which live sequences keep every byte. Returns the bytes. A prefix on a device where a capture is
 * open is not given. */
MBR_API uint64_t mbr_registry_could_give(mbr_registry *registry, uint64_t wanted_bytes);
MBR_API uint64_t mbr_registry_give(mbr_registry *registry, uint64_t wanted_bytes);

typedef struct mbr_registry_figures {
    uint32_t struct_size;
    uint32_t block_tokens;
    uint64_t entry_count;
    uint64_t used_count;      /* of entries */
    uint64_t block_count;     /* distinct ones, in the tree */
    uint64_t host_bytes;      /* of tokens and of the tree */
    uint64_t given_count;     /* entries given up for bytes */
    uint64_t collision_count; /* blocks whose hash was alike and whose tokens were not */
} mbr_registry_figures;

MBR_API void mbr_registry_read(mbr_registry *registry, mbr_registry_figures *figures);

#ifdef __cplusplus
}
#endif

#endif
