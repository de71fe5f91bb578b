// State bundles: forked, saved and restored as one, bit for bit, or not at all.
#include "tests/unit/holder/sleep/world.h"

#include "tests/support/faulty/failing.h"

#include <functional>

namespace membrane
{
namespace
{

const std::vector<uint64_t> kBuffers = {1000, 64 * 1024, 4};

/* A sleeper's world for its arena, which is where states are saved. */
class StateWorld : public SleepWorld
{
  public:
    explicit StateWorld(uint64_t limit = 64 * kMiB, uint64_t save_limit = 64 * kMiB,
        const mbr_manager_seams *seams = nullptr, const char *plugin = nullptr,
        const std::vector<mbr_option> &options = {})
        : SleepWorld(limit, save_limit, seams, plugin, options)
    {
        auto request = this->request();
        EXPECT_EQ(MBR_OK, mbr_states_create(manager, &request, &states, &error)) << error.text;
    }
    ~StateWorld()
    {
        EXPECT_EQ(MBR_OK, mbr_states_destroy(states, &error)) << error.text;
        EXPECT_EQ(MBR_OK, drain()) << error.text;
        EXPECT_EQ(0u, paid(holder).charged_bytes);
    }

    mbr_states *states = nullptr;

    mbr_states_request request() const
    {
        auto request = sized<mbr_states_request>();
        request.buffer_count = static_cast<uint32_t>(kBuffers.size());
        request.buffer_bytes = kBuffers.data();
        request.binding = binding;
        request.holder = holder;
        request.save_binding = arena;
        request.save_holder = arena_holder;
        return request;
    }
    mbr_state *make(uint8_t seed)
    {
        mbr_state *state = nullptr;
        EXPECT_EQ(MBR_OK, mbr_state_create(states, stream, 0, nullptr, &state, &error))
            << error.text;
        write(state, seed);
        return state;
    }
    void write(mbr_state *state, uint8_t seed)
    {
        for (uint32_t i = 0; i < kBuffers.size(); i++)
            put(at(state, i), contents(i, seed));
    }
    bool holds(mbr_state *state, uint8_t seed)
    {
        EXPECT_EQ(MBR_OK, mbr_ep_synchronize(manager, stream, kNever, &error)) << error.text;
        for (uint32_t i = 0; i < kBuffers.size(); i++) {
            if (get(at(state, i), kBuffers[i]) != contents(i, seed))
                return false;
        }
        return true;
    }
    void end(mbr_state *state)
    {
        EXPECT_EQ(MBR_OK, mbr_state_destroy(state, &stream, 1, &error)) << error.text;
    }
    mbr_status fork(mbr_state *state, mbr_state **made)
    {
        return mbr_state_fork(state, stream, nullptr, made, &error);
    }
    mbr_status save(mbr_state *state, mbr_saved_state **made)
    {
        return mbr_state_save(state, stream, nullptr, made, &error);
    }
    mbr_states_figures figures_of()
    {
        auto figures = sized<mbr_states_figures>();
        mbr_states_read(states, &figures);
        return figures;
    }

