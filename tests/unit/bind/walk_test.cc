// Threads that read records by address and by handle while others end them; meant for tsan and asan
// above all. And that no walk misses what is there all the time.
#include "tests/unit/bind/host_world.h"

#include <atomic>
#include <thread>
#include <vector>

namespace membrane
{
namespace
{

// In every fifteenth round, who ends a thing waits until others have looked: at least one look
// began when it was there. In the rounds between they race. So they meet however they are
// scheduled.
class Looks
{
  public:
    explicit Looks(uint64_t lookers = 1) : lookers_(lookers) {}
    void done()
    {
        if (++count_ >= until_)
            std::this_thread::yield();
    }
    void let(int round)
    {
        if (round % 15 != 0)
            return;
        for (until_ = count_ + lookers_ + 1; count_ < until_;)
            std::this_thread::yield();
        until_ = UINT64_MAX;
    }

  private:
    const uint64_t lookers_; // each may be in a look that began before
    std::atomic<uint64_t> count_{0}, until_{UINT64_MAX};
};

TEST(Walk, RangesReadByAddressWhileTheyAreReleased_AreThereOrNot)
{
    HostWorld world;
    std::atomic<bool> done{false};
    std::atomic<uint64_t> address{0}, handle{0}, wrong{0}, found{0};
    Looks looks(2);
    std::vector<std::thread> readers;
    for (int t = 0; t < 2; t++) {
        readers.emplace_back([&, t] {
            auto figures = sized<mbr_range_figures>();
            while (!done.load()) {
                mbr_range_handle asked = {t == 0 ? 0 : handle.load()};
                uint64_t at = address.load();
                mbr_status status = mbr_range_read(world.manager, asked, at, &figures, nullptr);
                found += status == MBR_OK;
                wrong += status != MBR_OK && status != MBR_UNKNOWN_OBJECT && status != MBR_STALE;
                wrong += status == MBR_OK && figures.bytes != 4 * kMiB;
                wrong += status == MBR_OK && t == 0 && at - figures.address >= figures.bytes;
                wrong += status == MBR_OK && asked.value != 0 /* before the first range */ &&
                    figures.range.value != asked.value;
                wrong += status != MBR_OK && figures.address != 0;
                looks.done();
            }
        });
    }
    for (int i = 0; i < 300; i++) {
        auto range = world.reserve(4 * kMiB, 2 * kMiB);
        address = range.address + kMiB;
        handle = range.range.value;
        EXPECT_EQ(MBR_OK, world.grow(range.range, 0, 2 * kMiB));
        looks.let(i);
        EXPECT_EQ(MBR_OK, world.release(range.range));
    }
    done = true;
    for (auto &reader : readers)
        reader.join();
    EXPECT_EQ(0u, wrong.load());
    EXPECT_LE(20u, found.load());
}

TEST(Walk, PrefixesReadWhileTheyAreReleased_AreThereOrStale)
{
    HostWorld world;
    auto source = world.reserve(4 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(source.range, 0, 2 * kMiB));
    std::atomic<bool> done{false};
    std::atomic<uint64_t> handle{0}, wrong{0}, found{0};
    Looks looks;
    std::thread reader([&] {
        auto figures = sized<mbr_prefix_figures>();
        while (!done.load()) {
            mbr_prefix_handle asked = {handle.load()};
            mbr_status status = mbr_prefix_read(world.manager, asked, &figures, nullptr);
            found += status == MBR_OK;
            wrong += status == MBR_OK && figures.shared_bytes != 2 * kMiB;
            wrong += status != MBR_OK && status != MBR_STALE && asked.value != 0;
            looks.done();
        }
    });
    mbr_piece piece = {source.range, 0, 2 * kMiB};
    auto request = sized<mbr_prefix_request>();
    request.holder = world.holder;
    request.pieces = &piece;
    request.piece_count = 1;
    for (int i = 0; i < 300; i++) {
        auto made = sized<mbr_prefix_result>();
        EXPECT_EQ(MBR_OK, mbr_prefix_create(world.manager, &request, &made, &world.error));
        handle = made.prefix.value;
        looks.let(i);
        EXPECT_EQ(MBR_OK, mbr_prefix_release(world.manager, made.prefix, &world.error));
    }
    done = true;
    reader.join();
    EXPECT_EQ(0u, wrong.load());
    EXPECT_LE(20u, found.load());
    EXPECT_EQ(MBR_OK, world.release(source.range));
}

// A late caller is refused, an early one is waited for; nobody touches another's range.
TEST(Walk, RangesDecommittedWhileTheyAreReleased_AreThereOrStale)
{
    HostWorld world;
    std::atomic<bool> done{false};
    std::atomic<uint64_t> handle{0}, wrong{0}, given_back{0};
    Looks looks;
    std::thread other([&] {
        auto request = sized<mbr_range_release_request>();
        request.flags = MBR_FREE_NOW;
        while (!done.load()) {
            auto result = sized<mbr_range_decommit_result>();
            request.piece = {{handle.load()}, 0, 2 * kMiB};
            mbr_status status = mbr_range_decommit(world.manager, &request, &result, nullptr);
            given_back += result.decommitted_bytes != 0;
            wrong += status != MBR_OK && status != MBR_UNKNOWN_OBJECT && status != MBR_STALE;
            wrong += status != MBR_OK && result.decommitted_bytes != 0;
            looks.done();
        }
    });
    for (int i = 0; i < 300; i++) {
        auto range = world.reserve(4 * kMiB, 2 * kMiB);
        EXPECT_EQ(MBR_OK, world.grow(range.range, 0, 2 * kMiB));
        handle = range.range.value;
        looks.let(i);
        EXPECT_EQ(MBR_OK, world.release(range.range));
        auto bystander = world.reserve(4 * kMiB, 2 * kMiB); // its next life
        EXPECT_EQ(MBR_OK, world.grow(bystander.range, 0, 2 * kMiB));
        auto figures = sized<mbr_range_figures>();
        EXPECT_EQ(MBR_OK, mbr_range_read(world.manager, bystander.range, 0, &figures, nullptr));
        EXPECT_EQ(2 * kMiB, figures.committed_bytes);
        EXPECT_EQ(MBR_OK, world.release(bystander.range));
    }
    done = true;
    other.join();
    EXPECT_EQ(0u, wrong.load());
    EXPECT_LE(20u, given_back.load());
    EXPECT_TRUE(world.clean());
}

TEST(Walk, PrefixesAttachedWhileTheyAreReleased_AreThereOrStale)
{
    HostWorld world;
    auto source = world.reserve(4 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(source.range, 0, 2 * kMiB));
    std::atomic<bool> done{false};
    std::atomic<uint64_t> handle{0}, wrong{0}, attached{0};
    Looks looks;
    std::thread other([&] {
        while (!done.load()) {
            auto target = world.reserve(4 * kMiB, 2 * kMiB);
            auto request = sized<mbr_prefix_attach_request>();
            request.prefix = {handle.load()};
            request.holder = world.holder;
            request.targets = &target.range;
            request.target_count = 1;
            auto result = sized<mbr_prefix_attach_result>();
            mbr_status status = mbr_prefix_attach(world.manager, &request, &result, nullptr);
            attached += status == MBR_OK;
            wrong += status != MBR_OK && status != MBR_UNKNOWN_OBJECT && status != MBR_STALE;
            wrong += (status == MBR_OK) != (result.shared_bytes == 2 * kMiB);
            wrong += world.release(target.range) != MBR_OK;
            looks.done();
        }
    });
    mbr_piece piece = {source.range, 0, 2 * kMiB};
    auto request = sized<mbr_prefix_request>();
    request.holder = world.holder;
    request.pieces = &piece;
    request.piece_count = 1;
    for (int i = 0; i < 300; i++) {
        auto made = sized<mbr_prefix_result>();
        auto error = sized<mbr_error>();
        EXPECT_EQ(MBR_OK, mbr_prefix_create(world.manager, &request, &made, &error)) << error.text;
        handle = made.prefix.value;
        looks.let(i);
        EXPECT_EQ(MBR_OK, mbr_prefix_release(world.manager, made.prefix, &error)) << error.text;
    }
    done = true;
    other.join();
    EXPECT_EQ(0u, wrong.load());
    EXPECT_LE(20u, attached.load());
    EXPECT_EQ(MBR_OK, world.release(source.range));
    EXPECT_TRUE(world.clean());
}

mbr_authority_handle CreateBrief(HostWorld &world)
{
    auto request = sized<mbr_authority_request>();
    request.tier = MBR_TIER_HOST;
    request.name = "brief";
    request.limit_bytes = kMiB;
    mbr_authority_handle brief = {0};
    EXPECT_EQ(MBR_OK, mbr_manager_create_authority(world.manager, &request, &brief, &world.error));
    return brief;
}

TEST(Walk, AuthoritiesDestroyedWhileAnotherThreadPolls_EndAtOnce)
{
    HostWorld world;
    std::atomic<bool> done{false};
    std::atomic<uint64_t> polls{0};
    std::thread poller([&] {
        for (; !done.load(); polls++)
            mbr_manager_poll(world.manager);
    });
    for (int i = 0; i < 1000 || polls.load() < 1000; i++)
        EXPECT_EQ(
            MBR_OK, mbr_manager_destroy_authority(world.manager, CreateBrief(world), &world.error))
            << world.error.text;
    done = true;
    poller.join();
    EXPECT_TRUE(world.clean());
}

// Whatever another thread does by the handle at that moment is served, or comes too late.
TEST(Walk, AuthoritiesDestroyedWhileTheirHandlesAreUsed_AreThereOrStale)
{
    HostWorld world;
    std::atomic<bool> done{false};
    std::atomic<uint64_t> handle{0}, wrong{0}, served{0};
    Looks looks;
    std::thread other([&] {
        auto judge = [&](mbr_status status) {
            served += status == MBR_OK;
            wrong += status != MBR_OK && status != MBR_UNKNOWN_OBJECT && status != MBR_STALE;
            return status;
        };
        while (!done.load()) {
            mbr_authority_handle brief = {handle.load()};
            auto figures = sized<mbr_authority_figures>();
            judge(mbr_manager_read_authority(world.manager, brief, &figures, nullptr));
            judge(mbr_manager_set_limit(world.manager, brief, 2 * kMiB, nullptr, nullptr));
            auto line = sized<mbr_holder_figures>();
            uint32_t count;
            judge(mbr_manager_read_holders(world.manager, brief, &line, 1, &count, nullptr));
            auto change = sized<mbr_limit_change>();
            change.limit_bytes = kMiB;
            auto answer = sized<mbr_limit_answer>();
            judge(mbr_manager_change_limit(world.manager, brief, &change, &answer, nullptr));
            judge(mbr_manager_retire_tickets(world.manager, brief, nullptr));
            auto request = sized<mbr_holder_request>();
            request.authority = brief;
            request.name = "brief";
            request.allowance_bytes = MBR_NO_ALLOWANCE;
            mbr_holder_handle holder;
            if (judge(mbr_manager_create_holder(world.manager, &request, &holder, nullptr)) ==
                MBR_OK)
                wrong += mbr_manager_destroy_holder(world.manager, holder, nullptr) != MBR_OK;
            looks.done();
        }
    });
    for (int i = 0; i < 500; i++) {
        mbr_authority_handle brief = CreateBrief(world);
        handle = brief.value;
        looks.let(i);
        mbr_status status = MBR_IN_USE;
        while (status == MBR_IN_USE) // by a holder
            status = mbr_manager_destroy_authority(world.manager, brief, &world.error);
        EXPECT_EQ(MBR_OK, status) << world.error.text;
    }
    done = true;
    other.join();
    EXPECT_EQ(0u, wrong.load());
    EXPECT_LE(20u, served.load());
    EXPECT_TRUE(world.clean());
}

// The growth is inside until its publish callback returns: the release waits, and then ends it.
TEST(Walk, RangeReleasedWhileItGrows_IsReleasedAfterwards)
{
    HostWorld world;
    auto range = world.reserve(4 * kMiB, 2 * kMiB);
    struct Gate {
        std::atomic<bool> is_inside{false}, may_leave{false};
    } gate;
    std::thread grower([&] {
        auto request = sized<mbr_range_grow_request>();
        mbr_piece piece = {range.range, 0, 2 * kMiB};
        request.holder = world.holder;
        request.pieces = &piece;
        request.piece_count = 1;
        request.publish = [](void *context) {
            Gate *own = static_cast<Gate *>(context);
            own->is_inside = true;
            while (!own->may_leave.load())
                std::this_thread::yield();
            return MBR_OK;
        };
        request.publish_context = &gate;
        auto result = sized<mbr_range_grow_result>();
        EXPECT_EQ(MBR_OK, mbr_range_grow(world.manager, &request, &result, nullptr));
        EXPECT_EQ(2 * kMiB, result.new_bytes);
    });
    while (!gate.is_inside.load())
        std::this_thread::yield();
    std::atomic<bool> is_released{false};
    std::thread releaser([&] {
        auto request = sized<mbr_range_release_request>();
        request.flags = MBR_FREE_NOW;
        request.piece.range = range.range;
        EXPECT_EQ(MBR_OK, mbr_range_release(world.manager, &request, nullptr));
        is_released = true;
    });
    // Once the release waits, the range takes no new call; before, this one fails for its stream.
    auto request = sized<mbr_range_release_request>();
    auto result = sized<mbr_range_decommit_result>();
    const mbr_stream_handle nobody = {1};
    request.piece.range = range.range;
    request.streams = &nobody;
    request.stream_count = 1;
    mbr_status status = MBR_UNKNOWN_OBJECT;
    while (status == MBR_UNKNOWN_OBJECT)
        status = mbr_range_decommit(world.manager, &request, &result, nullptr);
    EXPECT_EQ(MBR_STALE, status);
    EXPECT_FALSE(is_released.load());
    gate.may_leave = true;
    grower.join();
    releaser.join();
    EXPECT_TRUE(world.clean());
}

/* A tally of the older generation is in the books whenever somebody folds, also during a switch. */
/* What this thread has allocated shows in the holder's figures at once, whichever generation it
 * came from, while another switches: each walk folds the tallies of all generations. A handle's
 * place in the table is used again: with others between, a binding is switched to places that a
 * walk has passed already. */
static void count_during_switches(HostWorld &world, int switches)
{
    std::atomic<uint64_t> current{world.binding.value};
    std::atomic<bool> done{false};
    std::thread switcher([&] {
        auto request = world.bind_request();
        for (int i = 0; i < switches; i++) {
            mbr_binding_handle next;
            EXPECT_EQ(MBR_OK,
                mbr_manager_switch(world.manager, {current.load()}, &request, &next, nullptr));
            current = next.value;
        }
        done = true;
    });
    auto figures = sized<mbr_holder_figures>();
    uint64_t wrong = 0, rounds = 0;
    for (; !done.load() || rounds < 50; rounds++) {
        /* The first of a generation cuts a slab, which folds the tally. */
        std::vector<mbr_alloc_result> blocks;
        uint64_t bytes = 0;
        mbr_status status = MBR_OK;
        world.binding.value = current.load();
        while (status == MBR_OK && blocks.size() < 4) {
            mbr_alloc_result block = world.alloc(4096, &status);
            if (status == MBR_OK)
                blocks.push_back(block);
        }
        EXPECT_TRUE(status == MBR_OK || status == MBR_STALE) << status;
        for (const mbr_alloc_result &block : blocks)
            bytes += block.charged_bytes;
        mbr_manager_read_holder(world.manager, world.holder, &figures, nullptr);
        wrong += figures.charged_bytes != bytes;
        for (const mbr_alloc_result &block : blocks)
            EXPECT_EQ(MBR_OK, world.free_now(block.allocation));
    }
    switcher.join();
    world.binding.value = current.load();
    EXPECT_EQ(0u, wrong) << "of " << rounds << " rounds";
}

TEST(Walk, FoldDuringSwitches_MissesNoGeneration)
{
    HostWorld world;
    count_during_switches(world, 300);
}

TEST(Walk, FoldDuringSwitchesAmongManyBindings_MissesNoGeneration)
{
    HostWorld world;
    auto request = world.bind_request();
    std::vector<mbr_binding_handle> others(100);
    for (mbr_binding_handle &other : others)
        ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &request, &other, &world.error));
    count_during_switches(world, 500);
    for (mbr_binding_handle other : others)
        EXPECT_EQ(MBR_OK, mbr_manager_unbind(world.manager, other, &world.error));
}

