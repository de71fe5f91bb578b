// Giving back: nothing is unmapped before its line (I11), refunds per axis (I7), addresses are
// handed out again only when everything in them is settled (I10), loss retains.
#include "tests/unit/backing/world.h"

namespace membrane
{
namespace
{

TEST(Release, BehindAStream_UnmapsNothingBeforeItsValue)
{
    World world;
    world.line.automatic = false;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    uint64_t unmaps = world.fake.calls(Slot::kUnmap);
    ASSERT_EQ(MBR_OK, world.end(range, false));
    mbr_context_reap(world.context, true);
    EXPECT_EQ(4 * kGranule, world.charged(world.kv)); /* not reached: as it was */
    mbr_range *next = world.reserve(64 * kGranule);
    EXPECT_NE(mbr_range_address(range), mbr_range_address(next));
    EXPECT_EQ(unmaps, world.fake.calls(Slot::kUnmap));
    world.line.reached = world.line.signalled.load();
    mbr_context_reap(world.context, true);
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_EQ(4 * kGranule, world.cached());
    EXPECT_TRUE(world.agree());
    world.end(next);
}

TEST(Release, NothingMapped_WaitsForNoLine)
{
    World world;
    world.line.automatic = false;
    mbr_range *range = world.reserve(64 * kGranule);
    const uint64_t signalled = world.line.signalled;
    EXPECT_EQ(MBR_OK, world.end(range, false));
    EXPECT_EQ(signalled, world.line.signalled);
    EXPECT_EQ(1u, world.kept().cached_range_count) << "its addresses are free at once";
}

TEST(Release, Twice_IsStale)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_EQ(MBR_STALE, world.end(range));
}

TEST(Decommit, InTheMiddle_GivesBackWholeExtentsInside)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule, {4 * kGranule, 4 * kGranule, 0});
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 32 * kGranule));
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    /* [6, 19) granules: whole extents are [8, 16); 2 + 3 granules of the part stay. */
    ASSERT_EQ(MBR_OK,
        mbr_range_give_back(
            range, 6 * kGranule, 13 * kGranule, true, nullptr, 0, &result, nullptr));
    EXPECT_EQ(8 * kGranule, result.decommitted_bytes);
    EXPECT_EQ(5 * kGranule, result.kept_bytes);
    EXPECT_EQ(24 * kGranule, world.charged(world.kv));
    EXPECT_TRUE(mbr_range_is_committed_to(range, 8 * kGranule));
    EXPECT_FALSE(mbr_range_is_committed_to(range, 8 * kGranule + 1));
    EXPECT_TRUE(world.agree());
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 32 * kGranule));
    EXPECT_TRUE(mbr_range_is_committed_to(range, 32 * kGranule));
    EXPECT_TRUE(world.agree());
    world.end(range);
}

TEST(Decommit, Pending_GrowThereIsBusyAndTheEndWaits)
{
    World world;
    world.line.automatic = false;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 8 * kGranule));
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK,
        mbr_range_give_back(
            range, 4 * kGranule, 4 * kGranule, false, &world.stream, 1, &result, nullptr));
    EXPECT_EQ(MBR_BUSY, world.grow(range, 0, 8 * kGranule));
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    EXPECT_EQ(
        MBR_OK, world.end(range, true)); /* the caller's word covers not the decommit's stream */
    EXPECT_EQ(8u, world.fake.mappings());
    EXPECT_EQ(8 * kGranule, world.charged(world.kv));
    mbr_context_reap(world.context, true);
    world.line.reached = world.line.signalled.load();
    mbr_context_reap(world.context, true);
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
}

