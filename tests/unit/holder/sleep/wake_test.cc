// Waking from level 1: mapping and copying overlap, seen by the calls of the mechanism's slots.
#include "tests/unit/holder/sleep/world.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <unistd.h>

namespace membrane
{
namespace
{

constexpr uint64_t kWeights = 1;

/* The slots that a mechanism opened meanwhile is called in, in their order. */
class Trace
{
  public:
    Trace() : path_(testing::TempDir() + "/wake-trace-" + std::to_string(getpid()))
    {
        std::remove(path_.c_str());
        setenv("MEMBRANE_TRACE", "calls", 1);
        setenv("MEMBRANE_TRACE_FILE", path_.c_str(), 1);
    }
    ~Trace()
    {
        unsetenv("MEMBRANE_TRACE");
        unsetenv("MEMBRANE_TRACE_FILE");
        std::remove(path_.c_str());
    }
    /* Of those that the letters stand for, since the last call. */
    std::string read()
    {
        const std::pair<const char *, char> known[] = {{".extent_create ", 'c'}, {".map ", 'm'},
            {".protect ", 'p'}, {".copy ", '>'}, {".unmap ", 'u'}};
        std::ifstream file(path_);
        std::string line, all;
        while (std::getline(file, line))
            for (const auto &[slot, letter] : known)
                if (line.find(slot) != std::string::npos)
                    all += letter;
        std::string fresh = all.substr(seen_);
        seen_ = all.size();
        return fresh;
    }

  private:
    std::string path_;
    size_t seen_ = 0;
};

TEST(Wake, EachStretch_HasItsCopiesEnqueuedBeforeTheNextIsMade)
{
    Trace trace;
    SleepWorld world;
    auto a = world.reserve(3 * kMiB, kMiB / 2), b = world.reserve(kMiB / 2, kMiB / 2);
    ASSERT_EQ(MBR_OK, world.grow(a.range, 0, 3 * kMiB));
    ASSERT_EQ(MBR_OK, world.grow(b.range, 0, kMiB / 2));
    ASSERT_EQ(MBR_OK, world.add(a.range, kWeights));
    ASSERT_EQ(MBR_OK, world.add(b.range, kWeights));
    world.put(a.address, SleepWorld::pattern(3 * kMiB, 1));
    world.put(b.address, SleepWorld::pattern(kMiB / 2, 2));
    ASSERT_EQ(MBR_OK, world.sleep(kWeights)) << world.error.text;
    trace.read();
    ASSERT_EQ(MBR_OK, world.wake(kWeights)) << world.error.text;
    std::string calls = trace.read();
    EXPECT_EQ(7, std::count(calls.begin(), calls.end(), 'c'));
    EXPECT_EQ(7, std::count(calls.begin(), calls.end(), 'm'));
    EXPECT_EQ(world.brings_ep ? 4 : 0, std::count(calls.begin(), calls.end(), '>'))
        << "the CPU EP's are no slot's";
    /* Two extents are a stretch, and a chunk of the arena. */
    calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
    EXPECT_EQ(world.brings_ep ? "cmp>cmp>cmp>cmp>" : "cmpcmpcmpcmp", calls);
    EXPECT_TRUE(world.holds(a.address, 3 * kMiB, 1) && world.holds(b.address, kMiB / 2, 2));
    world.end(a.range);
    world.end(b.range);
}

TEST(Wake, OnAStreamThatIsCaptured_IsRefusedBeforeAnythingIsMapped)
{
    SleepWorld world;
    auto range = world.make(kWeights, 2 * kMiB, 1);
    ASSERT_EQ(MBR_OK, world.sleep(kWeights));
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    EXPECT_EQ(MBR_BUSY, world.wake(kWeights));
    EXPECT_TRUE(world.said("captured")) << world.error.text;
    EXPECT_EQ(0u, world.paid(world.holder).charged_bytes + world.books().charged_bytes);
    EXPECT_EQ(2 * kMiB, world.read().asleep_bytes);
    mbr_graph_handle graph;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
    ASSERT_EQ(MBR_OK, world.wake(kWeights)) << world.error.text;
    EXPECT_TRUE(world.holds(range.address, 2 * kMiB, 1));
    ASSERT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_drain(world.manager, world.ep, kNever, &world.error));
    EXPECT_TRUE(world.clean());
    world.end(range.range);
}

} // namespace
} // namespace membrane
