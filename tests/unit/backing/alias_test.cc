// Aliases of a prefix that an ended sharer leaves parked: the next sharer takes them without a
// call; they cost nobody a byte, and go with the prefix, under pressure, and where others want the
// place.
#include "tests/unit/backing/world.h"

#include <utility>

namespace membrane
{
namespace
{

constexpr uint64_t kShared = 4; // extents of the prefix

class AliasWorld : public World
{
  public:
    explicit AliasWorld(uint64_t keep = UINT64_MAX) : World(UINT64_C(64) << 20, keep)
    {
        source = reserve(16 * kGranule);
        EXPECT_EQ(MBR_OK, grow(source, 0, kShared * kGranule));
        made = make(source);
    }
    mbr_prefix *make(mbr_range *of) { return make_prefix(of, 0, kShared * kGranule); }
    mbr_range *reserve_for(mbr_prefix *one, uint32_t group = 0)
    {
        mbr_range_options options = {};
        options.context = context;
        options.bytes = 16 * kGranule;
        options.growth = {kGranule, kGranule, 0};
        options.isolation_group = group;
        options.alias = mbr_prefix_hint(one, 0);
        mbr_range *range = nullptr;
        EXPECT_EQ(MBR_OK, mbr_backing_reserve(backing, &options, &range, nullptr));
        return range;
    }
    mbr_status attach(mbr_prefix *one, mbr_range *range, uint64_t extents = kShared)
    {
        uint64_t limit = extents * kGranule;
        return World::attach(one, range, &limit);
    }
    // A sharer that has come and gone; where it was.
    uint64_t leave_aliases(mbr_prefix *one)
    {
        mbr_range *sharer = reserve_for(one);
        uint64_t address = mbr_range_address(sharer);
        EXPECT_EQ(MBR_OK, attach(one, sharer));
        EXPECT_EQ(MBR_OK, end(sharer));
        return address;
    }
    uint64_t aliases() const { return kept().parked_alias_count; }
    void finish()
    {
        if (made != nullptr)
            mbr_prefix_end(made);
        EXPECT_EQ(MBR_OK, source != nullptr ? end(source) : MBR_OK);
    }

    mbr_range *source = nullptr;
    mbr_prefix *made = nullptr;
};

// A capture on the device, as the backing sees it.
class Gate
{
  public:
    explicit Gate(World &world) : world_(world)
    {
        mbr_gate_init(&gate_);
        mbr_port_set_gate(world.port, &gate_);
    }
    ~Gate()
    {
        mbr_port_set_gate(world_.port, nullptr);
        mbr_gate_finish(&gate_);
    }
    void close() { ASSERT_TRUE(mbr_gate_close(&gate_, UINT64_MAX)); }
    bool closes_at_once() { return mbr_gate_close(&gate_, 1); }
    void reopen() { mbr_gate_reopen(&gate_); }