TEST(Decommit, QueueFull_ChangesNothing)
{
    World world;
    world.line.automatic = false;
    mbr_range *range = world.reserve(2048 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 1100 * kGranule));
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    mbr_status status = MBR_OK;
    uint64_t queued = 0;
    while (status == MBR_OK && queued < 1100) {
        status = mbr_range_give_back(
            range, queued * kGranule, kGranule, false, &world.stream, 1, &result, nullptr);
        queued += status == MBR_OK;
    }
    EXPECT_EQ(MBR_QUEUE_FULL, status);
    EXPECT_EQ(1024u, queued); /* the bound of the world's context */
    EXPECT_EQ(0u, result.decommitted_bytes);
    EXPECT_EQ(76 * kGranule, world.figures(range).committed_bytes);
    world.line.reached = UINT64_MAX;
    while (mbr_context_reap(world.context, true) != 0)
        ;
    EXPECT_EQ(MBR_OK,
        mbr_range_give_back(
            range, queued * kGranule, kGranule, true, nullptr, 0, &result, nullptr));
    EXPECT_TRUE(world.agree());
    world.end(range);
}

TEST(Watermark, BytesAboveIt_GoBackToTheSystem)
{
    World world(UINT64_C(64) << 20, 4 * kGranule);
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 16 * kGranule));
    world.end(range);
    EXPECT_EQ(4 * kGranule, world.cached());
    EXPECT_EQ(4 * kGranule, world.fake.owned());
    mbr_backing_set_keep(world.backing, 3 * kGranule);
    EXPECT_EQ(3 * kGranule, world.cached());
    for (uint64_t idle : {1, 2, 5}) { /* granules of slabs above */
        mbr_backing_count_idle(world.backing, static_cast<int64_t>(idle * kGranule));
        mbr_backing_keep_watermark(world.backing);
        EXPECT_EQ(idle < 3 ? (3 - idle) * kGranule : 0, world.cached());
        mbr_backing_count_idle(world.backing, -static_cast<int64_t>(idle * kGranule));
    }
    ASSERT_EQ(MBR_OK, world.grow(range = world.reserve(64 * kGranule), 0, 4 * kGranule));
    world.end(range);
    EXPECT_EQ(3 * kGranule, mbr_backing_trim(world.backing, 0));
    EXPECT_EQ(0u, world.fake.owned());
    EXPECT_TRUE(world.agree());
}

TEST(Loss, QueuedMemory_StaysChargedUntilTheEndIsConfirmed)
{
    World world;
    world.line.automatic = false;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(range, false));
    uint64_t calls = world.fake.all_calls();
    mbr_context_lose(world.context);
    EXPECT_EQ(calls, world.fake.all_calls()); /* I12 */
    EXPECT_EQ(4 * kGranule, world.charged(world.kv));
    EXPECT_EQ(4 * kGranule, world.books().retained_bytes);
    EXPECT_EQ(4 * kGranule, world.kept().retained_bytes);
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(calls, world.fake.all_calls());
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_EQ(0u, world.books().retained_bytes);
    mbr_backing_confirm_lost(world.backing, world.context); /* once */
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_EQ(4u, world.fake.extents()); /* its device took them along, and nobody asks for them */
    world.fake.forget_all();
}

TEST(Loss, GrowthAndDecommitOnIt_CallNothingAndNothingIsForgotten)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    uint64_t calls = world.fake.all_calls();
    mbr_context_lose(world.context);
    EXPECT_EQ(MBR_DEVICE_LOST, world.grow(range, 4 * kGranule, kGranule));
    auto result = mbr_range_decommit_result{};
    result.struct_size = sizeof(result);
    EXPECT_EQ(
        MBR_OK, mbr_range_give_back(range, 0, 2 * kGranule, true, nullptr, 0, &result, nullptr));
    EXPECT_EQ(calls, world.fake.all_calls()); /* I12 */
    EXPECT_EQ(4 * kGranule, world.charged(world.kv)) << "until the end is confirmed";
    EXPECT_EQ(MBR_OK, world.end(range, false));
    EXPECT_EQ(calls, world.fake.all_calls());
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_EQ(calls, world.fake.all_calls());
    world.fake.forget_all();
}

TEST(Loss, OfAContextThatRetires_TakesNothingNew)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    ASSERT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
    EXPECT_EQ(MBR_BUSY, world.grow(range, 4 * kGranule, kGranule));
    EXPECT_EQ(MBR_OK, world.end(range, true));
    EXPECT_TRUE(world.agree());
}

