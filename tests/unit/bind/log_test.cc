// The way to the client's sink: what a sink may rely on, whatever is written (rule 8).
#include "tests/unit/bind/host_world.h"

extern "C" {
#include "abi/base/lock.h"
#include "host/bind/log.h"
}

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace membrane
{
namespace
{

struct Line {
    uint32_t level;
    std::string text;
};

uint64_t read_clock(void *context)
{
    return *(std::atomic<uint64_t> *)context;
}

struct World {
    World()
    {
        EXPECT_EQ(mbr_log_create(&mbr_heap_libc, &clock, sink, this, &log, nullptr), MBR_OK);
    }

    static void sink(void *context, uint32_t level, const char *text, uint64_t bytes)
    {
        World *world = (World *)context;
        mbr_lock_assert_none_held(); // ends the process if one is
        std::unique_lock<std::mutex> hold(world->mutex);
        world->lines.push_back({level, std::string(text, bytes)});
        world->changed.notify_all();
        if (world->again)
            mbr_log_write(world->log, MBR_LOG_ERROR, "from the sink", 13);
        if (world->lines.back().text == "wait")
            world->changed.wait(hold, [world] { return world->may_go; });
    }
    void write(const std::string &text, uint32_t level = MBR_LOG_INFO)
    {
        mbr_log_write(log, level, text.data(), text.size());
    }
    // The text of the only line since the last call.
    std::string only()
    {
        EXPECT_EQ(lines.size(), 1u);
        std::string text = lines.empty() ? "" : lines[0].text;
        lines.clear();
        return text;
    }

    std::atomic<uint64_t> now{1};
    mbr_clock clock = {read_clock, &now};
    mbr_log *log = nullptr;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Line> lines;
    bool again = false, may_go = false;
};

TEST(Log, Text_IsOneBoundedLineOfWholeCharacters)
{
    World world;
    world.write("as it is");
    EXPECT_EQ(world.only(), "as it is");
    world.write(std::string("a\nb\tc\0d\x1b[2J", 11));
    EXPECT_EQ(world.only(), "a b c d [2J");
    world.write(std::string(MBR_LOG_LINE_BYTES - 1, 'x'));
    EXPECT_EQ(world.only(), std::string(MBR_LOG_LINE_BYTES - 1, 'x'));
    world.write(std::string(MBR_LOG_LINE_BYTES - 2, 'x') + "\xc3\xa9");
    EXPECT_EQ(world.only(), std::string(MBR_LOG_LINE_BYTES - 2, 'x'));
    world.write(std::string(100000, 'y'));
    EXPECT_EQ(world.only().size(), MBR_LOG_LINE_BYTES - 1u);
    mbr_log_write(world.log, MBR_LOG_INFO, nullptr, 5);
    mbr_log_write(world.log, MBR_LOG_INFO, "x", 0);
    EXPECT_TRUE(world.lines.empty());
    mbr_log_end(world.log);
}

TEST(Log, Level_IsOneOfTheKnown)
{
    World world;
    for (uint32_t level : {0u, 1u, 2u, 3u, 4u, 5u, UINT32_MAX})
        world.write("x", level);
    std::vector<uint32_t> levels;
    for (auto &line : world.lines)
        levels.push_back(line.level);
    EXPECT_EQ(levels, (std::vector<uint32_t>{1, 1, 2, 3, 4, 4, 4}));
    mbr_log_end(world.log);
}

TEST(Log, MoreThanItsRate_DroppedAndCountedInTheNextLine)
{
    World world;
    for (int i = 0; i < MBR_LOG_LINES_PER_SECOND + 7; i++)
        world.write("x");
    EXPECT_EQ(world.lines.size(), (size_t)MBR_LOG_LINES_PER_SECOND);
    world.lines.clear();
    world.now += 999999999;
    world.write("still too early");
    EXPECT_TRUE(world.lines.empty());
    world.now += 1;
    world.write("the next second");
    ASSERT_EQ(world.lines.size(), 2u);
    EXPECT_EQ(world.lines[0].text.find("8 lines were dropped"), 0u);
    EXPECT_EQ(world.lines[0].level, (uint32_t)MBR_LOG_WARNING);
    EXPECT_EQ(world.lines[1].text, "the next second");
    mbr_log_end(world.log);
}

TEST(Log, SinkThatLogs_IsNotCalledAgain)
{
    World world;
    world.again = true;
    world.write("once");
    EXPECT_EQ(world.only(), "once");
    world.again = false;
    world.write("next");
    ASSERT_EQ(world.lines.size(), 2u);
    EXPECT_EQ(world.lines[0].text.find("1 lines were dropped"), 0u);
    mbr_log_end(world.log);
}

// The end waits for the thread that is in the sink; nobody else ever does.
TEST(Log, SinkThatWaits_LetsOthersGoOnAndIsAwaitedAtTheEnd)
{
    World world;
    std::thread waiter([&] { world.write("wait"); });
    {
        std::unique_lock<std::mutex> hold(world.mutex);
        world.changed.wait(hold, [&] { return !world.lines.empty(); });
    }
    world.write("meanwhile");
    {
        std::unique_lock<std::mutex> hold(world.mutex);
        EXPECT_EQ(world.lines.back().text, "meanwhile");
    }
    std::atomic<bool> ended{false};
    mbr_log_retain(world.log);
    std::thread ender([&] {
        mbr_log_end(world.log);
        ended = true;
    });
    EXPECT_FALSE(ended);
    {
        std::unique_lock<std::mutex> hold(world.mutex);
        world.may_go = true;
        world.changed.notify_all();
    }
    waiter.join();
    ender.join();
    size_t before = world.lines.size();
    world.write("after the end");
    EXPECT_EQ(world.lines.size(), before);
    mbr_log_release(world.log);
}

TEST(Log, Kept_StaysWritableAfterTheEnd)
{
    World world;
    mbr_log_retain(world.log);
    mbr_log_retain(world.log);
    mbr_log_keep(world.log); // of two plugins
    mbr_log_keep(world.log);
    mbr_log_end(world.log);
    world.write("nobody hears it");
    EXPECT_TRUE(world.lines.empty());
}

TEST(Log, NoHeap_Refused)
{
    mbr_heap none = {[](void *, size_t) -> void * { return nullptr; }, nullptr, nullptr};
    mbr_log *log = nullptr;
    mbr_error error = sized<mbr_error>();
    EXPECT_EQ(mbr_log_create(&none, &mbr_clock_monotonic, World::sink, nullptr, &log, &error),
        MBR_OUT_OF_HOST_MEMORY);
    EXPECT_EQ(log, nullptr);
}

} // namespace
} // namespace membrane
