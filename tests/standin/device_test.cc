// Two devices: each has its own page tables, its own memory and its own fate.
#include "tests/standin/fixture.h"

namespace standin
{
namespace
{

class Devices : public Standin
{
  protected:
    void adjust() override { options.device_count = 2; }
};

TEST_F(Devices, EachHasItsOwnNames)
{
    mbr_cuda_uuid first = {};
    mbr_cuda_uuid second = {};
    char text[32];
    mbr_cuda_device found = 77;
    OK(cuDeviceGetUuid_v2(&first, 0));
    OK(cuDeviceGetUuid_v2(&second, 1));
    EXPECT_NE(memcmp(&first, &second, sizeof first), 0);
    OK(cuDeviceGetPCIBusId(text, sizeof text, 1));
    OK(cuDeviceGetByPCIBusId(&found, text));
    EXPECT_EQ(found, 1);
}

TEST_F(Devices, EachHasItsOwnCapacity)
{
    mbr_cuda_handle handle = 0;
    mbr_cuda_handle more = 0;
    OK(create(&handle, Capacity, 0));
    EXPECT_EQ(create(&more, Granule, 0), code(MBR_CUDA_OUT_OF_MEMORY));
    OK(create(&more, Capacity, 1));
    OK(cuMemRelease(handle));
    OK(cuMemRelease(more));
}

TEST_F(Devices, AccessIsEachDevices)
{
    Place place;
    take(&place, Granule, 0);
    mbr_cuda_location second = {MBR_CUDA_LOCATION_DEVICE, 1};
    unsigned long long flags = 77;
    OK(cuMemGetAccess(&flags, &second, place.at));
    EXPECT_EQ(flags, 0U);
    EXPECT_EQ(peek(place.at, 1), 0xDEADU);
    OK(grant(place.at, MBR_CUDA_ACCESS_READ, 1));
    uint32_t word = 8;
    ASSERT_TRUE(standin_poke(0, place.at, &word, sizeof word));
    EXPECT_EQ(peek(place.at, 1), 8U);
    EXPECT_FALSE(standin_poke(1, place.at, &word, sizeof word));
    give(place);
}

TEST_F(Devices, AListWithOneThatDoesNotExist_ChangesNothing)
{
    Place place;
    take(&place, Granule, 0);
    mbr_cuda_access list[] = {
        {{MBR_CUDA_LOCATION_DEVICE, 1}, MBR_CUDA_ACCESS_READ_WRITE},
        {{MBR_CUDA_LOCATION_DEVICE, 2}, MBR_CUDA_ACCESS_READ_WRITE},
    };
    EXPECT_EQ(cuMemSetAccess(place.at, Granule, list, 2), code(MBR_CUDA_INVALID_VALUE));
    EXPECT_EQ(peek(place.at, 1), 0xDEADU);
    OK(cuMemSetAccess(place.at, Granule, list, 1));
    EXPECT_EQ(peek(place.at, 1), 0xA5A5A5A5U);
    give(place);
}

TEST_F(Devices, ACopyBetweenThem_NeedsAGrantUnlessBothArePlain)
{
    Place first;
    Place second;
    uint32_t word = 9;
    take(&first, Granule, 0);
    take(&second, Granule, 1);
    EXPECT_EQ(cuMemcpyDtoD_v2(second.at, first.at, 4), code(MBR_CUDA_INVALID_VALUE));
    give(first);
    give(second);
    mbr_cuda_address plain[2];
    OK(cuMemAlloc_v2(&plain[0], 64));
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuMemAlloc_v2(&plain[1], 64));
    OK(cuCtxSetCurrent(contexts[0]));
    ASSERT_TRUE(standin_poke(0, plain[0], &word, sizeof word));
    OK(cuMemcpyDtoD_v2(plain[1], plain[0], 4));
    OK(cuCtxSynchronize());
    EXPECT_EQ(peek(plain[1], 1), 9U);
    OK(cuMemFree_v2(plain[0]));
    OK(cuMemFree_v2(plain[1]));
}

TEST_F(Devices, ALossIsOneDevices)
{
    size_t bytes = 0;
    standin_lose(1, 0, MBR_CUDA_LAUNCH_FAILED, false);
    OK(cuMemGetInfo_v2(&bytes, &bytes));
    OK(cuCtxSetCurrent(contexts[1]));
    EXPECT_EQ(cuMemGetInfo_v2(&bytes, &bytes), code(MBR_CUDA_LAUNCH_FAILED));
}

TEST_F(Devices, PeersAreToldWhereThereAreSome)
{
    int can = 7;
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    EXPECT_EQ(can, 1);
    options.has_no_peers = true;
    start();
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    EXPECT_EQ(can, 0);
}

TEST_F(Devices, ARecordOnTheOthersStream_IsRefused)
{
    mbr_cuda_event event = nullptr;
    mbr_cuda_stream stream = nullptr;
    OK(cuEventCreate(&event, 0));
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuStreamCreate(&stream, 0));
    EXPECT_EQ(cuEventRecord(event, stream), code(MBR_CUDA_INVALID_HANDLE));
    OK(cuEventDestroy_v2(event));
    OK(cuStreamDestroy_v2(stream));
}

TEST_F(Devices, ManagedMemory_IsTheHostsAndBothDevices)
{
    mbr_cuda_address at = 0;
    OK(cuMemAllocManaged(&at, 64, MBR_CUDA_ATTACH_GLOBAL));
    *reinterpret_cast<uint32_t *>(at) = 1;
    OK(cuMemsetD8_v2(at, 7, 4));
    OK(cuCtxSynchronize());
    EXPECT_EQ(*reinterpret_cast<uint32_t *>(at), 0x07070707U);
    OK(cuMemFree_v2(at));
    options.has_no_managed_memory = true;
    start();
    EXPECT_EQ(cuMemAllocManaged(&at, 64, MBR_CUDA_ATTACH_GLOBAL), code(MBR_CUDA_NOT_SUPPORTED));
}

} // namespace
} // namespace standin