  private:
    uint64_t at(mbr_state *state, uint32_t index)
    {
        uint64_t address = 0, bytes = 0;
        EXPECT_EQ(MBR_OK, mbr_state_buffer(state, index, &address, &bytes, &error));
        EXPECT_EQ(kBuffers[index], bytes);
        EXPECT_EQ(0u, address % 256);
        return address;
    }
    static std::vector<uint8_t> contents(uint32_t index, uint8_t seed)
    {
        std::vector<uint8_t> made(kBuffers[index]);
        for (uint64_t i = 0; i < made.size(); i++)
            made[i] = static_cast<uint8_t>(seed * 31 + index * 7 + i);
        return made;
    }
};

TEST(State, SavedAndRestored_IsBitIdenticalWhateverCameBetween)
{
    StateWorld world;
    mbr_state *state = world.make(1);
    mbr_saved_state *saved;
    ASSERT_EQ(MBR_OK, world.save(state, &saved)) << world.error.text;
    EXPECT_TRUE(world.holds(state, 1));
    world.write(state, 2);
    ASSERT_EQ(MBR_OK, mbr_state_restore(state, saved, world.stream, &world.error));
    EXPECT_TRUE(world.holds(state, 1));
    world.end(state); /* preempted: only the saved one is left */
    ASSERT_EQ(MBR_OK, world.drain());
    EXPECT_EQ(0u, world.figures_of().charged_bytes);
    EXPECT_EQ(0u, world.paid(world.holder).charged_bytes);
    EXPECT_LT(0u, world.paid(world.arena_holder).charged_bytes);
    mbr_state *again = world.make(3);
    ASSERT_EQ(MBR_OK, mbr_state_restore(again, saved, world.stream, &world.error));
    EXPECT_TRUE(world.holds(again, 1));
    EXPECT_EQ(MBR_IN_USE, mbr_states_destroy(world.states, &world.error));
    world.end(again);
    EXPECT_EQ(MBR_IN_USE, mbr_states_destroy(world.states, &world.error)) << "a saved one lives";
    EXPECT_EQ(MBR_OK, mbr_saved_state_destroy(saved, &world.stream, 1, &world.error));
    EXPECT_TRUE(world.clean());
}

TEST(State, Fork_IsACopyThatGoesItsOwnWay)
{
    StateWorld world;
    mbr_state *state = world.make(1), *fork;
    ASSERT_EQ(MBR_OK, world.fork(state, &fork)) << world.error.text;
    EXPECT_TRUE(world.holds(fork, 1));
    world.write(fork, 2);
    EXPECT_TRUE(world.holds(state, 1) && world.holds(fork, 2));
    EXPECT_EQ(2u, world.figures_of().state_count);
    EXPECT_EQ(world.figures_of().charged_bytes, world.paid(world.holder).charged_bytes);
    world.end(state);
    EXPECT_TRUE(world.holds(fork, 2));
    world.end(fork);
}

TEST(State, WorkOnItsStreamUnderWay_IsSavedToo)
{
    StateWorld world;
    mbr_state *state = world.make(1);
    mbr_saved_state *saved;
    mbr_state *newer = world.make(2);
    {
        Gate gate(world);
        mbr_state *from = newer;
        uint64_t to_address, from_address, bytes;
        for (uint32_t i = 0; i < kBuffers.size(); i++) {
            ASSERT_EQ(MBR_OK, mbr_state_buffer(state, i, &to_address, &bytes, nullptr));
            ASSERT_EQ(MBR_OK, mbr_state_buffer(from, i, &from_address, &bytes, nullptr));
            ASSERT_EQ(MBR_OK,
                mbr_ep_copy(world.manager, world.stream, to_address, from_address, bytes, nullptr));
        }
        ASSERT_EQ(MBR_OK, world.save(state, &saved)) << world.error.text;
        world.end(state); /* behind the copy that saves it */
    }
    EXPECT_TRUE(world.holds(newer, 2)) << "and no copy is under way";
    world.write(newer, 3);
    ASSERT_EQ(MBR_OK, mbr_state_restore(newer, saved, world.stream, &world.error));
    EXPECT_TRUE(world.holds(newer, 2));
    world.end(newer);
    EXPECT_EQ(MBR_OK, mbr_saved_state_destroy(saved, &world.stream, 1, &world.error));
}

TEST(State, WithoutBytesOnEitherSide_NothingIsMadeAndTheBooksAreAsBefore)
{
    StateWorld world(4 * kMiB, 4 * kMiB);
    mbr_state *state = world.make(1), *fork;
    mbr_saved_state *saved;
    auto hog = world.reserve(4 * kMiB, 64 * 1024);
    uint64_t room = 4 * kMiB - world.books().charged_bytes;
    ASSERT_EQ(MBR_OK, world.grow(hog.range, 0, room / (64 * 1024) * (64 * 1024)));
    std::vector<mbr_state *> forks;
    while (world.fork(state, &fork) == MBR_OK) /* what its slab had left */
        forks.push_back(fork);
    EXPECT_EQ(MBR_OVER_BUDGET, world.fork(state, &fork)) << world.error.text;
    EXPECT_EQ(nullptr, fork);
    EXPECT_EQ(1 + forks.size(), world.figures_of().state_count);
    for (mbr_state *one : forks)
        world.end(one);
    ASSERT_EQ(MBR_OK,
        mbr_manager_set_limit(world.manager, world.arena_authority, 0, nullptr, &world.error));
    EXPECT_EQ(MBR_OVER_BUDGET, world.save(state, &saved));
    EXPECT_EQ(nullptr, saved);
    EXPECT_EQ(0u, world.figures_of().saved_count);
    EXPECT_TRUE(world.holds(state, 1));
    EXPECT_TRUE(world.clean());
    world.end(state);
    EXPECT_EQ(MBR_OK, world.release(hog.range));
}

TEST(State, WrongCalls_AreRefusedByWhatWouldWork)
{
    StateWorld world;
    mbr_states *other;
    auto request = world.request();
    request.buffer_count = 0;
    EXPECT_EQ(MBR_OUT_OF_RANGE, mbr_states_create(world.manager, &request, &other, &world.error));
    const std::vector<uint64_t> wrong = {1, 0}, large = {UINT64_MAX, 1};
    request.buffer_count = 2;
    request.buffer_bytes = wrong.data();
    EXPECT_EQ(
        MBR_INVALID_ARGUMENT, mbr_states_create(world.manager, &request, &other, &world.error));
    request.buffer_bytes = large.data();
    EXPECT_EQ(MBR_OVERFLOW, mbr_states_create(world.manager, &request, &other, &world.error));
    request = world.request();
    request.save_binding.value = 0;
    ASSERT_EQ(MBR_OK, mbr_states_create(world.manager, &request, &other, &world.error));
    mbr_state *state, *mine = world.make(1);
    mbr_saved_state *saved;
    EXPECT_EQ(
        MBR_UNSUPPORTED, mbr_state_create(other, world.stream, 2, nullptr, &state, &world.error));
    ASSERT_EQ(MBR_OK,
        mbr_state_create(other, world.stream, MBR_STATE_ZEROED, nullptr, &state, &world.error));
    EXPECT_EQ(MBR_UNSUPPORTED, world.save(state, &saved));
    ASSERT_EQ(MBR_OK, world.save(mine, &saved));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_state_restore(state, saved, world.stream, &world.error));
    uint64_t address, bytes;
    EXPECT_EQ(MBR_OUT_OF_RANGE, mbr_state_buffer(state, 3, &address, &bytes, &world.error));
    ASSERT_EQ(MBR_OK, mbr_state_buffer(state, 1, &address, &bytes, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_synchronize(world.manager, world.stream, kNever, &world.error));
    EXPECT_EQ(std::vector<uint8_t>(bytes), world.get(address, bytes));
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    mbr_state *fork;
    EXPECT_EQ(MBR_BUSY, world.fork(mine, &fork)) << "it would be copied at each launch";
    mbr_graph_handle graph;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    world.end(state);
    world.end(mine);
    EXPECT_EQ(MBR_OK, mbr_saved_state_destroy(saved, &world.stream, 1, &world.error));
    EXPECT_EQ(MBR_OK, mbr_states_destroy(other, &world.error));
}

/* ---- Faults */

struct Cast {
    mbr_state *state = nullptr, *fork = nullptr;
    mbr_saved_state *saved = nullptr;
};

const std::function<mbr_status(StateWorld &, Cast &)> kSteps[] = {
    [](StateWorld &w, Cast &c) {
        return mbr_state_create(w.states, w.stream, 0, nullptr, &c.state, &w.error);
    },
    [](StateWorld &w, Cast &c) { return w.fork(c.state, &c.fork); },
    [](StateWorld &w, Cast &c) { return w.save(c.state, &c.saved); },
    [](StateWorld &w, Cast &c) { return mbr_state_restore(c.fork, c.saved, w.stream, &w.error); },
};

/* False: the step has no nth call. */
bool play(StateWorld &world, size_t at, const std::function<void()> &arm,
    const std::function<bool()> &disarm, mbr_status expected)
{
    bool met = false;
    Cast cast;
    for (size_t i = 0; i < std::size(kSteps); i++) {
        auto before = world.figures_of();
        if (i == at)
            arm();
        mbr_status status = kSteps[i](world, cast);
        met |= i == at && disarm();
        if (i == at && status != MBR_OK) {
            auto after = world.figures_of();
            EXPECT_EQ(expected, status) << world.error.text;
            EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
            EXPECT_EQ(after.charged_bytes, world.paid(world.holder).charged_bytes);
            status = kSteps[i](world, cast);
        }
        EXPECT_EQ(MBR_OK, status) << world.error.text;
        if (i == 0)
            world.write(cast.state, 5);
    }
    EXPECT_TRUE(world.holds(cast.fork, 5));
    EXPECT_TRUE(world.clean());
    world.end(cast.state);
    world.end(cast.fork);
    EXPECT_EQ(MBR_OK, mbr_saved_state_destroy(cast.saved, &world.stream, 1, &world.error));
    return met;
}

TEST(StateFault, EachCallOfEachStep_FailsOnceAndNothingIsLost)
{
    uint64_t met = 0;
    for (size_t at = 0; at < std::size(kSteps); at++) {
        bool more = true;
        for (uint64_t nth = 1; more && !::testing::Test::HasFailure(); nth++) {
            FailingHeap heap;
            mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
            {
                StateWorld world(64 * kMiB, 64 * kMiB, &seams);
                more = play(
                    world, at, [&] { heap.fail_at = heap.calls + nth; },
                    [&] { return heap.calls >= std::exchange(heap.fail_at, 0); },
                    MBR_OUT_OF_HOST_MEMORY);
            }
            EXPECT_EQ(0, heap.live);
            met += more;
        }
    }
    EXPECT_LT(6u, met);
}

TEST(StateFault, EachSlotOfEachStep_FailsOnceAndNothingIsLost)
{
    uint64_t met = 0;
    for (uint32_t slot : {FAULTY_RESERVE, FAULTY_EXTENT_CREATE, FAULTY_MAP, FAULTY_PROTECT})
        for (size_t at = 0; at < std::size(kSteps); at++) {
            Faulty faulty;
            StateWorld world(64 * kMiB, 64 * kMiB, nullptr, "tests/support/libmembrane-faulty.so",
                faulty.options());
            met += play(
                world, at, [&] { faulty.fail(slot, 1); }, [&] { return faulty.stop(); },
                MBR_SYSTEM);
        }
    EXPECT_LT(3u, met);
}

} // namespace
} // namespace membrane
