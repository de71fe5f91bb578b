// Parts of a range that are on their way back, behind a stream, and that new work on this stream
// takes again: they stay where they are, and nothing is called.
#include "tests/unit/backing/world.h"

namespace membrane
{
namespace
{

class Rejoin : public World
{
  public:
    Rejoin()
    {
        line.automatic = false;
        mbr_native native = {MBR_NATIVE_STREAM_CPU, 0, 2};
        EXPECT_EQ(MBR_OK, mbr_context_attach_stream(context, native, &other, nullptr));
        range = reserve(64 * kGranule);
        EXPECT_EQ(MBR_OK, grow(range, 0, 8 * kGranule));
    }
    ~Rejoin()
    {
        Reach();
        EXPECT_EQ(MBR_OK, end(range));
        Reach();
        EXPECT_TRUE(agree());
        EXPECT_EQ(0u, charged(kv));
        EXPECT_EQ(MBR_OK, mbr_context_detach_stream(context, other, nullptr));
    }
    void Reach()
    {
        mbr_context_reap(context, true);
        line.reach_all();
        while (mbr_context_reap(context, true) != 0)
            ;
    }
    // [first, end) granules go back behind the streams.
    void Leave(uint64_t first, uint64_t end_granules, std::vector<uint64_t> streams)
    {
        mbr_range_decommit_result result = {};
        result.struct_size = sizeof(result);
        EXPECT_EQ(MBR_OK,
            mbr_range_give_back(range, first * kGranule, (end_granules - first) * kGranule, false,
                streams.data(), static_cast<uint32_t>(streams.size()), &result, nullptr));
        EXPECT_EQ((end_granules - first) * kGranule, result.decommitted_bytes);
    }
    void LeaveNow(uint64_t first, uint64_t end_granules)
    {
        mbr_range_decommit_result result = {};
        result.struct_size = sizeof(result);
        EXPECT_EQ(MBR_OK,
            mbr_range_give_back(range, first * kGranule, (end_granules - first) * kGranule, true,
                nullptr, 0, &result, nullptr));
        EXPECT_EQ((end_granules - first) * kGranule, result.decommitted_bytes);
    }
    mbr_status Grow(uint64_t end_granules, uint64_t stream_id, mbr_holder *holder = nullptr,
        uint32_t flags = 0, mbr_status (*publish)(void *) = nullptr)
    {
        mbr_grow_options options = {};
        options.holder = holder;
        options.stream_id = stream_id;
        options.flags = flags;
        options.publish = publish;
        result = {};
        result.struct_size = sizeof(result);
        return grow_with(options, {range, 0, 0, end_granules * kGranule}, &result);
    }

