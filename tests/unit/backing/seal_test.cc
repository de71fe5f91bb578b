// Sealed places: while a prefix or a sharer has an extent, its own range may only read it; once it
// is nobody else's it may be written again, whatever order the others went in. And nothing that may
// not be written is ever handed out.
#include "tests/unit/backing/world.h"

#include <algorithm>
#include <map>
#include <sys/mman.h>

namespace membrane
{
namespace
{

constexpr uint64_t kShared = 3; // extents of the prefix; the source has one more

class SealWorld : public World
{
  public:
    explicit SealWorld(uint64_t busy_wait_ns = 0)
        : World(UINT64_C(64) << 20, UINT64_MAX, busy_wait_ns)
    {
        source = reserve(16 * kGranule);
        EXPECT_EQ(MBR_OK, grow(source, 0, (kShared + 1) * kGranule));
        made = make();
    }
    mbr_prefix *make() { return make_prefix(source, 0, kShared * kGranule + kGranule / 2); }
    mbr_range *attach()
    {
        mbr_range *range = reserve(16 * kGranule, {kGranule, kGranule, 0}, MBR_RANGE_UNPARKED);
        EXPECT_EQ(MBR_OK, World::attach(made, range));
        return range;
    }
    mbr_status seal() { return mbr_prefix_seal(made, &error); }
    mbr_status decommit(uint64_t offset, uint64_t bytes, bool now)
    {
        mbr_range_decommit_result result = {};
        result.struct_size = sizeof(result);
        return mbr_range_give_back(
            source, offset, bytes, now, &stream, now ? 0 : 1, &result, nullptr);
    }
    // Whether the source's first extents went to those ahead, where they stand.
    bool disown(uint64_t extents)
    {
        mbr_range_part part = {source, 0, 0, extents * kGranule};
        mbr_grow_options options = {};
        options.holder = kv;
        options.parts = &part;
        options.part_count = 1;
        mbr_range_grow_result result = {};
        result.struct_size = sizeof(result);
        return mbr_backing_disown(backing, &options, &result);
    }
    // How many of the source's first extents it may write, of those that are mapped.
    uint64_t writable() const
    {
        uint64_t count = 0;
        for (uint64_t i = 0; i < kShared; i++)
            count += access(source, i) == MBR_ACCESS_READ_WRITE;
        return count;
    }
    uint32_t access(mbr_range *range, uint64_t extent) const
    {
        return fake.access_at(mbr_range_address(range) + extent * kGranule);
    }
    uint64_t sealed_bytes() const
    {
        mbr_prefix_figures figures = {};
        figures.struct_size = sizeof(figures);
        mbr_prefix_figures_read(made, &figures);
        return figures.protected_bytes;
    }
    void refuse_protect(uint64_t in, FaultKind kind = FaultKind::kRefuse, bool sticky = false)
    {
        fake.faults.push_back({Slot::kProtect, fake.calls(Slot::kProtect) + in, kind,
            MBR_OUT_OF_HOST_MEMORY, sticky});
    }
    void end_prefix()
    {
        mbr_prefix_end(made);
        made = nullptr;
    }

