/* Caches that look ahead, in a time that goes on by hand. */
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_KV_AHEAD_WORLD_H
#define MEMBRANE_TESTS_UNIT_HOLDER_KV_AHEAD_WORLD_H

#include "tests/unit/holder/kv_world.h"

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

namespace membrane
{

inline constexpr uint64_t kMs = 1000000;

/* Time goes on by hand alone, whatever else the machine does meanwhile. It is an hour ahead: the
 * CPU EP waits in real time, and would give up before a deadline that this clock never reaches. */
struct HandClock {
    uint64_t begin_ns = mbr_clock_now(&mbr_clock_monotonic) + UINT64_C(3600000000000);
    std::atomic<uint64_t> ahead_ns{0};
    mbr_clock clock = {[](void *context) {
                           auto *self = static_cast<HandClock *>(context);
                           return self->begin_ns + self->ahead_ns.load();
                       },
        this};
    std::function<void()> meanwhile; // done once, in the next allocation of a record
    mbr_heap heap = {[](void *context, size_t bytes) {
                         auto *self = static_cast<HandClock *>(context);
                         if (self->meanwhile)
                             std::exchange(self->meanwhile, nullptr)();
                         return std::calloc(1, bytes);
                     },
        [](void *, void *memory) { std::free(memory); }, this};
    mbr_manager_seams seams = {};
    HandClock()
    {
        seams.clock = &clock;
        seams.heap = &heap;
    }
};

inline constexpr char kPlain[] = "layers=2,heads=2,dim=64,bytes=2,planes=2"; // 1 KiB a token
inline constexpr uint64_t kExtent = 16384;                                   // window-major
inline constexpr uint64_t kTight = 160 * 1024;                               // a limit

class AheadWorld : public HandClock, public KvWorld
{
  public:
    explicit AheadWorld(const char *geometry = kPlain, const char *layout = "window-major",
        uint64_t bound = 4 * kMiB, uint64_t limit = 64 * kMiB)
        : KvWorld({geometry, layout, 400, 16,
                      std::string(layout) == "window-major" ? kExtent : UINT64_C(4096),
                      MBR_KV_GROWING, bound},
              limit, &seams)
    {
    }
    void pass(uint64_t ms)
    {
        ahead_ns += ms * kMs;
        mbr_manager_poll(manager);
    }
    // Slots called, but for those that tell so.
    uint64_t calls()
    {
        uint64_t once = figures().call_count, twice = figures().call_count;
        asked_ += 2 * (twice - once);
        return twice - asked_ + (twice - once);
    }
    // Whether it called no slot, and moved no byte in the books.
    bool append_is_quiet(Tracked *one, uint64_t tokens)
    {
        uint64_t called = calls(), charged = paid(holder).charged_bytes;
        EXPECT_EQ(MBR_OK, append(one, tokens)) << error.text;
        return calls() == called && paid(holder).charged_bytes == charged;
    }
    // A token every 10 ms; how many steps called a slot or moved bytes.
    uint64_t decode(Tracked *one, uint64_t tokens)
    {
        uint64_t slow = 0;
        for (uint64_t i = 0; i < tokens; i++) {
            slow += !append_is_quiet(one, 1);
            pass(5);
            pass(5);
        }
        return slow;
    }
    // Decodes until one extent is offered to a sequence that has none yet.
    void offer(Tracked *one)
    {
        ASSERT_EQ(MBR_OK, create(one, 10));
        ASSERT_EQ(0u, decode(one, 6));
        ASSERT_EQ(kExtent, offered(*one));
    }
    // Another holder, which says of itself that it can give so much, and counts what is asked.
    mbr_holder_handle create_giver(uint64_t *given_bytes, uint64_t says_bytes)
    {
        says_bytes_ = says_bytes;
        given_bytes_ = given_bytes;
        auto request = holder_request(MBR_ROLE_WORKSPACE, "another");
        request.pressed.context = this;
        request.pressed.ask = [](void *self, const mbr_pressure *) -> uint64_t {
            return static_cast<AheadWorld *>(self)->says_bytes_;
        };
        request.pressed.give = [](void *self, const mbr_pressure *, uint64_t bytes) {
            *static_cast<AheadWorld *>(self)->given_bytes_ += bytes;
        };
        mbr_holder_handle made = {0};
        EXPECT_EQ(MBR_OK, mbr_manager_create_holder(manager, &request, &made, &error))
            << error.text;
        return made;
    }
    // As long as it takes to be sure that it grows no more.
    void rest()
    {
        pass(1001);
        pass(1001);
    }
    // Bytes that sequences are charged for and do not need.
    uint64_t offered(const Tracked &one)
    {
        EXPECT_EQ(read().committed_bytes, paid(holder).charged_bytes);
        return read(one).committed_bytes - committed_by_arithmetic(one);
    }

  private:
    uint64_t asked_ = 0;
    uint64_t says_bytes_ = 0, *given_bytes_ = nullptr; // of create_giver
};

} // namespace membrane

#endif
