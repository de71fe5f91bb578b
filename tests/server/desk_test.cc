// The desk on real memory, without HTTP: what others hold under the same authority, and a heap that
// fails at each call.
#include "docs/examples/server/desk.h"
#include "tests/unit/bind/host_world.h"

#include <atomic>
#include <future>

namespace membrane
{

struct Asked {
    request asked{};
    std::promise<void> answered;

    Asked(uint64_t prompt_tokens, uint64_t output_tokens)
    {
        asked.prompt_tokens = prompt_tokens;
        asked.output_tokens = output_tokens;
        asked.owner = this;
    }

    answer_kind Enter(desk *desk)
    {
        if (!desk_enter(desk, &asked))
            answered.get_future().wait();
        return asked.answer;
    }
};

desk *OpenDesk(HostWorld &world, uint64_t stand_ns)
{
    desk_options options{};
    options.manager = world.manager;
    options.authority = world.authority;
    options.holder = world.holder;
    options.binding = world.binding;
    options.tokens_per_second = 1000000;
    options.max_tokens = 16384;
    options.stand_ns = stand_ns;
    options.hooks.park = [](request *) {};
    options.hooks.wake = [](request *woken) {
        static_cast<Asked *>(woken->owner)->answered.set_value();
    };
    desk *opened = nullptr;
    EXPECT_EQ(MBR_OK, desk_open(&options, &opened, &world.error)) << world.error.text;
    return opened;
}

void CloseDesk(HostWorld &world, desk *desk)
{
    desk_close(desk, 0);
    EXPECT_EQ(MBR_OK, desk_destroy(desk, &world.error)) << world.error.text;
    EXPECT_TRUE(world.clean());
}

// Frees it, and the caches with it: others have the bytes then.
void GiveBack(HostWorld &world, mbr_allocation_handle allocation)
{
    uint64_t released = 0;
    EXPECT_EQ(MBR_OK, world.free_now(allocation));
    EXPECT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, &released, &world.error));
}

TEST(Desk, OthersHoldTheBytes_TheGovernorSaysWhenToComeAgain)
{
    HostWorld world(64 * kMiB);
    desk *desk = OpenDesk(world, 0);
    mbr_alloc_result held = world.alloc(56 * kMiB);
    Asked early(8000, 192);
    EXPECT_EQ(ANSWER_COME_AGAIN, early.Enter(desk));
    EXPECT_EQ(NS_PER_SECOND, early.asked.retry_after_ns); // nothing was released yet: nobody knows
    EXPECT_EQ(2u, early.asked.retry_after_seconds);
    EXPECT_NE(0u, early.asked.key);
    // They release hundreds of MiB in about a second: 8 MiB are soon there.
    for (int i = 0; i < 20; i++)
        GiveBack(world, world.alloc(8 * kMiB).allocation);
    Asked late(8000, 191); // as many bytes, and nobody's that was expected
    EXPECT_EQ(ANSWER_COME_AGAIN, late.Enter(desk));
    auto figures = desk_figures{};
    ASSERT_EQ(MBR_OK, desk_read(desk, &figures, &world.error));
    EXPECT_EQ(2u, figures.away_count);
    EXPECT_LT(late.asked.retry_after_ns, NS_PER_SECOND / 2);
    // Once they are free, whoever comes with its place is served.
    GiveBack(world, held.allocation);
    Asked again(8000, 192);
    again.asked.key = early.asked.key;
    EXPECT_EQ(ANSWER_SERVED, again.Enter(desk));
    EXPECT_TRUE(again.asked.returned);
    Asked never(8000, 32000);
    EXPECT_EQ(ANSWER_NEVER, never.Enter(desk));
    CloseDesk(world, desk);
}

struct Heap {
    mbr_heap heap{};
    std::atomic<uint64_t> calls{0}, fail_at{0};

    Heap()
    {
        heap.allocate = [](void *context, size_t bytes) -> void * {
            auto *self = static_cast<Heap *>(context);
            return ++self->calls == self->fail_at ? nullptr : std::calloc(1, bytes);
        };
        heap.release = [](void *, void *block) { std::free(block); };
        heap.context = this;
    }
};

TEST(Desk, HeapFailsAtEachCallOfARequest_NoMemoryIsSaidAndNothingIsLeft)
{
    Heap heap;
    mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
    HostWorld world(64 * kMiB, &seams);
    desk *desk = OpenDesk(world, NS_PER_SECOND);
    uint64_t refused = 0;
    for (uint64_t at = 1;; at++) {
        ASSERT_LT(at, 1000u) << "the sweep has no end";
        Asked one(100, 400);
        heap.fail_at = heap.calls + at;
        answer_kind answer = one.Enter(desk);
        bool met = heap.calls >= heap.fail_at;
        heap.fail_at = 0;
        ASSERT_TRUE(answer == ANSWER_SERVED || (met && answer == ANSWER_NO_MEMORY)) << at;
        refused += answer == ANSWER_NO_MEMORY;
        EXPECT_EQ(ANSWER_SERVED, Asked(100, 400).Enter(desk)) << at;
        if (!met)
            break;
    }
    EXPECT_GT(refused, 0u);
    CloseDesk(world, desk);
}

} // namespace membrane