    mbr_range *source = nullptr;
    mbr_prefix *made = nullptr;
    mbr_error error = [] {
        mbr_error one = {};
        one.struct_size = sizeof(one);
        return one;
    }();
};

TEST(Seal, WholeExtentsOfThePrefix_AreReadOnlyAndNothingElseIs)
{
    SealWorld world;
    EXPECT_EQ(0u, world.sealed_bytes());
    ASSERT_EQ(MBR_OK, world.seal()) << world.error.text;
    EXPECT_EQ(0u, world.writable());
    EXPECT_EQ(uint32_t{MBR_ACCESS_READ_WRITE}, world.access(world.source, kShared));
    EXPECT_EQ(kShared * kGranule, world.sealed_bytes());
    EXPECT_TRUE(world.agree());
    mbr_range *sharer = world.attach();
    EXPECT_EQ(uint32_t{MBR_ACCESS_READ}, world.access(sharer, 0));
    ASSERT_EQ(MBR_OK, world.grow(world.source, 0, 8 * kGranule)); // it grows on behind it
    EXPECT_EQ(uint32_t{MBR_ACCESS_READ_WRITE}, world.access(world.source, kShared + 1));
    EXPECT_EQ(0u, world.writable());
    world.end(sharer);
    world.end_prefix();
    EXPECT_EQ(kShared, world.writable());
    EXPECT_TRUE(world.agree());
    world.end(world.source);
}

// The source, the prefix, two sharers: read-only while it is not alone, no longer, and what is
// parked afterwards may be written by whoever adopts it.
TEST(Seal, AnyOrderOfEnds_OpenOnceTheExtentsAreTheSourcesAlone)
{
    std::vector<int> order = {0, 1, 2, 3};
    do {
        SealWorld world;
        ASSERT_EQ(MBR_OK, world.seal());
        mbr_range *sharers[] = {world.attach(), world.attach()};
        for (size_t i = 0; i < order.size(); i++) {
            switch (order[i]) {
            case 0:
                world.end(world.source);
                break;
            case 1:
                world.end_prefix();
                break;
            default:
                world.end(sharers[order[i] - 2]);
                break;
            }
            bool source_lives =
                std::find(order.begin() + static_cast<long>(i) + 1, order.end(), 0) != order.end();
            bool alone = i + 2 == order.size();
            if (source_lives) {
                EXPECT_EQ(alone ? kShared : 0, world.writable()) << order[i] << " at " << i;
            }
            ASSERT_TRUE(world.agree());
        }
        mbr_range *next = world.reserve(16 * kGranule);
        ASSERT_EQ(MBR_OK, world.grow(next, 0, (kShared + 1) * kGranule));
        for (uint64_t i = 0; i <= kShared; i++)
            EXPECT_EQ(uint32_t{MBR_ACCESS_READ_WRITE}, world.access(next, i)) << i;
        world.end(next);
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Seal, ASecondPrefixOfTheSame_KeepsItSealedUntilBothHaveEnded)
{
    SealWorld world;
    ASSERT_EQ(MBR_OK, world.seal());
    mbr_prefix *first = world.made;
    world.made = world.make();
    EXPECT_EQ(kShared * kGranule, world.sealed_bytes());
    ASSERT_EQ(MBR_OK, world.seal()) << "once more changes nothing";
    mbr_prefix_end(first);
    EXPECT_EQ(0u, world.writable());
    world.end_prefix();
    EXPECT_EQ(kShared, world.writable());
    world.end(world.source);
    EXPECT_TRUE(world.agree());
}

TEST(Seal, Refused_SaysSoAndGoesOnWhereItStoppedWhenItIsRepeated)
{
    for (FaultKind kind : {FaultKind::kRefuse, FaultKind::kQuarantine}) {
        SealWorld world;
        world.refuse_protect(2, kind);
        EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY, world.seal());
        EXPECT_EQ(kShared - 1, world.writable());
        // What nobody knows counts as sealed: it must not be handed out for writing.
        EXPECT_EQ((kind == FaultKind::kRefuse ? 1 : 2) * kGranule, world.sealed_bytes());
        EXPECT_TRUE(world.agree());
        ASSERT_EQ(MBR_OK, world.seal()) << world.error.text;
        EXPECT_EQ(0u, world.writable());
        world.end_prefix();
        EXPECT_EQ(kShared, world.writable());
        world.end(world.source);
        EXPECT_TRUE(world.agree());
    }
}

// Some devices' access is taken, the others' not, and the undo fails: it counts as sealed, whatever
// the driver says to another attempt.
TEST(Seal, HalfClosed_IsOpenedAgainBeforeAnybodyIsGivenIt)
{
    static decltype(mbr_virtual_vtable::protect) protect;
    static uint32_t attempts;
    for (bool spurious : {false, true}) {
        SealWorld world;
        auto *mechanism = world.mechanism();
        mechanism->protect_may_fail_spuriously = spurious;
        protect = mechanism->virtual_.protect;
        attempts = 0;
        mechanism->virtual_.protect = [](mbr_instance *instance, const mbr_protect_request *request,
                                          mbr_outcome *outcome, mbr_error *error) -> mbr_status {
            if (attempts++ != 0) /* and nothing has changed since */
                return MBR_SYSTEM;
            EXPECT_EQ(MBR_OK, protect(instance, request, outcome, error));
            outcome->state = MBR_STATE_PARTIAL;
            outcome->residual_mapped_bytes = request->bytes;
            return MBR_SYSTEM;
        };
        EXPECT_EQ(MBR_SYSTEM, world.seal());
        EXPECT_EQ(spurious ? 4u : 1u, attempts);
        mechanism->virtual_.protect = protect;
        EXPECT_EQ(kGranule, world.sealed_bytes()) << spurious;
        EXPECT_EQ(kShared - 1, world.writable());
        world.end_prefix();
        EXPECT_EQ(kShared, world.writable()) << spurious;
        EXPECT_TRUE(world.agree());
        world.end(world.source);
    }
}

TEST(Seal, OpeningIsRefused_ATrimTriesAgainAndUntilThenNobodyAdoptsIt)
{
    for (bool trims : {true, false}) {
        SealWorld world;
        ASSERT_EQ(MBR_OK, world.seal());
        world.refuse_protect(1, FaultKind::kRefuse, true);
        world.end_prefix();
        EXPECT_EQ(0u, world.writable());
        EXPECT_TRUE(world.agree());
        if (trims) {
            world.fake.faults.clear();
            mbr_backing_trim(world.backing, UINT64_MAX);
            EXPECT_EQ(kShared, world.writable());
        }
        world.end(world.source);
        EXPECT_EQ(trims ? 0 : kShared * kGranule, world.kept().pooled_bytes);
        world.fake.faults.clear();
        EXPECT_TRUE(world.agree());
        mbr_range *next = world.reserve(16 * kGranule);
        ASSERT_EQ(MBR_OK, world.grow(next, 0, (kShared + 1) * kGranule));
        for (uint64_t i = 0; i <= kShared; i++)
            EXPECT_EQ(uint32_t{MBR_ACCESS_READ_WRITE}, world.access(next, i)) << i;
        world.end(next);
    }
}

// One that the driver does not let go is in nobody's way.
TEST(Seal, OneIsRefusedToOpen_TheOthersOpenAndItDoesLater)
{
    for (uint64_t refused = 1; refused <= kShared; refused++) {
        SealWorld world;
        ASSERT_EQ(MBR_OK, world.seal());
        world.refuse_protect(refused);
        world.end_prefix();
        EXPECT_EQ(kShared - 1, world.writable()) << refused;
        EXPECT_TRUE(world.agree());
        mbr_backing_trim(world.backing, UINT64_MAX);
        EXPECT_EQ(kShared, world.writable()) << refused;
        world.end(world.source);
    }
}

// A sharer's place that cannot be unmapped is nobody's: its source need not wait for it.
TEST(Seal, SharerIsStuckWhereItWas_OpensAllTheSame)
{
    for (bool prefix_last : {true, false}) {
        SealWorld world;
        ASSERT_EQ(MBR_OK, world.seal());
        mbr_range *sharer = world.attach();
        if (!prefix_last)
            world.end_prefix();
        world.fake.faults.push_back({Slot::kUnmap, world.fake.calls(Slot::kUnmap) + 1,
            FaultKind::kRefuse, MBR_SYSTEM, true});
        mbr_range_decommit_result result = {};
        result.struct_size = sizeof(result);
        ASSERT_EQ(MBR_OK,
            mbr_range_give_back(sharer, 0, kShared * kGranule, true, nullptr, 0, &result, nullptr));
        if (prefix_last)
            world.end_prefix();
        EXPECT_EQ(kShared, world.writable()) << prefix_last;
        EXPECT_TRUE(world.agree());
        world.fake.faults.clear();
        world.end(sharer);
        world.end(world.source);
        mbr_backing_trim(world.backing, UINT64_MAX);
        EXPECT_EQ(0u, world.books().quarantined_bytes);
        EXPECT_TRUE(world.agree());
    }
}

// What cannot be written is given to nobody, ahead of need neither.
TEST(Seal, OpeningIsRefused_ItDoesNotStandAhead)
{
    SealWorld world;
    ASSERT_EQ(MBR_OK, world.seal());
    world.refuse_protect(1, FaultKind::kRefuse, true);
    world.end_prefix();
    EXPECT_FALSE(world.disown(1));
    world.fake.faults.clear();
    mbr_backing_trim(world.backing, UINT64_MAX);
    EXPECT_TRUE(world.disown(1));
    ASSERT_EQ(MBR_OK, world.grow(world.source, 0, kGranule));
    EXPECT_EQ(kShared, world.writable());
    EXPECT_TRUE(world.agree());
    world.end(world.source);
}

// The driver may refuse for no reason: the port asks again, on both ways.
TEST(Seal, SpuriousRefusal_IsRetried)
{
    SealWorld world;
    world.mechanism()->protect_may_fail_spuriously = true;
    world.refuse_protect(2);
    ASSERT_EQ(MBR_OK, world.seal()) << world.error.text;
    EXPECT_EQ(0u, world.writable());
    world.refuse_protect(1);
    world.end_prefix();
    EXPECT_EQ(kShared, world.writable());
    EXPECT_EQ(2u, world.fake.faults_met());
    world.end(world.source);
}

// A decommit takes the seal along: what grows there again is fresh, and what leaves is not kept.
TEST(Seal, DecommittedAndGrownAgain_IsWritable)
{
    for (bool now : {true, false}) {
        SealWorld world;
        world.line.automatic = now;
        ASSERT_EQ(MBR_OK, world.seal());
        mbr_range *sharer = world.attach();
        ASSERT_EQ(MBR_OK, world.decommit(0, 2 * kGranule, now));
        world.refuse_protect(1, FaultKind::kRefuse, true);
        world.end_prefix();
        world.end(sharer); // alone now, where it still is; and it cannot be opened
        world.fake.faults.clear();
        if (!now) { /* not what is read-only: it leaves, in its turn */
            mbr_grow_options options = {};
            options.stream_id = world.stream;
            EXPECT_EQ(MBR_BUSY, world.grow_with(options, {world.source, 0, 0, 2 * kGranule}));
            world.line.automatic = true;
            world.line.reach_all();
            while (mbr_context_reap(world.context, true) != 0)
                continue;
        }
        EXPECT_TRUE(world.agree());
        ASSERT_EQ(MBR_OK, world.grow(world.source, 0, 3 * kGranule));
        EXPECT_EQ(kShared, world.writable());
        EXPECT_TRUE(world.agree());
        world.end(world.source);
    }
}

TEST(Seal, TheLastSharerDecommits_OpensAsItsEndDoes)
{
    SealWorld world;
    ASSERT_EQ(MBR_OK, world.seal());
    mbr_range *sharer = world.attach();
    world.end_prefix();
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(
        MBR_OK, mbr_range_give_back(sharer, 0, 2 * kGranule, true, nullptr, 0, &result, nullptr));
    EXPECT_EQ(2u, world.writable());
    world.end(sharer);
    EXPECT_EQ(kShared, world.writable());
    EXPECT_TRUE(world.agree());
    world.end(world.source);
}

// Only what may be written goes back to the cache where it stands.
TEST(Seal, DisownedInPlace_OnlyOnceItIsOpen)
{
    SealWorld world;
    ASSERT_EQ(MBR_OK, world.seal());
    world.refuse_protect(1, FaultKind::kRefuse, true);
    world.end_prefix();
    EXPECT_FALSE(world.disown(kShared));
    world.fake.faults.clear();
    mbr_backing_trim(world.backing, UINT64_MAX);
    EXPECT_TRUE(world.disown(kShared));
    EXPECT_EQ(kShared * kGranule, world.figures(world.source).parked_bytes);
    EXPECT_EQ(kShared, world.writable());
    EXPECT_TRUE(world.agree());
    world.end(world.source);
}

// Whoever edits the range meanwhile opens it when he is done; nobody waits for him.
TEST(Seal, PrefixEndsWhileItsSourceGrows_OpensAfterTheGrowth)
{
    SealWorld world;
    ASSERT_EQ(MBR_OK, world.seal());
    mbr_grow_options options = {};
    options.publish_context = &world;
    options.publish = [](void *context) -> mbr_status {
        auto *inside = static_cast<SealWorld *>(context);
        inside->end_prefix();
        EXPECT_EQ(0u, inside->writable());
        return MBR_OK;
    };
    ASSERT_EQ(MBR_OK, world.grow_with(options, {world.source, 0, 0, 8 * kGranule}));
    EXPECT_EQ(kShared, world.writable());
    EXPECT_TRUE(world.agree());
    world.end(world.source);
}

// Closing edits the range, too.
TEST(Seal, PrefixEndsWhileAnotherOfItsSourceIsClosed_OpensAfterTheOtherIs)
{
    static SealWorld *inside;
    static decltype(mbr_virtual_vtable::protect) protect;
    SealWorld world;
    ASSERT_EQ(MBR_OK, world.seal());
    mbr_prefix *other = world.make_prefix(world.source, kShared * kGranule, kGranule);
    auto &slots = world.mechanism()->virtual_;
    inside = &world;
    protect = slots.protect;
    slots.protect = [](mbr_instance *instance, const mbr_protect_request *request,
                        mbr_outcome *outcome, mbr_error *error) -> mbr_status {
        if (inside->made != nullptr)
            inside->end_prefix();
        return protect(instance, request, outcome, error);
    };
    ASSERT_EQ(MBR_OK, mbr_prefix_seal(other, &world.error)) << world.error.text;
    EXPECT_EQ(kShared, world.writable());
    EXPECT_EQ(uint32_t{MBR_ACCESS_READ}, world.access(world.source, kShared));
    EXPECT_TRUE(world.agree());
    mbr_prefix_end(other);
    world.end(world.source);
}

TEST(Seal, WithoutEnforcedReadOnly_IsRefusedByTheFact)
{
    SealWorld world;
    world.mechanism()->read_only_enforced = false;
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_prefix_check_seal(world.made, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "READ_ONLY_ENFORCED")) << world.error.text;
    world.end(world.source);
    world.end_prefix();
}

TEST(Seal, Pinned_IsRefusedWithoutACall)
{
    SealWorld world;
    uint64_t calls = world.fake.all_calls();
    ASSERT_EQ(MBR_OK, mbr_range_pin_down(world.source, 0, nullptr));
    EXPECT_EQ(MBR_BUSY, world.seal());
    EXPECT_NE(nullptr, std::strstr(world.error.text, "pin")) << world.error.text;
    ASSERT_EQ(MBR_OK, mbr_range_let_up(world.source, 0, nullptr));
    EXPECT_EQ(calls, world.fake.all_calls());
    ASSERT_EQ(MBR_OK, world.seal());
    world.end_prefix();
    EXPECT_EQ(kShared, world.writable());
    world.end(world.source);
    EXPECT_TRUE(world.agree());
}

// Narrowing access under a graph would end it; giving access back ends nothing.
TEST(Seal, Capture_ClosesNothingUntilItsGraphIsRetiredAndOpensAllTheSame)
{
    mbr_gate gate;
    mbr_gate_init(&gate);
    {
        SealWorld world;
        mbr_port_set_gate(world.port, &gate);
        ASSERT_EQ(MBR_OK, mbr_context_join_gate(world.context, &gate, nullptr));
        mbr_graph graphs[2] = {}, *ended = nullptr;
        for (mbr_graph &graph : graphs)
            graph.gone = [](mbr_graph *) {};
        uint64_t protects = world.fake.calls(Slot::kProtect);
        ASSERT_EQ(MBR_OK,
            mbr_context_begin_capture(
                world.context, world.stream, UINT64_MAX, &graphs[0], nullptr));
        EXPECT_EQ(MBR_BUSY, world.seal());
        EXPECT_NE(nullptr, std::strstr(world.error.text, "captured")) << world.error.text;
        EXPECT_EQ(protects, world.fake.calls(Slot::kProtect));
        ASSERT_EQ(MBR_OK, world.grow(world.source, 0, 8 * kGranule)); // the graph's from now on
        ASSERT_EQ(MBR_OK, mbr_context_end_capture(world.context, world.stream, &ended, nullptr));
        EXPECT_EQ(MBR_BUSY, world.seal());
        EXPECT_NE(nullptr, std::strstr(world.error.text, "graph")) << world.error.text;
        EXPECT_EQ(kShared, world.writable());
        ASSERT_EQ(MBR_OK, mbr_context_retire_graph(world.context, &graphs[0], nullptr, 0, nullptr));
        while (mbr_context_reap(world.context, true) != 0)
            continue;
        ASSERT_EQ(MBR_OK, world.seal()) << world.error.text;
        ASSERT_EQ(MBR_OK,
            mbr_context_begin_capture(
                world.context, world.stream, UINT64_MAX, &graphs[1], nullptr));
        world.end_prefix();
        EXPECT_EQ(kShared, world.writable());
        ASSERT_EQ(MBR_OK, mbr_context_end_capture(world.context, world.stream, &ended, nullptr));
        ASSERT_EQ(MBR_OK, mbr_context_retire_graph(world.context, &graphs[1], nullptr, 0, nullptr));
        world.end(world.source);
        while (mbr_context_reap(world.context, true) != 0)
            continue;
        EXPECT_TRUE(world.agree());
    }
    mbr_gate_finish(&gate);
}

TEST(Seal, RecordOfTheSourceServesARangeThatIsEdited_NobodyWaitsForIt)
{
    SealWorld world(1);
    world.end(world.source);
    mbr_range *next = world.reserve(16 * kGranule);
    ASSERT_EQ(world.source, next);
    mbr_grow_options options = {};
    options.publish_context = &world;
    options.publish = [](void *context) -> mbr_status {
        auto *inside = static_cast<SealWorld *>(context);
        EXPECT_EQ(MBR_OK, inside->seal()) << inside->error.text;
        return MBR_OK;
    };
    EXPECT_EQ(MBR_OK, world.grow_with(options, {next, 0, 0, kGranule}));
    EXPECT_EQ(0u, world.sealed_bytes());
    world.end_prefix();
    world.end(next);
}

// The record of a source that has ended may be taken for another range, whose addresses are
// refused: whoever reads the prefix meanwhile looks into no places that are gone.
TEST(Seal, RecordOfTheSourceServesARangeThatIsRefused_NobodyLooksIntoIt)
{
    static SealWorld *inside;
    static std::map<void *, size_t> pages; // what is given back cannot be read any more
    static mbr_heap before;
    SealWorld world;
    world.end(world.source);
    inside = &world;
    before = world.heap.heap;
    world.fake.faults.push_back({Slot::kReserve, world.fake.calls(Slot::kReserve) + 1,
        FaultKind::kRefuse, MBR_OUT_OF_ADDRESSES, true});
    auto refused = [&] { return world.reserve(32 * kGranule) == nullptr; };
    EXPECT_TRUE(refused()) << "and what is cached is discarded";
    world.heap.heap.allocate = [](void *, size_t bytes) {
        void *memory =
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pages[memory] = bytes;
        return memory;
    };
    world.heap.heap.release = [](void *context, void *memory) {
        auto known = pages.find(memory);
        if (known == pages.end())
            return before.release(context, memory);
        munmap(memory, known->second);
        pages.erase(known);
        EXPECT_EQ(0u, inside->sealed_bytes());
    };
    EXPECT_TRUE(refused());
    EXPECT_TRUE(refused());
    EXPECT_TRUE(pages.empty());
    world.heap.heap.allocate = before.allocate;
    world.heap.heap.release = before.release;
    world.fake.faults.clear();
    world.end_prefix();
    EXPECT_TRUE(world.agree());
}

// A source that has ended, in part or whole, leaves nothing to close.
TEST(Seal, SourceThatHasEnded_NeedsNone)
{
    SealWorld world;
    ASSERT_EQ(MBR_OK, world.decommit(0, kGranule, true));
    ASSERT_EQ(MBR_OK, world.seal());
    EXPECT_EQ((kShared - 1) * kGranule, world.sealed_bytes());
    world.end(world.source);
    uint64_t calls = world.fake.all_calls();
    ASSERT_EQ(MBR_OK, world.seal());
    EXPECT_EQ(calls, world.fake.all_calls());
    EXPECT_EQ(0u, world.sealed_bytes());
    world.end_prefix();
    EXPECT_TRUE(world.agree());
}

} // namespace
} // namespace membrane
