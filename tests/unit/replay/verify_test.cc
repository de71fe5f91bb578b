// The content oracle of `membrane replay --verify` is awake: one stamp that is changed, older, or
// another one's behind an aliased address is found, and said with its address, what was expected
// there and what was found.
extern "C" {
#include "tools/cli/replay/replay.h"
#include "tools/cli/replay/stamp.h"
}

#include "tests/support/faulty/failing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <sys/mman.h>

namespace
{

constexpr uint64_t kPage = 4096;

// What a meddler does to the memory that is about to be checked; the first one that did something
// ends it.
class Meddler
{
  public:
    using Work = std::function<bool(uint64_t address, uint64_t bytes)>;

    explicit Meddler(Work work, std::function<void()> rest = {})
        : work_(std::move(work)), rest_(std::move(rest))
    {
        if (rest_)
            seam_.rest = [](void *context) { static_cast<Meddler *>(context)->rest_(); };
    }

    const mbr_replay_meddler *seam() const { return &seam_; }
    bool done() const { return done_; }

  private:
    static void meddle(void *context, uint64_t address, uint64_t bytes)
    {
        auto *self = static_cast<Meddler *>(context);
        std::lock_guard<std::mutex> guard(self->mutex_); // two streams, two workers
        if (!self->done_)
            self->done_ = self->work_(address, bytes);
    }

    Work work_;
    std::function<void()> rest_; // while the caches sleep
    mbr_replay_meddler seam_ = {meddle, this, nullptr};
    std::mutex mutex_;
    bool done_ = false;
};

replay_stamp *stamp_at(uint64_t address)
{
    return reinterpret_cast<replay_stamp *>(address); // NOLINT: memory of the mechanism
}

struct Wrong {
    unsigned long long address = 0;
    replay_stamp expected = {}, found = {};

    bool read(const std::string &text)
    {
        unsigned long long e[4], f[4];
        int fields = std::sscanf(text.c_str(),
            "wrong contents at address %llx: expected allocation %llx, generation %llu, index "
            "%llx, "
            "tokens %llx; found allocation %llx, generation %llu, index %llx, tokens %llx",
            &address, &e[0], &e[1], &e[2], &e[3], &f[0], &f[1], &f[2], &f[3]);
        expected = {{e[0], e[1]}, e[2], e[3]};
        found = {{f[0], f[1]}, f[2], f[3]};
        return fields == 9;
    }
};

bool operator==(const replay_stamp &a, const replay_stamp &b)
{
    return std::memcmp(&a, &b, sizeof(a)) == 0;
}

class Verify : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        mbr_trace_error refused = {};
        mbr_trace_options from = {};
        from.path = "tools/cli/trace/sample.jsonl";
        from.max_requests = 60;
        ASSERT_EQ(mbr_trace_load(&from, &trace, &refused), MBR_TRACE_OK) << refused.text;
        options.plugin = "plugins/host/libmembrane-host.so";
        options.layout = "window-major";
        options.budget_bytes = UINT64_C(1) << 30;
        options.keep_bytes = UINT64_MAX;
        options.speed = 1;
        options.decode_rate = 30;
        options.prefill_rate = 8000;
        options.prefixes = MBR_REPLAY_PREFIX_DECLARED;
        options.has_stamps = true;
        options.fork_every = 4;
        options.trusted = true;
    }
    void TearDown() override { mbr_trace_destroy(trace); }

    int run(const Meddler *meddler)
    {
        mbr_replay_load load = {
            "replay", "layers=8,heads=2,dim=64,bytes=2,planes=2", trace, MBR_NO_ALLOWANCE};
        char line[MBR_REPLAY_TEXT_BYTES];
        options.meddler = meddler == nullptr ? nullptr : meddler->seam();
        int code = mbr_replay_run(&options, MBR_REPLAY_ALONE, &load, 1, &report, line);
        text = line;
        written = report.touched_count;
        verified = report.verified_count;
        forks = report.fork_count;
        pages = report.pages;
        caches = report.caches;
        mbr_replay_report_finish(&report);
        return code;
    }
    // The same plugin, with faults.
    void use(const membrane::Faulty &faulty)
    {
        auto list = faulty.options();
        options.plugin = "tests/support/libmembrane-faulty.so";
        options.plugin_option_count = static_cast<uint32_t>(list.size());
        std::copy(list.begin(), list.end(), options.plugin_options);
    }
    void expect_nothing_left() const
    {
        EXPECT_STREQ(report.audit, "clean");
        EXPECT_EQ(report.final_charged + report.final_mapped + report.final_owned +
                report.final_reservations,
            0U);
    }
    using Place = std::function<uint64_t(uint64_t address, uint64_t bytes)>;

    // One bit is flipped at the first place that is not 0: the run says both stamps.
    void expect_flip_found(const Place &place)
    {
        replay_stamp stamp = {};
        Meddler meddler([&](uint64_t address, uint64_t bytes) {
            target = place(address, bytes);
            if (target == 0)
                return false;
            stamp = *stamp_at(target);
            stamp_at(target)->tokens ^= 1;
            return true;
        });
        Wrong wrong = expect_found(meddler);
        EXPECT_TRUE(wrong.expected == stamp) << text;
        stamp.tokens ^= 1;
        EXPECT_TRUE(wrong.found == stamp) << text;
    }
    // The run fails, and says the target and no other place.
    Wrong expect_found(Meddler &meddler)
    {
        Wrong wrong;
        EXPECT_NE(run(&meddler), 0);
        EXPECT_TRUE(meddler.done());
        EXPECT_TRUE(wrong.read(text)) << text;
        EXPECT_EQ(wrong.address, target) << text;
        return wrong;
    }

    mbr_trace *trace = nullptr;
    mbr_replay_options options = {};
    std::string text;
    uint64_t written = 0, verified = 0, forks = 0;
    mbr_replay_pages_report pages = {};
    mbr_replay_caches_report caches = {};
    mbr_replay_report report = {}; // its figures; what it points to is gone
    uint64_t target = 0;           // the address that a test changed
};