TEST(Loss, NothingMapped_NeedsNoDevice)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    mbr_context_lose(world.context);
    EXPECT_EQ(MBR_OK, world.end(range, false));
    EXPECT_EQ(0u, world.kept().retained_bytes);
    EXPECT_TRUE(world.agree());
}

TEST(Span, TakeAndGive_PaysFromTheCache)
{
    World world;
    mbr_span span;
    ASSERT_EQ(MBR_OK,
        mbr_backing_take_span(
            world.backing, world.context, 0, 0, 10 * kGranule + 1, 0, &span, nullptr, nullptr));
    EXPECT_EQ(11 * kGranule, span.bytes);
    EXPECT_EQ(11 * kGranule, world.cached());
    EXPECT_TRUE(world.agree());
    uint64_t calls = world.fake.all_calls();
    mbr_backing_give_span(world.backing, &span);
    ASSERT_EQ(MBR_OK,
        mbr_backing_take_span(
            world.backing, world.context, 0, 0, 10 * kGranule + 1, 0, &span, nullptr, nullptr));
    EXPECT_EQ(calls, world.fake.all_calls()); /* parked in between */
    mbr_backing_give_span(world.backing, &span);
    EXPECT_EQ(0u, world.kept().span_bytes);
    EXPECT_TRUE(world.agree());
}

TEST(Span, OverTheLimit_LeavesNothing)
{
    World world(8 * kGranule);
    mbr_span span;
    mbr_refusal refusal = {};
    refusal.struct_size = sizeof(refusal);
    EXPECT_EQ(MBR_OVER_BUDGET,
        mbr_backing_take_span(
            world.backing, world.context, 0, 0, 9 * kGranule, 0, &span, &refusal, nullptr));
    EXPECT_EQ(9 * kGranule, refusal.asked_bytes);
    EXPECT_EQ(0u, world.fake.owned());
    EXPECT_TRUE(world.agree());
}

TEST(Span, WithoutVirtual_IsOneAllocation)
{
    World world;
    auto *mechanism = world.mechanism();
    mechanism->has_virtual = mechanism->has_shared = false;
    mbr_error error = {};
    error.struct_size = sizeof(error);
    EXPECT_EQ(nullptr, world.reserve(kGranule, {kGranule, kGranule, 0}, 0, 0, &error));
    EXPECT_EQ(MBR_UNSUPPORTED, error.status); /* I19 */
    mbr_span span;
    ASSERT_EQ(MBR_OK,
        mbr_backing_take_span(
            world.backing, world.context, 0, 0, 1000, 256, &span, nullptr, nullptr));
    EXPECT_EQ(1024u, span.owned_bytes);
    EXPECT_EQ(1024u, world.cached());
    EXPECT_TRUE(world.agree());
    mbr_backing_give_span(world.backing, &span);
    EXPECT_EQ(0u, world.fake.owned());
    world.fake.faults.push_back({Slot::kAllocate, 2});
    EXPECT_EQ(MBR_OUT_OF_MEMORY,
        mbr_backing_take_span(
            world.backing, world.context, 0, 0, 1000, 256, &span, nullptr, nullptr));
    EXPECT_TRUE(world.agree());
}

class Eager : public World
{
  public:
    Eager() { mechanism()->has_virtual = mechanism()->has_shared = false; }

    mbr_status take(mbr_span *span)
    {
        return mbr_backing_take_span(backing, context, 0, 0, 1000, 256, span, nullptr, nullptr);
    }
};

// Another thread is ahead inside the slot: the port serves a second group, which may have given
// back what this allocation finds.
struct Overtaken {
    static inline mbr_port *port;
    static inline decltype(mbr_allocator_vtable::allocate) allocate;
    static inline std::vector<uint32_t> flags;
    static mbr_status slot(mbr_instance *instance, const mbr_allocate_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        mbr_port_serve_group(port, 2);
        flags.push_back(request->flags);
        return allocate(instance, request, outcome, error);
    }
    static void take_over(World &world)
    {
        auto *mechanism = world.mechanism();
        mechanism->fresh_content = MBR_CONTENT_UNDEFINED;
        port = world.port;
        allocate = mechanism->allocator.allocate;
        flags.clear();
        mechanism->allocator.allocate = slot;
    }
};

