// Paged stores against their naive reference: long random lives with faults at every kind of call,
// under a budget that refuses now and then; and every short sequence of operations. A failure
// prints its seed: MEMBRANE_SEED replays it.
#include "tests/unit/holder/paged_world.h"

#include "tests/support/faulty/failing.h"

#include <cstdlib>
#include <iostream>
#include <random>

namespace membrane
{
namespace
{

constexpr char kFaulty[] = "tests/support/libmembrane-faulty.so";

constexpr uint64_t kUsualSteps = 2500;

// Of one random life: a share of MEMBRANE_OPERATIONS, which fewer and more are asked by.
uint64_t steps()
{
    const char *given = std::getenv("MEMBRANE_OPERATIONS");
    return given != nullptr ? std::strtoull(given, nullptr, 0) / 200 : kUsualSteps;
}

// A heap and a mechanism of which the next call but so many is refused.
struct Faults {
    FailingHeap heap;
    Faulty faulty;
    mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
    uint64_t met = 0;

    void arm(uint64_t kind, uint64_t nth)
    {
        static const uint32_t slots[] = {FAULTY_EXTENT_CREATE, FAULTY_MAP, FAULTY_PROTECT};
        if (kind == 0)
            heap.fail_at = heap.calls + nth;
        else
            faulty.fail(slots[kind - 1], nth);
    }
    void disarm()
    {
        met += heap.fail_at != 0 && heap.calls >= heap.fail_at;
        heap.fail_at = 0;
        met += faulty.stop();
    }
};

struct Lives {
    const char *name;
    PagedShape shape;
    uint64_t limit, saved_limit;
    bool faults;
};

PagedShape windowed(uint64_t window, uint64_t sinks)
{
    PagedShape shape;
    shape.window_tokens = window;
    shape.sink_tokens = sinks;
    return shape;
}

// A page an extent: each comes and goes alone.
PagedShape whole_granules()
{
    PagedShape shape;
    shape.token_bytes = 1152;
    shape.page_bytes = 8192;
    shape.extent_bytes = 8192;
    shape.max_tokens = 90;
    return shape;
}

PagedShape kept()
{
    PagedShape shape;
    shape.keep_bytes = UINT64_MAX;
    return shape;
}

PagedShape saved_here()
{
    PagedShape shape;
    shape.saves_here = true;
    return shape;
}

const Lives kLives[] = {
    {"plain", {}, 64 * kMiB, 64 * kMiB, false},
    {"tight", {}, 3 * 4096, 2 * 4096, false},
    {"kept", kept(), 6 * 4096, 3 * 4096, false},
    {"windowed", windowed(20, 8), 64 * kMiB, 64 * kMiB, false},
    {"windowed_tight", windowed(13, 0), 2 * 4096, 64 * kMiB, false},
    {"granules", whole_granules(), 64 * kMiB, 20 * 8192, false},
    {"saved_here", saved_here(), 6 * 4096, 64 * kMiB, false},
    {"faults", windowed(31, 3), 64 * kMiB, 64 * kMiB, true},
    {"faults_granules", whole_granules(), 64 * kMiB, 64 * kMiB, true},
};

class PagedModel : public ::testing::TestWithParam<Lives>
{
  protected:
    std::mt19937_64 random;
    uint64_t draw(uint64_t below) { return random() % below; }