TEST_F(Verify, NobodyMeddles_EveryStampIsReadBackMoreThanOnce)
{
    EXPECT_EQ(run(nullptr), 0) << text;
    EXPECT_GT(written, 10000U);
    EXPECT_GT(verified, 2 * written);
    EXPECT_GT(forks, 5U);
}

TEST_F(Verify, OneBitIsFlipped_IsSaidWithItsAddress)
{
    expect_flip_found([](uint64_t address, uint64_t bytes) {
        return bytes < 8 * kPage ? 0 : address + 5 * kPage;
    });
}

// The same place of the same request, as an earlier stay would have left it.
TEST_F(Verify, StampOfAnOlderGeneration_IsFound)
{
    Meddler meddler([&](uint64_t address, uint64_t) {
        target = address;
        return stamp_at(target)->writer.generation-- > 0;
    });
    Wrong wrong = expect_found(meddler);
    EXPECT_EQ(wrong.found.writer.generation + 1, wrong.expected.writer.generation) << text;
    EXPECT_EQ(wrong.found.index, wrong.expected.index) << text;
}

// A page that stands a second time where another one belongs, as a mapping of the wrong extent
// would have it.
TEST_F(Verify, AnAliasedPage_ShowsWhoseItIs)
{
    uint64_t other = 0;
    replay_stamp theirs = {};
    Meddler meddler([&](uint64_t address, uint64_t) {
        uint64_t generation = stamp_at(address)->writer.generation;
        if (other == 0 || generation == theirs.writer.generation) {
            other = address;
            theirs = *stamp_at(address);
            return false;
        }
        target = address;
        // Of a shared mapping whose old size is 0, the pages are mapped once more.
        void *moved =
            mremap(stamp_at(other), 0, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, stamp_at(target));
        return moved == stamp_at(target) && *stamp_at(target) == theirs;
    });
    Wrong wrong = expect_found(meddler);
    EXPECT_TRUE(wrong.found == theirs) << text;
    EXPECT_NE(wrong.expected.writer.generation, theirs.writer.generation) << text;
}

// Weights that slept and woke are what they were, or said not to be.
TEST_F(Verify, WeightsThatAreChangedWhileTheyRest_AreFound)
{
    options.sleep_every = 10;
    options.weight_bytes = UINT64_C(1) << 20;
    uint64_t checks = 0;
    Meddler meddler([&](uint64_t address, uint64_t bytes) {
        if (bytes != options.weight_bytes || stamp_at(address)->writer.allocation != 1 ||
            ++checks < 2) // before they sleep, then after they woke
            return false;
        target = address + bytes - kPage;
        stamp_at(target)->index++;
        return true;
    });
    Wrong wrong = expect_found(meddler);
    EXPECT_EQ(wrong.found.index, wrong.expected.index + 1) << text;
    EXPECT_EQ(wrong.expected.writer.allocation, 1U) << text;
}

