// Peers of a mechanism, through the client's interface: every growth gives them their access.
#include "tests/unit/bind/host_world.h"
#include "tests/unit/plugins_gpu/world.h"

namespace gpu_test
{

namespace
{

using membrane::HostWorld;
using membrane::kMiB;

unsigned long long access_of(int device, uint64_t address)
{
    unsigned long long flags = 99;
    const mbr_gpu_location location = {MBR_GPU_LOCATION_DEVICE, device};
    EXPECT_EQ(driver().get_access(&flags, &location, address), MBR_GPU_SUCCESS);
    return flags;
}

TEST(Peers, RangeGrows_EveryGrowthIsTheirs)
{
    restart();
    HostWorld world(64 * kMiB, nullptr, nullptr, {}, nullptr, {{1, MBR_ACCESS_READ}});
    ASSERT_TRUE(world.brings_ep);
    auto range = world.reserve(16 * kMiB, 2 * kMiB);
    for (uint64_t grown = 0; grown < 8 * kMiB; grown += 2 * kMiB) {
        ASSERT_EQ(world.grow(range.range, grown, 2 * kMiB), MBR_OK) << world.error.text;
        for (uint64_t offset = 0; offset < grown + 2 * kMiB; offset += kMiB) {
            EXPECT_EQ(access_of(0, range.address + offset), 3u);
            EXPECT_EQ(access_of(1, range.address + offset), 1u);
        }
    }
    EXPECT_EQ(world.release(range.range), MBR_OK);
}

// One call gives all of them their access, and tells of one that it could not.
TEST(Peers, OneOfThemFails_TheGrowthIsUndoneForAllAndSaysWhatFailed)
{
    restart();
    HostWorld world(64 * kMiB, nullptr, nullptr, {}, nullptr, {{1, MBR_ACCESS_READ}});
    auto range = world.reserve(16 * kMiB, 2 * kMiB);
    ASSERT_EQ(world.grow(range.range, 0, 2 * kMiB), MBR_OK) << world.error.text;
    const uint64_t mappings = ledger().mapping_count, charged = world.books().charged_bytes;
    for (bool is_after : {false, true}) {
        const standin_fault fault = {name().set_access, 1, true, is_after, MBR_GPU_UNKNOWN};
        standin().plan_fault(&fault);
        EXPECT_NE(world.grow(range.range, 2 * kMiB, 6 * kMiB), MBR_OK);
        standin().forget_faults();
        EXPECT_NE(std::strstr(world.error.text, name().set_access), nullptr) << world.error.text;
        EXPECT_EQ(ledger().mapping_count, mappings);
        EXPECT_EQ(world.books().charged_bytes - world.figures().pooled_bytes, charged);
        EXPECT_EQ(access_of(0, range.address), 3u);
        EXPECT_EQ(access_of(1, range.address), 1u);
        EXPECT_TRUE(world.clean());
    }
    EXPECT_EQ(world.grow(range.range, 2 * kMiB, 6 * kMiB), MBR_OK) << world.error.text;
    for (uint64_t offset = 0; offset < 8 * kMiB; offset += kMiB) {
        EXPECT_EQ(access_of(0, range.address + offset), 3u);
        EXPECT_EQ(access_of(1, range.address + offset), 1u);
    }
    EXPECT_EQ(world.release(range.range), MBR_OK);
}

TEST(Peers, OneThatCannotReachTheMemory_IsNamed)
{
    restart();
    Knobs options;
    standin().options(&options);
    options.has_no_peers = true;
    standin().restart(&options);
    EXPECT_EQ(driver().init(0), MBR_GPU_SUCCESS);
    HostWorld world(64 * kMiB, nullptr, nullptr, {}, nullptr, {{1, MBR_ACCESS_READ}});
    auto range = world.reserve(16 * kMiB, 2 * kMiB);
    const uint64_t mappings = ledger().mapping_count;
    EXPECT_EQ(world.grow(range.range, 0, 2 * kMiB), MBR_UNSUPPORTED) << world.error.text;
    const std::string said = std::string(name().set_access) + " for device 1 of 2097152 bytes";
    EXPECT_NE(std::strstr(world.error.text, said.c_str()), nullptr) << world.error.text;
    EXPECT_EQ(ledger().mapping_count, mappings);
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(world.release(range.range), MBR_OK);
}

TEST(Peers, PrefixIsShared_IsReadOnlyForThemToo)
{
    restart();
    HostWorld world(64 * kMiB, nullptr, nullptr, {}, nullptr, {{1, MBR_ACCESS_READ_WRITE}});
    auto source = world.reserve(4 * kMiB, 2 * kMiB), sharer = world.reserve(4 * kMiB, 2 * kMiB);
    ASSERT_EQ(world.grow(source.range, 0, 2 * kMiB), MBR_OK) << world.error.text;
    mbr_piece piece = {source.range, 0, 2 * kMiB};
    auto request = membrane::sized<mbr_prefix_request>();
    request.holder = world.holder;
    request.pieces = &piece;
    request.piece_count = 1;
    auto prefix = membrane::sized<mbr_prefix_result>();
    ASSERT_EQ(mbr_prefix_create(world.manager, &request, &prefix, &world.error), MBR_OK)
        << world.error.text;
    auto attach = membrane::sized<mbr_prefix_attach_request>();
    attach.prefix = prefix.prefix;
    attach.holder = world.holder;
    attach.targets = &sharer.range;
    attach.target_count = 1;
    auto attached = membrane::sized<mbr_prefix_attach_result>();
    ASSERT_EQ(mbr_prefix_attach(world.manager, &attach, &attached, &world.error), MBR_OK)
        << world.error.text;
    EXPECT_EQ(attached.shared_bytes, 2 * kMiB);
    for (int device : {0, 1})
        EXPECT_EQ(access_of(device, sharer.address), 1u);
    EXPECT_EQ(world.release(sharer.range), MBR_OK);
    EXPECT_EQ(world.release(source.range), MBR_OK);
    EXPECT_EQ(mbr_prefix_release(world.manager, prefix.prefix, &world.error), MBR_OK);
}

TEST(Peers, WrongOnes_AreRefusedAtOpen)
{
    restart();
    HostWorld world;
    const std::vector<std::vector<mbr_access>> lists = {{{0, MBR_ACCESS_READ}},
        {{1, MBR_ACCESS_NONE}}, {{1, MBR_ACCESS_READ}, {1, MBR_ACCESS_READ}},
        std::vector<mbr_access>(64, {1, MBR_ACCESS_READ})};
    auto open = membrane::sized<mbr_mechanism_open_request>();
    mbr_mechanism_handle mechanism;
    open.plugin = world.plugin;
    for (const auto &list : lists) {
        open.peers = list.data();
        open.peer_count = static_cast<uint32_t>(list.size());
        EXPECT_EQ(mbr_manager_open_mechanism(world.manager, &open, &mechanism, &world.error),
            MBR_INVALID_ARGUMENT);
    }
    const mbr_access good = {1, MBR_ACCESS_READ};
    open.peers = &good;
    open.peer_count = 1;
    open.mechanism = "pinned0";
    EXPECT_EQ(mbr_manager_open_mechanism(world.manager, &open, &mechanism, &world.error),
        MBR_UNSUPPORTED);
    if (!is_hip()) {
        EXPECT_EQ(ledger().retain_count, 1u) << "the world's own";
    }
}

} // namespace

} // namespace gpu_test
