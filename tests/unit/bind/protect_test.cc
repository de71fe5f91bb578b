// A prefix that is protected in place: a stray write of its source faults instead of changing what
// the sharers read, and what is the source's alone again may be written again.
#include "tests/unit/bind/host_world.h"

#include "tests/support/access.h"

namespace membrane
{
namespace
{

constexpr uint64_t kUnit = 2 * kMiB;

class ProtectWorld : public HostWorld
{
  public:
    ProtectWorld()
    {
        source = reserve(8 * kUnit, kUnit);
        EXPECT_EQ(MBR_OK, grow(source.range, 0, 3 * kUnit));
        for (uint64_t i = 0; i < 3; i++)
            word(i) = 100 + i;
        mbr_piece piece = {source.range, 0, 2 * kUnit + kUnit / 2};
        auto request = sized<mbr_prefix_request>();
        request.piece_count = 1;
        request.holder = holder;
        request.pieces = &piece;
        auto result = sized<mbr_prefix_result>();
        EXPECT_EQ(MBR_OK, mbr_prefix_create(manager, &request, &result, &error)) << error.text;
        prefix = result.prefix;
    }
    mbr_status protect(uint64_t deadline_ns = kNever)
    {
        auto request = sized<mbr_prefix_protect_request>();
        request.stream_count = 1;
        request.prefix = prefix;
        request.streams = &stream;
        request.deadline_ns = deadline_ns;
        return mbr_prefix_protect(manager, &request, &error);
    }
    mbr_range_reserve_result attach()
    {
        auto sharer = reserve(8 * kUnit, kUnit);
        auto request = sized<mbr_prefix_attach_request>();
        request.target_count = 1;
        request.prefix = prefix;
        request.holder = holder;
        request.targets = &sharer.range;
        auto result = sized<mbr_prefix_attach_result>();
        EXPECT_EQ(MBR_OK, mbr_prefix_attach(manager, &request, &result, &error)) << error.text;
        return sharer;
    }
    uint64_t view(uint64_t extent) const
    {
        return reinterpret_cast<uint64_t>(view_of(source.address + extent * kUnit));
    }
    volatile uint64_t &word(uint64_t extent) const
    {
        return *reinterpret_cast<volatile uint64_t *>(view(extent));
    }
    // Of the source's runs, from its begin on.
    uint64_t protected_run()
    {
        auto run = sized<mbr_range_run>();
        EXPECT_EQ(MBR_OK, mbr_range_next_run(manager, source.range, 0, &run, &error)) << error.text;
        return (run.flags & MBR_RUN_PROTECTED) != 0 ? run.bytes : 0;
    }
    uint64_t protected_bytes()
    {
        auto figures = sized<mbr_prefix_figures>();
        EXPECT_EQ(MBR_OK, mbr_prefix_read(manager, prefix, &figures, &error)) << error.text;
        return figures.protected_bytes;
    }
    void end_prefix() { EXPECT_EQ(MBR_OK, mbr_prefix_release(manager, prefix, &error)); }

    mbr_range_reserve_result source;
    mbr_prefix_handle prefix = {0};
};

TEST(Protect, Source_MayOnlyReadUntilTheExtentsAreItsOwnAgain)
{
    ProtectWorld world;
    EXPECT_TRUE(can_write(world.view(0)));
    ASSERT_EQ(MBR_OK, world.protect()) << world.error.text;
    EXPECT_EQ(2 * kUnit, world.protected_bytes());
    EXPECT_EQ(2 * kUnit, world.protected_run());
    auto sharer = world.attach();
    for (uint64_t i = 0; i < 2; i++) {
        EXPECT_FALSE(can_write(world.view(i))) << i;
        EXPECT_EQ(100 + i, world.word(i));
    }
    EXPECT_TRUE(can_write(world.view(2))) << "no whole extent of the prefix";
    ASSERT_EQ(MBR_OK, world.protect()) << "once more: " << world.error.text;
    world.end_prefix();
    EXPECT_FALSE(can_write(world.view(0))) << "a sharer still reads it";
    ASSERT_EQ(MBR_OK, world.release(sharer.range));
    EXPECT_EQ(0u, world.protected_run());
    for (uint64_t i = 0; i < 2; i++) {
        EXPECT_EQ(100 + i, world.word(i));
        world.word(i) = 7;
    }
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.release(world.source.range));
}

TEST(Protect, StrayWrite_EndsTheProcessAtOnce)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // executes this program anew
    ProtectWorld world;
    ASSERT_EQ(MBR_OK, world.protect()) << world.error.text;
    EXPECT_EXIT(
        {
            exit_on_access_fault();
            if (world.word(1) == 101)
                world.word(1) = 6;
        },
        testing::ExitedWithCode(kAccessFaultExit), "");
    world.end_prefix();
    EXPECT_EQ(MBR_OK, world.release(world.source.range));
}

// Narrowed under a kernel that writes, access would end the kernel.
TEST(Protect, StreamThatMayStillWrite_IsWaitedForAndUntilThenNothingChanges)
{
    ProtectWorld world;
    Gate gate(world);
    EXPECT_EQ(MBR_TIMED_OUT, world.protect(1));
    EXPECT_EQ(0u, world.protected_bytes());
    EXPECT_TRUE(can_write(world.view(0)));
    gate.open();
    ASSERT_EQ(MBR_OK, world.protect()) << world.error.text;
    EXPECT_FALSE(can_write(world.view(0)));
    world.end_prefix();
    EXPECT_EQ(MBR_OK, world.release(world.source.range));
}

// What the source leaves behind it is written by others.
TEST(Protect, SourceEndsFirst_NothingReadOnlyIsEverGrownAgain)
{
    ProtectWorld world;
    ASSERT_EQ(MBR_OK, world.protect()) << world.error.text;
    auto sharer = world.attach();
    EXPECT_EQ(MBR_OK, world.release(world.source.range));
    EXPECT_EQ(0u, world.protected_bytes());
    world.end_prefix();
    ASSERT_EQ(MBR_OK, world.release(sharer.range));
    world.source = world.reserve(8 * kUnit, kUnit);
    ASSERT_EQ(MBR_OK, world.grow(world.source.range, 0, 4 * kUnit));
    for (uint64_t i = 0; i < 4; i++)
        world.word(i) = i;
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.release(world.source.range));
}

TEST(Protect, UnknownPrefixOrStream_IsRefused)
{
    ProtectWorld world;
    mbr_prefix_handle made = world.prefix;
    world.prefix = {77};
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.protect());
    world.prefix = made;
    mbr_stream_handle stream = world.stream;
    world.stream = {77};
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.protect());
    world.stream = stream;
    EXPECT_EQ(0u, world.protected_bytes());
    world.end_prefix();
    EXPECT_EQ(MBR_OK, world.release(world.source.range));
}

} // namespace
} // namespace membrane
