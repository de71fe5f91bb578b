// What a chore adopts for a growing sequence and offers it: the sequence's thread takes it, or it
// is taken back, and never both.
#include "tests/sched/explore.h"

extern "C" {
#include "tests/sched/kv_door.h"
}

#include <gtest/gtest.h>

#include <cinttypes>

using namespace sched_test;

namespace sched_test
{

namespace
{

class Nothing : public Scenario
{
  public:
    explicit Nothing(Draw &draw) { (void)draw; }
    std::vector<std::function<void()>> Bodies() override
    {
        return {[] { SCHED_CALLBACK_POINT(); }};
    }
    void Judge() override {}
};

// One grows, the chore looks, and others are refused meanwhile.
class GrowthBesideLooks : public Scenario
{
  public:
    explicit GrowthBesideLooks(Draw &draw)
    {
        for (uint64_t &step : steps_)
            step = draw.From(1, SCHED_KV_EXTENT_TOKENS + 1);
        looks_ = draw.From(1, 4);
        sched_kv_begin();
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] {
                    for (uint64_t step : steps_)
                        SCHED_REQUIRE(sched_kv_append(step));
                },
            [this] {
                for (uint64_t i = 0; i < looks_; i++)
                    sched_kv_look();
            },
            [] {
                sched_kv_take_back();
                sched_kv_take_back();
            }};
    }

    // All that it may write is there, whatever the others do.
    void Look(uint8_t fiber) override
    {
        (void)fiber;
        SCHED_REQUIRE(sched_kv_tokens() <= sched_kv_committed_tokens(),
            "%" PRIu64 " tokens, %" PRIu64 " of them committed", sched_kv_tokens(),
            sched_kv_committed_tokens());
    }

    bool WaitsStay() const override { return true; }

    void Judge() override
    {
        SCHED_REQUIRE(sched_kv_counted_bytes() == sched_kv_committed_bytes(),
            "%" PRIu64 " bytes are counted, %" PRIu64 " committed", sched_kv_counted_bytes(),
            sched_kv_committed_bytes());
        sched_kv_take_back();
        SCHED_REQUIRE(sched_kv_counted_bytes() == sched_kv_committed_bytes());
        uint64_t tokens = sched_kv_committed_tokens(), held = sched_kv_held_tokens();
        SCHED_REQUIRE(tokens >= held && tokens < held + SCHED_KV_EXTENT_TOKENS,
            "%" PRIu64 " tokens are committed, %" PRIu64 " needed", tokens, held);
        sched_kv_end();
    }

  private:
    uint64_t steps_[5], looks_;
};

TEST(Sched_Offer, GrowthBesideLooks_HasWhatItTakesAndNothingTwice)
{
    ExpectHolds(ExploreRandom(Make<GrowthBesideLooks>()));
}

} // namespace

MakeScenario FirstUse()
{
    return Make<Nothing>();
}

} // namespace sched_test
