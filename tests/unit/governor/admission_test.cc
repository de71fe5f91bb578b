// Admission: whoever is in can finish. Against every order of finishing, in small scopes.
#include "tests/unit/governor/waiting.h"

#include <algorithm>
#include <numeric>

using namespace governor_test;

namespace
{

// By brute force: some permutation in which each gets what it lacks, finishes and gives all back.
bool SomeOrderFinishes(uint64_t free_bytes, std::vector<mbr_member_need> needs)
{
    std::vector<size_t> order(needs.size());
    std::iota(order.begin(), order.end(), 0);
    do {
        uint64_t free = free_bytes;
        bool fits = true;
        for (size_t index : order) {
            fits = fits && needs[index].most_bytes - needs[index].has_bytes <= free;
            free += needs[index].has_bytes;
        }
        if (fits)
            return true;
    } while (std::next_permutation(order.begin(), order.end()));
    return false;
}

TEST(AdmissionPure, EverySmallCase_IsAsEveryOrderSays)
{
    uint64_t feasible = 0, cases = 0;
    for (uint64_t code = 0; code < 4ull * 10 * 10 * 10 * 10; code++) {
        uint64_t rest = code / 4;
        std::vector<mbr_member_need> needs;
        for (int i = 0; i < 4; i++, rest /= 10) {
            uint64_t most = rest % 10 % 4, has = rest % 10 / 4;
            needs.push_back({std::min(has, most), most, 0});
        }
        bool expected = SomeOrderFinishes(code % 4, needs);
        ASSERT_EQ(mbr_all_can_finish(code % 4, needs.data(), 4), expected) << code;
        feasible += expected;
        cases++;
    }
    EXPECT_GT(feasible, cases / 10);
    EXPECT_LT(feasible, cases);
}

class Admission : public testing::Test
{
  protected:
    void SetUp() override
    {
        authority = world.Authority(100);
        holder = world.Holder(authority);
        other = world.Holder(authority);
        ASSERT_EQ(mbr_admission_create(holder, &admission, nullptr), MBR_OK);
    }

    void TearDown() override
    {
        EXPECT_EQ(mbr_admission_destroy(admission, nullptr), MBR_OK);
        End(authority, holder, other);
    }

    mbr_member Admit(uint64_t most_bytes)
    {
        mbr_member member;
        mbr_error error = NewError();
        EXPECT_EQ(mbr_admit(admission, most_bytes, &member, nullptr, &error), MBR_OK) << error.text;
        return member;
    }

    mbr_status Grow(mbr_member member, uint64_t bytes, mbr_refusal *refusal = nullptr)
    {
        return mbr_member_grow(admission, member, bytes, refusal, nullptr);
    }

    World world;
    mbr_authority *authority;
    mbr_holder *holder, *other;
    mbr_admission *admission;
};

TEST_F(Admission, MoreThanOneCouldHaveAlone_NeverAndSaid)
{
    mbr_member member;
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_admit(admission, 101, &member, &refusal, nullptr), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, (uint32_t)MBR_REFUSED_CAPACITY);
    EXPECT_EQ(member.number, 0u);
    EXPECT_EQ(mbr_admit(admission, 0, &member, &refusal, nullptr), MBR_INVALID_ARGUMENT);
}

TEST_F(Admission, Growth_StopsWhereNobodyCouldFinish)
{
    mbr_member a = Admit(80), b = Admit(80);
    EXPECT_EQ(Grow(a, 50), MBR_OK);
    // b with 21 would leave 29 free, and a lacks 30, b 59.
    EXPECT_EQ(Grow(b, 21), MBR_BUSY);
    EXPECT_EQ(Grow(b, 20), MBR_OK);
    EXPECT_EQ(Grow(b, 1), MBR_BUSY);
    EXPECT_EQ(Grow(a, 31), MBR_OUT_OF_RANGE);
    EXPECT_EQ(Grow(a, 30), MBR_OK);
    mbr_member_leave(admission, a);
    EXPECT_EQ(Grow(b, 60), MBR_OK);
    mbr_member_leave(admission, b);
    EXPECT_EQ(Grow(b, 1), MBR_UNKNOWN_OBJECT);
    EXPECT_FALSE(mbr_member_leave(admission, b));
}

TEST_F(Admission, BytesThatAreWithheld_AreNobodysToFinishWith)
{
    mbr_holder *cache = world.Holder(authority, MBR_NO_ALLOWANCE, MBR_ROLE_CACHE);
    for (mbr_holder *charged : {cache, holder}) {
        ASSERT_EQ(mbr_grant(charged, 30, nullptr), MBR_OK);
        mbr_charge(charged, 30);
    }
    mbr_member a = Admit(100); // the cache gives way, and a has the holder's
    EXPECT_EQ(Grow(a, 30), MBR_OK);
    mbr_quarantine(cache, 10);
    EXPECT_EQ(Grow(a, 1), MBR_BUSY); // and could never finish
    mbr_member_leave(admission, a);
    a = Admit(90);
    EXPECT_EQ(Grow(a, 90), MBR_OK);
    mbr_member_leave(admission, a);
    mbr_quarantine(holder, 20);
    mbr_member none;
    EXPECT_EQ(mbr_admit(admission, 71, &none, nullptr, nullptr), MBR_OVER_BUDGET);
    a = Admit(70);
    mbr_quarantine_settle(cache, 10);
    mbr_quarantine_settle(holder, 20);
    mbr_member_leave(admission, a);
    a = Admit(100);
    EXPECT_EQ(Grow(a, 100), MBR_OK);
    mbr_member_leave(admission, a);
    mbr_refund(cache, 30);
    mbr_refund(holder, 30);
    EXPECT_EQ(mbr_holder_destroy(cache, nullptr), MBR_OK);
}

