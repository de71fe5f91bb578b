// A forked child of a process with a manager (rule 27): what would reach the plugin or the EP's
// lines is refused, nothing waits for threads that are not there, and the parent's books stay.
#include "tests/support/child.h"
#include "tests/unit/bind/host_world.h"

namespace membrane
{
namespace
{

constexpr uint64_t kUnit = 65536;

// Of the calls that a child tries, the first that is not refused with MBR_STALE; 0 if all are.
int first_not_refused(HostWorld &world, mbr_range_handle range, mbr_allocation_handle queued)
{
    mbr_status status;
    world.alloc(8 * kMiB, &status);
    if (status != MBR_STALE)
        return 1;
    if (world.grow(range, 4 * kUnit, 4 * kUnit) != MBR_STALE)
        return 2;
    mbr_range_reserve_request request = sized<mbr_range_reserve_request>();
    mbr_range_reserve_result result = sized<mbr_range_reserve_result>();
    request.binding = world.binding;
    request.bytes = 8 * kMiB;
    request.growth = {kUnit, kUnit, 16};
    if (mbr_range_reserve(world.manager, &request, &result, &world.error) != MBR_STALE)
        return 3;
    if (mbr_ep_drain(world.manager, world.ep, kNever, &world.error) != MBR_STALE)
        return 4;
    mbr_stream_handle stream;
    mbr_native native = {MBR_NATIVE_STREAM_CPU, 0, 99};
    if (mbr_ep_attach_stream(world.manager, world.ep, native, &stream, &world.error) != MBR_STALE)
        return 5;
    mbr_mechanism_open_request open = sized<mbr_mechanism_open_request>();
    mbr_mechanism_handle second;
    open.plugin = world.plugin;
    if (mbr_manager_open_mechanism(world.manager, &open, &second, &world.error) != MBR_STALE)
        return 6;
    if (strstr(world.error.text, "plugin ") == nullptr)
        return 7;
    mbr_allocation_figures figures = sized<mbr_allocation_figures>(); // needs no plugin
    if (mbr_alloc_read(world.manager, queued, 0, &figures, nullptr) != MBR_OK)
        return 8;
    mbr_manager_poll(world.manager);
    return 0;
}

// The same of what the host could give out without asking the plugin.
int first_given_out(HostWorld &world, mbr_range_handle parked)
{
    mbr_status status;
    world.alloc(1000, &status); // a block that this thread keeps
    if (status != MBR_STALE)
        return 1;
    mbr_range_reserve_request request = sized<mbr_range_reserve_request>();
    mbr_range_reserve_result result = sized<mbr_range_reserve_result>();
    request.binding = world.binding;
    request.bytes = 4 * kUnit;
    request.growth = {kUnit, kUnit, 0};
    if (mbr_range_reserve(world.manager, &request, &result, &world.error) != MBR_STALE)
        return 2;
    return world.grow(parked, 0, kUnit) == MBR_STALE ? 0 : 3;
}

TEST(Fork, Child_IsRefusedAndTheParentsBooksStay)
{
    HostWorld world;
    mbr_range_reserve_result range = world.reserve(8 * kUnit, kUnit);
    ASSERT_EQ(world.grow(range.range, 0, 4 * kUnit), MBR_OK) << world.error.text;
    mbr_alloc_result kept = world.alloc(1000);
    ASSERT_NE(kept.address, 0u);
    mbr_mechanism_figures before = world.figures();
    EXPECT_EQ(in_child([&] { return first_not_refused(world, range.range, kept.allocation); }), 0);
    mbr_mechanism_figures after = world.figures();
    EXPECT_EQ(before.owned_bytes, after.owned_bytes);
    EXPECT_EQ(before.plugin_owned_bytes, after.plugin_owned_bytes);
    EXPECT_EQ(world.grow(range.range, 4 * kUnit, 4 * kUnit), MBR_OK) << world.error.text;
    EXPECT_EQ(world.free_now(kept.allocation), MBR_OK);
    EXPECT_EQ(world.release(range.range), MBR_OK);
    EXPECT_TRUE(world.clean());
}

TEST(Fork, Child_IsGivenNothingOfWhatTheHostKeeps)
{
    HostWorld world;
    mbr_alloc_result block = world.alloc(1000);
    ASSERT_EQ(world.free_now(block.allocation), MBR_OK);
    mbr_range_reserve_result ended = world.reserve(4 * kUnit, kUnit);
    ASSERT_EQ(world.grow(ended.range, 0, 4 * kUnit), MBR_OK) << world.error.text;
    ASSERT_EQ(world.release(ended.range), MBR_OK);
    mbr_range_reserve_result adopted = world.reserve(4 * kUnit, kUnit);
    ASSERT_EQ(adopted.parked_bytes, 4 * kUnit);
    mbr_range_reserve_result second = world.reserve(4 * kUnit, kUnit);
    ASSERT_EQ(world.release(second.range), MBR_OK); // kept, for the child's reserve
    EXPECT_EQ(in_child([&] { return first_given_out(world, adopted.range); }), 0);
    EXPECT_EQ(world.grow(adopted.range, 0, kUnit), MBR_OK) << world.error.text;
    block = world.alloc(1000);
    EXPECT_EQ(world.free_now(block.allocation), MBR_OK);
    EXPECT_EQ(world.release(adopted.range), MBR_OK);
    EXPECT_TRUE(world.clean());
}

// The parent has no thread beside its own here: what others hold at a fork, a child never gets.
TEST(Fork, Child_MayHaveAManagerOfItsOwn)
{
    if (plugin_under_test().brings_ep)
        GTEST_SKIP() << "a device's driver serves no child of the process that started it";
    mbr_manager *manager;
    mbr_plugin_handle plugin;
    mbr_error error = sized<mbr_error>();
    ASSERT_EQ(mbr_manager_create(nullptr, &manager, &error), MBR_OK);
    mbr_plugin_open_request request = sized<mbr_plugin_open_request>();
    request.name = plugin_under_test().path;
    request.flags = MBR_PLUGIN_TRUSTED;
    ASSERT_EQ(mbr_manager_open_plugin(manager, &request, &plugin, &error), MBR_OK) << error.text;
    EXPECT_EQ(in_child([] {
        HostWorld own;
        mbr_alloc_result got = own.alloc(1000);
        return got.address != 0 && own.free_now(got.allocation) == MBR_OK ? 0 : 1;
    }),
        0);
    EXPECT_EQ(mbr_manager_close_plugin(manager, plugin, &error), MBR_OK);
    EXPECT_EQ(mbr_manager_destroy(manager, &error), MBR_OK);
}

} // namespace
} // namespace membrane
