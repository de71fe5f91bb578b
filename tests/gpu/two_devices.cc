// The promises of the library between two devices, with kernels that run on both: what one device
// has grown the other reads and writes, by the list that was given once at opening.
#include "tests/gpu/world.h"

#include "membrane/device.h"

namespace membrane
{
namespace
{

class TwoDevices : public GpuTest
{
  protected:
    void SetUp() override
    {
        GpuTest::SetUp();
        if (HasFatalFailure())
            return;
        int count = 0;
        ASSERT_DID(mbr_hand_did(hand(), hand()->call.device_count(&count), "cuDeviceGetCount"));
        if (count < 2)
            GTEST_SKIP() << "this machine has one device";
        open_second();
        if (!HasFatalFailure())
            open_shared();
    }
    void TearDown() override
    {
        if (shared.manager != nullptr) {
            EXPECT_TRUE(mbr_bench_world_close(&bench, &shared)) << bench.text;
        }
        if (second.context != nullptr)
            on_second([&] {
                EXPECT_TRUE(mbr_kernels_close(&second, &second_kernels)) << second.text;
                second.call.stream_destroy(second_stream);
            });
        if (second.context != nullptr)
            second.call.primary_release(1);
        GpuTest::TearDown();
    }

    // With the second device's context current.
    template <typename Work> void on_second(Work work)
    {
        mbr_cuda_context popped;
        ASSERT_DID(mbr_hand_did(hand(), second.call.context_push(second.context), "cuCtxPush"));
        work();
        ASSERT_DID(mbr_hand_did(hand(), second.call.context_pop(&popped), "cuCtxPop"));
    }
    void write_on_second(mbr_cuda_address address, uint64_t bytes, uint32_t seed)
    {
        on_second([&] {
            EXPECT_TRUE(
                mbr_kernels_write(&second, &second_kernels, address, bytes, seed, second_stream));
            synchronize_second();
        });
    }
    uint32_t wrong_on_second(mbr_cuda_address address, uint64_t bytes, uint32_t seed)
    {
        *second_kernels.seen = 0;
        on_second([&] {
            EXPECT_TRUE(
                mbr_kernels_check(&second, &second_kernels, address, bytes, seed, second_stream));
            synchronize_second();
        });
        return *second_kernels.seen;
    }
    mbr_cuda_address address_of(mbr_range_handle range)
    {
        mbr_range_figures figures{};
        figures.struct_size = sizeof(figures);
        EXPECT_EQ(mbr_range_read(shared.manager, range, 0, &figures, &shared.error), MBR_OK);
        return figures.address;
    }

    mbr_hand second{};
    mbr_kernels second_kernels{};
    mbr_cuda_stream second_stream = nullptr;
    mbr_bench_world shared{}; // of a mechanism of device 0 whose memory device 1 has, too

  private:
    void synchronize_second()
    {
        EXPECT_TRUE(mbr_hand_did(
            &second, second.call.stream_synchronize(second_stream), "cuStreamSynchronize"))
            << second.text;
    }
    void open_second()
    {
        second = device.hand;
        second.device = 1;
        second.context = nullptr;
        ASSERT_DID(mbr_hand_did(
            hand(), second.call.primary_retain(&second.context, 1), "cuDevicePrimaryCtxRetain"));
        on_second([&] {
            ASSERT_TRUE(mbr_kernels_open(&second, &second_kernels)) << second.text;
            ASSERT_TRUE(mbr_hand_did(&second,
                second.call.stream_create(&second_stream, MBR_CUDA_STREAM_NON_BLOCKING),
                "cuStreamCreate"))
                << second.text;
        });
    }
    void open_shared()
    {
        mbr_error *said = &shared.error;
        said->struct_size = sizeof(*said);
        ASSERT_EQ(mbr_manager_create(nullptr, &shared.manager, said), MBR_OK) << said->text;
        mbr_plugin_open_request open{};
        open.struct_size = sizeof(open);
        open.flags = MBR_PLUGIN_TRUSTED;
        open.name = gpu_plugin();
        ASSERT_EQ(mbr_manager_open_plugin(shared.manager, &open, &shared.plugin, said), MBR_OK)
            << said->text;
        const mbr_access peer = {1, MBR_ACCESS_READ_WRITE};
        mbr_device opened;
        ASSERT_EQ(
            mbr_device_open(shared.manager, shared.plugin, 0, &peer, 1, &opened, said), MBR_OK)
            << said->text;
        shared.mechanism = opened.mechanism;
        shared.ep = opened.ep;
        mbr_authority_request authority{};
        authority.struct_size = sizeof(authority);
        authority.tier = MBR_TIER_DEVICE;
        authority.name = "shared";
        authority.limit_bytes = 64 * granule();
        ASSERT_EQ(mbr_manager_create_authority(shared.manager, &authority, &shared.authority, said),
            MBR_OK)
            << said->text;
        mbr_holder_request holder{};
        holder.struct_size = sizeof(holder);
        holder.role = MBR_ROLE_KV;
        holder.authority = shared.authority;
        holder.name = "shared";
        holder.allowance_bytes = MBR_NO_ALLOWANCE;
        ASSERT_EQ(mbr_manager_create_holder(shared.manager, &holder, &shared.holder, said), MBR_OK)
            << said->text;
        mbr_bind_request bind{};
        bind.struct_size = sizeof(bind);
        bind.mechanism = shared.mechanism;
        bind.ep = shared.ep;
        bind.authority = shared.authority;
        bind.cache_keep_bytes = UINT64_MAX;
        ASSERT_EQ(mbr_manager_bind(shared.manager, &bind, &shared.binding, said), MBR_OK)
            << said->text;
    }
};

TEST_F(TwoDevices, EveryLaterGrowth_IsReadAndWrittenByBoth)
{
    const uint64_t step = 4 * granule();
    mbr_range_handle range{};
    ASSERT_TRUE(mbr_bench_reserve(&shared, 4 * step, granule(), &range)) << shared.error.text;
    const mbr_cuda_address address = address_of(range);
    for (uint32_t grown = 0; grown < 4; grown++) {
        ASSERT_TRUE(mbr_bench_grow(&shared, range, grown * step, step)) << shared.error.text;
        write_on_second(address + grown * step, step, 100 + grown);
        EXPECT_EQ(wrong(address + grown * step, step, 100 + grown), 0U) << "on device 0";
        write(address + grown * step, step, 200 + grown);
        synchronize();
    }
    for (uint32_t grown = 0; grown < 4; grown++)
        EXPECT_EQ(wrong_on_second(address + grown * step, step, 200 + grown), 0U) << "on device 1";
    // From the pool, whose handles have lost their access with their mapping.
    ASSERT_TRUE(mbr_bench_decommit(&shared, range, 0, step)) << shared.error.text;
    ASSERT_TRUE(mbr_bench_grow(&shared, range, 0, step)) << shared.error.text;
    write_on_second(address, step, 300);
    EXPECT_EQ(wrong(address, step, 300), 0U);
    EXPECT_TRUE(mbr_bench_release(&shared, &range)) << shared.error.text;
}

} // namespace
} // namespace membrane
