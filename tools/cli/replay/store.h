/* The prefix store: prefixes that later requests begin with, in a registry of the library. What a
 * request's tokens are follows from the ids of its blocks; the registry is not told which prompts
 * are alike. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_STORE_H
#define MEMBRANE_TOOLS_CLI_REPLAY_STORE_H

#include "membrane/membrane.h"
#include "tools/cli/trace/trace.h"

#include <stdbool.h>

typedef struct replay_store replay_store;
typedef mbr_registry_entry replay_entry;

typedef struct replay_store_options {
    /* How a block's id becomes tokens: the id itself in two tokens (what the trace declares), or as
     * many tokens as the block has, for a registry that finds out by itself. */
    bool whole_tokens;
    /* For tests, may be NULL: changes a request's tokens before they are looked at. */
    void (*change)(
        void *context, const mbr_trace_request *request, uint32_t *tokens, uint64_t token_count);
    mbr_registry_hash hash; /* the registry's; NULL: its own */
    void *context;          /* of both */
} replay_store_options;

/* NULL: out of memory. */
replay_store *replay_store_create(const replay_store_options *options);
/* Gives every prefix up. No entry is in use any more. */
void replay_store_destroy(replay_store *store);

/* The entry with the most leading blocks equal to the request's, its prefix, and how many tokens
 * that is; NULL: none. The entry is in use until replay_store_release. */
replay_entry *replay_store_acquire(replay_store *store, const mbr_trace_request *request,
    const mbr_kv_prefix **prefix, uint64_t *tokens);
void replay_store_release(replay_store *store, replay_entry *entry);

/* Keeps `prefix` (the store's from now on) for the first block_count blocks of the request. An
 * older entry whose every block is found in newer ones is given up. False: out of memory, and the
 * prefix is not taken. */
bool replay_store_put(replay_store *store, const mbr_trace_request *request, uint32_t block_count,
    mbr_kv_prefix *prefix);
/* True if an entry already covers these blocks whole. */
bool replay_store_covers(
    replay_store *store, const mbr_trace_request *request, uint32_t block_count);

/* Gives up the least recently used entries that are not in use until a byte is free. False: there
 * is none. */
bool replay_store_evict(replay_store *store);
uint64_t replay_store_count(const replay_store *store);
uint64_t replay_store_evicted(const replay_store *store);

#endif
