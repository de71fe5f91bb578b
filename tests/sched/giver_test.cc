// Who stands on a holder, or saves for it, leaves it, and joins again, while the holder or a saver
// is asked: nobody is called who has left, and whoever stays is called each time.
#include "tests/sched/explore.h"

extern "C" {
#include "tests/sched/giver_door.h"
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

// Two come and go, one on each side of one that stays.
class LeavingBesideAsking : public Scenario
{
  public:
    explicit LeavingBesideAsking(Draw &draw)
    {
        asks_ = draw.From(1, 3);
        holder_ends_ = draw.Coin();
        sched_givers_begin();
        SCHED_REQUIRE(sched_giver_join(kFirst));
        SCHED_REQUIRE(sched_giver_join(kStays));
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Ask(); },
            [] {
                sched_giver_leave(kFirst);
                sched_giver_join(kFirst);
                sched_giver_leave(kFirst);
            },
            [] {
                sched_giver_join(kLast);
                sched_giver_leave(kLast);
            }};
    }

    // Whoever waits for the end of a call is told of it.
    bool WaitsStay() const override { return true; }

    void Judge() override
    {
        SCHED_REQUIRE(sched_giver_calls(kStays) == 2 * asks_, "%" PRIu64 " calls of %" PRIu64,
            sched_giver_calls(kStays), 2 * asks_);
        sched_giver_leave(kStays);
        sched_givers_end();
    }

  private:
    static constexpr int kFirst = 0, kStays = 1, kLast = 2;

    void Ask()
    {
        for (uint64_t i = 0; i < asks_; i++) {
            sched_holder_is_asked();
            sched_holder_gives();
        }
        if (holder_ends_)
            sched_holder_ends();
    }

    uint64_t asks_;
    bool holder_ends_;
};

TEST(Sched_Giver, LeavingBesideAsking_CallsNobodyWhoHasLeft)
{
    ExpectHolds(ExploreRandom(Make<LeavingBesideAsking>()));
}

// Two ask at once for the room that those before them leave; one of these leaves, and joins behind
// them. Whoever gets room gets what is left of it.
class LeavingBesideSavers : public Scenario
{
  public:
    explicit LeavingBesideSavers(Draw &draw)
    {
        asks_ = draw.From(1, 3);
        holder_ends_ = draw.Coin();
        sched_givers_begin();
        for (int which : {kGoes, kOne, kOther})
            SCHED_REQUIRE(sched_saver_join(which));
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Ask(kOne, 0); },
            [this] {
                Ask(kOther, 1);
                has_ended_ = holder_ends_ && sched_holder_ends();
                if (has_ended_)
                    SCHED_REQUIRE(sched_saver_room(kOther, kRoom) == 0);
            },
            [] {
                sched_giver_leave(kGoes);
                sched_saver_join(kGoes);
                sched_giver_leave(kGoes);
            }};
    }

    bool WaitsStay() const override { return true; }

    void Judge() override
    {
        SCHED_REQUIRE(sched_saver_room(kOther, kRoom) == (has_ended_ ? 0 : kRoom - 1));
        for (int which : {kOne, kOther})
            sched_giver_leave(which);
        sched_givers_end();
    }

  private:
    static constexpr int kGoes = 0, kOne = 1, kOther = 2;
    static constexpr uint64_t kRoom = 10;

    void Ask(int which, uint64_t before)
    {
        for (uint64_t i = 0; i < asks_; i++) {
            uint64_t room = sched_saver_room(which, kRoom);
            bool fits = room == kRoom - before || room == kRoom - before - 1;
            SCHED_REQUIRE(fits || (room == 0 && holder_ends_), "%" PRIu64 " bytes", room);
        }
    }

    uint64_t asks_;
    bool holder_ends_, has_ended_ = false;
};

TEST(Sched_Giver, LeavingBesideSavers_PromisesWhatIsLeft)
{
    ExpectHolds(ExploreRandom(Make<LeavingBesideSavers>()));
}

TEST(Sched_Giver, LostSignal_IsCaught)
{
    ExpectCaught(ExploreRandom(Make<LeavingBesideAsking>(), SCHED_LOST_SIGNAL));
}

} // namespace

MakeScenario FirstUse()
{
    return Make<Nothing>();
}

} // namespace sched_test
