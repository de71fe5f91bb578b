// Where two things meet in one range: decommits that overlap, a life after an end that waited,
// fills under an undo, extents kept twice, users of a quarantined or a lost extent; and a plugin
// that lies.
#include "tests/unit/backing/world.h"

namespace membrane
{
namespace
{

const mbr_growth kPlain = {kGranule, kGranule, 0};

mbr_status give_back(World &world, mbr_range *range, uint64_t from, uint64_t count, bool now,
    uint64_t *decommitted = nullptr)
{
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    mbr_status status = mbr_range_give_back(range, from * kGranule, count * kGranule, now,
        &world.stream, now ? 0 : 1, &result, nullptr);
    if (decommitted != nullptr)
        *decommitted = result.decommitted_bytes / kGranule;
    return status;
}

void settle(World &world)
{
    mbr_context_reap(world.context, true);
    world.line.reach_all();
    while (mbr_context_reap(world.context, true) != 0)
        ;
}

mbr_prefix *keep(World &world, std::vector<mbr_range_part> parts, mbr_holder *holder)
{
    mbr_prefix_result result = {};
    result.struct_size = sizeof(result);
    mbr_prefix *prefix = nullptr;
    EXPECT_EQ(MBR_OK,
        mbr_backing_make_prefix(world.backing, parts.data(), static_cast<uint32_t>(parts.size()),
            holder, &prefix, &result, nullptr));
    return prefix;
}

mbr_status attach(World &world, mbr_prefix *prefix, std::vector<mbr_range *> targets)
{
    mbr_prefix_attach_result result = {};
    result.struct_size = sizeof(result);
    return mbr_prefix_map_into(prefix, targets.data(), static_cast<uint32_t>(targets.size()),
        nullptr, world.kv, &result, nullptr);
}

TEST(Decommit, OverAPartThatWaits_TouchesNothingOfIt)
{
    World world;
    world.line.automatic = false;
    mbr_range *range = world.reserve(16 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 8 * kGranule));
    ASSERT_EQ(MBR_OK, give_back(world, range, 2, 2, false));
    uint64_t decommitted;
    ASSERT_EQ(MBR_OK, give_back(world, range, 0, 8, true, &decommitted));
    EXPECT_EQ(6u, decommitted);
    EXPECT_EQ(2u, world.fake.mappings()); /* I11: their line is not reached */
    settle(world);
    EXPECT_EQ(0u, world.fake.mappings());
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Release, EndThatWaited_IsForgottenInTheNextLife)
{
    World world;
    world.line.automatic = false;
    mbr_range *range = world.reserve(16 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    ASSERT_EQ(MBR_OK, give_back(world, range, 0, 2, false));
    ASSERT_EQ(MBR_OK, world.end(range));
    settle(world);
    ASSERT_EQ(range, world.reserve(16 * kGranule)); /* from the cache */
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    ASSERT_EQ(MBR_OK, give_back(world, range, 0, 1, true));
    EXPECT_EQ(1u, world.kept().range_count); /* still the caller's */
    EXPECT_EQ(3 * kGranule, world.figures(range).committed_bytes);
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(range));
}

mbr_status grow_zeroed(World &world, mbr_range *range, uint64_t granules, mbr_status publish)
{
    static mbr_status answer;
    answer = publish;
    mbr_grow_options options = {};
    options.stream_id = world.stream;
    options.flags = MBR_GROW_ZEROED;
    options.publish = [](void *) -> mbr_status { return answer; };
    return world.grow_with(options, {range, 0, 0, granules * kGranule});
}

mbr_range *reserve_for(World &world, mbr_context *context, uint32_t group)
{
    mbr_range_options options = {};
    options.context = context;
    options.bytes = 16 * kGranule;
    options.growth = kPlain;
    options.isolation_group = group;
    mbr_range *range = nullptr;
    EXPECT_EQ(MBR_OK, mbr_backing_reserve(world.backing, &options, &range, nullptr));
    return range;
}

mbr_status grow_on(World &world, mbr_range *range, uint64_t stream, mbr_range_grow_result *result,
    mbr_status (*publish)(void *context) = nullptr)
{
    mbr_grow_options options = {};
    options.stream_id = stream;
    options.publish = publish;
    options.publish_context = world.context;
    result->struct_size = sizeof(*result);
    return world.grow_with(options, {range, 0, 0, 4 * kGranule}, result);
}

/* Four parked extents in the way of a zeroed growth of another shape: pooled ones to fill. */
mbr_range *with_stale_cache(World &world)
{
    mbr_range *former = world.reserve(8 * kGranule);
    EXPECT_EQ(MBR_OK, world.grow(former, 0, 4 * kGranule));
    EXPECT_EQ(MBR_OK, world.end(former));
    world.line.automatic = false;
    return world.reserve(16 * kGranule);
}

TEST(Grow, RefusedAfterFills_WaitsForThemBeforeItUnmaps)
{
    World world;
    mbr_range *range = with_stale_cache(world);
    world.line.works_while_waited = true;
    uint64_t filled = 0;
    world.line.on_fill = [&](const ManualLine::Fill &fill) {
        filled++;
        EXPECT_NE(0u, world.fake.extent_at(fill.address)); /* I11 */
    };
    EXPECT_EQ(MBR_NOT_READY, grow_zeroed(world, range, 4, MBR_NOT_READY));
    EXPECT_EQ(4u, filled);
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Grow, FillsThatNobodySeesDone_KeepTheirExtentsUntilTheyAre)
{
    for (bool ends_first : {false, true}) {
        World world;
        mbr_range *range = with_stale_cache(world);
        EXPECT_EQ(MBR_RESIDUAL, grow_zeroed(world, range, 4, MBR_NOT_READY)); /* it times out */
        EXPECT_EQ(4 * kGranule, world.books().quarantined_bytes);
        if (ends_first) {
            EXPECT_EQ(MBR_OK, world.end(range));
        }
        uint64_t unmaps = world.fake.calls(Slot::kUnmap);
        mbr_backing_trim(world.backing, UINT64_MAX);
        EXPECT_EQ(unmaps, world.fake.calls(Slot::kUnmap)) << "nobody has seen them done";
        EXPECT_EQ(MBR_IN_USE, mbr_context_destroy(world.context, nullptr)) << "it is asked again";
        EXPECT_TRUE(world.agree());
        world.line.works_while_waited = true;
        uint64_t signals = world.line.signalled;
        mbr_backing_trim(world.backing, UINT64_MAX);
        EXPECT_EQ(signals + 1, world.line.signalled) << "once for all of the range";
        EXPECT_EQ(unmaps + 4, world.fake.calls(Slot::kUnmap));
        EXPECT_EQ(0u, world.books().quarantined_bytes);
        EXPECT_EQ(0u, world.charged(world.kv));
        EXPECT_TRUE(world.agree());
        if (!ends_first) {
            EXPECT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule)) << "the places are in use again";
            EXPECT_EQ(MBR_OK, world.end(range));
        }
    }
}

