// Threads at the edge of the limit, at the edge of their lives, and under the eyes of an observer.
#include "tests/unit/governor/world.h"

#include <dlfcn.h>
#include <pthread.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

using namespace governor_test;

namespace
{

constexpr int kThreads = 8;

// All meet here, then all go on.
class Barrier
{
  public:
    explicit Barrier(int count) : count_(count) {}

    void Meet()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        int round = round_;
        if (++here_ == count_) {
            here_ = 0;
            round_++;
            all_.notify_all();
        }
        all_.wait(lock, [&] { return round != round_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable all_;
    int count_, here_ = 0, round_ = 0;
};

void RunThreads(int count, const std::function<void(int)> &work)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < count; i++)
        threads.emplace_back(work, i);
    for (std::thread &thread : threads)
        thread.join();
}

// Looks again and again until the work is done, and at least once.
class Observer
{
  public:
    explicit Observer(std::function<void()> look)
        : thread_([this, look] {
              do
                  look();
              while (!done_);
          })
    {
    }

    ~Observer()
    {
        done_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> done_{false};
    std::thread thread_;
};

// What holds of every snapshot, whatever the threads do.
void ExpectSane(mbr_authority *authority, uint64_t most_mapped)
{
    mbr_authority_figures figures = Figures(authority);
    EXPECT_LE(figures.charged_bytes, figures.claimed_bytes);
    EXPECT_EQ(figures.granted_bytes, figures.claimed_bytes - figures.charged_bytes);
    EXPECT_GE(figures.peak_charged_bytes, figures.charged_bytes);
    EXPECT_LE(figures.mapped_bytes, most_mapped);
    EXPECT_LE(figures.claimed_bytes, figures.limit_bytes);
    EXPECT_EQ(figures.over_bytes, 0u);
    mbr_holder_figures lines[4];
    for (mbr_holder_figures &line : lines)
        line.struct_size = sizeof(line);
    uint32_t count = 0;
    mbr_authority_holders_read(authority, lines, 4, &count);
    ASSERT_LE(count, 4u);
    for (uint32_t i = 0; i < count; i++) {
        EXPECT_LE(lines[i].charged_bytes, figures.limit_bytes);
        EXPECT_LE(lines[i].granted_bytes, figures.limit_bytes);
        EXPECT_LE(lines[i].mapped_bytes, most_mapped);
        EXPECT_GE(lines[i].peak_charged_bytes, lines[i].charged_bytes);
    }
}

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

// ---- The end of threads
TEST(Threads_End, Join_GivesCreditOfEveryAuthorityBack)
{
    World world;
    mbr_authority *first = world.Authority(kGiB);
    mbr_authority *second = world.Authority(80 * kGiB);
    mbr_holder *a = world.Holder(first);
    mbr_holder *b = world.Holder(second);
    RunThreads(1, [&](int) {
        for (mbr_holder *holder : {a, b}) {
            ASSERT_EQ(mbr_grant(holder, 1000, nullptr), MBR_OK);
            mbr_charge(holder, 1000);
        }
        EXPECT_GT(Figures(first).claimed_bytes, 1000u);
        EXPECT_GT(Figures(second).claimed_bytes, 1000u);
    });
    EXPECT_EQ(Figures(first).claimed_bytes, 1000u);
    EXPECT_EQ(Figures(second).claimed_bytes, 1000u);
    mbr_refund(a, 1000);
    mbr_refund(b, 1000);
    End(first, a);
    End(second, b);
}

// A slot that did not come back would leave the 65th thread without credit.
TEST(Threads_End, ManyOneAfterAnother_EachGetsASlot)
{
    World world;
    mbr_authority *authority = world.Authority(kGiB);
    mbr_holder *holder = world.Holder(authority);
    for (int i = 0; i < 200; i++) {
        RunThreads(1, [&](int) {
            ASSERT_EQ(mbr_grant(holder, 10, nullptr), MBR_OK);
            EXPECT_GT(Figures(authority).claimed_bytes, static_cast<uint64_t>(10 * (i + 1)));
        });
        ASSERT_EQ(Figures(authority).claimed_bytes, static_cast<uint64_t>(10 * (i + 1)));
    }
    mbr_grant_return(holder, 2000);
    End(authority, holder);
}

TEST(Threads_End, MoreThanThereAreSlots_BooksAreExactAndTheRestHasNoCredit)
{
    constexpr int kMany = 80;
    constexpr uint64_t kHalf = kGiB / 64 / 64 / 2; // what a slot is filled to
    World world;
    mbr_authority *authority = world.Authority(kGiB);
    mbr_holder *a = world.Holder(authority);
    mbr_holder *b = world.Holder(authority, kGiB);
    Barrier barrier(kMany + 1);
    std::thread all([&] {
        RunThreads(kMany, [&](int) {
            barrier.Meet();
            for (int i = 0; i < 500; i++) {
                for (mbr_holder *holder : {a, b}) {
                    EXPECT_EQ(mbr_grant(holder, 100, nullptr), MBR_OK);
                    mbr_charge(holder, 60);
                    mbr_grant_return(holder, 40);
                    mbr_mapped_add(holder, 3);
                }
                mbr_refund(a, 60);
                mbr_transfer(b, a, 1);
            }
            barrier.Meet(); // at rest
            barrier.Meet();
            mbr_refund(a, 500);
            mbr_refund(b, 500 * 59);
            mbr_mapped_sub(a, 1500);
            mbr_mapped_sub(b, 1500);
        });
    });
    barrier.Meet();
    barrier.Meet();
    mbr_authority_figures figures = Figures(authority);
    EXPECT_EQ(Figures(a).charged_bytes, static_cast<uint64_t>(kMany * 500));
    EXPECT_EQ(Figures(b).charged_bytes, static_cast<uint64_t>(kMany * 500 * 59));
    EXPECT_EQ(figures.charged_bytes, static_cast<uint64_t>(kMany * 500 * 60));
    EXPECT_EQ(figures.mapped_bytes, static_cast<uint64_t>(kMany * 500 * 6));
    EXPECT_EQ(figures.grant_count, static_cast<uint64_t>(kMany * 1000));
    uint64_t credit = figures.granted_bytes;
    EXPECT_GT(credit, 32 * kHalf);
    EXPECT_LE(credit, kGiB / 64);
    mbr_error error = NewError();
    EXPECT_EQ(mbr_authority_audit(authority, &error), MBR_OK) << error.text;
    barrier.Meet();
    all.join();
    EXPECT_EQ(Figures(authority).claimed_bytes, 0u);
    End(authority, a, b);
}

// Every thread gives back more than its credit may hold: what it keeps is within its share.
TEST(Threads_End, AllThreadsKeepTheMostTheyCan_WithinA64thOfTheLimit)
{
    constexpr int kMany = 70;
    constexpr uint64_t kPiece = 60 * kKiB; // one more than fits would show in the sum
    World world;
    mbr_authority *authority = world.Authority(kGiB);
    mbr_holder *holder = world.Holder(authority);
    Barrier barrier(kMany + 1);
    std::thread all([&] {
        RunThreads(kMany, [&](int) {
            for (int i = 0; i < 200; i++)
                EXPECT_EQ(mbr_grant(holder, kPiece, nullptr), MBR_OK);
            for (int i = 0; i < 200; i++) {
                mbr_grant_return(holder, kPiece);
                EXPECT_LE(Figures(authority).claimed_bytes, kMany * 200 * kPiece + kGiB / 64);
            }
            barrier.Meet(); // at rest
            barrier.Meet();
        });
    });
    barrier.Meet();
    uint64_t credit = Figures(authority).claimed_bytes;
    EXPECT_LE(credit, kGiB / 64);
    EXPECT_GT(credit, kGiB / 64 / 4);
    barrier.Meet();
    all.join();
    End(authority, holder);
}

// A destructor of somebody else's thread-specific data may run after the governor's own.
mbr_holder *late_holder;

void RefundLate(void *)
{
    mbr_refund(late_holder, 700);
    EXPECT_EQ(mbr_grant(late_holder, 50, nullptr), MBR_OK);
    mbr_charge(late_holder, 50);
}

TEST(Threads_End, BookingInALaterDestructor_IsBookedAndLeavesNoCredit)
{
    World world;
    mbr_authority *authority = world.Authority(kGiB);
    mbr_holder *holder = world.Holder(authority);
    late_holder = holder;
    ASSERT_EQ(mbr_grant(holder, 0, nullptr), MBR_OK);
    for (int i = 0; i < 100; i++) { // more than there are slots: none may be lost
        RunThreads(1, [&](int) {
            ASSERT_EQ(mbr_grant(holder, 700, nullptr), MBR_OK);
            mbr_charge(holder, 700);
            EXPECT_GT(Figures(authority).claimed_bytes, Figures(authority).charged_bytes);
            // Created after the governor's key, so its destructor runs after the governor's.
            pthread_key_t key;
            ASSERT_EQ(pthread_key_create(&key, RefundLate), 0);
            ASSERT_EQ(pthread_setspecific(key, holder), 0);
        });
        EXPECT_EQ(Figures(authority).claimed_bytes, static_cast<uint64_t>(50 * (i + 1)));
    }
    mbr_refund(holder, 5000);
    End(authority, holder);
}

TEST(Threads_EndDeathTest, NoKeyLeftToSeeTheEnd_SharedSlotWithoutCredit)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // a process that never used the governor
    EXPECT_EXIT(
        {
            pthread_key_t key;
            while (pthread_key_create(&key, nullptr) == 0) {
            }
            World world;
            mbr_authority *authority = world.Authority(kGiB);
            mbr_holder *holder = world.Holder(authority);
            RunThreads(2, [&](int) {
                EXPECT_EQ(mbr_grant(holder, 1000, nullptr), MBR_OK);
                mbr_charge(holder, 900);
            });
            mbr_authority_figures figures = Figures(authority);
            bool right = figures.claimed_bytes == 2000 && figures.charged_bytes == 1800 &&
                figures.peak_charged_bytes == 1800 && figures.grant_count == 2 &&
                mbr_authority_audit(authority, nullptr) == MBR_OK;
            _exit(right ? 7 : 1);
        },
        ::testing::ExitedWithCode(7), "");
}

// The library may be gone before a thread that used it: its end must not run code that is no more.
TEST(Threads_End, LibraryUnloadedBeforeTheThreadEnds_NothingOfItIsCalled)
{
    void *library = dlopen("tests/unit/governor/libloaded.so", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    auto book = reinterpret_cast<int (*)()>(dlsym(library, "loaded_book"));
    ASSERT_NE(book, nullptr) << dlerror();
    Barrier barrier(2);
    std::thread thread([&] {
        EXPECT_EQ(book(), 1);
        barrier.Meet();
        barrier.Meet(); // the library is gone
    });
    barrier.Meet();
    EXPECT_EQ(dlclose(library), 0);
    EXPECT_EQ(dlopen("tests/unit/governor/libloaded.so", RTLD_NOW | RTLD_NOLOAD), nullptr);
    barrier.Meet();
    thread.join();
}

// ---- Lists under change
TEST(Threads_Lists, ObjectsComeAndGoBesideBookingAndEndingThreads_NothingIsLost)
{
    World world;
    mbr_authority *busy = world.Authority(kGiB);
    mbr_holder *holder = world.Holder(busy);
    std::atomic<int> names{0};
    {
        Observer observer([&] {
            ExpectSane(busy, 0);
            mbr_authority_sample(busy, true);
        });
        RunThreads(kThreads, [&](int index) {
            for (int i = 0; i < 100; i++) {
                if (index % 2 == 0) {
                    RunThreads(1, [&](int) {
                        EXPECT_EQ(mbr_grant(holder, 100, nullptr), MBR_OK);
                        mbr_grant_return(holder, 100);
                    });
                    continue;
                }
                std::string name = "own-" + std::to_string(names++);
                mbr_authority_options options = {name.c_str(), MBR_TIER_DEVICE, kGiB, nullptr, 0};
                mbr_holder_options more = {"more", MBR_ROLE_KV, MBR_NO_ALLOWANCE};
                mbr_authority *own = nullptr;
                mbr_holder *of_own = nullptr, *of_busy = nullptr;
                EXPECT_EQ(mbr_authority_create(world.governor, &options, &own, nullptr), MBR_OK);
                EXPECT_EQ(mbr_holder_create(own, &more, &of_own, nullptr), MBR_OK);
                EXPECT_EQ(mbr_grant(of_own, 100, nullptr), MBR_OK);
                mbr_grant_return(of_own, 100);
                EXPECT_EQ(mbr_holder_destroy(of_own, nullptr), MBR_OK);
                EXPECT_EQ(mbr_authority_destroy(own, nullptr), MBR_OK);
                if (index == 1) { // the observer looks at no more than four lines
                    EXPECT_EQ(mbr_holder_create(busy, &more, &of_busy, nullptr), MBR_OK);
                    EXPECT_EQ(mbr_grant(of_busy, 100, nullptr), MBR_OK);
                    mbr_grant_return(of_busy, 100);
                    EXPECT_EQ(mbr_holder_destroy(of_busy, nullptr), MBR_OK);
                }
            }
        });
    }
    EXPECT_EQ(Figures(busy).holder_count, 1u);
    EXPECT_EQ(Figures(busy).grant_count, 500u);
    End(busy, holder);
}

TEST(Threads_Lists, SameNameFromManyThreads_ExactlyOneIsCreated)
{
    World world;
    for (int round = 0; round < 50; round++) {
        std::atomic<int> created{0}, refused{0};
        mbr_authority *winner = nullptr;
        Barrier barrier(kThreads);
        RunThreads(kThreads, [&](int) {
            mbr_authority_options options = {"one", MBR_TIER_DEVICE, 1, nullptr, 0};
            mbr_authority *authority = nullptr;
            barrier.Meet();
            mbr_status status = mbr_authority_create(world.governor, &options, &authority, nullptr);
            created += status == MBR_OK;
            refused += status == MBR_ALREADY_EXISTS;
            if (authority != nullptr)
                winner = authority;
        });
        EXPECT_EQ(created, 1);
        EXPECT_EQ(refused, kThreads - 1);
        EXPECT_EQ(mbr_authority_destroy(winner, nullptr), MBR_OK);
    }
}

TEST(Threads_Sample, DueForManyThreadsAtOnce_OneAsksTheProbe)
{
    World world;
    FakeProbe probe;
    probe.free_bytes = kGiB;
    mbr_probe seam = probe.Seam();
    mbr_authority *authority = world.Authority(kNone, &seam);
    for (int round = 1; round <= 50; round++) {
        world.clock.now_ns += MBR_PROBE_INTERVAL_NS;
        Barrier barrier(kThreads);
        RunThreads(kThreads, [&](int) {
            barrier.Meet();
            mbr_authority_sample(authority, false);
        });
        EXPECT_EQ(probe.calls, 1 + round);
    }
    End<mbr_holder *>(authority, nullptr);
}

} // namespace