/* The range that the loser found may be another one's by then. */
TEST(Walk, RangeReleasedByRacingThreads_EndsOnceAndNobodyElses)
{
    HostWorld world;
    for (int i = 0; i < 200; i++) {
        auto range = world.reserve(4 * kMiB, 2 * kMiB);
        ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 2 * kMiB));
        std::atomic<int> ended{0}, arrived{0};
        auto end = [&] {
            arrived++;
            while (arrived.load() < 2)
                std::this_thread::yield();
            auto request = sized<mbr_range_release_request>();
            request.flags = MBR_FREE_NOW;
            request.piece.range = range.range;
            mbr_status status = mbr_range_release(world.manager, &request, nullptr);
            ended += status == MBR_OK;
            EXPECT_TRUE(status == MBR_OK || status == MBR_STALE) << status;
            if (status != MBR_OK)
                return;
            auto reserve = sized<mbr_range_reserve_request>(); /* the same record, a new life */
            reserve.binding = world.binding;
            reserve.bytes = 4 * kMiB;
            reserve.growth = {2 * kMiB, 2 * kMiB, 0};
            auto again = sized<mbr_range_reserve_result>();
            EXPECT_EQ(MBR_OK, mbr_range_reserve(world.manager, &reserve, &again, nullptr));
            request.piece.range = again.range;
            EXPECT_EQ(MBR_OK, mbr_range_release(world.manager, &request, nullptr));
        };
        std::thread other(end);
        end();
        other.join();
        ASSERT_EQ(1, ended.load());
    }
}

TEST(Walk, BindingUnboundByRacingThreads_EndsOnce)
{
    HostWorld world;
    for (int i = 0; i < 100; i++) {
        auto request = world.bind_request();
        mbr_binding_handle binding;
        ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &request, &binding, &world.error));
        std::atomic<int> ended{0}, arrived{0};
        auto end = [&] {
            arrived++;
            while (arrived.load() < 2)
                std::this_thread::yield();
            mbr_status status = mbr_manager_unbind(world.manager, binding, nullptr);
            ended += status == MBR_OK;
            EXPECT_TRUE(status == MBR_OK || status == MBR_STALE) << status;
        };
        std::thread other(end);
        end();
        other.join();
        EXPECT_EQ(1, ended.load());
    }
}

} // namespace
} // namespace membrane