TEST(Grow, FillsOnAStreamThatIsDetached_KeepTheirExtentsForGood)
{
    World world;
    world.leaks = true;
    mbr_range *range = with_stale_cache(world);
    EXPECT_EQ(MBR_RESIDUAL, grow_zeroed(world, range, 4, MBR_NOT_READY));
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, world.stream, nullptr));
    mbr_backing_trim(world.backing, UINT64_MAX);
    EXPECT_EQ(4u, world.fake.mappings());
    EXPECT_EQ(4 * kGranule, world.books().quarantined_bytes);
    EXPECT_TRUE(world.agree());
    mbr_native native = {MBR_NATIVE_STREAM_CPU, 0, 1}; /* for the world's end */
    EXPECT_EQ(MBR_OK, mbr_context_attach_stream(world.context, native, &world.stream, nullptr));
} /* what is leaked does not keep the context */

/* A range of group 1 whose fills, of what group 0 had, went along with the world's EP. */
mbr_range *lose_while_it_grows(World &world)
{
    mbr_range_grow_result result = {};
    EXPECT_EQ(MBR_OK, world.end(with_stale_cache(world)));
    mbr_range *lost = reserve_for(world, world.context, 1);
    EXPECT_EQ(MBR_RESIDUAL, grow_on(world, lost, world.stream, &result, [](void *context) {
        mbr_context_lose(static_cast<mbr_context *>(context));
        return static_cast<mbr_status>(MBR_NOT_READY);
    }));
    return lost;
}

