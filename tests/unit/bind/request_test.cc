// What every request of the client interface is held to, and what a refused free says.
#include "tests/unit/bind/host_world.h"

namespace membrane
{
namespace
{

TEST(Free, OfAnAllocationWhoseStreamIsDetached_IsStaleUntilTheCallerSaysItIsDone)
{
    HostWorld world;
    mbr_native native;
    mbr_stream_handle first = world.stream, stream;
    ASSERT_EQ(MBR_OK, mbr_cpu_stream_create(world.cpu, &native, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_attach_stream(world.manager, world.ep, native, &stream, &world.error));
    world.stream = stream;
    auto block = world.alloc(1000), other = world.alloc(1000);
    world.stream = first;
    ASSERT_EQ(MBR_OK, mbr_ep_detach_stream(world.manager, stream, &world.error));
    ASSERT_EQ(MBR_OK, mbr_cpu_stream_destroy(world.cpu, native, &world.error));
    auto request = sized<mbr_free_request>();
    request.allocation = block.allocation;
    EXPECT_EQ(MBR_STALE, mbr_free(world.manager, &request, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "MBR_FREE_NOW")) << world.error.text;
    request.streams = &stream; /* by name it is the same */
    request.stream_count = 1;
    EXPECT_EQ(MBR_STALE, mbr_free(world.manager, &request, &world.error));
    EXPECT_EQ(MBR_OK, world.free_now(block.allocation));
    request.allocation = other.allocation;
    request.streams = &first; /* another one, which waited for it */
    EXPECT_EQ(MBR_OK, mbr_free(world.manager, &request, &world.error)) << world.error.text;
}

} // namespace
} // namespace membrane