TEST_F(Admission, RefusedGrowth_SaysWhatWouldDo)
{
    uint64_t seed = 20261201, refused = 0, partly = 0;
    auto random = [&seed](uint64_t bound) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        return (seed >> 33) % bound;
    };
    for (int life = 0; life < 500; life++) {
        std::vector<mbr_member> members;
        std::vector<uint64_t> left;
        for (int i = 0; i < 5; i++) {
            left.push_back(1 + random(90));
            members.push_back(Admit(left.back()));
        }
        for (int step = 0; step < 30; step++) {
            uint64_t who = random(5), bytes = random(left[who] + 1);
            mbr_refusal refusal = NewRefusal();
            if (Grow(members[who], bytes, &refusal) == MBR_OK) {
                left[who] -= bytes;
                continue;
            }
            uint64_t most = refusal.available_bytes;
            ASSERT_EQ(refusal.reason, (uint32_t)MBR_REFUSED_LIMIT);
            ASSERT_LT(most, bytes);
            ASSERT_EQ(Grow(members[who], most + 1), MBR_BUSY);
            ASSERT_EQ(Grow(members[who], most), MBR_OK);
            left[who] -= most;
            refused++;
            partly += most != 0;
        }
        for (mbr_member member : members)
            mbr_member_leave(admission, member);
    }
    EXPECT_GT(partly, 100u);
    EXPECT_GT(refused, partly);
}

// The room is free: what is missing has been promised to members, and comes with refunds.
TEST_F(Admission, RefusedGrowth_SaysWhenToComeAgain)
{
    mbr_member in = Admit(80), late = Admit(60);
    ASSERT_EQ(Grow(in, 80), MBR_OK);
    Take(holder, 40);
    mbr_charge(holder, 40);
    world.clock.now_ns += kSecond;
    mbr_refund(holder, 40);
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(Grow(late, 60, &refusal), MBR_BUSY);
    EXPECT_EQ(refusal.asked_bytes, 60u);
    EXPECT_EQ(refusal.available_bytes, 20u);
    // 40 bytes in a second, half weighted; 40 are missing.
    EXPECT_NEAR(static_cast<double>(refusal.retry_after_ns), 2e9, 1e6);
    mbr_member_leave(admission, in);
    EXPECT_EQ(Grow(late, 60), MBR_OK);
    mbr_member_leave(admission, late);
}

TEST_F(Admission, WhatOthersOwn_IsNotTheMembersAndACacheGivesWay)
{
    mbr_holder *cache = world.Holder(authority, MBR_NO_ALLOWANCE, MBR_ROLE_CACHE);
    for (mbr_holder *owner : {other, cache}) {
        Take(owner, 30);
        mbr_charge(owner, 30);
    }
    mbr_member member;
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_admit(admission, 71, &member, &refusal, nullptr), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, (uint32_t)MBR_REFUSED_LIMIT);
    member = Admit(70);
    EXPECT_EQ(mbr_admission_count(admission), 1u);
    EXPECT_EQ(mbr_admission_destroy(admission, nullptr), MBR_IN_USE);
    mbr_member_leave(admission, member);
    for (mbr_holder *owner : {other, cache})
        mbr_refund(owner, 30);
    EXPECT_EQ(mbr_holder_destroy(cache, nullptr), MBR_OK);
}

// I16: at every moment of a random life, some member can finish without a new admission, with real
// grants; and members whose growth waits are served in the end.
TEST_F(Admission, RandomLives_NeverGetStuck)
{
    struct Life {
        mbr_member member;
        uint64_t has, most;
    };
    std::vector<Life> lives;
    uint64_t seed = 20261130, finished = 0, waited = 0, held = 0;
    auto random = [&seed](uint64_t bound) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        return (seed >> 33) % bound;
    };
    for (int step = 0; step < 50000; step++) {
        if (lives.size() < 12 && random(4) == 0) {
            uint64_t most = 1 + random(60);
            mbr_member member;
            ASSERT_EQ(mbr_admit(admission, most, &member, nullptr, nullptr), MBR_OK);
            lives.push_back({member, 0, most});
        } else if (!lives.empty()) {
            Life &life = lives[random(lives.size())];
            uint64_t bytes = 1 + random(10);
            bytes = std::min(bytes, life.most - life.has);
            bool grows = bytes != 0 && Grow(life.member, bytes) == MBR_OK;
            waited += bytes != 0 && !grows;
            if (grows) {
                ASSERT_EQ(mbr_grant(holder, bytes, nullptr), MBR_OK); // what was let grow is there
                life.has += bytes;
                held += bytes;
            }
        }
        bool some = lives.empty();
        for (const Life &life : lives)
            some = some || life.most - life.has <= 100 - held;
        ASSERT_TRUE(some) << step;
        for (size_t i = 0; i < lives.size(); i++) {
            if (lives[i].has != lives[i].most || random(2) != 0)
                continue;
            mbr_grant_return(holder, lives[i].has);
            held -= lives[i].has;
            mbr_member_leave(admission, lives[i].member);
            lives[i] = lives.back();
            lives.pop_back();
            finished++;
        }
    }
    EXPECT_GT(finished, 500u);
    EXPECT_GT(waited, 100u);
    for (const Life &life : lives) {
        mbr_grant_return(holder, life.has);
        mbr_member_leave(admission, life.member);
    }
}

} // namespace
