// Growths that fail in a capture, or meet its beginning: what they made is kept, and given back at
// its end.
#include "tests/unit/backing/capture_world.h"

namespace membrane
{
namespace
{

// Begins a capture while a growth is inside the slot, once.
struct Begins {
    static inline CaptureWorld *world;
    static inline decltype(mbr_virtual_vtable::extent_create) create;
    static mbr_status slot(mbr_instance *instance, const mbr_extent_create_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        if (world != nullptr)
            world->begin();
        world = nullptr;
        return create(instance, request, outcome, error);
    }
};

TEST(Capture, BegunSinceAGrowthHasPlanned_NothingIsMovedAndItWorksAsEver)
{
    CaptureWorld world;
    mbr_range *former = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(former, 0, 2 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(former));
    mbr_range *wide = world.reserve(16 * kGranule, {2 * kGranule, 2 * kGranule, 0});
    mbr_range *range = world.reserve(16 * kGranule);
    Begins::create = world.mechanism()->virtual_.extent_create;
    Begins::world = &world;
    world.mechanism()->virtual_.extent_create = Begins::slot;
    mbr_range_part parts[] = {{wide, 0, 0, 2 * kGranule}, {range, 0, 0, 2 * kGranule}};
    mbr_grow_options options = {};
    options.holder = world.kv;
    options.parts = parts;
    options.part_count = 2;
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    EXPECT_EQ(MBR_OK, mbr_backing_grow(world.backing, &options, &result, nullptr));
    EXPECT_EQ(nullptr, Begins::world);
    EXPECT_EQ(4 * kGranule, world.charged(world.kv));
    EXPECT_EQ(2 * kGranule, world.kept().parked_bytes) << "where they were";
    EXPECT_TRUE(world.agree());
    world.end_capture();
    world.retire();
    EXPECT_EQ(MBR_OK, world.end(wide));
    EXPECT_EQ(MBR_OK, world.end(range));
}

// The cache of another device, which has no capture open, gives what it is asked for.
struct OtherCache {
    mbr_holder *holder = nullptr;
    uint64_t bytes;

    OtherCache(mbr_authority *authority, uint64_t has_bytes) : bytes(has_bytes)
    {
        mbr_holder_options options = {};
        options.name = "other";
        options.role = MBR_ROLE_CACHE;
        options.allowance_bytes = MBR_NO_ALLOWANCE;
        options.pressed = {[](void *self, const mbr_pressure *) -> uint64_t {
                               return static_cast<OtherCache *>(self)->bytes;
                           },
            [](void *self, const mbr_pressure *, uint64_t wanted) {
                auto *cache = static_cast<OtherCache *>(self);
                mbr_refund(cache->holder, wanted);
                cache->bytes -= wanted;
            },
            this};
        EXPECT_EQ(MBR_OK, mbr_holder_create(authority, &options, &holder, nullptr));
        EXPECT_EQ(MBR_OK, mbr_grant(holder, bytes, nullptr));
        mbr_charge(holder, bytes);
    }
    ~OtherCache()
    {
        mbr_refund(holder, bytes);
        EXPECT_EQ(MBR_OK, mbr_holder_destroy(holder, nullptr));
    }
};

// What its own cache keeps cannot go meanwhile, and is not counted on.
TEST(Capture, GrowthThatNeedsRoom_HasItFromCachesOfOtherDevices)
{
    CaptureWorld world(UINT64_MAX, 10 * kGranule);
    OtherCache other(world.authority, 6 * kGranule);
    mbr_range *former = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(former, 0, 4 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(former));
    mbr_range *wide = world.reserve(16 * kGranule, {2 * kGranule, 2 * kGranule, 0});
    world.begin();
    EXPECT_EQ(MBR_OK, world.grow(wide, 0, 6 * kGranule));
    EXPECT_EQ(0u, other.bytes);
    EXPECT_EQ(4 * kGranule, world.cached());
    world.end_capture();
    world.retire();
    EXPECT_EQ(MBR_OK, world.end(wide));
}

// What stands already cannot be taken back meanwhile.
TEST(Capture, BegunByWhoWatchesAGrowthThatMoves_LeavesAResidualUntilItEnds)
{
    CaptureWorld world;
    mbr_range *former = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(former, 0, 2 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(former));
    mbr_range *range = world.reserve(16 * kGranule);
    mbr_growth_watch watch = {kGranule,
        [](void *context, uint64_t from, uint64_t, bool *) -> mbr_status {
            if (from == 0)
                static_cast<CaptureWorld *>(context)->begin();
            return MBR_OK;
        },
        &world};
    mbr_grow_options options = {};
    options.stream_id = world.stream;
    options.watch = &watch;
    EXPECT_EQ(MBR_RESIDUAL, world.grow_with(options, {range, 0, 0, 2 * kGranule}));
    EXPECT_EQ(kGranule, world.books().quarantined_bytes);
    EXPECT_EQ(kGranule, world.kept().parked_bytes);
    EXPECT_EQ(0u, world.figures(range).committed_bytes);
    EXPECT_TRUE(world.agree());
    world.end_capture();
    EXPECT_EQ(0u, world.books().quarantined_bytes);
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
    world.retire();
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Capture, GrowthThatFails_DestroysNothingOfWhatItMade)
{
    CaptureWorld world;
    mbr_range *range = world.reserve(64 * kGranule);
    world.begin();
    world.fake.faults.push_back({Slot::kCreate, 3});
    EXPECT_EQ(MBR_OUT_OF_MEMORY, world.grow(range, 0, 4 * kGranule));
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_EQ(2 * kGranule, world.kept().pooled_bytes);
    EXPECT_TRUE(world.agree());
    world.fake.faults.clear();
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 2 * kGranule)); // from there
    EXPECT_EQ(2u, world.fake.extents());
    world.end_capture();
    world.retire();
    EXPECT_EQ(MBR_OK, world.end(range));
}

