// Threads at the edge of the limit and under the eyes of an observer.
#include "tests/unit/governor/crowd.h"

#include <random>

using namespace governor_test;

namespace
{

// Half of what is asked cannot be had: grants and refusals mix, and some of it without credit.
TEST(Threads_Edge, HundredThousandGrantsEach_NeverAboveTheLimitAndAllComesBack)
{
    constexpr int kGrants = 100000; // of each thread
    for (uint64_t limit : {UINT64_C(20000), 16 * kMiB}) {
        World world;
        mbr_authority *authority = world.Authority(limit);
        mbr_holder *holders[2] = {world.Holder(authority), world.Holder(authority)};
        uint64_t most = limit / kThreads / 8; // 16 pieces of half of it on average: the limit
        std::atomic<uint64_t> granted{0}, returned{0}, grants{0}, refusals{0};
        {
            Observer observer([&] { ExpectSane(authority, 0); });
            RunThreads(kThreads, [&](int index) {
                std::mt19937_64 random(static_cast<uint64_t>(index));
                std::vector<uint64_t> held;
                mbr_holder *holder = holders[index % 2];
                for (int i = 0; i < kGrants; i++) {
                    uint64_t bytes = random() % most + 1;
                    if (mbr_grant(holder, bytes, nullptr) == MBR_OK) {
                        mbr_charge(holder, bytes);
                        held.push_back(bytes);
                        granted += bytes;
                        grants++;
                    } else {
                        refusals++;
                    }
                    if (held.size() > 24 || (!held.empty() && random() % 3 == 0)) {
                        mbr_refund(holder, held.back());
                        returned += held.back();
                        held.pop_back();
                    }
                }
                for (uint64_t bytes : held) {
                    mbr_refund(holder, bytes);
                    returned += bytes;
                }
            });
        }
        mbr_authority_figures figures = Figures(authority);
        EXPECT_EQ(figures.grant_count, grants);
        EXPECT_EQ(figures.refusal_count, refusals);
        EXPECT_GT(refusals, 0u);
        EXPECT_EQ(granted, returned);
        EXPECT_EQ(figures.claimed_bytes, 0u); // the threads ended, so their credit is back
        EXPECT_LE(figures.peak_charged_bytes, limit + limit / 64);
        End(authority, holders[0], holders[1]);
    }
}

// All threads together never hold more than the limit, but exactly it: whoever is refused has been
// refused wrongly, because bytes were free somewhere in somebody's credit.
TEST(Threads_Edge, SharesThatSumUpToTheLimit_NobodyIsEverRefused)
{
    constexpr uint64_t kLimit = 16 * kMiB, kPiece = kKiB, kShare = kLimit / kThreads;
    for (uint64_t allowance : {MBR_NO_ALLOWANCE, kLimit}) {
        World world;
        mbr_authority *authority = world.Authority(kLimit);
        mbr_holder *holder = world.Holder(authority, allowance);
        std::atomic<int> refused{0};
        Barrier barrier(kThreads);
        RunThreads(kThreads, [&](int index) {
            std::mt19937_64 random(static_cast<uint64_t>(index));
            uint64_t held = 0;
            auto hold = [&](uint64_t target) {
                for (; held + kPiece <= target; held += kPiece)
                    refused += mbr_grant(holder, kPiece, nullptr) != MBR_OK;
                for (; held > target; held -= kPiece)
                    mbr_grant_return(holder, kPiece);
            };
            for (int round = 0; round < 60; round++) {
                for (int swing = 0; swing < 10; swing++)
                    hold(kShare - random() % 64 * kPiece);
                hold(kShare);
                barrier.Meet(); // now the limit is full to the byte
                hold(random() % kShare / kPiece * kPiece);
            }
            hold(0);
        });
        EXPECT_EQ(refused, 0);
        End(authority, holder);
    }
}

TEST(Threads_Edge, OneAllowance_NeverPassed)
{
    constexpr uint64_t kAllowance = 1000;
    World world;
    mbr_authority *authority = world.Authority(kGiB);
    mbr_holder *holder = world.Holder(authority, kAllowance);
    mbr_holder *other = world.Holder(authority);
    std::atomic<uint64_t> leased{0};
    std::atomic<int> passed{0}, granted{0};
    RunThreads(kThreads, [&](int index) {
        std::mt19937_64 random(static_cast<uint64_t>(index));
        for (int i = 0; i < 20000; i++) {
            uint64_t bytes = random() % 300 + 1;
            mbr_holder *to = index % 4 == 0 ? other : holder;
            if (mbr_grant(to, bytes, nullptr) != MBR_OK)
                continue;
            if (to == holder) { // counted before it is given back: never more than the truth
                passed += leased.fetch_add(bytes) + bytes > kAllowance;
                granted++;
                leased -= bytes;
            }
            mbr_charge(to, bytes);
            if (to == other && mbr_try_transfer(other, holder, bytes, nullptr) == MBR_OK)
                to = holder;
            mbr_refund(to, bytes);
        }
    });
    EXPECT_EQ(passed, 0);
    EXPECT_GT(granted, 0);
    End(authority, holder, other);
}

// After set_limit has answered, nothing is granted above the new limit: once below, always below.
TEST(Threads_Edge, LimitLoweredUnderLoad_HoldsFromItsAnswerOn)
{
    constexpr uint64_t kHigh = 32 * kMiB, kLow = 17 * kMiB;
    World world;
    mbr_authority *authority = world.Authority(kHigh);
    mbr_holder *holder = world.Holder(authority);
    std::atomic<bool> done{false};
    std::atomic<int> grants{0};
    std::thread writer([&] {
        for (int round = 0; round < 15; round++) {
            uint64_t over = 0;
            for (int before = grants; grants < before + 500;) // the others are at work
                std::this_thread::yield();
            EXPECT_EQ(mbr_authority_set_limit(authority, kLow, &over, nullptr), MBR_OK);
            uint64_t last = over;
            for (int look = 0; look < 40; look++) {
                mbr_authority_figures figures = Figures(authority);
                EXPECT_EQ(figures.limit_bytes, kLow);
                EXPECT_LE(figures.over_bytes, last); // it only falls
                last = figures.over_bytes;
                std::this_thread::yield();
            }
            EXPECT_EQ(mbr_authority_set_limit(authority, kHigh, &over, nullptr), MBR_OK);
        }
        done = true;
    });
    RunThreads(4, [&](int index) {
        std::mt19937_64 random(static_cast<uint64_t>(index));
        std::vector<uint64_t> held;
        while (!done) {
            uint64_t bytes = random() % (100 * kKiB) + 1;
            if (mbr_grant(holder, bytes, nullptr) == MBR_OK)
                held.push_back(bytes);
            else
                std::this_thread::yield(); // or the writer hardly ever gets the lock
            grants++;
            if (held.size() > 200 || (!held.empty() && random() % 3 == 0)) {
                mbr_grant_return(holder, held.back());
                held.pop_back();
            }
        }
        for (uint64_t bytes : held)
            mbr_grant_return(holder, bytes);
    });
    writer.join();
    EXPECT_EQ(Figures(authority).revision, 30u);
    End(authority, holder);
}

// One thread charges, another refunds, a third moves the bill: no slot's own sum is meaningful.
TEST(Threads_Snapshot, BytesThatChangeThreadsAndHolders_NeverShownNegative)
{
    constexpr uint64_t kLimit = 64 * kMiB;
    World world;
    mbr_authority *authority = world.Authority(kLimit);
    mbr_holder *kv = world.Holder(authority);
    mbr_holder *cache = world.Holder(authority, MBR_NO_ALLOWANCE, MBR_ROLE_CACHE);
    constexpr int kPieces = 200000;
    constexpr int kStages = 3; // who charges, who transfers, who refunds: two threads each
    std::atomic<int> ready[kStages] = {};
    auto take = [&](int stage) { // one piece that the stage before has finished
        int there = ready[stage - 1].load();
        while (there > 0 && !ready[stage - 1].compare_exchange_weak(there, there - 1)) {
        }
        return there > 0;
    };
    std::atomic<int> left[kStages];
    for (std::atomic<int> &count : left)
        count = kPieces;
    {
        Observer observer([&] { ExpectSane(authority, 4 * kLimit); });
        RunThreads(2 * kStages, [&](int index) {
            int stage = index % kStages;
            constexpr uint64_t kBytes = 1500;
            while (left[stage] > 0) {
                if (stage == 0) {
                    if (left[0].fetch_sub(1) <= 0)
                        break;
                    while (mbr_grant(kv, kBytes, nullptr) != MBR_OK)
                        std::this_thread::yield();
                    mbr_charge(kv, kBytes);
                    mbr_mapped_add(kv, kBytes);
                    ready[0]++;
                } else if (!take(stage)) {
                    std::this_thread::yield();
                } else if (stage == 1) {
                    mbr_transfer(kv, cache, kBytes);
                    mbr_mapped_transfer(kv, cache, kBytes);
                    left[1]--;
                    ready[1]++;
                } else {
                    mbr_mapped_sub(cache, kBytes);
                    mbr_refund(cache, kBytes);
                    left[2]--;
                }
            }
        });
    }
    EXPECT_EQ(Figures(authority).grant_count, static_cast<uint64_t>(kPieces));
    EXPECT_EQ(Figures(authority).mapped_bytes, 0u);
    EXPECT_EQ(Figures(authority).claimed_bytes, 0u);
    End(authority, kv, cache);
}

// Large amounts are folded at once; a look in that moment must not see them twice.
TEST(Threads_Snapshot, PeakOfLargeAmounts_NeverAboveWhatThereIs)
{
    for (uint64_t limit : {8 * kMiB, 8 * kGiB}) {
        World world;
        mbr_authority *authority = world.Authority(limit);
        mbr_holder *holder = world.Holder(authority);
        mbr_record_committed(holder, limit / 8 * 7);
        {
            Observer observer([&] { ExpectSane(authority, 0); });
            RunThreads(2, [&](int) {
                for (int i = 0; i < 500000; i++) {
                    EXPECT_EQ(mbr_grant(holder, limit / 16, nullptr), MBR_OK);
                    mbr_charge(holder, limit / 16);
                    mbr_refund(holder, limit / 16);
                }
            });
        }
        mbr_refund(holder, limit / 8 * 7);
        End(authority, holder);
    }
}

// A bill that moves is no second one: the authority's own figures stand still.
TEST(Threads_Snapshot, LargeTransfers_NeverSeenTwiceOrNotAtAll)
{
    World world;
    mbr_authority *authority = world.Authority(kGiB);
    mbr_holder *a = world.Holder(authority);
    mbr_holder *b = world.Holder(authority);
    for (mbr_holder *holder : {a, b}) {
        ASSERT_EQ(mbr_grant(holder, 100 * kMiB, nullptr), MBR_OK);
        mbr_charge(holder, 100 * kMiB);
    }
    {
        Observer observer([&] {
            mbr_authority_figures figures = Figures(authority);
            EXPECT_EQ(figures.charged_bytes, 200 * kMiB);
            EXPECT_EQ(figures.peak_charged_bytes, 200 * kMiB);
        });
        RunThreads(2, [&](int index) {
            mbr_holder *from = index == 0 ? a : b, *to = index == 0 ? b : a;
            for (int i = 0; i < 200000; i++) {
                mbr_transfer(from, to, 50 * kMiB);
                mbr_transfer(to, from, 50 * kMiB);
            }
        });
    }
    mbr_refund(a, 100 * kMiB);
    mbr_refund(b, 100 * kMiB);
    End(authority, a, b);
}

TEST(Threads_Snapshot, PeakOfManyThreads_WithinWhatTheirCreditMayBe)
{
    for (uint64_t limit : {4 * kMiB, 64 * kMiB, 80 * kGiB}) {
        World world;
        mbr_authority *authority = world.Authority(limit);
        mbr_holder *holder = world.Holder(authority);
        uint64_t piece = limit / 5000, count = 200;
        Barrier barrier(kThreads);
        RunThreads(kThreads, [&](int) {
            for (uint64_t i = 0; i < count; i++) {
                EXPECT_EQ(mbr_grant(holder, piece, nullptr), MBR_OK);
                mbr_charge(holder, piece);
            }
            barrier.Meet(); // here it is highest, and nobody looks
            for (uint64_t i = 0; i < count; i++)
                mbr_refund(holder, piece);
        });
        uint64_t highest = kThreads * count * piece;
        uint64_t tolerance = limit < 16 * kMiB ? 0 : limit / 64;
        for (uint64_t peak :
            {Figures(authority).peak_charged_bytes, Figures(holder).peak_charged_bytes}) {
            EXPECT_LE(peak, highest + tolerance);
            EXPECT_GE(peak, highest - tolerance);
        }
        End(authority, holder);
    }
}

} // namespace
