// The allocation's states: the table as it is documented, the mover on a lone record, and every
// short history of one allocation against a model of it.
#include "tests/unit/alloc/door.h"
#include "tests/unit/alloc/world.h"

#include <set>
#include <utility>
#include <vector>

namespace alloc_test
{
namespace
{

constexpr uint32_t kNone = 0, kLive = MBR_ALLOCATION_LIVE, kQueued = MBR_ALLOCATION_QUEUED,
                   kPartial = MBR_ALLOCATION_PARTIALLY_UNMAPPED,
                   kQuarantined = MBR_ALLOCATION_QUARANTINED, kLost = MBR_ALLOCATION_DEVICE_LOST,
                   kReleased = MBR_ALLOCATION_RELEASED, kReactivated = MBR_ALLOCATION_REACTIVATED,
                   kCaptured = MBR_ALLOCATION_CAPTURED, kGivenAgain = MBR_ALLOCATION_GIVEN_AGAIN,
                   kCount = MBR_ALLOCATION_GIVEN_AGAIN + 1;

// As membrane/memory.h says it: live -> queued -> released | reactivated -> given again, which goes
// on as live does; an immediate free; a queue that hands back; live or queued -> the three broken
// ones, each -> released; what was abandoned -> queued, where it is freed after all, and back where
// the queue refuses; captured as live, but never freed without the queue.
const std::set<std::pair<uint32_t, uint32_t>> kEdges = {{kNone, kLive}, {kLive, kQueued},
    {kLive, kReleased}, {kLive, kPartial}, {kLive, kQuarantined}, {kLive, kLost},
    {kQueued, kReleased}, {kQueued, kLive}, {kQueued, kReactivated}, {kReactivated, kGivenAgain},
    {kQueued, kPartial}, {kQueued, kQuarantined}, {kQueued, kLost}, {kPartial, kReleased},
    {kQuarantined, kReleased}, {kQuarantined, kQueued}, {kLost, kReleased}, {kNone, kCaptured},
    {kReactivated, kCaptured}, {kCaptured, kQueued}, {kQueued, kCaptured}, {kCaptured, kPartial},
    {kCaptured, kQuarantined}, {kCaptured, kLost}, {kGivenAgain, kQueued}, {kQueued, kGivenAgain},
    {kGivenAgain, kReleased}, {kGivenAgain, kPartial}, {kGivenAgain, kQuarantined},
    {kGivenAgain, kLost}};

TEST(AllocationState, Table_EveryPair_IsAsDocumented)
{
    ASSERT_EQ(mbr_allocation_states.count, kCount);
    for (uint32_t from = 0; from < kCount; from++) {
        EXPECT_NE(mbr_allocation_states.names[from], nullptr);
        for (uint32_t to = 0; to < kCount; to++)
            EXPECT_EQ(
                mbr_state_allows(&mbr_allocation_states, from, to), kEdges.count({from, to}) != 0)
                << from << " to " << to;
    }
}

TEST(AllocationState, Move_EveryAllowedEdge_IsTakenOnceAndRefusedToTheLoser)
{
    for (auto [from, to] : kEdges) {
        door_record_set(from);
        ASSERT_TRUE(door_record_try_move(to));
        EXPECT_EQ(door_record_state(), to);
        EXPECT_EQ(door_record_content(),
            to == kReleased || to == kReactivated ? uint32_t{MBR_CONTENT_STALE}
                                                  : uint32_t{MBR_CONTENT_ZERO});
        door_record_set(from);
        door_record_disturb(from == kReleased ? kLive : kReleased);
        EXPECT_FALSE(door_record_try_move(to)) << "somebody else was faster";
        EXPECT_EQ(door_record_state(), from == kReleased ? kLive : kReleased);
    }
}

TEST(AllocationStateDeathTest, Move_EveryOtherPair_EndsTheProcess)
{
#ifdef NDEBUG
    GTEST_SKIP() << "release builds do not assert the edges of state tables";
#endif
    for (uint32_t from = 0; from < kCount; from++)
        for (uint32_t to = 0; to < kCount; to++)
            if (kEdges.count({from, to}) == 0) {
                door_record_set(from);
                EXPECT_DEATH(door_record_try_move(to), "mbr_state_allows");
            }
    for (uint32_t state : {kLive, kQueued, kPartial, kQuarantined, kLost}) {
        door_record_set(state);
        EXPECT_DEATH(door_record_begin(), "assertion failed") << "a life in a life";
    }
}

// ---- Every history of one allocation, up to a length.
enum Step {
    kAlloc,
    kFreeNow,
    kFreeAfter,
    kFreeRefused, // the queue is full
    kReap,
    kFinish, // the stream gets done, and a reap sees it
    kLose,
    kConfirm,
    kAbandon,
    kSteps
};

struct Model {
    uint32_t state = kNone;
    bool lost_context = false, held = false;