/* What another EP lost before it was done was another group's all the time (I21). */
TEST(Grow, FillsThatALossTookAlong_AreDoneAgainForTheNext)
{
    World world;
    mbr_range *lost = lose_while_it_grows(world);
    EXPECT_EQ(4u, world.line.fill_count);
    mbr_backing_trim(world.backing, UINT64_MAX);
    EXPECT_EQ(4 * kGranule, world.kept().pooled_bytes);
    SecondContext second(world);
    mbr_range *next = reserve_for(world, second.context, 1);
    mbr_range_grow_result result = {};
    EXPECT_EQ(MBR_OK, grow_on(world, next, second.stream, &result));
    EXPECT_EQ(4 * kGranule, result.pooled_bytes);
    EXPECT_EQ(4u, second.line.fill_count);
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(next));
    EXPECT_EQ(MBR_OK, world.end(lost));
}

TEST(Grow, FillsThatALossTookAlong_LetTheirContextGoWhileAnotherLives)
{
    World world;
    mbr_range *lost = lose_while_it_grows(world);
    EXPECT_EQ(MBR_OK, world.end(lost));
    mbr_ep_figures figures = {};
    figures.struct_size = sizeof(figures);
    mbr_context_read(world.context, &figures);
    EXPECT_EQ(1u, figures.pin_count);
    mbr_backing_confirm_lost(world.backing, world.context);
    mbr_context_read(world.context, &figures);
    EXPECT_EQ(0u, figures.pin_count);
    mbr_backing_trim(world.backing, 0);
    EXPECT_EQ(0u, world.fake.owned());
    EXPECT_TRUE(world.agree());
}

void confirm(Used &world)
{
    mbr_context_confirm_end(world.context);
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_EQ(0u, world.books().charged_bytes);
    EXPECT_EQ(0u, world.books().mapped_bytes);
    world.fake.forget_all();
}

/* No call is made for a device that is lost, and none is missing in the books afterwards (I12). */
TEST(Loss, BeforeAGrowthIsUndone_NothingOfItIsUnmappedAndItGoesWithTheConfirmedEnd)
{
    Used world;
    mbr_range *range = world.reserve(8 * kGranule);
    mbr_grow_options options = {};
    options.publish_context = world.context;
    options.publish = [](void *context) -> mbr_status {
        mbr_context_lose(static_cast<mbr_context *>(context));
        return MBR_NOT_READY;
    };
    EXPECT_EQ(MBR_RESIDUAL, world.grow_with(options, {range, 0, 0, 2 * kGranule}));
    EXPECT_EQ(0u, world.fake.calls(Slot::kUnmap));
    EXPECT_EQ(2 * kGranule, world.books().quarantined_bytes);
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(range));
    confirm(world);
}

