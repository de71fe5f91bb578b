// The loss of a device at the client interface: everything stays charged and no slot is called
// (I12) until the end of the device's context is confirmed; then each byte is refunded once, and
// all that is left can be taken apart.
#include "tests/support/mortal/device.h"
#include "tests/unit/bind/host_world.h"

#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

namespace membrane
{
namespace
{

// An instance that is leaked on purpose, so that no leak checker asks for it.
const void *volatile given_up;

struct Mortal {
    ~Mortal()
    {
        if (device.clinging != nullptr)
            given_up = device.clinging;
    }

    mortal_device device = {};
    std::string address = [this] {
        char text[24];
        std::snprintf(text, sizeof(text), "%" PRIxPTR, reinterpret_cast<uintptr_t>(&device));
        return std::string(text);
    }();
    std::vector<mbr_option> options{{"device", address.c_str()}};
};

class LostWorld : public Mortal, public HostWorld
{
  public:
    explicit LostWorld(const char *plugin = "tests/support/libmembrane-mortal.so")
        : HostWorld(
              512 * kMiB, nullptr, plugin, plugin != nullptr ? options : std::vector<mbr_option>{})
    {
    }

    mbr_status destroy_ep() { return mbr_ep_destroy(manager, ep, 0, &error); }

    mbr_prefix_handle make_prefix(mbr_range_handle range, uint64_t bytes)
    {
        mbr_piece piece = {range, 0, bytes};
        auto request = sized<mbr_prefix_request>();
        request.holder = holder;
        request.pieces = &piece;
        request.piece_count = 1;
        auto prefix = sized<mbr_prefix_result>();
        EXPECT_EQ(MBR_OK, mbr_prefix_create(manager, &request, &prefix, &error)) << error.text;
        return prefix.prefix;
    }

    // Some of everything: alive, queued, cached.
    void fill()
    {
        small = alloc(1000).allocation;
        large = alloc(65 * kMiB).allocation;
        queued = alloc(3 * kMiB).allocation;
        EXPECT_EQ(MBR_OK, free_queued(queued));
        EXPECT_EQ(MBR_OK, free_queued(alloc(66 * kMiB).allocation));
        range = reserve(16 * kMiB).range;
        EXPECT_EQ(MBR_OK, grow(range, 0, 8 * kMiB));
        mbr_range_handle source = reserve(16 * kMiB).range;
        EXPECT_EQ(MBR_OK, grow(source, 0, 4 * kMiB));
        prefix = make_prefix(source, 4 * kMiB);
        EXPECT_EQ(MBR_OK, release(source, false));
        mbr_range_handle parked = reserve(48 * kMiB).range;
        EXPECT_EQ(MBR_OK, grow(parked, 0, 24 * kMiB));
        EXPECT_EQ(MBR_OK, release(parked));
        EXPECT_EQ(MBR_OK, free_now(alloc(5 * kMiB).allocation));
        EXPECT_TRUE(clean());
    }

    void lose()
    {
        device.lost = lost = true;
        EXPECT_EQ(MBR_OK, mbr_ep_lost(manager, ep, &error));
    }

    void let_go_of_the_rest(bool now)
    {
        for (mbr_allocation_handle allocation : {small, large}) {
            EXPECT_EQ(MBR_OK, now ? free_now(allocation) : free_queued(allocation)) << error.text;
        }
        EXPECT_EQ(MBR_OK, release(range, now)) << error.text;
        EXPECT_EQ(MBR_OK, mbr_prefix_release(manager, prefix, &error)) << error.text;
    }

    uint64_t charged() { return books().charged_bytes; }