  private:
    World &world_;
    mbr_gate gate_;
};

// A sharer that takes a parked alias, or comes beside it, is the last to pay all the same.
TEST(Alias, SharerThatCameLater_PaysAfterTheOldestUser)
{
    for (bool takes : {true, false}) {
        SCOPED_TRACE(takes ? "takes it" : "comes beside it");
        AliasWorld world;
        world.leave_aliases(world.made);
        mbr_range *later = takes ? world.reserve_for(world.made) : world.reserve(16 * kGranule);
        mbr_prefix_attach_result result = {};
        result.struct_size = sizeof(result);
        ASSERT_EQ(MBR_OK,
            mbr_prefix_map_into(world.made, &later, 1, nullptr, world.prefix, &result, nullptr));
        EXPECT_EQ(takes ? 0u : kShared, world.aliases());
        mbr_prefix_end(std::exchange(world.made, nullptr));
        EXPECT_EQ(kShared * kGranule, world.charged(world.kv)); // the source's
        EXPECT_EQ(0u, world.charged(world.prefix));
        EXPECT_EQ(MBR_OK, world.end(std::exchange(world.source, nullptr)));
        EXPECT_EQ(kShared * kGranule, world.charged(world.prefix));
        EXPECT_TRUE(world.agree());
        EXPECT_EQ(MBR_OK, world.end(later));
        world.finish();
    }
}

TEST(Alias, OfAnEndedSharer_IsTakenByTheNextWithoutACall)
{
    AliasWorld world;
    uint64_t address = world.leave_aliases(world.made);
    EXPECT_EQ(kShared, world.aliases());
    EXPECT_EQ(kShared * kGranule, world.fake.owned()); // they own nothing
    EXPECT_EQ(0u, world.charged(world.kv));            // the prefix pays, as before
    EXPECT_EQ(kShared * kGranule, world.charged(world.prefix));
    EXPECT_EQ(0u, world.cached());
    EXPECT_EQ(kShared * kGranule, world.mapped_by(mbr_backing_cache(world.backing)));
    EXPECT_TRUE(world.agree());

    uint64_t calls = world.fake.all_calls();
    mbr_range *next = world.reserve_for(world.made);
    EXPECT_EQ(address, mbr_range_address(next));
    EXPECT_EQ(0u, world.figures(next).committed_bytes); // not handed out before it is attached
    EXPECT_FALSE(mbr_range_is_committed_to(next, 1));
    ASSERT_EQ(MBR_OK, world.attach(world.made, next));
    EXPECT_EQ(calls, world.fake.all_calls());
    EXPECT_EQ(0u, world.aliases());
    EXPECT_TRUE(mbr_range_is_committed_to(next, kShared * kGranule));
    EXPECT_EQ(kShared * kGranule, world.figures(next).shared_bytes);
    EXPECT_EQ(kShared * kGranule,
        world.mapped_by(mbr_backing_cache(world.backing)) + world.mapped_by(world.kv) -
            kShared * kGranule); // the source's own beside
    EXPECT_EQ(static_cast<uint32_t>(MBR_ACCESS_READ), world.fake.access_at(address));
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(next));
    world.finish();
    EXPECT_EQ(0u, world.aliases());
    EXPECT_TRUE(world.agree());
}

const mbr_shared_vtable *plain;
std::function<void()> meanwhile;

mbr_status map_shared_meanwhile(mbr_instance *instance, const mbr_map_shared_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    if (meanwhile)
        meanwhile();
    return plain->map_shared(instance, request, outcome, error);
}

// What fails is undone whole: no capture has begun by then, in which nothing could be unmapped.
TEST(Alias, WhileTheyAreMapped_NoCaptureBeginsAndAFailureIsUndone)
{
    AliasWorld world;
    Gate gate(world);
    plain = &world.fake.mechanism.shared;
    world.mechanism()->shared.map_shared = map_shared_meanwhile;
    int asked = 0;
    bool captures = false;
    meanwhile = [&] {
        asked++;
        captures = captures || gate.closes_at_once();
    };
    world.fake.faults.push_back({Slot::kMapShared, world.fake.calls(Slot::kMapShared) + 3,
        FaultKind::kRefuse, MBR_OUT_OF_MAPPINGS});
    mbr_range *range = world.reserve_for(world.made);
    EXPECT_EQ(MBR_OUT_OF_MAPPINGS, world.attach(world.made, range));
    EXPECT_EQ(3, asked);
    EXPECT_FALSE(captures);
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_EQ(MBR_OK, world.attach(world.made, range));
    EXPECT_FALSE(captures);
    meanwhile = nullptr;
    EXPECT_TRUE(gate.closes_at_once()); // nobody is inside any more
    gate.reopen();
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(range));
    world.finish();
}