TEST(Loss, BeforeAGrowthMovesWhatIsParked_LeavesItInTheCache)
{
    Used world;
    mbr_range *former = world.reserve(16 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(former, 0, 2 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(former));
    mbr_range *range = world.reserve(8 * kGranule);
    mbr_growth_watch watch = {kGranule,
        [](void *context, uint64_t from, uint64_t, bool *) -> mbr_status {
            if (from == 0)
                mbr_context_lose(static_cast<mbr_context *>(context));
            return MBR_OK;
        },
        world.context};
    mbr_grow_options options = {};
    options.stream_id = world.stream;
    options.watch = &watch;
    EXPECT_EQ(MBR_RESIDUAL, world.grow_with(options, {range, 0, 0, 2 * kGranule}));
    EXPECT_EQ(1u, world.fake.calls(Slot::kUnmap)) << "of what moved before";
    EXPECT_EQ(kGranule, world.kept().parked_bytes);
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(range));
    confirm(world);
}

TEST(Grow, PublishRefusesForMemory_IsNotTheDevicesWord)
{
    World world;
    mbr_range *range = world.reserve(16 * kGranule);
    uint64_t limit = world.books().limit_bytes;
    EXPECT_EQ(MBR_OUT_OF_MEMORY, grow_zeroed(world, range, 4, MBR_OUT_OF_MEMORY));
    EXPECT_EQ(limit, world.books().limit_bytes);
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Grow, CacheInARangeThatItTakesFrom_IsGivenUpToo)
{
    World world(16 * kGranule);
    mbr_range *mixed = world.reserve(64 * kGranule, {kGranule, 4 * kGranule, 1});
    ASSERT_EQ(MBR_OK, world.grow(mixed, 0, 16 * kGranule)); /* extents of 1, 1, 2, 4, 4, 4 */
    ASSERT_EQ(MBR_OK, world.end(mixed));
    mbr_range *range = world.reserve(32 * kGranule);
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 16 * kGranule));
    EXPECT_EQ(0u, world.cached());
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Prefix, KeepsOneExtentTwice_BothPlacesAreMapped)
{
    World world;
    mbr_range *source = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, 2 * kGranule));
    mbr_range_part part = {source, 0, 0, 2 * kGranule};
    mbr_prefix *prefix = keep(world, {part, part}, world.prefix);
    ASSERT_EQ(MBR_OK, world.end(source)); /* held by the prefix alone */
    mbr_range *one = world.reserve(8 * kGranule), *other = world.reserve(8 * kGranule);
    EXPECT_EQ(MBR_OK, attach(world, prefix, {one, other}));
    EXPECT_EQ(4u, world.fake.mappings());
    EXPECT_TRUE(world.agree());
    mbr_prefix_end(prefix);
    EXPECT_EQ(MBR_OK, world.end(one));
    EXPECT_EQ(MBR_OK, world.end(other));
    EXPECT_TRUE(world.agree());
}

TEST(Prefix, QuarantinedAtOnePlace_OtherUsersEndAndNobodyComesNew)
{
    World world; /* whose end tries the place once more */
    mbr_range *source = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, kGranule));
    mbr_prefix *prefix = keep(world, {{source, 0, 0, kGranule}}, world.prefix);
    mbr_range *first = world.reserve(8 * kGranule), *second = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, attach(world, prefix, {first}));
    world.fake.faults.push_back({Slot::kUnmap, world.fake.calls(Slot::kUnmap) + 1});
    ASSERT_EQ(MBR_OK, world.end(source)); /* its place is stuck */
    world.fake.faults.clear();
    EXPECT_EQ(MBR_BUSY, attach(world, prefix, {second}));
    EXPECT_EQ(MBR_OK, world.end(first));
    world.fake.faults.push_back({Slot::kUnmap, world.fake.calls(Slot::kUnmap) + 1});
    mbr_prefix_end(prefix); /* tried again, and refused */
    EXPECT_EQ(MBR_OK, world.end(second));
    EXPECT_EQ(kGranule, world.charged(world.prefix)); /* marked on whoever paid then */
    EXPECT_EQ(kGranule, world.books().quarantined_bytes);
    EXPECT_TRUE(world.agree());
}

