/* What the same stays would have cost under other ways of holding a KV cache: peaks of owned bytes,
 * computed from a recorded schedule. Pure functions; 0 where there is no memory for the
 * computation. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_COMPARE_H
#define MEMBRANE_TOOLS_CLI_REPLAY_COMPARE_H

#include <stdint.h>

/* One stay of one request, for the comparison: tokens grow from prompt to prompt + output, evenly,
 * between decode_ns and end_ns. */
typedef struct mbr_replay_stay {
    uint64_t start_ns, decode_ns, end_ns;
    uint64_t prompt_tokens, end_tokens;
} mbr_replay_stay;

/* Every running request holds max_tokens. */
uint64_t mbr_replay_max_prealloc(
    const mbr_replay_stay *stays, uint64_t count, uint64_t max_tokens, uint64_t token_bytes);
/* Blocks of a power of two tokens, 16 at least; a block that is full is copied into one of twice
 * its size, and both are held at that instant. */
uint64_t mbr_replay_grow_and_copy(
    const mbr_replay_stay *stays, uint64_t count, uint64_t token_bytes);
/* Pages of 16 tokens; none is shared. */
uint64_t mbr_replay_paged16(const mbr_replay_stay *stays, uint64_t count, uint64_t token_bytes);

#endif
