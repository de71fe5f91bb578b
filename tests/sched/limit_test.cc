// A limit that moves while claims are made: by hand, by a measure, by a driver that has no more.
#include "tests/sched/world.h"

#include <gtest/gtest.h>

using namespace sched_test;

namespace
{

// The limit falls below what may be claimed, and perhaps rises again. Whoever claims while room is
// negative must not get a byte, and only the setter takes room below zero.
class Lowering : public GovernorScenario
{
  public:
    explicit Lowering(Draw &draw) : GovernorScenario(draw.Coin() ? kCreditLimit : 10000)
    {
        may_go_below_ = 1;
        lowered_ = draw.From(limit_ / 4, limit_ - 1);
        raised_ = draw.Coin() ? draw.From(lowered_, limit_) : lowered_;
        for (Claim &claim : claims_) {
            claim.holder = Holder(draw.From(0, 3) == 0 ? limit_ : MBR_NO_ALLOWANCE);
            claim.small = draw.From(1, kCreditCap / 2);
            claim.large = draw.From(limit_ / 4, limit_ / 2);
        }
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Set(); }, [this] { Run(&claims_[0]); }, [this] { Run(&claims_[1]); }};
    }

    void Judge() override
    {
        mbr_authority_figures figures = Figures(authority_);
        SCHED_REQUIRE(figures.limit_bytes == raised_);
        SCHED_REQUIRE(figures.claimed_bytes == claims_[0].held + claims_[1].held);
        // What is above the last limit was claimed before it was set.
        SCHED_REQUIRE(figures.over_bytes <= over_, "%" PRIu64 " and %" PRIu64 " when it was set",
            figures.over_bytes, over_);
        for (Claim &claim : claims_)
            mbr_grant_return(claim.holder, claim.held);
        GovernorScenario::Judge();
    }

  private:
    struct Claim {
        mbr_holder *holder;
        uint64_t small, large, held;
    };

    void Set()
    {
        SCHED_REQUIRE(mbr_authority_set_limit(authority_, lowered_, &over_, nullptr) == MBR_OK);
        if (raised_ != lowered_)
            SCHED_REQUIRE(mbr_authority_set_limit(authority_, raised_, &over_, nullptr) == MBR_OK);
    }

    static void Run(Claim *claim)
    {
        for (uint64_t bytes : {claim->small, claim->large, claim->small, claim->large}) {
            if (mbr_grant(claim->holder, bytes, nullptr) == MBR_OK)
                claim->held += bytes;
        }
    }

    uint64_t lowered_, raised_, over_ = 0;
    Claim claims_[2] = {};
};

TEST(Sched_Lowering, AgainstClaims_NoClaimEndsAboveTheNewLimit)
{
    ExpectHolds(ExploreRandom(Make<Lowering>()));
}

TEST(Sched_Lowering, TornChanges_AreCaught)
{
    ExpectCaught(ExploreRandom(Make<Lowering>(), SCHED_TORN_CHANGE));
}

TEST(Sched_Lowering, OpenLock_IsCaught)
{
    ExpectCaught(ExploreRandom(Make<Lowering>(), SCHED_OPEN_LOCK));
}

// Bytes that the device gave already, past the limit, while others claim the same room.
class Recording : public GovernorScenario
{
  public:
    explicit Recording(Draw &draw) : GovernorScenario(draw.Coin() ? kCreditLimit : 10000)
    {
        may_go_below_ = 1;
        recorded_ = draw.From(limit_ / 2, 2 * limit_);
        recorder_ = Holder(draw.Coin() ? limit_ / 4 : MBR_NO_ALLOWANCE);
        for (Claim &claim : claims_) {
            claim.holder = Holder();
            claim.bytes = draw.From(1, limit_ / 2);
        }
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { mbr_record_committed(recorder_, recorded_); },
            [this] { Run(&claims_[0]); }, [this] { Run(&claims_[1]); }};
    }

    void Judge() override
    {
        uint64_t claimed = recorded_;
        for (const Claim &claim : claims_)
            claimed += claim.granted ? claim.bytes : 0;
        SCHED_REQUIRE(Figures(authority_).claimed_bytes == claimed);
        SCHED_REQUIRE(Figures(recorder_).charged_bytes == recorded_);
        mbr_refund(recorder_, recorded_);
        for (const Claim &claim : claims_) {
            if (claim.granted)
                mbr_grant_return(claim.holder, claim.bytes);
        }
        GovernorScenario::Judge();
    }

  private:
    struct Claim {
        mbr_holder *holder;
        uint64_t bytes;
        bool granted;
    };

    static void Run(Claim *claim)
    {
        claim->granted = mbr_grant(claim->holder, claim->bytes, nullptr) == MBR_OK;
    }

    uint64_t recorded_;
    mbr_holder *recorder_;
    Claim claims_[2] = {};
};

