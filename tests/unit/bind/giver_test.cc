// Who saves for a holder leaves it while others ask without an end.
#include "tests/unit/bind/giver_door.h"
#include "tests/unit/bind/host_world.h"

#include <atomic>
#include <thread>

namespace membrane
{
namespace
{

constexpr uint64_t kMostCalls = 100000; /* that overlap: a failure and not a hang */

/* Two ask it in turn: each call ends when the next has begun, or when none begins any more. */
struct Overlapping {
    std::atomic<uint64_t> begun{0};
    std::atomic<bool> is_over{false};

    static uint64_t would_save(void *self, uint64_t)
    {
        auto *calls = static_cast<Overlapping *>(self);
        uint64_t mine = ++calls->begun;
        while (calls->begun == mine && !calls->is_over)
            std::this_thread::yield();
        if (mine >= kMostCalls)
            calls->is_over = true;
        return 1;
    }
    void ask(door_saver *behind)
    {
        while (!is_over)
            if (door_saver_room(behind, 2) == 2) /* nothing is taken: it was not called */
                is_over = true;
    }
};

TEST(Giver, Leave_WhileCallsOverlapWithoutAnEnd_WaitsForThoseThatRun)
{
    HostWorld world;
    Overlapping calls;
    door_saver *leaves =
        door_saver_join(world.manager, world.holder, Overlapping::would_save, &calls);
    door_saver *behind =
        door_saver_join(world.manager, world.holder, Overlapping::would_save, &calls);
    std::thread one([&] { calls.ask(behind); }), other([&] { calls.ask(behind); });
    while (calls.begun < 10)
        std::this_thread::yield();
    door_saver_leave(leaves);
    EXPECT_LT(calls.begun, kMostCalls) << "it left when nobody asked any more";
    one.join();
    other.join();
    door_saver_leave(behind);
}

} // namespace
} // namespace membrane