TEST(Loss, SharedExtent_IsRetainedOnceAndRefundedOnce)
{
    for (bool prefix_first : {true, false}) {
        World world;
        world.line.automatic = false;
        mbr_range *source = world.reserve(8 * kGranule);
        ASSERT_EQ(MBR_OK, world.grow(source, 0, kGranule));
        mbr_prefix *prefix = keep(world, {{source, 0, 0, kGranule}}, world.kv);
        mbr_range *sharer = world.reserve(8 * kGranule);
        ASSERT_EQ(MBR_OK, attach(world, prefix, {sharer}));
        ASSERT_EQ(MBR_OK, world.end(source, false));
        ASSERT_EQ(MBR_OK, world.end(sharer, false));
        uint64_t calls = world.fake.all_calls();
        if (prefix_first)
            mbr_prefix_end(prefix);
        mbr_context_lose(world.context);
        if (!prefix_first) {
            EXPECT_EQ(0u, world.kept().retained_bytes); /* the prefix has it */
            mbr_prefix_end(prefix);
        }
        EXPECT_EQ(kGranule, world.kept().retained_bytes);
        EXPECT_EQ(kGranule, world.books().retained_bytes);
        EXPECT_EQ(kGranule, world.charged(world.kv));
        mbr_backing_confirm_lost(world.backing, world.context);
        EXPECT_EQ(calls, world.fake.all_calls()); /* I12 */
        EXPECT_EQ(0u, world.books().retained_bytes);
        EXPECT_EQ(0u, world.books().charged_bytes);
        EXPECT_EQ(0u, world.books().mapped_bytes);
        world.fake.forget_all();
    }
}

TEST(Loss, ExtentWithAUserThatHasNotEnded_IsNotYetRetained)
{
    World world;
    world.line.automatic = false;
    mbr_range *source = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, kGranule));
    mbr_prefix *prefix = keep(world, {{source, 0, 0, kGranule}}, world.kv);
    mbr_range *sharer = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, attach(world, prefix, {sharer}));
    mbr_prefix_end(prefix);
    ASSERT_EQ(MBR_OK, world.end(source, false));
    mbr_context_lose(world.context);
    EXPECT_EQ(0u, world.kept().retained_bytes);
    ASSERT_EQ(MBR_OK, world.end(sharer, false));
    EXPECT_EQ(kGranule, world.kept().retained_bytes);
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(0u, world.books().charged_bytes);
    world.fake.forget_all();
}

/* One place of it is found lost as it is unmapped, the other is lost with its range. */
TEST(Loss, SharedExtentStuckInOneRange_IsForgottenInBothWithTheConfirmation)
{
    Used world;
    mbr_range *source = world.reserve(8 * kGranule), *sharer = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, kGranule));
    mbr_prefix *prefix = keep(world, {{source, 0, 0, kGranule}}, world.kv);
    ASSERT_EQ(MBR_OK, attach(world, prefix, {sharer}));
    ASSERT_EQ(MBR_OK, world.grow(sharer, kGranule, kGranule));
    mbr_prefix_end(prefix);
    world.fake.faults = {{Slot::kUnmap, 1, FaultKind::kRefuse, MBR_DEVICE_LOST}};
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK, mbr_range_give_back(sharer, 0, kGranule, true, nullptr, 0, &result, nullptr));
    mbr_context_lose(world.context);
    EXPECT_EQ(MBR_OK, world.end(source));
    EXPECT_EQ(MBR_OK, world.end(sharer));
    EXPECT_EQ(1u, world.kept().quarantined_count);
    confirm(world);
    EXPECT_EQ(nullptr, world.addresses.root);
}

/* ---- A plugin that lies (rules 5 and 24) */