    mbr_allocation_handle small = {0}, large = {0}, queued = {0};
    mbr_range_handle range = {0};
    mbr_prefix_handle prefix = {0};
};

TEST(Lost, BeforeTheEndIsConfirmed_EverythingStaysChargedAndNoSlotIsCalled)
{
    LostWorld world;
    {
        Gate gate(world);
        world.fill();
        uint64_t charged = world.charged();
        world.lose();
        EXPECT_EQ(charged, world.charged());
        mbr_status status;
        world.alloc(500 * kMiB, &status);
        EXPECT_EQ(MBR_DEVICE_LOST, status);
        EXPECT_EQ(MBR_DEVICE_LOST, world.grow(world.range, 0, 16 * kMiB)) << world.error.text;
        uint64_t released = 1;
        EXPECT_EQ(
            MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, &released, &world.error));
        EXPECT_EQ(0u, released);
        mbr_piece part = {world.range, 0, 2 * kMiB};
        auto decommit = sized<mbr_range_release_request>();
        decommit.flags = MBR_FREE_NOW;
        decommit.piece = part;
        auto result = sized<mbr_range_decommit_result>();
        EXPECT_EQ(MBR_OK, mbr_range_decommit(world.manager, &decommit, &result, &world.error));
        auto attach = sized<mbr_prefix_attach_request>();
        attach.prefix = world.prefix;
        attach.holder = world.holder;
        attach.targets = &world.range;
        attach.target_count = 1;
        auto attached = sized<mbr_prefix_attach_result>();
        EXPECT_EQ(
            MBR_DEVICE_LOST, mbr_prefix_attach(world.manager, &attach, &attached, &world.error));
        world.let_go_of_the_rest(false);
        EXPECT_EQ(charged, world.charged());
        EXPECT_EQ(MBR_IN_USE, mbr_manager_unbind(world.manager, world.binding, &world.error));
        EXPECT_EQ(charged, world.charged());
        EXPECT_EQ(0u, world.device.late_calls);
        gate.open();
    }
    EXPECT_EQ(MBR_IN_USE, world.destroy_ep()) << "confirmed, and the binding still refers to it";
    EXPECT_EQ(0u, world.charged());
    EXPECT_EQ(0u, world.books().retained_bytes);
    EXPECT_EQ(0u, world.device.late_calls);
}

TEST(Lost, ConfirmedFirst_TheRestIsRefundedAsItComes)
{
    for (bool now : {false, true}) {
        LostWorld world;
        {
            Gate gate(world);
            world.fill();
            world.lose();
            EXPECT_EQ(MBR_IN_USE, world.destroy_ep());
            EXPECT_NE(nullptr, std::strstr(world.error.text, "1 bindings")) << world.error.text;
            gate.open();
        }
        EXPECT_EQ(MBR_IN_USE, world.destroy_ep()) << "once more changes nothing";
        uint64_t slab = 2 * kMiB; /* of the small one */
        EXPECT_EQ(slab + 65 * kMiB + 8 * kMiB + 4 * kMiB, world.charged());
        EXPECT_TRUE(world.clean());
        world.let_go_of_the_rest(now);
        mbr_manager_trim(world.manager, world.mechanism, 0, nullptr, nullptr); /* its own blocks */
        EXPECT_EQ(0u, world.charged());
        auto ep = sized<mbr_ep_figures>();
        ASSERT_EQ(MBR_OK, mbr_ep_read(world.manager, world.ep, &ep, &world.error));
        EXPECT_EQ(0u, ep.pin_count);
        EXPECT_EQ(0u, world.device.late_calls);
    } /* the world's end: unbinds, detaches the stream, destroys the EP, closes the mechanism */
}

// Nobody frees anything: the end of the device's context is all that is known.
TEST(Lost, Abandoned_TheConfirmedEndReleasesWhatNobodyFrees)
{
    for (bool confirmed_first : {false, true}) {
        LostWorld world;
        {
            Gate gate(world);
            world.fill();
            world.lose();
            gate.open();
        }
        EXPECT_EQ(MBR_OK, world.release(world.range, false));
        EXPECT_EQ(MBR_OK, mbr_prefix_release(world.manager, world.prefix, &world.error));
        if (confirmed_first) {
            EXPECT_EQ(MBR_IN_USE, world.destroy_ep());
        }
        uint64_t charged = world.charged(), count = 0;
        EXPECT_EQ(MBR_OK, mbr_manager_abandon(world.manager, world.binding, &count, &world.error));
        world.binding = {0};
        EXPECT_EQ(2u, count);
        if (!confirmed_first) {
            EXPECT_EQ(charged, world.charged());
            EXPECT_EQ(MBR_IN_USE, world.destroy_ep()) << "confirmed; its stream is attached";
            EXPECT_NE(nullptr, std::strstr(world.error.text, "0 bindings")) << world.error.text;
        }
        EXPECT_EQ(0u, world.charged());
        EXPECT_EQ(0u, world.books().quarantined_bytes);
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.free_now(world.small));
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.free_now(world.large));
        EXPECT_EQ(0u, world.device.late_calls);
    }
}