// A fill on a stream that is not captured goes on meanwhile, and may not be waited for. The end of
// the capture looks once, and a trim as often as it is called.
void FailFilled(bool is_done_at_the_end)
{
    CaptureWorld world;
    world.line.automatic = is_done_at_the_end;
    mbr_native native = {MBR_NATIVE_STREAM_CPU, 0, 2};
    uint64_t other = 0;
    ASSERT_EQ(MBR_OK, mbr_context_attach_stream(world.context, native, &other, nullptr));
    mbr_range *range = world.reserve(64 * kGranule);
    world.begin();
    mbr_grow_options options = {};
    options.stream_id = other;
    options.flags = MBR_GROW_ZEROED;
    options.publish = [](void *) -> mbr_status { return MBR_NOT_READY; };
    world.fake.fresh_content = MBR_CONTENT_UNDEFINED;
    EXPECT_EQ(MBR_RESIDUAL, world.grow_with(options, {range, 0, 0, 2 * kGranule}));
    EXPECT_EQ(2u, world.line.fill_count);
    EXPECT_EQ(2 * kGranule, world.books().quarantined_bytes);
    world.end_capture(); /* the line reaches what it signals, or not yet */
    EXPECT_EQ(is_done_at_the_end ? 0 : 2 * kGranule, world.books().quarantined_bytes);
    world.line.automatic = true;
    mbr_backing_trim(world.backing, UINT64_MAX);
    EXPECT_EQ(0u, world.books().quarantined_bytes);
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
    world.retire();
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, other, nullptr));
}

TEST(Capture, GrowthThatFailsFilled_IsQuarantinedUntilTheFillIsSeenDone)
{
    for (bool is_done_at_the_end : {true, false})
        FailFilled(is_done_at_the_end);
}

TEST(Capture, GrowthThatFailsMapped_IsQuarantinedUntilTheCaptureEnds)
{
    CaptureWorld world;
    mbr_range *range = world.reserve(64 * kGranule);
    world.begin();
    world.fake.faults.push_back({Slot::kProtect, 1});
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    EXPECT_EQ(MBR_RESIDUAL, world.grow(range, 0, 2 * kGranule, &result));
    EXPECT_EQ(2 * kGranule, result.residual_bytes);
    EXPECT_EQ(2 * kGranule, world.books().quarantined_bytes);
    EXPECT_EQ(2u, world.kept().quarantined_count);
    EXPECT_EQ(MBR_BUSY, world.grow(range, 0, 2 * kGranule));
    EXPECT_TRUE(world.agree());
    uint64_t violations = world.books().violation_count;
    world.end_capture();
    EXPECT_EQ(0u, world.books().quarantined_bytes);
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_EQ(violations, world.books().violation_count);  // nobody broke a rule
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 2 * kGranule)); // the places are in use again
    EXPECT_TRUE(world.agree());
    world.retire();
    EXPECT_EQ(MBR_OK, world.end(range));
}

} // namespace
} // namespace membrane
