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

static void gauge_begin(mbr_kv_gauge *gauge, uint64_t tokens, uint64_t now_ns)
{
    *gauge = (mbr_kv_gauge){.tokens = tokens, .since_ns = now_ns};
}

/* They grew; a rate spans at least so long. */
static void gauge_grow(mbr_kv_gauge *gauge, uint64_t tokens, uint64_t now_ns, uint64_t least_ns)
{
    if (now_ns - gauge->since_ns < least_ns)
        return;
    gauge->before_per_s = gauge->tokens_per_s;
    gauge->tokens_per_s = rate(tokens - gauge->tokens, now_ns - gauge->since_ns);
    gauge->tokens = tokens;
    gauge->since_ns = now_ns;
}

static uint64_t gauge_read(const mbr_kv_gauge *gauge)
{
    return mbr_min(gauge->tokens_per_s, gauge->before_per_s);
}

void mbr_kv_pace_see(mbr_kv_pace *pace, uint64_t tokens, uint64_t now_ns)
{
    bool is_first = pace->changed_ns == 0;
    bool grew = !is_first && tokens > pace->tokens;
    if (is_first || mbr_kv_pace_rests(pace, now_ns)) {
        gauge_begin(&pace->steps, tokens, now_ns);
        gauge_begin(&pace->spans, tokens, now_ns);
    } else if (grew) {
        gauge_grow(&pace->steps, tokens, now_ns, 0);
        gauge_grow(&pace->spans, tokens, now_ns, MBR_KV_SOON_NS);
    }
    if (grew || is_first)
        pace->changed_ns = now_ns;
    pace->tokens = tokens;
}

/* 0: it is not known, or rests. */
static uint64_t read_rate(const mbr_kv_pace *pace, uint64_t now_ns)
{
    return mbr_kv_pace_rests(pace, now_ns)
        ? 0
        : mbr_max(gauge_read(&pace->steps), gauge_read(&pace->spans));
}

uint64_t mbr_kv_pace_soon(const mbr_kv_pace *pace, uint64_t now_ns)
{
    uint64_t per_s = read_rate(pace, now_ns);
    if (per_s == 0)
        return pace->tokens;
    return pace->tokens + per_s / (NS_PER_S / MBR_KV_SOON_NS) + 1;
}

static uint64_t tokens_in(uint64_t per_s, uint64_t ns)
{
    uint64_t scaled;
    return mbr_mul(per_s, ns, &scaled) ? scaled / NS_PER_S : UINT64_MAX / NS_PER_S;
}

uint64_t mbr_kv_pace_due(const mbr_kv_pace *pace, uint64_t now_ns, uint64_t within_ns)
{
    uint64_t per_s = read_rate(pace, now_ns);
    uint64_t most = mbr_max(tokens_in(per_s, within_ns), 1);
    return pace->tokens + mbr_min(tokens_in(per_s, now_ns - pace->changed_ns + within_ns), most);
}
