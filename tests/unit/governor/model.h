// The governor's books as a child would keep them: one number a name, no credit, no slots, no code
// of the product. Everything that the governor shows is compared with it.
#ifndef MEMBRANE_TESTS_UNIT_GOVERNOR_MODEL_H
#define MEMBRANE_TESTS_UNIT_GOVERNOR_MODEL_H

#include "tests/unit/governor/world.h"

#include <algorithm>
#include <map>
#include <string>

namespace governor_test
{

struct ModelHolder {
    uint64_t allowance = MBR_NO_ALLOWANCE;
    uint32_t role = 0;
    uint64_t granted = 0, charged = 0, mapped = 0, quarantined = 0, retained = 0, peak = 0;
};

struct Model {
    uint64_t set_limit = 0;
    uint64_t measured = kNone, exhausted = kNone, margin = 0, device_free = MBR_UNKNOWN_BYTES;
    uint64_t grants = 0, refusals = 0, revision = 0, peak = 0;
    std::map<mbr_holder *, ModelHolder> holders;

    uint64_t Sum(uint64_t ModelHolder::*figure) const
    {
        uint64_t sum = 0;
        for (const auto &[name, holder] : holders)
            sum += holder.*figure;
        return sum;
    }

    uint64_t Limit() const
    {
        return std::min({set_limit, measured, exhausted, (UINT64_C(1) << 63) - 1});
    }

    uint64_t Claimed() const { return Sum(&ModelHolder::granted) + Sum(&ModelHolder::charged); }

    uint64_t Room() const { return Claimed() >= Limit() ? 0 : Limit() - Claimed(); }

    static uint64_t Left(const ModelHolder &holder)
    {
        uint64_t leased = holder.granted + holder.charged;
        if (holder.allowance == MBR_NO_ALLOWANCE)
            return kNone;
        return leased >= holder.allowance ? 0 : holder.allowance - leased;
    }

    // 0, or why the grant is refused.
    uint32_t Refuses(const ModelHolder &holder, uint64_t bytes) const
    {
        if (bytes <= Room() && bytes <= Left(holder))
            return 0;
        uint64_t set = std::min(set_limit, (UINT64_C(1) << 63) - 1);
        if (bytes > set)
            return MBR_REFUSED_CAPACITY;
        if (bytes > Left(holder))
            return MBR_REFUSED_ALLOWANCE;
        return Claimed() <= set && bytes <= set - Claimed() ? MBR_REFUSED_MEASURED
                                                            : MBR_REFUSED_LIMIT;
    }

    // After each operation: heights, and whether the limit in force is another one.
    void Settle(uint64_t limit_before)
    {
        peak = std::max(peak, Sum(&ModelHolder::charged));
        for (auto &[name, holder] : holders)
            holder.peak = std::max(holder.peak, holder.charged);
        revision += Limit() != limit_before;
    }
};

#define MODEL_SAME(what, governor, model)                                                          \
    do {                                                                                           \
        if ((governor) != (model))                                                                 \
            return std::string(what) + ": governor " + std::to_string(governor) + ", model " +     \
                std::to_string(model);                                                             \
    } while (false)

// Empty, or the first figure of a holder that differs.
inline std::string Differs(const mbr_holder_figures &figures, const ModelHolder &model)
{
    MODEL_SAME("role", figures.role, model.role);
    MODEL_SAME("allowance", figures.allowance_bytes, model.allowance);
    MODEL_SAME("granted", figures.granted_bytes, model.granted);
    MODEL_SAME("charged", figures.charged_bytes, model.charged);
    MODEL_SAME("mapped", figures.mapped_bytes, model.mapped);
    uint64_t past = model.charged > model.allowance ? model.charged - model.allowance : 0;
    MODEL_SAME("oversubscribed", figures.oversubscribed_bytes, past);
    MODEL_SAME("quarantined", figures.quarantined_bytes, model.quarantined);
    MODEL_SAME("retained", figures.retained_bytes, model.retained);
    MODEL_SAME("peak", figures.peak_charged_bytes, model.peak);
    return "";
}

// The same for an authority. With `credit_bytes` threads may hold that much.
inline std::string Differs(
    const mbr_authority_figures &figures, const Model &model, uint64_t credit_bytes)
{
    uint64_t claimed = model.Claimed();
    MODEL_SAME("limit", figures.limit_bytes, model.Limit());
    MODEL_SAME("set limit", figures.set_limit_bytes, model.set_limit);
    if (figures.claimed_bytes < claimed || figures.claimed_bytes - claimed > credit_bytes)
        MODEL_SAME("claimed", figures.claimed_bytes, claimed);
    MODEL_SAME("charged", figures.charged_bytes, model.Sum(&ModelHolder::charged));
    MODEL_SAME("granted", figures.granted_bytes, figures.claimed_bytes - figures.charged_bytes);
    MODEL_SAME("mapped", figures.mapped_bytes, model.Sum(&ModelHolder::mapped));
    uint64_t over = claimed > model.Limit() ? claimed - model.Limit() : 0;
    MODEL_SAME("over", figures.over_bytes, over);
    MODEL_SAME("quarantined", figures.quarantined_bytes, model.Sum(&ModelHolder::quarantined));
    MODEL_SAME("retained", figures.retained_bytes, model.Sum(&ModelHolder::retained));
    MODEL_SAME("peak", figures.peak_charged_bytes, model.peak);
    MODEL_SAME("grants", figures.grant_count, model.grants);
    MODEL_SAME("refusals", figures.refusal_count, model.refusals);
    MODEL_SAME("revision", figures.revision, model.revision);
    MODEL_SAME("holders", figures.holder_count, model.holders.size());
    return "";
}

// The same for a refusal.
inline std::string Differs(const mbr_refusal &refusal, const Model &model,
    const ModelHolder &holder, uint64_t bytes, uint32_t reason)
{
    uint64_t cached = 0;
    for (const auto &[name, other] : model.holders)
        cached += other.role == MBR_ROLE_CACHE ? other.charged : 0;
    MODEL_SAME("refused for", refusal.reason, reason);
    MODEL_SAME("asked", refusal.asked_bytes, bytes);
    MODEL_SAME("available", refusal.available_bytes, std::min(model.Room(), Model::Left(holder)));
    MODEL_SAME("refusal's limit", refusal.limit_bytes, model.Limit());
    MODEL_SAME("refusal's granted", refusal.granted_bytes, model.Sum(&ModelHolder::granted));
    MODEL_SAME("refusal's charged", refusal.charged_bytes, model.Sum(&ModelHolder::charged));
    MODEL_SAME("cached", refusal.cached_bytes, cached);
    MODEL_SAME(
        "refusal's quarantined", refusal.quarantined_bytes, model.Sum(&ModelHolder::quarantined));
    MODEL_SAME("device free", refusal.device_free_bytes, model.device_free);
    MODEL_SAME("deferred", refusal.deferred_bytes, MBR_UNKNOWN_BYTES);
    return "";
}

} // namespace governor_test

#endif