// ---- Caches that sleep

TEST_F(Verify, CachesSleepAndWake_AndEveryStampIsReadBackOnceMore)
{
    ASSERT_EQ(run(nullptr), 0) << text;
    uint64_t read_back = verified;
    for (bool has_pages : {false, true}) {
        options.has_pages = has_pages;
        options.sleep_every = 5;
        options.weight_bytes = UINT64_C(1) << 20;
        uint64_t naps = 0;
        Meddler meddler([](uint64_t, uint64_t) { return false; }, [&] { naps++; });
        EXPECT_EQ(run(&meddler), 0) << text;
        EXPECT_GT(caches.sleep_count, 5U);
        EXPECT_EQ(caches.sleep_count, naps);
        EXPECT_GT(caches.slept_bytes, caches.sleep_count << 20);
        EXPECT_EQ(caches.refused_count + caches.lost_count, 0U);
        EXPECT_GT(verified, read_back + caches.slept_bytes / kPage);
        EXPECT_EQ(pages.dropped_count, 0U);
    }
}

TEST_F(Verify, ARowThatIsWrongWhenTheCachesWoke_IsFoundBeforeTheNextStep)
{
    options.sleep_every = 5;
    options.weight_bytes = UINT64_C(1) << 20;
    replay_stamp stamp = {};
    std::atomic<bool> has_slept{false};
    Meddler meddler(
        [&](uint64_t address, uint64_t bytes) {
            if (!has_slept || stamp_at(address)->writer.allocation == 1 || bytes < 8 * kPage)
                return false;
            target = address + 5 * kPage;
            stamp = *stamp_at(target);
            stamp_at(target)->tokens ^= 1;
            return true;
        },
        [&] { has_slept = true; });
    Wrong wrong = expect_found(meddler);
    EXPECT_TRUE(wrong.expected == stamp) << text;
    EXPECT_EQ(caches.sleep_count, 1U) << text;
}

// There is no memory for them when they wake: whoever had it is served again from its start.
TEST_F(Verify, CachesThatFindNoMemoryWhenTheyWake_BeginAnew)
{
    for (bool has_pages : {false, true}) {
        membrane::Faulty faulty;
        use(faulty);
        faulty.plan.status = MBR_OUT_OF_MEMORY;
        options.has_pages = has_pages;
        options.sleep_every = 15;
        options.weight_bytes = UINT64_C(1) << 20;
        uint64_t naps = 0;
        Meddler meddler([](uint64_t, uint64_t) { return false; },
            [&] {
                if (++naps == 2)
                    faulty.fail(FAULTY_EXTENT_CREATE, 2, 2);
            });
        EXPECT_EQ(run(&meddler), 0) << text;
        EXPECT_EQ(caches.lost_count, 1U);
        EXPECT_EQ(caches.sleep_count + 1, naps);
        EXPECT_GT(report.tenants[0].preempted, 0U);
        EXPECT_EQ(report.tenants[0].served, report.tenants[0].total);
        expect_nothing_left();
    }
}

TEST_F(Verify, CachesWhoseWakeFails_EndTheRunWithTheReason)
{
    membrane::Faulty faulty;
    use(faulty);
    options.sleep_every = 15;
    options.weight_bytes = UINT64_C(1) << 20;
    Meddler meddler(
        [](uint64_t, uint64_t) { return false; }, [&] { faulty.fail(FAULTY_MAP, 3, 1000); });
    EXPECT_NE(run(&meddler), 0);
    EXPECT_EQ(text.compare(0, 23, "the caches cannot wake:"), 0) << text;
    EXPECT_EQ(caches.sleep_count, 0U);
    expect_nothing_left();
}

