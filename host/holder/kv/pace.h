/* How fast a sequence grows, as samples of its length tell. Two gauges look at it: one from growth
 * to growth, one over some time, in which growths of different kinds come (a chunk, then tokens).
 * Each holds the slower of its last two rates, so that one leap, such as a prompt, is none; the
 * faster gauge counts. Plain data and arithmetic; no clock, no lock. */
#ifndef MEMBRANE_HOST_HOLDER_KV_PACE_H
#define MEMBRANE_HOST_HOLDER_KV_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define MBR_KV_SOON_NS UINT64_C(50000000)   /* how far is looked ahead */
#define MBR_KV_REST_NS UINT64_C(1000000000) /* what has not grown for so long rests */

typedef struct mbr_kv_gauge {
    uint64_t tokens, since_ns;           /* where the rate under way began */
    uint64_t tokens_per_s, before_per_s; /* the last one, and the one before it */
} mbr_kv_gauge;

typedef struct mbr_kv_pace {
    uint64_t tokens;     /* seen last */
    uint64_t changed_ns; /* when they last grew, or were first seen; 0: never */
    mbr_kv_gauge steps, spans;
} mbr_kv_pace;

/* The length at a time that is not 0; both only rise. */
void mbr_kv_pace_see(mbr_kv_pace *pace, uint64_t tokens, uint64_t now_ns);
bool mbr_kv_pace_rests(const mbr_kv_pace *pace, uint64_t now_ns);
/* How long it will soon be; what was seen last where no pace is known. */
uint64_t mbr_kv_pace_soon(const mbr_kv_pace *pace, uint64_t now_ns);
/* How long it may be in so many ns: what has passed since it was last seen to grow counts, so that
 * of one whose next token is far away nothing is due before it is near. At most what it grows by in
 * `within_ns`, or one token. */
uint64_t mbr_kv_pace_due(const mbr_kv_pace *pace, uint64_t now_ns, uint64_t within_ns);

#endif