TEST(Alias, OfAShorterPrefix_TheRestIsUnmappedAtOnceAndTheRangeGrowsInACapture)
{
    AliasWorld world;
    Gate gate(world);
    uint64_t address = world.leave_aliases(world.made);
    mbr_range *next = world.reserve_for(world.made);
    EXPECT_EQ(address, mbr_range_address(next));
    ASSERT_EQ(MBR_OK, world.attach(world.made, next, 2));
    EXPECT_EQ(0u, world.aliases());
    EXPECT_FALSE(mbr_range_is_committed_to(next, 2 * kGranule + 1));
    gate.close();
    ASSERT_EQ(MBR_OK, world.grow(next, 2 * kGranule, 3 * kGranule));
    gate.reopen();
    EXPECT_EQ(static_cast<uint32_t>(MBR_ACCESS_READ_WRITE),
        world.fake.access_at(mbr_range_address(next) + 2 * kGranule));
    EXPECT_EQ(3 * kGranule, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(next));
    world.finish();
}

TEST(Alias, OfAnotherPrefix_IsUnmappedFirst)
{
    AliasWorld world;
    mbr_range *other_source = world.reserve(16 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(other_source, 0, kShared * kGranule));
    mbr_prefix *other = world.make(other_source);
    world.leave_aliases(world.made);
    mbr_range *next = world.reserve_for(world.made);
    ASSERT_EQ(MBR_OK, world.attach(other, next));
    EXPECT_EQ(0u, world.aliases());
    EXPECT_EQ(world.fake.extent_at(mbr_range_address(other_source)),
        world.fake.extent_at(mbr_range_address(next)));
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(next));
    mbr_prefix_end(other);
    EXPECT_EQ(MBR_OK, world.end(other_source));
    world.finish();
}

TEST(Alias, WhoSharesNothing_GetsOtherAddresses)
{
    AliasWorld world;
    uint64_t address = world.leave_aliases(world.made);
    mbr_range *plain = world.reserve(16 * kGranule);
    EXPECT_NE(address, mbr_range_address(plain));
    // I21: nor does another isolation group, whatever it asks for.
    mbr_range *foreign = world.reserve_for(world.made, 7);
    EXPECT_NE(address, mbr_range_address(foreign));
    EXPECT_EQ(kShared, world.aliases());
    EXPECT_EQ(MBR_OK, world.end(plain));
    EXPECT_EQ(MBR_OK, world.end(foreign));
    world.finish();
}

TEST(Alias, PrefixEnds_TheyGoFirstAndTheBillMovesToASurvivor)
{
    AliasWorld world;
    mbr_range *survivor = world.reserve_for(world.made);
    ASSERT_EQ(MBR_OK, world.attach(world.made, survivor));
    world.leave_aliases(world.made);
    ASSERT_EQ(MBR_OK, world.end(world.source));
    world.source = nullptr;
    EXPECT_EQ(kShared, world.aliases());
    mbr_prefix_end(world.made);
    world.made = nullptr;
    EXPECT_EQ(0u, world.aliases());
    EXPECT_EQ(kShared * kGranule, world.charged(world.kv));
    EXPECT_EQ(0u, world.cached());
    EXPECT_EQ(kShared, world.fake.mappings());
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(survivor));
    EXPECT_EQ(kShared * kGranule, world.cached());
    EXPECT_TRUE(world.agree());
}

TEST(Alias, LastUseOfAPrefix_ItsExtentsAreTakenBackWhole)
{
    AliasWorld world;
    world.leave_aliases(world.made);
    ASSERT_EQ(MBR_OK, world.end(world.source));
    world.source = nullptr;
    mbr_prefix_figures figures = {};
    figures.struct_size = sizeof(figures);
    mbr_prefix_figures_read(world.made, &figures);
    EXPECT_EQ(0u, figures.sharer_count);
    EXPECT_EQ(kShared * kGranule, figures.exclusive_bytes);
    mbr_prefix_end(world.made);
    world.made = nullptr;
    EXPECT_EQ(kShared * kGranule, world.kept().pooled_bytes);
    EXPECT_EQ(0u, world.fake.mappings());
    EXPECT_TRUE(world.agree());
}

