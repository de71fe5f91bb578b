// What the governor shows against what the model says: the first difference, or nothing.
#ifndef MEMBRANE_TESTS_UNIT_GOVERNOR_DIFFERS_H
#define MEMBRANE_TESTS_UNIT_GOVERNOR_DIFFERS_H

#include "tests/unit/governor/model.h"

namespace governor_test
{

#define PAIR_SAME(what, governor, model)                                                           \
    do {                                                                                           \
        if ((governor) != (model))                                                                 \
            return std::string(what) + ": governor " + std::to_string(governor) + ", model " +     \
                std::to_string(model);                                                             \
    } while (false)

// Empty, or the first figure of a holder that differs.
inline std::string Differs(const mbr_holder_figures &figures, const ModelHolder &model)
{
    PAIR_SAME("role", figures.role, model.role);
    PAIR_SAME("allowance", figures.allowance_bytes, model.allowance);
    PAIR_SAME("granted", figures.granted_bytes, model.granted);
    PAIR_SAME("charged", figures.charged_bytes, model.charged);
    PAIR_SAME("mapped", figures.mapped_bytes, model.mapped);
    PAIR_SAME("oversubscribed", figures.oversubscribed_bytes, Less(model.charged, model.allowance));
    PAIR_SAME("quarantined", figures.quarantined_bytes, model.quarantined);
    PAIR_SAME("retained", figures.retained_bytes, model.retained);
    PAIR_SAME("peak", figures.peak_charged_bytes, model.peak);
    PAIR_SAME("borrowed", figures.borrowed_bytes, model.Borrowed());
    return "";
}

// The same for an authority. With `credit_bytes` threads may hold that much.
inline std::string Differs(
    const mbr_authority_figures &figures, const Model &model, uint64_t credit_bytes)
{
    uint64_t claimed = model.Claimed(), allowances = 0, unused = 0, borrowed = 0;
    for (const auto &[name, holder] : model.holders) {
        bool none = holder.allowance == MBR_NO_ALLOWANCE;
        allowances = SumCapped(allowances, none ? 0 : holder.allowance);
        unused = SumCapped(unused, holder.OwnLeft());
        borrowed += holder.Borrowed();
    }
    PAIR_SAME("limit", figures.limit_bytes, model.limit);
    PAIR_SAME("set limit", figures.set_limit_bytes, model.set_limit);
    if (figures.claimed_bytes < claimed || figures.claimed_bytes - claimed > credit_bytes)
        PAIR_SAME("claimed", figures.claimed_bytes, claimed);
    PAIR_SAME("charged", figures.charged_bytes, model.Sum(&ModelHolder::charged));
    PAIR_SAME("granted", figures.granted_bytes, figures.claimed_bytes - figures.charged_bytes);
    PAIR_SAME("mapped", figures.mapped_bytes, model.Sum(&ModelHolder::mapped));
    PAIR_SAME("over", figures.over_bytes, model.Over());
    PAIR_SAME("quarantined", figures.quarantined_bytes, model.Sum(&ModelHolder::quarantined));
    PAIR_SAME("retained", figures.retained_bytes, model.Sum(&ModelHolder::retained));
    PAIR_SAME("peak", figures.peak_charged_bytes, model.peak);
    PAIR_SAME("grants", figures.grant_count, model.grants);
    PAIR_SAME("refusals", figures.refusal_count, model.refusals);
    PAIR_SAME("revision", figures.revision, model.revision);
    PAIR_SAME("set revision", figures.set_revision, model.set_revision);
    PAIR_SAME("holders", figures.holder_count, model.holders.size());
    PAIR_SAME("held", figures.held_bytes, model.held);
    PAIR_SAME("waiting", figures.waiting_count, model.Queue().size());
    PAIR_SAME("waiting bytes", figures.waiting_bytes, model.WaitingBytes());
    PAIR_SAME("lent", figures.lent_bytes, std::min(borrowed, unused));
    PAIR_SAME("unassigned", figures.unassigned_bytes, Less(model.limit, allowances));
    return "";
}

// The same for a refusal; `most_bytes`: what would do, whatever is free.
inline std::string Differs(const mbr_refusal &refusal, const Model &model,
    const ModelHolder &holder, uint64_t bytes, uint32_t reason, uint64_t most_bytes = kNone)
{
    PAIR_SAME("refused for", refusal.reason, reason);
    PAIR_SAME("asked", refusal.asked_bytes, bytes);
    PAIR_SAME("available", refusal.available_bytes,
        std::min({model.Room(), holder.LeaseLeft(), most_bytes}));
    PAIR_SAME("refusal's limit", refusal.limit_bytes, model.limit);
    PAIR_SAME("refusal's granted", refusal.granted_bytes, model.Sum(&ModelHolder::granted));
    PAIR_SAME("refusal's charged", refusal.charged_bytes, model.Sum(&ModelHolder::charged));
    PAIR_SAME("cached", refusal.cached_bytes, model.Cached());
    PAIR_SAME(
        "refusal's quarantined", refusal.quarantined_bytes, model.Sum(&ModelHolder::quarantined));
    PAIR_SAME("device free", refusal.device_free_bytes, model.device_free);
    PAIR_SAME("deferred", refusal.deferred_bytes, MBR_UNKNOWN_BYTES);
    bool advises = refusal.retry_after_ns != MBR_UNKNOWN_BYTES;
    PAIR_SAME("advice for what can never be", advises && reason == MBR_REFUSED_CAPACITY, false);
    PAIR_SAME("advice above a minute", advises && refusal.retry_after_ns > 60 * kSecond, false);
    return "";
}

inline std::string Said(const std::vector<Asked> &asked)
{
    std::string text;
    for (const Asked &one : asked)
        text += (one.gives ? " gives(" : " asked(") + std::to_string(one.holder) + ", " +
            std::to_string(one.bytes) + ")";
    return text;
}

} // namespace governor_test

#endif