TEST(Eager, AnotherGroupComesBeforeTheMemory_ItIsZeroedAllTheSame)
{
    for (bool may_release : {true, false}) {
        Eager world;
        Overtaken::take_over(world);
        if (!may_release)
            world.fake.faults.push_back({Slot::kRelease, 1});
        mbr_span span;
        EXPECT_EQ(may_release ? MBR_OK : MBR_OUT_OF_MEMORY, world.take(&span));
        std::vector<uint32_t> both = {0, MBR_ALLOCATE_ZEROED};
        if (!may_release)
            both.pop_back();
        EXPECT_EQ(both, Overtaken::flags);
        EXPECT_EQ(may_release ? 1024u : 0u, world.fake.owned());
        EXPECT_TRUE(world.agree());
        if (may_release)
            mbr_backing_give_span(world.backing, &span);
        EXPECT_EQ(0u, world.cached());
    }
}

// What is left of it waits for a retry, as what a client gives back does.
TEST(Eager, ZeroedAnew_TheFirstOneIsRefusedTwice_IsTriedAgainAtTrim)
{
    Eager world;
    Overtaken::take_over(world);
    world.fake.faults.push_back({Slot::kRelease, 1, FaultKind::kRefuse, MBR_OUT_OF_MEMORY, true});
    mbr_span span;
    EXPECT_EQ(MBR_OUT_OF_MEMORY, world.take(&span));
    EXPECT_EQ(1024u, world.books().quarantined_bytes);
    EXPECT_EQ(1u, world.kept().quarantined_count);
    EXPECT_TRUE(world.agree());
    world.fake.faults.clear();
    EXPECT_EQ(1024u, mbr_backing_trim(world.backing, UINT64_MAX));
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_EQ(0u, world.cached());
    EXPECT_TRUE(world.agree());
}

// Where aligning costs memory the mechanism says so by its refusal, and the budget has the last
// word.
TEST(Eager, AlignedSpan_OfAMechanismThatPads_IsPaidForWithItsPadding)
{
    Eager world;
    auto *mechanism = world.mechanism();
    mechanism->allocation_align_bytes = 256;
    for (bool pads : {false, true}) {
        world.fake.pads_with_memory = pads;
        mbr_span span;
        ASSERT_EQ(MBR_OK,
            mbr_backing_take_span(
                world.backing, world.context, 0, 0, 1000, 4096, &span, nullptr, nullptr));
        EXPECT_EQ(pads ? 1024u + 4096 - 256 : 1024u, span.owned_bytes);
        EXPECT_EQ(0u, span.address % 4096);
        EXPECT_EQ(span.owned_bytes, world.cached());
        EXPECT_TRUE(world.agree());
        mbr_backing_give_span(world.backing, &span);
        EXPECT_EQ(0u, world.cached());
    }
    mbr_span span;
    EXPECT_EQ(MBR_OVER_BUDGET,
        mbr_backing_take_span(
            world.backing, world.context, 0, 0, UINT64_C(64) << 20, 4096, &span, nullptr, nullptr));
    EXPECT_TRUE(world.agree());
}

// A refusal that leaves memory says nothing about padding: what it left is had back first.
struct LeavesMemory {
    static inline decltype(mbr_allocator_vtable::allocate) allocate;
    static mbr_status slot(mbr_instance *instance, const mbr_allocate_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        EXPECT_EQ(MBR_OK, allocate(instance, request, outcome, error));
        outcome->residual_owned_bytes = outcome->newly_owned_bytes;
        outcome->state = MBR_STATE_PARTIAL;
        return MBR_OVER_BUDGET;
    }
};