TEST(Sched_Recording, PastTheLimitAgainstClaims_NoneIsGrantedAboveIt)
{
    ExpectHolds(ExploreRandom(Make<Recording>()));
}

TEST(Sched_Recording, TornChanges_AreCaught)
{
    ExpectCaught(ExploreRandom(Make<Recording>(), SCHED_TORN_CHANGE));
}

// A device of a known size, whose driver answers between any two steps of others.
struct Device {
    static constexpr uint64_t kBytes = 20000;

    static bool FreeBytes(void *context, uint64_t *bytes)
    {
        auto *self = static_cast<Device *>(context);
        sched_check_no_lock();
        self->asked++;
        SCHED_CALLBACK_POINT();
        *bytes = kBytes - self->owned;
        SCHED_CALLBACK_POINT();
        return true;
    }

    mbr_probe probe = {FreeBytes, this};
    uint64_t owned = 0;
    int asked = 0;
};

// Its free bytes are measured while memory comes into being, and it says that it has no more. The
// measure may be behind, but counts no byte twice and does not hide a later exhaustion.
class Measuring : private Device, public GovernorScenario
{
  public:
    explicit Measuring(Draw &draw) : GovernorScenario(UINT64_MAX, &probe)
    {
        may_go_below_ = 3;
        for (Memory &memory : memories_) {
            memory.holder = Holder();
            memory.bytes = draw.From(1, kBytes / 2);
        }
        asked = 0; // the creation asked
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { mbr_authority_sample(authority_, true); }, [this] { Exhaust(); },
            [this] { Create(&memories_[0]); }, [this] { Create(&memories_[1]); }};
    }

    void Judge() override
    {
        mbr_authority_figures figures = Figures(authority_);
        SCHED_REQUIRE(figures.limit_bytes <= kBytes, "limit %" PRIu64, figures.limit_bytes);
        SCHED_REQUIRE(figures.claimed_bytes <= kBytes, "%" PRIu64, figures.claimed_bytes);
        SCHED_REQUIRE(!sampling_first_ || figures.limit_bytes <= figures.claimed_bytes,
            "limit %" PRIu64 ": a sample that began before hid that there is no more",
            figures.limit_bytes);
        for (const Memory &memory : memories_) {
            if (memory.created)
                mbr_refund(memory.holder, memory.bytes);
        }
        GovernorScenario::Judge();
    }

  private:
    struct Memory {
        mbr_holder *holder;
        uint64_t bytes;
        bool created;
    };

    void Exhaust()
    {
        sampling_first_ = asked > 0;
        mbr_authority_note_exhausted(authority_);
    }

    void Create(Memory *memory)
    {
        if (mbr_grant(memory->holder, memory->bytes, nullptr) != MBR_OK)
            return;
        owned += memory->bytes;
        SCHED_CALLBACK_POINT();
        mbr_charge(memory->holder, memory->bytes);
        memory->created = true;
    }

    Memory memories_[2] = {};
    bool sampling_first_ = false;
};

TEST(Sched_Measuring, AgainstClaimsAndExhaustion_NeverAboveTheDevice)
{
    ExpectHolds(ExploreRandom(Make<Measuring>()));
}

TEST(Sched_Measuring, EveryScheduleWithOnePreemption_NeverAboveTheDevice)
{
    ExpectHoldsInAll(ExploreAll(Make<Measuring>(), 1), 24682);
}

TEST(Sched_Measuring, OpenLock_IsCaught)
{
    ExpectCaught(ExploreRandom(Make<Measuring>(), SCHED_OPEN_LOCK));
}

} // namespace