TEST(Alias, TrimAndPressure_TakeThem)
{
    for (bool trims : {true, false}) {
        AliasWorld world;
        world.leave_aliases(world.made);
        uint64_t released =
            trims ? mbr_backing_trim(world.backing, 0) : mbr_backing_evict(world.backing, kGranule);
        EXPECT_EQ(0u, released); // they own nothing
        EXPECT_EQ(0u, world.aliases());
        EXPECT_EQ(kShared, world.fake.mappings());
        EXPECT_TRUE(world.agree());
        world.finish();
    }
}

TEST(Alias, CacheThatKeepsNothing_KeepsNoMapping)
{
    AliasWorld world(0);
    world.leave_aliases(world.made);
    EXPECT_EQ(0u, world.aliases());
    EXPECT_EQ(kShared, world.fake.mappings());
    world.finish();
    EXPECT_TRUE(world.agree());
}

TEST(Alias, UnmapRefusedAtThePrefixsEnd_IsQuarantinedAndTriedAgain)
{
    AliasWorld world;
    world.leave_aliases(world.made);
    ASSERT_EQ(MBR_OK, world.end(world.source));
    world.source = nullptr;
    uint64_t calls = world.fake.calls(Slot::kUnmap);
    world.fake.faults = {{Slot::kUnmap, calls + 2}, {Slot::kUnmap, calls + kShared + 1}};
    mbr_prefix_end(world.made); // when nobody is left it is tried again, and refused again
    world.made = nullptr;
    EXPECT_EQ(calls + kShared + 1, world.fake.calls(Slot::kUnmap));
    EXPECT_EQ(0u, world.aliases());
    EXPECT_EQ(1u, world.kept().quarantined_count);
    EXPECT_TRUE(world.agree());
    world.fake.faults.clear();
    mbr_backing_trim(world.backing, 0);
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_EQ(0u, world.fake.owned());
    EXPECT_TRUE(world.agree());
}

/* One of the four is mapped anew and refused: the others stay parked, the next try works. */
TEST(Alias, AttachThatFailsBesideThem_LeavesThemParked)
{
    AliasWorld world;
    world.leave_aliases(world.made);
    mbr_range *next = world.reserve_for(world.made);
    ASSERT_EQ(MBR_OK, world.attach(world.made, next, 3)); // one alias less
    ASSERT_EQ(MBR_OK, world.grow(next, 3 * kGranule, kGranule));
    ASSERT_EQ(MBR_OK, world.end(next));
    mbr_range *again = world.reserve_for(world.made);
    uint64_t aliases = world.aliases();
    EXPECT_EQ(3u, aliases);
    world.fake.faults.push_back({Slot::kMapShared, world.fake.calls(Slot::kMapShared) + 1,
        FaultKind::kRefuse, MBR_OUT_OF_MAPPINGS});
    EXPECT_EQ(MBR_OUT_OF_MAPPINGS, world.attach(world.made, again));
    world.fake.faults.clear();
    EXPECT_EQ(3u, world.aliases());
    EXPECT_EQ(0u, world.figures(again).shared_bytes);
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.attach(world.made, again));
    EXPECT_EQ(0u, world.aliases());
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(again));
    world.finish();
}

TEST(Alias, OfARangeThatIsNotAttached_GoWithItsGrowthOrAreInItsWayInACapture)
{
    AliasWorld world;
    Gate gate(world);
    world.leave_aliases(world.made);
    mbr_range *next = world.reserve_for(world.made);
    gate.close();
    EXPECT_EQ(MBR_BUSY, world.grow(next, 0, kGranule));
    gate.reopen();
    EXPECT_EQ(MBR_OK, world.grow(next, 0, kGranule));
    EXPECT_EQ(kShared - 1, world.aliases());
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(next));
    world.finish();
}

