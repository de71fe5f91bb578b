/* Responsible for the rate at which a sequence grows. Decides nothing about what is mapped. */
#include "host/holder/kv/pace.h"

#include "abi/base/checked.h"

#define NS_PER_S UINT64_C(1000000000)
#define RATE_LIMIT_PER_S (UINT64_C(1) << 50) /* above any; keeps sums far from a wrap */

static uint64_t rate(uint64_t tokens, uint64_t ns)
{
    uint64_t scaled;
    if (!mbr_mul(tokens, NS_PER_S, &scaled))
        return RATE_LIMIT_PER_S;
    return mbr_min(scaled / mbr_max(ns, 1), RATE_LIMIT_PER_S);
}

bool mbr_kv_pace_rests(const mbr_kv_pace *pace, uint64_t now_ns)
{
    return now_ns - pace->changed_ns > MBR_KV_REST_NS;
}

void mbr_kv_pace_see(mbr_kv_pace *pace, uint64_t tokens, uint64_t now_ns)
{
    bool is_first = pace->changed_ns == 0;
    bool grew = !is_first && tokens > pace->tokens;
    if (!is_first && mbr_kv_pace_rests(pace, now_ns)) {
        pace->tokens_per_s = pace->before_per_s = 0;
    } else if (grew) {
        pace->before_per_s = pace->tokens_per_s;
        pace->tokens_per_s = rate(tokens - pace->tokens, now_ns - pace->changed_ns);
    }
    if (grew || is_first)
        pace->changed_ns = now_ns;
    pace->tokens = tokens;
}

uint64_t mbr_kv_pace_soon(const mbr_kv_pace *pace, uint64_t now_ns)
{
    uint64_t per_s = mbr_min(pace->tokens_per_s, pace->before_per_s);
    if (per_s == 0 || mbr_kv_pace_rests(pace, now_ns))
        return pace->tokens;
    return pace->tokens + per_s / (NS_PER_S / MBR_KV_SOON_NS) + 1;
}