    // The status that the step answers; steps without one answer MBR_OK.
    mbr_status Apply(Step step)
    {
        switch (step) {
        case kAlloc:
            held = true;
            if (lost_context)
                return MBR_DEVICE_LOST;
            state = kLive;
            return MBR_OK;
        case kFreeNow: // of one that was abandoned: behind its own stream
            if (state != kLive && state != kQuarantined)
                return MBR_UNKNOWN_OBJECT;
            state = state == kLive ? kReleased : lost_context ? kLost : kQueued;
            return MBR_OK;
        case kFreeAfter:
        case kFreeRefused:
            if (state != kLive && state != kQuarantined)
                return MBR_UNKNOWN_OBJECT;
            if (step == kFreeRefused && !lost_context)
                return MBR_QUEUE_FULL;
            state = lost_context ? kLost : kQueued;
            return MBR_OK;
        case kFinish:
            held = false;
            state = state == kQueued ? kReleased : state;
            return MBR_OK;
        case kReap:
            state = state == kQueued && !held ? kReleased : state;
            return MBR_OK;
        case kLose:
            state = state == kQueued ? kLost : state;
            lost_context = true;
            return MBR_OK;
        case kConfirm:
            state = state == kLost || state == kQuarantined ? kReleased : state;
            return MBR_OK;
        case kAbandon:
            state = state == kLive ? kQuarantined : state;
            return MBR_OK;
        default:
            return MBR_OK;
        }
    }
};

class History
{
  public:
    // False: the step is not tried here (a second allocation while the first is still out).
    // `whole`: figures and books are compared too.
    bool Try(World *world, Step step, bool whole)
    {
        if (step == kAlloc && model_.state != kNone && model_.state != kReleased)
            return false;
        mbr_status expected = model_.Apply(step);
        EXPECT_EQ(Run(world, step), expected) << "step " << step;
        if (step != kAlloc && handle_.value != 0) {
            EXPECT_EQ(world->State(handle_), model_.state == kNone ? kReleased : model_.state);
        }
        if (whole)
            Compare(world);
        return !::testing::Test::HasFailure();
    }

    // Everything is given back, and the context is as new.
    void End(World *world)
    {
        Run(world, kFinish);
        Run(world, kFreeNow);
        Run(world, kFinish);
        Run(world, kConfirm);
        world->context.move_to(MBR_CONTEXT_ACTIVE);
    }

  private:
    void Compare(World *world)
    {
        mbr_arena_figures figures = world->Figures();
        EXPECT_EQ(figures.live_count, model_.state == kLive ? 1u : 0u);
        EXPECT_EQ(figures.queued_count, model_.state == kQueued ? 1u : 0u);
        bool withheld = model_.state == kLost || model_.state == kQuarantined;
        EXPECT_EQ(figures.quarantined_count, withheld ? 1u : 0u);
        EXPECT_EQ(world->Books(world->kv).quarantined_bytes, withheld ? 4096u : 0u);
        bool paid = model_.state != kNone && model_.state != kReleased;
        EXPECT_EQ(world->Charged(world->kv), paid ? 4096u : 0u);
        if (paid) {
            EXPECT_EQ(mbr_arena_destroy(world->arena, nullptr), MBR_IN_USE);
        }
    }

    mbr_status Run(World *world, Step step)
    {
        mbr_alloc_result result = {};
        mbr_status status = MBR_OK;
        switch (step) {
        case kAlloc:
            world->context.hold(kStream);
            status = world->TryAlloc(Request{4096, 0, kStream}, &result);
            if (status == MBR_OK)
                handle_ = result.allocation;
            return status;
        case kFreeNow:
            return world->Free(handle_);
        case kFreeAfter:
            return world->FreeAfter(handle_, {});
        case kFreeRefused:
            world->context.queue_limit_count = 0;
            status = world->FreeAfter(handle_, {kStream});
            world->context.queue_limit_count = UINT64_MAX;
            return status;
        case kFinish:
            world->context.finish(kStream);
            world->context.reap();
            return MBR_OK;
        case kReap:
            world->context.reap();
            return MBR_OK;
        case kLose:
            world->context.lose();
            return MBR_OK;
        case kAbandon:
            mbr_arena_abandon(world->arena);
            return MBR_OK;
        default:
            mbr_arena_confirm_lost(world->arena);
            return MBR_OK;
        }
    }

    Model model_;
    mbr_allocation_handle handle_ = {0};
};

TEST(AllocationState, Histories_AllOfSixStepsAfterAnAllocation_FollowTheModel)
{
    constexpr int kLength = 6;
    uint64_t histories = 1, tried = 0;
    for (int i = 1; i < kLength; i++)
        histories *= kSteps;
    World world;
    for (uint64_t number = 0; number < histories && !HasFailure(); number++) {
        History history;
        uint64_t rest = number * kSteps + kAlloc; // before it nothing happens
        std::string steps;
        for (int i = 0; i < kLength; i++, rest /= kSteps) {
            steps += std::to_string(rest % kSteps);
            // Each beginning is compared once: where nothing but allocations follows.
            bool whole = rest / kSteps == 0;
            if (!history.Try(&world, static_cast<Step>(rest % kSteps), whole))
                break;
            tried++;
        }
        history.End(&world);
        EXPECT_TRUE(number % 1024 != 0 || world.Agree()) << "history " << steps;
    }
    EXPECT_GT(tried, UINT64_C(130000));
}

} // namespace
} // namespace alloc_test
