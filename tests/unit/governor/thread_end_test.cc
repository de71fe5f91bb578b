// Threads at the edge of their lives: slots, credit that comes back, lists that change meanwhile.
#include "tests/unit/governor/crowd.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

using namespace governor_test;

namespace
{

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

// A library with the books may be closed before a thread that used it ends. It is linked like
// libmembrane.so, which stays (rule 27 lets no destructor take the thread's end back).
TEST(Threads_End, LibraryClosedBeforeTheThreadEnds_ItsCodeIsStillThere)
{
    void *library = dlopen("tests/unit/governor/libloaded.so", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    auto book = reinterpret_cast<int (*)()>(dlsym(library, "loaded_book"));
    ASSERT_NE(book, nullptr) << dlerror();
    Barrier barrier(2);
    std::thread thread([&] {
        EXPECT_EQ(book(), 1);
        barrier.Meet();
        barrier.Meet(); // the library is closed
    });
    barrier.Meet();
    EXPECT_EQ(dlclose(library), 0);
    EXPECT_NE(dlopen("tests/unit/governor/libloaded.so", RTLD_NOW | RTLD_NOLOAD), nullptr);
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
                mbr_authority_options options = {
                    name.c_str(), MBR_TIER_DEVICE, kGiB, nullptr, 0, nullptr};
                mbr_holder_options more = {"more", MBR_ROLE_KV, MBR_NO_ALLOWANCE, false, {}};
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
            mbr_authority_options options = {"one", MBR_TIER_DEVICE, 1, nullptr, 0, nullptr};
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