TEST(PortLies, EveryPairThatTheContractForbids_IsWithheldAndCharged)
{
    for (FaultKind kind : {FaultKind::kIllegalPair, FaultKind::kQuarantine}) {
        World world;
        world.leaks = true;
        mbr_range *range = world.reserve(8 * kGranule);
        world.fake.faults.push_back({Slot::kCreate, 2, kind, MBR_OUT_OF_MAPPINGS});
        EXPECT_EQ(MBR_RESIDUAL, world.grow(range, 0, 2 * kGranule));
        EXPECT_EQ(kGranule, world.charged(world.kv)); /* I5 */
        EXPECT_EQ(kGranule, world.books().quarantined_bytes);
        EXPECT_TRUE(world.agree());
        EXPECT_EQ(MBR_OK, world.end(range));
    }
}

TEST(PortLies, OwnsMoreOrLessThanAsked_TheBooksFollowThroughEveryReuse)
{
    for (int64_t skew : {INT64_C(4096), INT64_C(-1024)}) {
        World world;
        world.fake.owned_skew = skew;
        for (uint64_t shape : {8, 8, 16, 8}) { /* made, adopted in place, stolen, from the pool */
            mbr_range *range = world.reserve(shape * kGranule);
            ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
            EXPECT_EQ(4 * (kGranule + static_cast<uint64_t>(skew)), world.charged(world.kv));
            EXPECT_EQ(MBR_NOT_READY, grow_zeroed(world, range, 6, MBR_NOT_READY));
            EXPECT_TRUE(world.agree());
            EXPECT_EQ(MBR_OK, world.end(range));
            EXPECT_EQ(0u, world.charged(world.kv)) << skew;
            EXPECT_TRUE(world.agree());
        }
    }
}

TEST(PortLies, OwnsMoreOrLessThanAsked_ASpanSaysWhatTheCachePays)
{
    for (int64_t skew : {INT64_C(4096), INT64_C(-1024)}) {
        World world;
        world.fake.owned_skew = skew;
        mbr_span span;
        ASSERT_EQ(MBR_OK,
            mbr_backing_take_span(
                world.backing, world.context, 0, 0, kGranule, 0, &span, nullptr, nullptr));
        EXPECT_EQ(kGranule + static_cast<uint64_t>(skew), span.owned_bytes);
        EXPECT_EQ(span.owned_bytes, world.fake.owned());
        EXPECT_EQ(span.owned_bytes, world.kept().span_bytes);
        EXPECT_TRUE(world.agree());
        mbr_backing_give_span(world.backing, &span);
        EXPECT_TRUE(world.agree());
    }
}

TEST(PortLies, OwnsNothingOrMoreThanThereIs_IsClampedAndCounted)
{
    for (uint64_t lie : {UINT64_C(0), UINT64_MAX}) {
        World world;
        world.fake.owned_lie = lie;
        mbr_range *range = world.reserve(8 * kGranule);
        ASSERT_EQ(MBR_OK, world.grow(range, 0, 2 * kGranule));
        EXPECT_EQ(2 * kGranule, world.charged(world.kv));
        mbr_port_figures figures;
        mbr_port_read(world.port, &figures);
        EXPECT_EQ(2u, figures.violation_count);
        EXPECT_TRUE(world.agree());
        EXPECT_EQ(MBR_OK, world.end(range));
    }
}

TEST(PortIds, OfEveryClass_RiseAndAreNeverUsedAgain)
{
    World world;
    uint64_t last = 0;
    for (int round = 0; round < 3; round++) {
        mbr_range *range = world.reserve((8 + static_cast<uint64_t>(round)) * kGranule, kPlain);
        ASSERT_EQ(MBR_OK, world.grow(range, 0, 2 * kGranule));
        uint64_t id = world.fake.extent_at(mbr_range_address(range));
        EXPECT_GT(id, last); /* the former one was destroyed */
        last = id;
        EXPECT_EQ(MBR_OK, world.end(range));
        mbr_backing_evict(world.backing, UINT64_MAX);
    }
}

} // namespace
} // namespace membrane
