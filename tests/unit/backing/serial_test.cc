/* Rule 25: the host never makes two calls at once for one object of a serial slot, however many
 * threads press it, and who finds a range in use waits, at most as long as the backing's options
 * say. Which slots are serial for what comes from the derived table. */
#include "tests/unit/backing/world.h"

extern "C" {
#include "abi/derive/slots.h"
}

#include <condition_variable>
#include <map>
#include <random>
#include <sched.h>
#include <string>
#include <thread>
#include <type_traits>

namespace membrane
{
namespace
{

/* ---- Counting who is inside */

std::mutex inside_mutex;
std::map<std::pair<std::string, uint64_t>, int> inside; /* by the serial object's class and id */
uint64_t overlaps, serial_calls;
const mbr_virtual_vtable *plain_virtual;
const mbr_shared_vtable *plain_shared;

template <typename Request> uint64_t object_id(const Request *request, const std::string &object)
{
    if constexpr (std::is_same_v<Request, mbr_extent_destroy_request>)
        return object == "extent" ? request->extent_id : 0;
    else if constexpr (!std::is_same_v<Request, mbr_extent_create_request>)
        return object == "reservation" ? request->reservation_id : 0;
    return 0;
}

/* A place inside the slot; leaves the processor, so that others come in if they may. */
class Inside
{
  public:
    Inside(const char *object, uint64_t id) : key_(object, id)
    {
        if (key_.first.empty())
            return;
        {
            std::lock_guard<std::mutex> guard(inside_mutex);
            serial_calls++;
            overlaps += inside[key_]++ != 0;
        }
        sched_yield();
    }
    ~Inside()
    {
        std::lock_guard<std::mutex> guard(inside_mutex);
        if (!key_.first.empty())
            inside[key_]--;
    }
    Inside(const Inside &) = delete;
    Inside &operator=(const Inside &) = delete;

  private:
    std::pair<std::string, uint64_t> key_;
};

#define COUNTED(plain, table, slot, request_type, outcome_type, serial)                            \
    mbr_status table##_##slot(mbr_instance *instance, const request_type *request,                 \
        outcome_type *outcome, mbr_error *error)                                                   \
    {                                                                                              \
        Inside here(serial, object_id(request, serial));                                           \
        return plain->slot(instance, request, outcome, error);                                     \
    }
#define COUNTED_VIRTUAL(table, slot, request_type, outcome_type, minor, serial)                    \
    COUNTED(plain_virtual, table, slot, request_type, outcome_type, serial)
#define COUNTED_SHARED(table, slot, request_type, outcome_type, minor, serial)                     \
    COUNTED(plain_shared, table, slot, request_type, outcome_type, serial)
#define FILL(table, slot, ...) own.slot = table##_##slot;

MBR_SLOTS_VIRTUAL_VTABLE(COUNTED_VIRTUAL)
MBR_SLOTS_SHARED_VTABLE(COUNTED_SHARED)

void count_calls_of(World &world)
{
    auto *mechanism = world.mechanism();
    plain_virtual = &world.fake.mechanism.virtual_;
    plain_shared = &world.fake.mechanism.shared;
    {
        mbr_virtual_vtable &own = mechanism->virtual_;
        MBR_SLOTS_VIRTUAL_VTABLE(FILL)
    }
    {
        mbr_shared_vtable &own = mechanism->shared;
        MBR_SLOTS_SHARED_VTABLE(FILL)
    }
    inside.clear();
    overlaps = serial_calls = 0;
}

/* ---- Threads that press the same few ranges */

constexpr uint64_t kGranules = 16;
constexpr int kThreads = 4, kSteps = 1500;

mbr_prefix *make_prefix(World &world, mbr_range *source)
{
    mbr_range_part part = {source, 0, 0, 2 * kGranule};
    mbr_prefix_result result = {};
    result.struct_size = sizeof(result);
    mbr_prefix *prefix = nullptr;
    mbr_backing_make_prefix(world.backing, &part, 1, world.prefix, &prefix, &result, nullptr);
    return prefix;
}

void press(World &world, const std::vector<mbr_range *> &ranges, uint64_t seed)
{
    std::mt19937_64 random(seed);
    for (int step = 0; step < kSteps; step++) {
        mbr_range *range = ranges[random() % ranges.size()];
        uint64_t offset = random() % kGranules, bytes = 1 + random() % (kGranules - offset);
        mbr_range_decommit_result left = {};
        left.struct_size = sizeof(left);
        switch (random() % 8) {
        case 0: {
            mbr_range *own = world.reserve(kGranules * kGranule);
            if (own != nullptr) {
                world.grow(own, 0, bytes * kGranule);
                world.end(own, random() % 2 == 0);
            }
            break;
        }
        case 1:
        case 2:
            mbr_range_give_back(range, offset * kGranule, bytes * kGranule, random() % 2 == 0,
                &world.stream, 1, &left, nullptr);
            break;
        case 3:
            if (mbr_prefix *prefix = make_prefix(world, range)) {
                world.attach(prefix, ranges[random() % ranges.size()]);
                mbr_prefix_end(prefix);
            }
            break;
        case 4:
            mbr_backing_evict(world.backing, 4 * kGranule);
            mbr_context_reap(world.context, true);
            break;
        default:
            world.grow(range, offset * kGranule, bytes * kGranule);
        }
    }
}

TEST(Serial, ThreadsOnTheSameRanges_AreNeverTwoInOneObject)
{
    World world(UINT64_C(64) << 20, 24 * kGranule);
    count_calls_of(world);
    std::vector<mbr_range *> ranges;
    for (int i = 0; i < 3; i++)
        ranges.push_back(world.reserve(kGranules * kGranule));
    std::vector<std::thread> threads;
    for (uint64_t seed = 0; seed < kThreads; seed++)
        threads.emplace_back([&, seed] { press(world, ranges, seed); });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(0u, overlaps);
    EXPECT_GT(serial_calls, UINT64_C(1000));
    while (mbr_context_reap(world.context, true) != 0) {
    }
    for (mbr_range *range : ranges)
        EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_TRUE(world.agree());
}

/* ---- A call that does not return */

/* Holds the next call of `map` until it is let go. */
struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool entered = false, open = false;