TEST(Alias, DuringACapture_AreLeftAloneAndWhatAPrefixLeftGoesAfterwards)
{
    AliasWorld world;
    Gate gate(world);
    world.leave_aliases(world.made);
    world.leave_aliases(world.made); // the same ones: the second found the first's
    EXPECT_EQ(kShared, world.aliases());
    gate.close();
    uint64_t unmaps = world.fake.calls(Slot::kUnmap);
    mbr_range *next = world.reserve_for(world.made);
    EXPECT_EQ(MBR_OK, world.attach(world.made, next, 2));
    EXPECT_EQ(MBR_OK, world.grow(next, 2 * kGranule, kGranule));
    mbr_prefix_end(world.made);
    world.made = nullptr;
    EXPECT_EQ(kShared, world.aliases());
    EXPECT_EQ(unmaps, world.fake.calls(Slot::kUnmap));
    EXPECT_TRUE(world.agree());
    gate.reopen();
    mbr_backing_catch_up(world.backing);
    EXPECT_EQ(0u, world.aliases());
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(next));
    world.finish();
}

TEST(Alias, OnALostDevice_NothingIsCalledAndAllIsRefundedOnce)
{
    AliasWorld world;
    mbr_backing_user user = {world.context, nullptr, nullptr};
    mbr_backing_add_user(world.backing, &user);
    world.leave_aliases(world.made);
    mbr_context_lose(world.context);
    uint64_t calls = world.fake.all_calls();
    mbr_prefix_end(world.made);
    EXPECT_EQ(MBR_OK, world.end(world.source));
    EXPECT_EQ(calls, world.fake.all_calls());
    EXPECT_EQ(kShared * kGranule, world.books().charged_bytes);
    mbr_context_confirm_end(world.context);
    world.fake.forget_all();
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(0u, world.aliases());
    EXPECT_EQ(0u, world.books().charged_bytes);
    EXPECT_EQ(0u, world.books().mapped_bytes);
    mbr_backing_remove_user(world.backing, &user);
}

// Both of an extent's are given up with the prefix; the first is refused, the second goes.
TEST(Alias, UnmapOfOneRefusedAtThePrefixsEnd_TheOtherIsNotForgotten)
{
    AliasWorld world;
    mbr_range *sharers[] = {world.reserve_for(world.made), world.reserve_for(world.made)};
    for (mbr_range *sharer : sharers)
        ASSERT_EQ(MBR_OK, world.attach(world.made, sharer, 1));
    for (mbr_range *sharer : sharers)
        ASSERT_EQ(MBR_OK, world.end(sharer));
    ASSERT_EQ(MBR_OK, world.end(world.source));
    world.source = nullptr;
    ASSERT_EQ(2u, world.aliases());
    uint64_t calls = world.fake.calls(Slot::kUnmap);
    world.fake.faults = {{Slot::kUnmap, calls + 1}, {Slot::kUnmap, calls + 3}}; // twice
    mbr_prefix_end(world.made);
    world.made = nullptr;
    EXPECT_EQ(0u, world.aliases());
    EXPECT_EQ(1u, world.fake.mappings());
    EXPECT_EQ(1u, world.kept().quarantined_count);
    EXPECT_TRUE(world.agree());
    world.fake.faults.clear();
    mbr_backing_trim(world.backing, 0);
    EXPECT_EQ(0u, world.fake.owned());
    EXPECT_TRUE(world.agree());
}

TEST(Alias, OrphanInARangeThatIsEdited_IsLookedForAgain)
{
    AliasWorld world;
    Gate gate(world);
    world.fake.fresh_content = MBR_CONTENT_UNDEFINED;
    world.leave_aliases(world.made);
    mbr_range *next = world.reserve_for(world.made);
    gate.close();
    mbr_prefix_end(world.made);
    world.made = nullptr;
    gate.reopen();
    uint64_t met = 0;
    world.line.during_fill = [&] {
        mbr_backing_catch_up(world.backing);
        met = world.aliases();
    };
    mbr_grow_options options = {};
    options.stream_id = world.stream;
    options.flags = MBR_GROW_ZEROED;
    ASSERT_EQ(MBR_OK, world.grow_with(options, {next, 0, 8 * kGranule, kGranule}));
    EXPECT_EQ(kShared, met); // the range was the growth's
    mbr_backing_trim(world.backing, UINT64_MAX);
    EXPECT_EQ(0u, world.aliases());
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(next));
    world.finish();
}