TEST(Eager, AlignedSpan_RefusedWithAResidual_IsNotAskedForAgain)
{
    Eager world;
    auto *mechanism = world.mechanism();
    LeavesMemory::allocate = mechanism->allocator.allocate;
    mechanism->allocator.allocate = LeavesMemory::slot;
    world.fake.faults.push_back({Slot::kRelease, 1});
    mbr_span span;
    EXPECT_EQ(MBR_OVER_BUDGET,
        mbr_backing_take_span(
            world.backing, world.context, 0, 0, 1000, 4096, &span, nullptr, nullptr));
    EXPECT_EQ(1u, world.fake.calls(Slot::kAllocate));
    EXPECT_EQ(1024u, world.books().quarantined_bytes);
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(1024u, mbr_backing_trim(world.backing, UINT64_MAX));
    EXPECT_EQ(0u, world.cached());
    EXPECT_TRUE(world.agree());
}

TEST(Loss, EagerSpan_IsRetainedWithoutACallUntilTheEndIsConfirmed)
{
    Eager world;
    mbr_span before, after;
    ASSERT_EQ(MBR_OK, world.take(&before));
    ASSERT_EQ(MBR_OK, world.take(&after));
    mbr_context_lose(world.context);
    uint64_t calls = world.fake.all_calls();
    mbr_backing_give_span(world.backing, &before);
    EXPECT_EQ(2048u, world.cached());
    EXPECT_EQ(1024u, world.books().retained_bytes);
    EXPECT_EQ(1024u, world.kept().retained_bytes);
    mbr_context_confirm_end(world.context);
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(1024u, world.cached());
    EXPECT_EQ(0u, world.books().retained_bytes);
    mbr_backing_give_span(world.backing, &after); /* later: refunded as it comes */
    EXPECT_EQ(0u, world.cached());
    EXPECT_EQ(0u, world.books().retained_bytes);
    EXPECT_EQ(0u, world.books().mapped_bytes);
    EXPECT_EQ(0u, world.kept().retained_bytes);
    EXPECT_EQ(calls, world.fake.all_calls()); /* I12 */
    mbr_port_figures figures;
    mbr_port_read(world.port, &figures);
    EXPECT_EQ(0u, figures.allocation_count + figures.owned_bytes + figures.mapped_bytes);
    world.fake.forget_all();
}

TEST(Loss, EagerSpanThatOutlivesItsContext_IsReleased)
{
    Eager world;
    world.mechanism()->releasable_after_loss = true;
    mbr_span span;
    ASSERT_EQ(MBR_OK, world.take(&span));
    mbr_context_lose(world.context);
    mbr_backing_give_span(world.backing, &span);
    EXPECT_EQ(0u, world.fake.owned());
    EXPECT_TRUE(world.agree());
}

TEST(Span, WithoutVirtual_HeapFailsAtItsRecord_NothingIsTaken)
{
    Eager world;
    mbr_span span;
    world.heap.fail_at = world.heap.allocations + 1;
    EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY, world.take(&span));
    EXPECT_EQ(0u, world.fake.all_calls());
    EXPECT_TRUE(world.agree());
}

TEST(Loss, GivenBackAtOnce_IsNotUnmapped)
{
    World world;
    mbr_range *source = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, 2 * kGranule));
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    mbr_context_lose(world.context);
    uint64_t calls = world.fake.all_calls();
    EXPECT_EQ(MBR_OK, mbr_range_give_back(source, 0, kGranule, true, nullptr, 0, &result, nullptr));
    EXPECT_EQ(MBR_OK, world.end(source));
    EXPECT_EQ(calls, world.fake.all_calls()); /* I12 */
    EXPECT_EQ(2 * kGranule, world.kept().retained_bytes);
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(0u, world.books().charged_bytes);
    world.fake.forget_all();
}