// The driver refuses to unmap them: they sleep, and wake with what they had.
TEST_F(Verify, WeightsThatCannotBeGivenBackAtOnce_SleepAndWakeAllTheSame)
{
    membrane::Faulty faulty;
    use(faulty);
    options.sleep_every = 5;
    options.weight_bytes = UINT64_C(1) << 20;
    uint64_t naps = 0, refused = 0;
    Meddler meddler(
        [&](uint64_t address, uint64_t bytes) {
            bool sleep_next = bytes == options.weight_bytes && report.sleep_count == 0 &&
                stamp_at(address)->writer.allocation == 1;
            if (sleep_next)
                faulty.fail(FAULTY_UNMAP, 1, 2); // their one extent's; the sleep tries once more
            return sleep_next;
        },
        [&] {
            naps++;
            refused += faulty.stop();
        });
    EXPECT_EQ(run(&meddler), 0) << text;
    EXPECT_EQ(refused, 1U);
    EXPECT_EQ(caches.sleep_count, naps);
    EXPECT_GT(report.sleep_count, 1U);
    EXPECT_EQ(report.sleep_count, report.wake_count);
    EXPECT_EQ(caches.lost_count, 0U);
    expect_nothing_left();
}

// What sleeps has no room in an arena that is as large as the budget where weights sleep there,
// too.
TEST_F(Verify, ArenaWithoutRoom_LeavesTheCachesAwake)
{
    options.sleep_every = 2;
    options.weight_bytes = UINT64_C(40) << 20;
    options.budget_bytes = UINT64_C(48) << 20;
    EXPECT_EQ(run(nullptr), 0) << text;
    EXPECT_GT(caches.refused_count, 0U);
    EXPECT_GT(caches.sleep_count, 0U);
    EXPECT_EQ(caches.lost_count, 0U);
    EXPECT_EQ(report.tenants[0].served + report.tenants[0].refused, report.tenants[0].total);
    expect_nothing_left();
}

// ---- Paged stores

constexpr uint64_t kOfPages = UINT64_C(1) << 62; // in the allocation of a row's stamp

bool is_row(uint64_t address, uint64_t bytes)
{
    return bytes >= sizeof(replay_stamp) && (stamp_at(address)->writer.allocation & kOfPages) != 0;
}

TEST_F(Verify, PagesThatNobodyMeddlesWith_AreForkedCopiedRewoundPreemptedAndRight)
{
    options.has_pages = true;
    EXPECT_EQ(run(nullptr), 0) << text;
    EXPECT_GT(pages.written_count, 10000U);
    EXPECT_GT(pages.verified_count, pages.written_count);
    EXPECT_GT(pages.fork_count, 5U);
    EXPECT_GT(pages.copied_bytes, 0U);
    EXPECT_GT(pages.rewind_count, 5U);
    EXPECT_GT(pages.preempted_count, 5U);
    EXPECT_EQ(pages.dropped_count, 0U);
}

TEST_F(Verify, OneBitOfARowIsFlipped_IsSaidWithItsAddress)
{
    options.has_pages = true;
    expect_flip_found([](uint64_t address, uint64_t bytes) {
        return is_row(address, bytes) ? address + bytes - sizeof(replay_stamp) : 0;
    });
}

// What a write to a shared page would show the others, had it not copied first.
TEST_F(Verify, ARowOfAnotherSequence_ShowsWhoseItIs)
{
    options.has_pages = true;
    replay_stamp theirs = {};
    Meddler meddler([&](uint64_t address, uint64_t bytes) {
        if (!is_row(address, bytes))
            return false;
        uint64_t generation = stamp_at(address)->writer.generation;
        if (theirs.writer.generation == 0 || generation == theirs.writer.generation) {
            theirs = *stamp_at(address);
            return false;
        }
        target = address;
        *stamp_at(target) = theirs;
        return true;
    });
    Wrong wrong = expect_found(meddler);
    EXPECT_TRUE(wrong.found == theirs) << text;
    EXPECT_NE(wrong.expected.writer.generation, theirs.writer.generation) << text;
}

// Without stamps there is a byte of the tokens, which says less, and is checked all the same.
TEST_F(Verify, WithoutStamps_AByteThatIsChangedIsFound)
{
    options.has_stamps = false;
    Meddler meddler([&](uint64_t address, uint64_t) {
        target = address;
        *reinterpret_cast<uint8_t *>(target) ^= 0x40; // NOLINT
        return true;
    });
    EXPECT_NE(run(&meddler), 0);
    char expected[64];
    std::snprintf(expected, sizeof(expected), "wrong contents at address %llx: expected byte ",
        static_cast<unsigned long long>(target));
    EXPECT_EQ(text.compare(0, std::strlen(expected), expected), 0) << text;
}

} // namespace