    uint64_t other = 0;
    mbr_range *range = nullptr;
    mbr_range_grow_result result = {};
};

TEST(Rejoin, OnTheStreamThatItWaitsFor_StaysWithoutACall)
{
    Rejoin world;
    world.Leave(4, 8, {world.stream});
    EXPECT_FALSE(mbr_range_is_committed_to(world.range, 8 * kGranule));
    uint64_t calls = world.fake.all_calls();
    ASSERT_EQ(MBR_OK, world.Grow(8, world.stream));
    EXPECT_EQ(calls, world.fake.all_calls());
    EXPECT_EQ(4 * kGranule, world.result.parked_bytes);
    EXPECT_EQ(4 * kGranule, world.result.new_bytes);
    EXPECT_EQ(uint32_t{MBR_CONTENT_STALE}, world.result.content);
    EXPECT_TRUE(mbr_range_is_committed_to(world.range, 8 * kGranule));
    EXPECT_EQ(8 * kGranule, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
    world.Reach(); // the decommit is settled, and takes nothing
    EXPECT_EQ(calls, world.fake.all_calls());
    EXPECT_EQ(8 * kGranule, world.figures(world.range).committed_bytes);
    EXPECT_TRUE(world.agree());
}

TEST(Rejoin, APartOfWhatLeaves_TheRestGoes)
{
    Rejoin world;
    world.Leave(2, 4, {world.stream});
    world.Leave(4, 8, {world.stream});
    ASSERT_EQ(MBR_OK, world.Grow(5, world.stream));
    EXPECT_EQ(3 * kGranule, world.result.parked_bytes);
    EXPECT_TRUE(world.agree());
    world.Reach();
    EXPECT_EQ(5 * kGranule, world.charged(world.kv));
    EXPECT_EQ(5 * kGranule, world.figures(world.range).committed_bytes);
    world.Leave(3, 5, {world.stream}); // what stayed may leave again
    world.Reach();
    EXPECT_EQ(3 * kGranule, world.charged(world.kv));
}

TEST(Rejoin, BesideWhatIsNew_IsOneGrowth)
{
    Rejoin world;
    world.Leave(4, 8, {world.stream});
    ASSERT_EQ(MBR_OK, world.Grow(12, world.stream, nullptr, MBR_GROW_ZEROED));
    EXPECT_EQ(4 * kGranule, world.result.parked_bytes);
    EXPECT_EQ(8 * kGranule, world.result.new_bytes);
    EXPECT_EQ(uint32_t{MBR_CONTENT_ZERO}, world.result.content);
    EXPECT_LE(4u, world.line.fill_count) << "filled on the stream, behind what still runs";
    EXPECT_EQ(12 * kGranule, world.charged(world.kv));
}

// What waits for others, or is another holder's, or for work that names no stream, is on its way.
TEST(Rejoin, ForOtherWork_IsBusyAsBefore)
{
    Rejoin world;
    world.Leave(4, 6, {world.stream, world.other});
    EXPECT_EQ(MBR_OK, world.Grow(4, world.stream));
    EXPECT_EQ(MBR_BUSY, world.Grow(8, 0));
    EXPECT_EQ(MBR_BUSY, world.Grow(8, world.stream)) << "the other stream is not done";
    EXPECT_EQ(MBR_BUSY, world.Grow(8, world.other));
    world.Reach();
    ASSERT_EQ(MBR_OK, world.Grow(8, world.stream));
    world.Leave(4, 8, {world.stream});
    EXPECT_EQ(MBR_BUSY, world.Grow(8, world.stream, world.prefix));
    EXPECT_TRUE(world.agree());
}

// Whoever gives back at once what was kept from a decommit proves that his own work is done; what
// the decommit waits for still runs.
TEST(Rejoin, GivenBackNow_GoesWithTheDecommitBefore)
{
    Rejoin world;
    world.Leave(4, 8, {world.stream});
    ASSERT_EQ(MBR_OK, world.Grow(6, world.stream));
    uint64_t unmaps = world.fake.calls(Slot::kUnmap);
    world.LeaveNow(2, 6);
    EXPECT_EQ(unmaps + 2, world.fake.calls(Slot::kUnmap)) << "what no decommit had before";
    EXPECT_EQ(MBR_BUSY, world.Grow(6, 0));
    EXPECT_TRUE(world.agree());
    ASSERT_EQ(MBR_OK, world.Grow(5, world.stream)) << "and may be kept once more";
    world.LeaveNow(4, 5);
    EXPECT_EQ(unmaps + 2, world.fake.calls(Slot::kUnmap));
    world.Reach();
    EXPECT_EQ(unmaps + 6, world.fake.calls(Slot::kUnmap));
    EXPECT_EQ(4 * kGranule, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
    ASSERT_EQ(MBR_OK, world.Grow(6, world.stream));
    world.LeaveNow(4, 6);
    EXPECT_EQ(4 * kGranule, world.charged(world.kv)) << "the decommit before is settled";
}

// The same of a decommit that waits for another stream only; and new work there comes after its own
// stream's, but not after the first one's.
TEST(Rejoin, GivenBackBehindAnotherStream_GoesWithTheDecommitBefore)
{
    Rejoin world;
    world.Leave(4, 8, {world.stream});
    ASSERT_EQ(MBR_OK, world.Grow(8, world.stream));
    world.Leave(4, 8, {world.other});
    EXPECT_EQ(MBR_BUSY, world.Grow(8, world.other));
    EXPECT_EQ(MBR_BUSY, world.Grow(8, world.stream));
    world.Reach();
    EXPECT_EQ(4 * kGranule, world.charged(world.kv));
    EXPECT_EQ(4 * kGranule, world.figures(world.range).committed_bytes);
}

// What a prefix keeps or another range shows is read by others: new work gets memory of its own.
TEST(Rejoin, OfWhatOthersUse_IsBusyAsBefore)
{
    Rejoin world;
    mbr_prefix *prefix = world.make_prefix(world.range, 4 * kGranule, 4 * kGranule);
    mbr_range *reader = world.reserve(64 * kGranule);
    uint64_t limit = UINT64_MAX;
    ASSERT_EQ(MBR_OK, world.attach(prefix, reader, &limit));
    world.Leave(4, 8, {world.stream});
    EXPECT_EQ(MBR_BUSY, world.Grow(8, world.stream)) << "the prefix and the reader";
    mbr_prefix_end(prefix);
    EXPECT_EQ(MBR_BUSY, world.Grow(8, world.stream)) << "the reader";
    world.Reach();
    ASSERT_EQ(MBR_OK, world.Grow(8, world.stream));
    EXPECT_NE(world.fake.extent_at(mbr_range_address(world.range) + 4 * kGranule),
        world.fake.extent_at(mbr_range_address(reader) + 4 * kGranule));
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(reader));
}

// A growth that is undone leaves what was leaving as it was; fills that it began are waited for.
TEST(Rejoin, OfAGrowthThatIsUndone_LeavesAfterAll)
{
    Rejoin world;
    world.Leave(4, 8, {world.stream});
    auto refuse = [](void *) -> mbr_status { return MBR_UNSUPPORTED; };
    world.line.works_while_waited = true;
    for (uint32_t flags : {uint32_t{0}, uint32_t{MBR_GROW_ZEROED}}) {
        EXPECT_EQ(MBR_UNSUPPORTED, world.Grow(10, world.stream, nullptr, flags, refuse));
        EXPECT_EQ(4 * kGranule, world.figures(world.range).committed_bytes);
        EXPECT_EQ(8 * kGranule, world.charged(world.kv));
        EXPECT_TRUE(world.agree());
    }
    world.Reach();
    EXPECT_EQ(4 * kGranule, world.charged(world.kv));
}

} // namespace
} // namespace membrane
