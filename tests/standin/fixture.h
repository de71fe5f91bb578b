// What the stand-in's own tests have in common: a fresh model with the options of the test, device
// 0's primary context current, and memory in a few words.
#ifndef MEMBRANE_TESTS_STANDIN_FIXTURE_H
#define MEMBRANE_TESTS_STANDIN_FIXTURE_H

#include "tests/standin/control.h"
#include "tests/standin/exports.h"

#include <cstdint>
#include <gtest/gtest.h>

namespace standin
{

#define OK(call) ASSERT_EQ(call, static_cast<mbr_cuda_result>(MBR_CUDA_SUCCESS))

inline mbr_cuda_result code(int value)
{
    return static_cast<mbr_cuda_result>(value);
}

constexpr size_t Granule = 64 << 10;
constexpr size_t Capacity = 64 * Granule;

struct Place {
    mbr_cuda_address at = 0;
    mbr_cuda_handle handle = 0;
};

class Standin : public testing::Test
{
  protected:
    void SetUp() override
    {
        standin_options(&options);
        options.granule_min_bytes = options.granule_recommended_bytes = Granule;
        options.capacity_bytes = Capacity;
        options.address_bytes = UINT64_C(1) << 30;
        options.mode = STANDIN_MANUAL;
        adjust();
        start();
    }

    // The options of a test that wants others.
    virtual void adjust() {}

    void start()
    {
        standin_restart(&options);
        if (options.device_count == 0 || options.start_code)
            return;
        OK(cuInit(0));
        for (uint32_t device = 0; device < options.device_count; device++)
            OK(cuDevicePrimaryCtxRetain(&contexts[device], static_cast<int>(device)));
        OK(cuCtxSetCurrent(contexts[0]));
    }

    void restart_with(const struct standin_options &wanted)
    {
        options = wanted;
        start();
    }

    mbr_cuda_result create(mbr_cuda_handle *handle, size_t bytes = Granule, int device = 0)
    {
        mbr_cuda_properties properties = {};
        properties.type = MBR_CUDA_ALLOCATION_PINNED;
        properties.location = {MBR_CUDA_LOCATION_DEVICE, device};
        return cuMemCreate(handle, bytes, &properties, 0);
    }

    mbr_cuda_result grant(mbr_cuda_address at, uint32_t access = MBR_CUDA_ACCESS_READ_WRITE,
        int device = 0, size_t bytes = Granule)
    {
        mbr_cuda_access list = {{MBR_CUDA_LOCATION_DEVICE, device}, access};
        return cuMemSetAccess(at, bytes, &list, 1);
    }

    void take(Place *place, size_t bytes = Granule, int device = 0)
    {
        OK(cuMemAddressReserve(&place->at, bytes, 0, 0, 0));
        OK(create(&place->handle, bytes, device));
        OK(cuMemMap(place->at, bytes, 0, place->handle, 0));
        OK(grant(place->at, MBR_CUDA_ACCESS_READ_WRITE, device, bytes));
    }

    void give(const Place &place, size_t bytes = Granule)
    {
        OK(cuMemUnmap(place.at, bytes));
        OK(cuMemRelease(place.handle));
        OK(cuMemAddressFree(place.at, bytes));
    }

    // Without any queue; what cannot be read is 0xDEAD.
    static uint32_t peek(mbr_cuda_address at, uint32_t device = 0)
    {
        uint32_t word = 0;
        return standin_peek(device, at, &word, sizeof word) ? word : 0xDEAD;
    }

    static standin_ledger ledger()
    {
        standin_ledger now;
        standin_read_ledger(&now);
        return now;
    }

    struct standin_options options = {};
    mbr_cuda_context contexts[STANDIN_DEVICE_MAX_COUNT] = {};
};

} // namespace standin

#endif
