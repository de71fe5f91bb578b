// Streams that an EP makes for clients without a driver, and what is enqueued on them.
#include "tests/unit/bind/host_world.h"

namespace membrane
{
namespace
{

class EpStream : public ::testing::Test
{
  protected:
    mbr_native made = {};
    mbr_stream_handle attached = {0};
    HostWorld world; /* taken apart before the test's end */

    void make()
    {
        ASSERT_EQ(mbr_ep_create_stream(world.manager, world.ep, &made, &world.error), MBR_OK)
            << world.error.text;
        ASSERT_EQ(
            mbr_ep_attach_stream(world.manager, world.ep, made, &attached, &world.error), MBR_OK)
            << world.error.text;
    }

    void end()
    {
        ASSERT_EQ(mbr_ep_detach_stream(world.manager, attached, &world.error), MBR_OK);
        ASSERT_EQ(mbr_ep_destroy_stream(world.manager, world.ep, made, &world.error), MBR_OK)
            << world.error.text;
    }
};

TEST_F(EpStream, FillAndCopy_AreDoneWhenSynchronizeReturns)
{
    make();
    mbr_alloc_result block = world.alloc(2 * 4096);
    const uint8_t *bytes = view_of(block.address);
    ASSERT_EQ(
        mbr_ep_fill(world.manager, attached, block.address, 0xA5, 4096, &world.error), MBR_OK);
    ASSERT_EQ(mbr_ep_copy(
                  world.manager, attached, block.address + 4096, block.address, 4096, &world.error),
        MBR_OK);
    ASSERT_EQ(mbr_ep_synchronize(world.manager, attached, kNever, &world.error), MBR_OK);
    EXPECT_EQ(bytes[0], 0xA5);
    EXPECT_EQ(bytes[2 * 4096 - 1], 0xA5);
    EXPECT_EQ(world.free_now(block.allocation), MBR_OK);
    end();
}

TEST_F(EpStream, Streams_OfTwoCalls_AreTwo)
{
    make();
    mbr_native other = {};
    ASSERT_EQ(mbr_ep_create_stream(world.manager, world.ep, &other, &world.error), MBR_OK);
    EXPECT_NE(other.value, made.value);
    EXPECT_EQ(other.kind, made.kind);
    EXPECT_EQ(mbr_ep_destroy_stream(world.manager, world.ep, other, &world.error), MBR_OK);
    end();
}

TEST_F(EpStream, Destroy_OfAStreamThatIsNone_IsRefused)
{
    mbr_native none = world.native; /* of the EP's kind */
    none.value = 12345;
    EXPECT_EQ(MBR_STATUS_CLASS(mbr_ep_destroy_stream(world.manager, world.ep, none, &world.error)),
        MBR_CLASS_CALLER);
}

TEST_F(EpStream, Calls_WithAStaleStream_AreRefused)
{
    make();
    mbr_stream_handle stale = attached;
    end();
    EXPECT_NE(mbr_ep_fill(world.manager, stale, 4096, 0, 1, &world.error), MBR_OK);
    EXPECT_NE(mbr_ep_synchronize(world.manager, stale, kNever, &world.error), MBR_OK);
}

TEST_F(EpStream, Everything_OfAnEpWithoutTransfer_IsUnsupported)
{
    SKIP_WITHOUT_CPU_EP(world);
    mbr_ep_request request = world.ep_request("bare");
    request.transfer = nullptr;
    mbr_ep_handle bare;
    ASSERT_EQ(mbr_ep_create(world.manager, &request, &bare, &world.error), MBR_OK);
    EXPECT_EQ(mbr_ep_create_stream(world.manager, bare, &made, &world.error), MBR_UNSUPPORTED);
    EXPECT_EQ(made.kind, static_cast<uint32_t>(MBR_NATIVE_STREAM_NONE));
    EXPECT_EQ(mbr_ep_destroy(world.manager, bare, kNever, &world.error), MBR_OK);
}

TEST_F(EpStream, Create_OfALostEp_IsDeviceLost)
{
    mbr_ep_request request = world.ep_request("lost");
    mbr_ep_handle lost;
    ASSERT_EQ(mbr_ep_create(world.manager, &request, &lost, &world.error), MBR_OK);
    ASSERT_EQ(mbr_ep_lost(world.manager, lost, &world.error), MBR_OK);
    EXPECT_EQ(mbr_ep_create_stream(world.manager, lost, &made, &world.error), MBR_DEVICE_LOST);
    EXPECT_EQ(mbr_ep_destroy(world.manager, lost, kNever, &world.error), MBR_OK);
}

} // namespace
} // namespace membrane