    void pass()
    {
        std::unique_lock<std::mutex> lock(mutex);
        entered = true;
        changed.notify_all();
        changed.wait(lock, [this] { return open; });
    }
    void await_entered()
    {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return entered; });
    }
    void let_go()
    {
        std::lock_guard<std::mutex> guard(mutex);
        open = true;
        changed.notify_all();
    }
};
Gate *gate;

mbr_status gated_map(
    mbr_instance *instance, const mbr_map_request *request, mbr_outcome *outcome, mbr_error *error)
{
    gate->pass();
    return plain_virtual->map(instance, request, outcome, error);
}

TEST(Serial, RangeInUsePastTheDeadline_IsBusyForEveryCallAndUnchanged)
{
    World world(UINT64_C(64) << 20, UINT64_MAX, 1000000);
    Gate held;
    gate = &held;
    plain_virtual = &world.fake.mechanism.virtual_;
    mbr_range *source = world.reserve(8 * kGranule), *range = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, 2 * kGranule));
    mbr_prefix *prefix = make_prefix(world, source);
    world.mechanism()->virtual_.map = gated_map;
    mbr_status grown = MBR_INTERNAL;
    std::thread first([&] { grown = world.grow(range, 2 * kGranule, 2 * kGranule); });
    held.await_entered();

    mbr_error error = {};
    error.struct_size = sizeof(error);
    EXPECT_EQ(MBR_BUSY, world.grow(range, 4 * kGranule, kGranule, nullptr, &error));
    EXPECT_NE(nullptr, strstr(error.text, "for 1 ms")) << error.text;
    mbr_range_decommit_result left = {};
    left.struct_size = sizeof(left);
    EXPECT_EQ(
        MBR_BUSY, mbr_range_give_back(range, 0, 8 * kGranule, true, nullptr, 0, &left, nullptr));
    EXPECT_EQ(MBR_BUSY, world.end(range)); /* still the caller's */
    EXPECT_EQ(MBR_BUSY, world.attach(prefix, range));
    EXPECT_EQ(MBR_OK, world.grow(source, 0, 2 * kGranule)); /* another range is nobody's */

    held.let_go();
    first.join();
    EXPECT_EQ(MBR_OK, grown);
    EXPECT_EQ(2 * kGranule, world.figures(range).committed_bytes);
    EXPECT_EQ(MBR_OK, world.grow(range, 4 * kGranule, kGranule));
    mbr_prefix_end(prefix);
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_EQ(MBR_OK, world.end(source));
    EXPECT_TRUE(world.agree());
}

TEST(Serial, RangeInUse_TheSecondCallWaitsForIt)
{
    World world; /* the deadline is far */
    Gate held;
    gate = &held;
    plain_virtual = &world.fake.mechanism.virtual_;
    mbr_range *range = world.reserve(8 * kGranule);
    world.mechanism()->virtual_.map = gated_map;
    mbr_status first_status = MBR_INTERNAL, second_status = MBR_INTERNAL;
    std::thread first([&] { first_status = world.grow(range, 0, 2 * kGranule); });
    held.await_entered();
    std::thread second([&] { second_status = world.grow(range, 0, 4 * kGranule); });
    held.let_go();
    first.join();
    second.join();
    EXPECT_EQ(MBR_OK, first_status);
    EXPECT_EQ(MBR_OK, second_status);
    EXPECT_EQ(4 * kGranule, world.figures(range).committed_bytes);
    EXPECT_EQ(4u, world.fake.extents()); /* the shared start was made once */
    EXPECT_EQ(MBR_OK, world.end(range));
}

} // namespace
} // namespace membrane