/* I21: memory that a loss leaves may still hold what a fill, which went along, was to end. */
void loss_takes_a_fill_along(bool at_once_a_part)
{
    World world;
    world.mechanism()->releasable_after_loss = true;
    mbr_range_decommit_result left = {};
    left.struct_size = sizeof(left);
    auto fill = [&](mbr_range *range, uint64_t stream) {
        uint64_t before = world.line.fill_count;
        mbr_grow_options options = {};
        options.stream_id = stream;
        EXPECT_EQ(MBR_OK, world.grow_with(options, {range, 0, 0, 2 * kGranule}));
        return world.line.fill_count - before;
    };
    mbr_range *foreign = world.reserve(8 * kGranule, {kGranule, kGranule, 0}, 0, 1);
    EXPECT_EQ(0u, fill(foreign, world.stream));
    EXPECT_EQ(
        MBR_OK, mbr_range_give_back(foreign, 0, 2 * kGranule, true, nullptr, 0, &left, nullptr));
    EXPECT_EQ(MBR_OK, world.end(foreign));
    world.line.automatic = false;
    mbr_range *range = world.reserve(8 * kGranule, {kGranule, kGranule, 0}, 0, 2);
    EXPECT_EQ(2u, fill(range, world.stream)); // of what the first group had
    mbr_context_lose(world.context);
    if (at_once_a_part) {
        EXPECT_EQ(
            MBR_OK, mbr_range_give_back(range, 0, 2 * kGranule, true, nullptr, 0, &left, nullptr));
    }
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_EQ(2 * kGranule, world.cached());

    SecondContext another(world, &world.line);
    std::swap(world.context, another.context);
    range = world.reserve(8 * kGranule, {kGranule, kGranule, 0}, 0, 2);
    EXPECT_EQ(2u, fill(range, another.stream));
    EXPECT_EQ(2u, world.fake.calls(Slot::kCreate)); // it is that memory
    EXPECT_TRUE(world.agree());
    world.line.reach_all();
    EXPECT_EQ(MBR_OK, world.end(range));
    std::swap(world.context, another.context);
}

TEST(Loss, FillThatItTookAlong_IsDoneAgainInWhatARangeLeaves)
{
    loss_takes_a_fill_along(false);
}

TEST(Loss, FillThatItTookAlong_IsDoneAgainInWhatADecommitLeaves)
{
    loss_takes_a_fill_along(true);
}

TEST(Loss, OfTheOnlyUser_TheCacheIsLeftAloneThenRefundedWithoutACall)
{
    Used world;
    mbr_range *parked = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(parked, 0, 8 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(parked));
    mbr_range *pooled = world.reserve(32 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(pooled, 0, 4 * kGranule)); /* of what was parked */
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(
        MBR_OK, mbr_range_give_back(pooled, 0, 4 * kGranule, true, nullptr, 0, &result, nullptr));
    EXPECT_EQ(4 * kGranule, world.kept().pooled_bytes);
    EXPECT_EQ(4 * kGranule, world.kept().parked_bytes);
    mbr_range *empty = world.reserve(16 * kGranule);
    mbr_context_lose(world.context);
    uint64_t calls = world.fake.all_calls();
    EXPECT_EQ(MBR_OK, world.end(pooled));
    EXPECT_EQ(0u, mbr_backing_trim(world.backing, 0));
    EXPECT_EQ(0u, mbr_backing_evict(world.backing, UINT64_MAX));
    EXPECT_EQ(8 * kGranule, world.cached());
    mbr_context_confirm_end(world.context);
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(0u, world.cached());
    EXPECT_EQ(0u, world.books().mapped_bytes);
    EXPECT_EQ(MBR_OK, world.end(empty));
    EXPECT_EQ(MBR_OK, mbr_backing_audit(world.backing, nullptr));
    EXPECT_EQ(0u, mbr_backing_evict(world.backing, UINT64_MAX));
    EXPECT_EQ(calls, world.fake.all_calls()); /* I12 */
    world.fake.forget_all();
}

TEST(Loss, OfARangeInWhichAPlaceIsStuck_IsForgottenWholeWithTheConfirmation)
{
    Used world;
    mbr_range *range = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 2 * kGranule));
    world.fake.faults = {{Slot::kUnmap, 1, FaultKind::kRefuse, MBR_SYSTEM}};
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK, mbr_range_give_back(range, 0, kGranule, true, nullptr, 0, &result, nullptr));
    ASSERT_EQ(1u, world.kept().quarantined_count);
    mbr_context_lose(world.context);
    EXPECT_EQ(MBR_OK, world.end(range));
    mbr_context_confirm_end(world.context);
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_EQ(0u, world.books().charged_bytes);
    EXPECT_EQ(nullptr, world.addresses.root);
    world.fake.forget_all();
}

} // namespace
} // namespace membrane