    void step(PagedWorld &world)
    {
        Plain *any = world.all.empty() ? nullptr : world.all[draw(world.all.size())].get();
        uint64_t kind = draw(20);
        if (any == nullptr || (kind == 0 && world.all.size() < 6)) {
            world.begin();
        } else if (kind <= 3) {
            if (world.all.size() < 9)
                world.fork(any);
            else
                world.end(any);
        } else if (kind <= 9) {
            world.append(any, draw(3) == 0 ? draw(30) : draw(4));
        } else if (kind <= 12) {
            uint64_t first = draw(any->ids.size() + 2);
            world.overwrite(any, first, draw(9));
        } else if (kind == 13) {
            world.rewind(any,
                draw(4) == 0 ? draw(any->ids.size() + 2)
                             : any->ids.size() - std::min<size_t>(any->ids.size(), draw(9)));
        } else if (kind == 14) {
            world.end(any);
        } else if (kind == 15) {
            world.offer(any);
        } else if (kind == 16) {
            world.preempt(any);
        } else if (kind <= 18) {
            world.restore(any);
        } else {
            world.give(draw(2) == 0 ? UINT64_MAX : draw(5 * 4096));
        }
    }
};

TEST_P(PagedModel, RandomLives_AgreeWithPlainVectorsOfTokens)
{
    const char *given = std::getenv("MEMBRANE_SEED");
    uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : 20261130;
    SCOPED_TRACE("MEMBRANE_SEED=" + std::to_string(seed));
    random.seed(seed);
    Faults faults;
    const Lives &lives = GetParam();
    PagedWorld world(lives.shape, lives.limit, lives.saved_limit,
        lives.faults ? &faults.seams : nullptr,
        lives.faults ? kFaulty : "plugins/host/libmembrane-host.so",
        lives.faults ? faults.faulty.options() : std::vector<mbr_option>{{"granule", "4096"}});
    for (uint64_t i = 0; i < steps() && !HasFailure(); i++) {
        SCOPED_TRACE("step " + std::to_string(i));
        if (lives.faults && draw(5) != 0) {
            uint64_t released;
            mbr_manager_trim(world.manager, world.mechanism, 0, &released, nullptr);
            world.may_fail = true;
            faults.arm(draw(4), 1 + draw(2));
        }
        step(world);
        faults.disarm();
        world.may_fail = false;
        world.check();
        if (i % 256 == 0) {
            ASSERT_TRUE(world.clean());
        }
    }
    EXPECT_TRUE(!lives.faults || faults.met > steps() / 40) << faults.met;
    std::cout << steps() << " operations\n";
}

INSTANTIATE_TEST_SUITE_P(Lives, PagedModel, ::testing::ValuesIn(kLives),
    [](const auto &tested) { return tested.param.name; });

/* ---- Every short life */

// Two rows a page and two pages an extent: every edge is met within a few tokens.
PagedShape smallest(uint64_t window, uint64_t sinks)
{
    PagedShape shape = windowed(window, sinks);
    shape.token_bytes = 1024;
    shape.page_bytes = 2048;
    shape.max_pages = 6;
    shape.max_saved_pages = 2;
    shape.max_tokens = 7;
    return shape;
}

constexpr int kOperationCount = 11;

// On the first sequence or the last one made. False: there is nothing to do it with.
bool operate(PagedWorld &world, int operation)
{
    Plain *first = world.all.front().get(), *last = world.all.back().get();
    bool one = world.all.size() == 1;
    switch (operation) {
    case 0:
        world.append(first, 1);
        return true;
    case 1:
        world.append(last, 3);
        return true;
    case 2:
        return world.all.size() < 3 && world.fork(first) != MBR_UNKNOWN_OBJECT;
    case 3:
        return world.all.size() < 3 && !one && world.fork(last) != MBR_UNKNOWN_OBJECT;
    case 4:
        world.overwrite(first, 0, 1);
        return true;
    case 5:
        world.overwrite(last, last->ids.size() / 2, 1);
        return true;
    case 6:
        world.rewind(first, first->ids.size() / 2);
        return true;
    case 7:
        if (one)
            return false;
        world.end(first);
        return true;
    case 8:
        world.preempt(last);
        return true;
    case 9:
        if (first->state == MBR_PAGED_RESIDENT)
            world.offer(first);
        else
            world.restore(first);
        return true;
    default:
        world.give(UINT64_MAX);
        world.restore(last);
        return true;
    }
}

void every_life(PagedWorld &world, int depth, uint64_t *count)
{
    uint64_t lives = 1;
    for (int i = 0; i < depth; i++)
        lives *= kOperationCount;
    for (uint64_t life = 0; life < lives; life++) {
        world.begin();
        world.append(world.all.front().get(), 3);
        bool applies = true;
        uint64_t rest = life;
        for (int i = 0; i < depth && applies; i++, rest /= kOperationCount)
            applies = operate(world, static_cast<int>(rest % kOperationCount));
        if (applies) {
            world.check();
            ++*count;
        }
        while (!world.all.empty())
            world.end(world.all.back().get());
        ASSERT_FALSE(::testing::Test::HasFailure()) << "life " << life << " of depth " << depth;
    }
}

TEST(PagedScope, EveryShortLife_AgreesWithPlainVectorsOfTokens)
{
    int depth = steps() < kUsualSteps ? 3 : steps() == kUsualSteps ? 4 : 5;
    uint64_t count = 0;
    for (auto [window, sinks] : {std::pair{0, 0}, {2, 0}, {3, 1}}) {
        PagedWorld world(
            smallest(static_cast<uint64_t>(window), static_cast<uint64_t>(sinks)), 3 * 4096, 4096);
        every_life(world, depth, &count);
        ASSERT_TRUE(world.clean());
    }
    EXPECT_LT(depth == 3 ? 2000u : depth == 4 ? 20000u : 200000u, count);
    std::cout << count << " lives of " << depth << " operations\n";
}

} // namespace
} // namespace membrane