// The cache has no room for one more range, and nothing may be unmapped: it has one more.
TEST(Alias, RangeThatEndsInACaptureWithAFullCache_IsKeptAndNothingIsStranded)
{
    constexpr int kCachedLimit = 4096;
    AliasWorld world;
    Gate gate(world);
    world.leave_aliases(world.made);
    mbr_range *next = world.reserve_for(world.made);
    std::vector<mbr_range *> fillers;
    for (int i = 0; i < kCachedLimit; i++)
        fillers.push_back(world.reserve(kGranule));
    for (mbr_range *filler : fillers)
        ASSERT_EQ(MBR_OK, world.end(filler));
    ASSERT_EQ(uint64_t{kCachedLimit}, world.kept().cached_range_count);
    gate.close();
    ASSERT_EQ(MBR_OK, world.end(next)); // of no bytes: it ends at once
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_EQ(kShared, world.aliases());
    EXPECT_EQ(uint64_t{kCachedLimit} + 1, world.kept().cached_range_count);
    EXPECT_TRUE(world.agree());
    gate.reopen();
    ASSERT_EQ(MBR_OK, world.end(world.reserve_for(world.made))); // and now it goes
    EXPECT_EQ(0u, world.aliases());
    EXPECT_EQ(uint64_t{kCachedLimit}, world.kept().cached_range_count);
    EXPECT_TRUE(world.agree());
    world.finish();
}

// A heap behind whose pieces a slot would look like a parked alias of an extent that is nowhere.
void *allocate_before_slots(void *context, size_t bytes)
{
    constexpr uint32_t kParkedAlias = 4;
    auto *counts = static_cast<CountingHeap *>(context);
    std::lock_guard<std::mutex> guard(counts->mutex);
    auto *memory = static_cast<uint8_t *>(std::calloc(1, bytes + 512));
    for (size_t at = bytes; at < bytes + 512; at += sizeof(kParkedAlias))
        std::memcpy(memory + at, &kParkedAlias, sizeof(kParkedAlias));
    counts->live.insert(memory);
    return memory;
}

TEST(Alias, HintOfAnotherGrowthRule_NamesNoPlaceOfASmallerRange)
{
    AliasWorld world;
    world.heap.heap.allocate = allocate_before_slots;
    mbr_growth growth = {2 * kGranule, 2 * kGranule, 0};
    mbr_range *coarse = world.reserve(2 * kGranule, growth);
    ASSERT_EQ(MBR_OK, world.grow(coarse, 0, 2 * kGranule));
    mbr_prefix *of_coarse = world.make_prefix(coarse, 0, 2 * kGranule);
    mbr_prefix *of_second = world.make_prefix(world.source, kGranule, kGranule);
    auto reserve_by = [&](mbr_prefix *one) {
        mbr_range_options options = {};
        options.context = world.context;
        options.bytes = 2 * kGranule;
        options.growth = growth;
        options.alias = mbr_prefix_hint(one, 0);
        mbr_range *range = nullptr;
        EXPECT_EQ(MBR_OK, mbr_backing_reserve(world.backing, &options, &range, nullptr));
        return range;
    };
    mbr_range *sharer = reserve_by(of_coarse);
    uint64_t address = mbr_range_address(sharer);
    ASSERT_EQ(MBR_OK, world.attach(of_coarse, sharer));
    ASSERT_EQ(MBR_OK, world.end(sharer));
    ASSERT_EQ(1u, world.aliases());
    mbr_range *other = reserve_by(of_second);
    EXPECT_NE(address, mbr_range_address(other));
    EXPECT_EQ(MBR_OK, world.end(other));
    mbr_prefix_end(of_coarse);
    mbr_prefix_end(of_second);
    EXPECT_EQ(MBR_OK, world.end(coarse));
    world.finish();
}

} // namespace
} // namespace membrane
