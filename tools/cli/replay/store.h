/* The prefix store: prefixes that the trace declares by its block ids, kept for later requests,
 * given up whole and least recently used first. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_STORE_H
#define MEMBRANE_TOOLS_CLI_REPLAY_STORE_H

#include "membrane/membrane.h"
#include "tools/cli/trace/trace.h"

#include <stdbool.h>

typedef struct replay_store replay_store;
typedef struct replay_entry replay_entry;

replay_store *replay_store_create(void);
/* Gives every prefix up. No entry is in use any more. */
void replay_store_destroy(replay_store *store);

/* The entry with the most leading blocks equal to the request's, and how many tokens that is; NULL:
 * none. The entry is in use until replay_store_release. */
replay_entry *replay_store_acquire(
    replay_store *store, const mbr_trace_request *request, uint64_t *tokens);
void replay_store_release(replay_store *store, replay_entry *entry);
const mbr_kv_prefix *replay_entry_prefix(const replay_entry *entry);

/* Keeps `prefix` (the store's from now on) for the first block_count blocks of the request. An
 * older entry whose every block is found in newer ones is given up. False: out of memory, and the
 * prefix is not taken. */
bool replay_store_put(replay_store *store, const mbr_trace_request *request, uint32_t block_count,
    mbr_kv_prefix *prefix);
/* True if an entry already covers these blocks whole. */
bool replay_store_covers(
    const replay_store *store, const mbr_trace_request *request, uint32_t block_count);

/* Gives up the least recently used entry that is not in use. False: there is none. */
bool replay_store_evict(replay_store *store);
uint64_t replay_store_count(const replay_store *store);
uint64_t replay_store_evicted(const replay_store *store);

#endif