TEST(Lost, InstanceThatCannotBeClosed_IsGivenUp)
{
    LostWorld world;
    world.fill();
    ASSERT_EQ(MBR_OK, world.drain());
    world.device.clings = true;
    world.lose();
    world.let_go_of_the_rest(true);
    EXPECT_EQ(MBR_IN_USE, world.destroy_ep());
}

// The loader has given it up already when the host sees that it cannot be closed.
TEST(Lost, InstanceWhoseCloseLeavesItUnknown_IsGivenUpOnce)
{
    LostWorld world;
    world.fill();
    ASSERT_EQ(MBR_OK, world.drain());
    world.device.close_is_unknown = true;
    world.lose();
    world.let_go_of_the_rest(true);
    EXPECT_EQ(MBR_IN_USE, world.destroy_ep());
} /* the world's end closes the mechanism, the plugin and the manager */

TEST(Lost, MemoryThatOutlivesItsContext_IsGivenBackWithoutAConfirmation)
{
    LostWorld world(nullptr);
    mbr_range_handle range = world.reserve(16 * kMiB).range;
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 8 * kMiB));
    mbr_allocation_handle live = world.alloc(3 * kMiB).allocation;
    world.lose();
    EXPECT_EQ(MBR_OK, world.release(range, false));
    EXPECT_EQ(MBR_OK, world.free_queued(live));
    EXPECT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, nullptr, nullptr));
    EXPECT_LE(world.charged(), 20 * kMiB);
    EXPECT_GT(world.charged(), 0u) << "who wrote to the allocation last is not known";
    EXPECT_EQ(MBR_IN_USE, mbr_manager_unbind(world.manager, world.binding, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "1 lost")) << world.error.text;
    EXPECT_EQ(MBR_IN_USE, world.destroy_ep());
}

TEST(Lost, OneOfTwoContexts_TheOtherGoesOnWithTheCache)
{
    LostWorld world;
    mbr_ep_request request = world.ep_request("other");
    mbr_ep_handle other, first = world.ep;
    ASSERT_EQ(MBR_OK, mbr_ep_create(world.manager, &request, &other, &world.error));
    auto bind = world.bind_request();
    bind.ep = other;
    mbr_binding_handle living, lost = world.binding;
    ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &bind, &living, &world.error));
    mbr_range_handle cached = world.reserve(16 * kMiB).range;
    ASSERT_EQ(MBR_OK, world.grow(cached, 0, 8 * kMiB));
    mbr_range_handle kept = world.reserve(32 * kMiB).range;
    ASSERT_EQ(MBR_OK, world.grow(kept, 0, 10 * kMiB));
    ASSERT_EQ(MBR_OK, world.release(cached));
    ASSERT_EQ(MBR_OK, mbr_ep_lost(world.manager, first, &world.error));
    ASSERT_EQ(MBR_OK, world.release(kept));
    EXPECT_EQ(MBR_IN_USE, world.destroy_ep());
    EXPECT_EQ(8 * kMiB, world.charged());
    world.binding = living;
    mbr_range_handle range = world.reserve(16 * kMiB).range;
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 8 * kMiB)) << world.error.text;
    EXPECT_EQ(8 * kMiB, world.charged());
    ASSERT_EQ(MBR_OK, world.release(range));
    EXPECT_EQ(MBR_OK, mbr_manager_unbind(world.manager, living, &world.error)) << world.error.text;
    EXPECT_EQ(0u, world.charged()) << "given back by the last that could";
    EXPECT_EQ(MBR_OK, mbr_ep_destroy(world.manager, other, kNever, &world.error));
    world.binding = lost;
    world.device.lost = world.lost = true; /* what went with the first context */
}

} // namespace
} // namespace membrane
