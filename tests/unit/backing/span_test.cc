// Spans: paid by the cache from take to give, and one allocation of the plugin where it has no
// virtual memory; what then fails, is refused or is lost.
#include "tests/unit/backing/world.h"

namespace membrane
{
namespace
{

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
    static inline bool is_unnamed;
    static mbr_status slot(mbr_instance *instance, const mbr_allocate_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        EXPECT_EQ(MBR_OK, allocate(instance, request, outcome, error));
        outcome->residual_owned_bytes = outcome->newly_owned_bytes;
        outcome->state = MBR_STATE_PARTIAL;
        outcome->address = is_unnamed ? 0 : outcome->address;
        return MBR_OVER_BUDGET;
    }
    static void take_over(World &world, bool unnamed)
    {
        is_unnamed = unnamed;
        allocate = world.mechanism()->allocator.allocate;
        world.mechanism()->allocator.allocate = slot;
    }
};

TEST(Eager, AlignedSpan_RefusedWithAResidual_IsNotAskedForAgain)
{
    Eager world;
    LeavesMemory::take_over(world, false);
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

// What the host counts for itself.
uint64_t mapped_by_port(const World &world)
{
    mbr_port_figures figures;
    mbr_port_read(world.port, &figures);
    return figures.mapped_bytes;
}

TEST(Eager, AllocateLeavesMemoryThatItDoesNotName_IsCountedAsMapped)
{
    Eager world;
    world.leaks = true;
    LeavesMemory::take_over(world, true);
    mbr_span span;
    EXPECT_EQ(MBR_OVER_BUDGET, world.take(&span));
    EXPECT_EQ(1024u, world.books().quarantined_bytes);
    EXPECT_EQ(1024u, world.books().mapped_bytes);
    EXPECT_EQ(mapped_by_port(world), world.books().mapped_bytes);
}

TEST(Eager, ZeroedAnew_NobodyKnowsWhetherTheFirstOneIsThere_IsCountedAsMapped)
{
    Eager world;
    world.leaks = true;
    Overtaken::take_over(world);
    world.fake.faults.push_back({Slot::kRelease, 1, FaultKind::kQuarantine});
    mbr_span span;
    EXPECT_EQ(MBR_OUT_OF_MEMORY, world.take(&span));
    EXPECT_EQ(1024u, world.books().quarantined_bytes);
    EXPECT_EQ(mapped_by_port(world), world.books().mapped_bytes);
    EXPECT_TRUE(world.agree());
}

TEST(Eager, NobodyKnowsWhatWasAllocated_IsOwnedAlone)
{
    Eager world;
    world.leaks = true;
    world.fake.faults.push_back({Slot::kAllocate, 1, FaultKind::kQuarantine});
    mbr_span span;
    EXPECT_EQ(MBR_OUT_OF_MEMORY, world.take(&span));
    EXPECT_EQ(1024u, world.books().quarantined_bytes);
    EXPECT_EQ(0u, world.books().mapped_bytes);
    EXPECT_EQ(0u, mapped_by_port(world));
}

// The plugin says what nobody else has said yet.
TEST(Eager, FoundLostAsItIsReleased_BreaksNoRule)
{
    Eager world;
    mbr_span span;
    ASSERT_EQ(MBR_OK, world.take(&span));
    world.fake.faults.push_back({Slot::kRelease, 1, FaultKind::kRefuse, MBR_DEVICE_LOST});
    mbr_backing_give_span(world.backing, &span);
    EXPECT_EQ(0u, world.books().violation_count);
    EXPECT_EQ(0u, world.cached()) << "it is looked at again";
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

} // namespace
} // namespace membrane
