// Sequences of a KV cache that sleep: their rows are the same afterwards, and nothing is appended
// to or ended meanwhile.
#include "tests/unit/holder/kv_world.h"

namespace membrane
{
namespace
{

constexpr char kTwoGroups[] = "layers=2,heads=1,dim=64,bytes=2,planes=2,window=48+"
                              "layers=1,heads=1,dim=64,bytes=2,planes=2";

class SleepingKv : public KvWorld
{
  public:
    SleepingKv() : KvWorld({kTwoGroups, "seq-major", 400, 0, 8192})
    {
        auto request = sized<mbr_sleeper_request>();
        request.arena = binding; /* of the same tier here: what matters is elsewhere tested */
        request.holder = prefix_holder;
        request.chunk_bytes = kMiB;
        EXPECT_EQ(MBR_OK, mbr_sleeper_create(manager, &request, &sleeper, &error)) << error.text;
    }
    ~SleepingKv() { EXPECT_EQ(MBR_OK, mbr_sleeper_destroy(sleeper, kNever, &error)) << error.text; }

    mbr_sleeper *sleeper = nullptr;

    std::vector<mbr_range_handle> lend(Tracked &tracked)
    {
        std::vector<mbr_range_handle> ranges(geometry.group_count);
        for (uint32_t g = 0; g < geometry.group_count; g++) {
            EXPECT_EQ(MBR_OK, mbr_sequence_lend(tracked.sequence, g, &ranges[g], &error));
            EXPECT_EQ(MBR_OK, mbr_sleeper_add(sleeper, ranges[g], holder, 1, &error)) << error.text;
        }
        return ranges;
    }
    mbr_status sleep()
    {
        auto request = sized<mbr_sleep_request>();
        request.level = MBR_SLEEP_KEEP;
        request.tag = 1;
        request.stream = stream;
        request.deadline_ns = kNever;
        auto result = sized<mbr_sleep_result>();
        return mbr_sleeper_sleep(sleeper, &request, &result, &error);
    }
    mbr_status wake()
    {
        auto request = sized<mbr_wake_request>();
        request.tag = 1;
        request.stream = stream;
        request.deadline_ns = kNever;
        auto result = sized<mbr_wake_result>();
        return mbr_sleeper_wake(sleeper, &request, &result, &error);
    }
    void take_back(const std::vector<mbr_range_handle> &ranges)
    {
        for (mbr_range_handle range : ranges)
            EXPECT_EQ(MBR_OK, mbr_sleeper_remove(sleeper, range, &error)) << error.text;
    }
};

TEST(SleepKv, SequenceAsleep_RefusesAppendsAndItsEndAndWakesWithItsRows)
{
    SleepingKv world;
    Tracked tracked;
    ASSERT_EQ(MBR_OK, world.create(&tracked, 100));
    auto ranges = world.lend(tracked);
    ASSERT_EQ(MBR_OK, world.append(&tracked, 10)) << "lent and awake";
    world.settle(); /* what its window left behind */
    uint64_t charged = world.paid(world.holder).charged_bytes;
    ASSERT_EQ(MBR_OK, world.sleep()) << world.error.text;
    EXPECT_EQ(0u, world.paid(world.holder).charged_bytes);
    auto before = world.read(tracked);
    for (uint64_t tokens : {UINT64_C(0), UINT64_C(1), UINT64_C(200)})
        EXPECT_EQ(MBR_BUSY, mbr_sequence_append(tracked.sequence, tokens, nullptr, &world.error))
            << tokens;
    EXPECT_EQ(MBR_BUSY, mbr_sequence_destroy(tracked.sequence, nullptr, 0, &world.error));
    mbr_kv_prefix *prefix;
    EXPECT_EQ(MBR_BUSY, mbr_kv_prefix_create(tracked.sequence, 100, &prefix, &world.error));
    auto after = world.read(tracked);
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
    ASSERT_EQ(MBR_OK, world.wake()) << world.error.text;
    EXPECT_EQ(charged, world.paid(world.holder).charged_bytes);
    EXPECT_TRUE(world.holds(tracked));
    ASSERT_EQ(MBR_OK, world.append(&tracked, 150)) << world.error.text;
    EXPECT_TRUE(world.holds(tracked));
    world.take_back(ranges);
    ASSERT_EQ(MBR_OK, world.destroy(&tracked));
}

TEST(SleepKv, SequenceOfAPrefix_CannotSleepWhileItIsShared)
{
    SleepingKv world;
    Tracked source;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 200));
    ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix));
    auto ranges = world.lend(source);
    EXPECT_EQ(MBR_BUSY, world.sleep());
    EXPECT_NE(nullptr, std::strstr(world.error.text, "prefix")) << world.error.text;
    world.end(&prefix);
    ASSERT_EQ(MBR_OK, world.sleep()) << world.error.text;
    ASSERT_EQ(MBR_OK, world.wake());
    EXPECT_TRUE(world.holds(source));
    world.take_back(ranges);
    ASSERT_EQ(MBR_OK, world.destroy(&source));
}

TEST(SleepKv, WrongGroupOrEagerCache_IsRefused)
{
    SleepingKv world;
    Tracked tracked;
    mbr_range_handle range;
    ASSERT_EQ(MBR_OK, world.create(&tracked, 10));
    EXPECT_EQ(MBR_OUT_OF_RANGE, mbr_sequence_lend(tracked.sequence, 2, &range, &world.error));
    ASSERT_EQ(MBR_OK, world.destroy(&tracked));
    KvWorld eager({kTwoGroups, "seq-major", 100, 0, 0, MBR_KV_EAGER_WHOLE});
    ASSERT_EQ(MBR_OK, eager.create(&tracked, 10));
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_sequence_lend(tracked.sequence, 0, &range, &eager.error));
    EXPECT_EQ(0u, range.value);
    ASSERT_EQ(MBR_OK, eager.destroy(&tracked));
}

} // namespace
} // namespace membrane
