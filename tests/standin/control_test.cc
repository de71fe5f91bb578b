// What a test can ask of the stand-in: options, faults, losses, counts.
#include "tests/standin/fixture.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <string>
#include <unistd.h>

namespace standin
{
namespace
{

using Control = Standin;

// ---- Options ----

TEST_F(Control, GranulesThatDiffer_AreToldApart)
{
    options.granule_recommended_bytes = 4 * Granule;
    start();
    mbr_cuda_properties properties = {};
    properties.type = MBR_CUDA_ALLOCATION_PINNED;
    properties.location = {MBR_CUDA_LOCATION_DEVICE, 0};
    size_t bytes = 0;
    OK(cuMemGetAllocationGranularity(&bytes, &properties, MBR_CUDA_GRANULARITY_MINIMUM));
    EXPECT_EQ(bytes, Granule);
    OK(cuMemGetAllocationGranularity(&bytes, &properties, MBR_CUDA_GRANULARITY_RECOMMENDED));
    EXPECT_EQ(bytes, 4 * Granule);
}

TEST_F(Control, NoDevice_TheStartSaysSo)
{
    options.device_count = 0;
    start();
    int count = 7;
    EXPECT_EQ(cuInit(0), code(MBR_CUDA_NO_DEVICE));
    EXPECT_EQ(cuDeviceGetCount(&count), code(MBR_CUDA_NOT_INITIALIZED));
}

TEST_F(Control, AStartThatFails_AnswersItsCode)
{
    options.start_code = MBR_CUDA_SYSTEM_DRIVER_MISMATCH;
    start();
    EXPECT_EQ(cuInit(0), code(MBR_CUDA_SYSTEM_DRIVER_MISMATCH));
}

TEST_F(Control, FreshMemory_IsPoisonOrZeros)
{
    Place place;
    take(&place);
    EXPECT_EQ(peek(place.at), 0xA5A5A5A5U);
    EXPECT_EQ(peek(place.at + Granule - 4), 0xA5A5A5A5U);
    options.content = STANDIN_ZEROS;
    start();
    take(&place);
    EXPECT_EQ(peek(place.at), 0U);
}

TEST_F(Control, AddressesGivenBack_ServeAgainOrNever)
{
    mbr_cuda_address first = 0;
    mbr_cuda_address second = 0;
    OK(cuMemAddressReserve(&first, Granule, 0, 0, 0));
    OK(cuMemAddressFree(first, Granule));
    OK(cuMemAddressReserve(&second, Granule, 0, 0, 0));
    EXPECT_EQ(first, second);
    options.addresses = STANDIN_RISING;
    start();
    OK(cuMemAddressReserve(&first, Granule, 0, 0, 0));
    OK(cuMemAddressFree(first, Granule));
    OK(cuMemAddressReserve(&second, Granule, 0, 0, 0));
    EXPECT_LT(first, second);
}

TEST_F(Control, AddressesUsedUp_TheReservationIsRefused)
{
    mbr_cuda_address at = 0;
    EXPECT_EQ(cuMemAddressReserve(&at, options.address_bytes + Granule, 0, 0, 0),
        code(MBR_CUDA_OUT_OF_MEMORY));
    OK(cuMemAddressReserve(&at, options.address_bytes, 0, 0, 0));
    mbr_cuda_address more = 0;
    EXPECT_EQ(cuMemAddressReserve(&more, Granule, 0, 0, 0), code(MBR_CUDA_OUT_OF_MEMORY));
}

TEST_F(Control, WithoutVirtualMemory_TheAttributeSaysSo)
{
    int value = 7;
    OK(cuDeviceGetAttribute(&value, MBR_CUDA_HAS_VIRTUAL_MEMORY, 0));
    EXPECT_EQ(value, 1);
    options.has_no_virtual_memory = true;
    start();
    OK(cuDeviceGetAttribute(&value, MBR_CUDA_HAS_VIRTUAL_MEMORY, 0));
    EXPECT_EQ(value, 0);
}

TEST_F(Control, AReleasedHandleThatIsMapped_MapsAgainOnlyWhereAsked)
{
    Place place;
    mbr_cuda_address other = 0;
    options.maps_released = true;
    start();
    take(&place);
    OK(cuMemAddressReserve(&other, Granule, 0, 0, 0));
    OK(cuMemRelease(place.handle));
    EXPECT_EQ(cuMemMap(other, Granule, 0, place.handle, 0), code(MBR_CUDA_SUCCESS));
    OK(cuMemUnmap(other, Granule));
    EXPECT_EQ(peek(place.at), 0xA5A5A5A5U);
}

TEST_F(Control, Export_IsRefusedUnlessAsked)
{
    mbr_cuda_properties properties = {};
    properties.type = MBR_CUDA_ALLOCATION_PINNED;
    properties.location = {MBR_CUDA_LOCATION_DEVICE, 0};
    properties.handle_types = MBR_CUDA_HANDLE_POSIX_FD;
    mbr_cuda_handle handle = 0;
    mbr_cuda_handle again = 0;
    int file = -1;
    EXPECT_EQ(cuMemCreate(&handle, Granule, &properties, 0), code(MBR_CUDA_NOT_SUPPORTED));
    options.can_export = true;
    start();
    OK(cuMemCreate(&handle, Granule, &properties, 0));
    OK(cuMemExportToShareableHandle(&file, handle, MBR_CUDA_HANDLE_POSIX_FD, 0));
    void *travelling = reinterpret_cast<void *>(static_cast<intptr_t>(file));
    OK(cuMemImportFromShareableHandle(&again, travelling, MBR_CUDA_HANDLE_POSIX_FD));
    close(file);
    OK(cuMemRelease(handle));
    EXPECT_EQ(ledger().handle_count, 1U);
    OK(cuMemRelease(again));
    EXPECT_EQ(ledger().handle_count, 0U);
}

// ---- What a test does itself ----

TEST_F(Control, AJudge_LooksAtEachCallAndFailsItBeforeOrAfterItsEffect)
{
    static uint64_t looked;
    static standin_verdict verdict;
    looked = 0;
    verdict = STANDIN_GOES_ON;
    standin_ask([](const char *function, int *answer) {
        looked++;
        *answer = MBR_CUDA_UNKNOWN;
        return std::strcmp(function, "cuMemCreate") == 0 ? verdict : STANDIN_GOES_ON;
    });
    Place place;
    take(&place);
    EXPECT_EQ(looked, 4u);
    mbr_cuda_handle handle = 0;
    verdict = STANDIN_FAILS_BEFORE;
    EXPECT_EQ(create(&handle), code(MBR_CUDA_UNKNOWN));
    EXPECT_EQ(ledger().handle_count, 1u);
    verdict = STANDIN_FAILS_AFTER;
    EXPECT_EQ(create(&handle), code(MBR_CUDA_UNKNOWN));
    EXPECT_EQ(ledger().handle_count, 2u);
    standin_ask(nullptr);
    OK(cuMemRelease(handle));
    give(place);
    EXPECT_EQ(looked, 6u);
}

TEST_F(Control, AView_IsTheDevicesMemoryWithTheDevicesAccess)
{
    Place place;
    take(&place);
    auto *seen = static_cast<uint32_t *>(standin_view(0, place.at));
    *seen = 7;
    EXPECT_EQ(peek(place.at), 7u);
    uint32_t host = 0;
    EXPECT_EQ(standin_view(0, reinterpret_cast<uint64_t>(&host)), &host);
    OK(grant(place.at, MBR_CUDA_ACCESS_READ));
    EXPECT_EQ(*seen, 7u);
    EXPECT_DEATH(*seen = 8, "");
    give(place);
}

TEST_F(Control, WorkOfATest_RunsBehindWhatTheStreamHas)
{
    mbr_cuda_stream stream;
    Place place;
    take(&place);
    OK(cuStreamCreate(&stream, MBR_CUDA_STREAM_NON_BLOCKING));
    OK(cuMemsetD8Async(place.at, 9, Granule, stream));
    struct Look {
        const uint8_t *at;
        int seen;
    } look{static_cast<uint8_t *>(standin_view(0, place.at)), -1};
    auto function = [](void *argument) {
        auto *it = static_cast<Look *>(argument);
        it->seen = *it->at;
    };
    ASSERT_TRUE(standin_submit(reinterpret_cast<uint64_t>(stream), function, &look));
    EXPECT_EQ(look.seen, -1);
    EXPECT_EQ(standin_step(2), 2u);
    EXPECT_EQ(look.seen, 9);
    OK(cuStreamDestroy_v2(stream));
    give(place);
}

// ---- Faults ----

TEST_F(Control, AFaultBefore_LeavesNoEffectAndStrikesOnce)
{
    mbr_cuda_handle handle = 0;
    standin_fault fault = {"cuMemCreate", 2, false, false, MBR_CUDA_OUT_OF_MEMORY};
    standin_plan_fault(&fault);
    OK(create(&handle));
    EXPECT_EQ(create(&handle), code(MBR_CUDA_OUT_OF_MEMORY));
    EXPECT_EQ(ledger().handle_count, 1U);
    OK(create(&handle));
    EXPECT_EQ(ledger().handle_count, 2U);
}

TEST_F(Control, AFaultAfter_TakesEffectAllTheSame)
{
    mbr_cuda_handle handle = 0;
    standin_fault fault = {"cuMemCreate", 1, false, true, MBR_CUDA_UNKNOWN};
    standin_plan_fault(&fault);
    EXPECT_EQ(create(&handle), code(MBR_CUDA_UNKNOWN));
    EXPECT_EQ(ledger().handle_count, 1U);
    OK(cuMemRelease(handle));
    EXPECT_EQ(ledger().handle_count, 0U);
}

TEST_F(Control, AFaultAfterARefusal_IsTheRefusal)
{
    mbr_cuda_handle handle = 0;
    standin_fault fault = {"cuMemCreate", 1, false, true, MBR_CUDA_UNKNOWN};
    standin_plan_fault(&fault);
    EXPECT_EQ(create(&handle, 1), code(MBR_CUDA_INVALID_VALUE));
}

TEST_F(Control, AStickyFault_StrikesFromThenOn)
{
    mbr_cuda_handle handle = 0;
    standin_fault fault = {"cuMemCreate", 2, true, false, MBR_CUDA_OPERATING_SYSTEM};
    standin_plan_fault(&fault);
    OK(create(&handle));
    EXPECT_EQ(create(&handle), code(MBR_CUDA_OPERATING_SYSTEM));
    EXPECT_EQ(create(&handle), code(MBR_CUDA_OPERATING_SYSTEM));
    standin_forget_faults();
    OK(create(&handle));
}

TEST_F(Control, AFaultOfEveryFunction_CountsAllCalls)
{
    mbr_cuda_handle handle = 0;
    mbr_cuda_address at = 0;
    standin_fault fault = {"*", 2, false, false, MBR_CUDA_UNKNOWN};
    standin_plan_fault(&fault);
    OK(create(&handle));
    EXPECT_EQ(cuMemAddressReserve(&at, Granule, 0, 0, 0), code(MBR_CUDA_UNKNOWN));
    OK(cuMemAddressReserve(&at, Granule, 0, 0, 0));
}

TEST_F(Control, Calls_AreCountedByFunction)
{
    mbr_cuda_handle handle = 0;
    uint64_t before = standin_calls("cuMemCreate");
    EXPECT_EQ(create(&handle, 0), code(MBR_CUDA_INVALID_VALUE));
    OK(create(&handle));
    EXPECT_EQ(standin_calls("cuMemCreate"), before + 2);
    EXPECT_EQ(standin_calls("cuMemImportFromShareableHandle"), 0U);
}

TEST_F(Control, ADeviceLostAtACall_AnswersThatFromThenOn)
{
    size_t bytes = 0;
    mbr_cuda_handle handle = 0;
    standin_lose(0, 2, MBR_CUDA_ECC_UNCORRECTABLE, false);
    OK(cuMemGetInfo_v2(&bytes, &bytes));
    EXPECT_EQ(cuMemGetInfo_v2(&bytes, &bytes), code(MBR_CUDA_ECC_UNCORRECTABLE));
    EXPECT_EQ(cuCtxSynchronize(), code(MBR_CUDA_ECC_UNCORRECTABLE));
    EXPECT_EQ(create(&handle), code(MBR_CUDA_SUCCESS)); // D26
}

TEST_F(Control, ADeviceLostAsAWhole_AnswersForVirtualMemoryToo)
{
    Place place;
    take(&place);
    standin_lose(0, 0, MBR_CUDA_DEVICE_UNAVAILABLE, true);
    EXPECT_EQ(create(&place.handle), code(MBR_CUDA_DEVICE_UNAVAILABLE));
    EXPECT_EQ(cuMemUnmap(place.at, Granule), code(MBR_CUDA_DEVICE_UNAVAILABLE));
    int count = 0;
    EXPECT_EQ(cuDeviceGetCount(&count), code(MBR_CUDA_SUCCESS));
}

TEST_F(Control, Latency_IsAtLeastThatLong)
{
    int version = 0;
    standin_set_latency("cuDriverGetVersion", 3000000);
    auto start = std::chrono::steady_clock::now();
    OK(cuDriverGetVersion(&version));
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(3));
}

// It stays hidden: no other test here calls it.
TEST_F(Control, AHiddenFunction_IsFoundByNobody)
{
    void *function = nullptr;
    uint32_t found = 77;
    ASSERT_NE(dlsym(RTLD_DEFAULT, "cuMemHostGetFlags"), nullptr);
    ASSERT_TRUE(standin_hide("cuMemHostGetFlags"));
    EXPECT_EQ(dlsym(RTLD_DEFAULT, "cuMemHostGetFlags"), nullptr);
    EXPECT_EQ(cuGetProcAddress_v2("cuMemHostGetFlags", &function, 12000, 0, &found),
        code(MBR_CUDA_SUCCESS));
    EXPECT_EQ(found, code(STANDIN_SYMBOL_NOT_FOUND));
    EXPECT_EQ(function, nullptr);
    EXPECT_FALSE(standin_hide("cuMemNoSuchThing"));
    EXPECT_NE(dlsym(RTLD_DEFAULT, "cuMemHostAlloc"), nullptr);
}

// ---- What happened ----

TEST_F(Control, TheLedger_CountsEachKindAndComesBackToNothing)
{
    Place place;
    mbr_cuda_address plain = 0;
    void *host = nullptr;
    mbr_cuda_stream stream = nullptr;
    mbr_cuda_event event = nullptr;
    take(&place);
    OK(cuMemAlloc_v2(&plain, 100));
    OK(cuMemHostAlloc(&host, 200, 0));
    OK(cuStreamCreate(&stream, 0));
    OK(cuEventCreate(&event, 0));
    standin_ledger now = ledger();
    EXPECT_EQ(now.handle_count, 1U);
    EXPECT_EQ(now.handle_bytes, Granule);
    EXPECT_EQ(now.mapping_bytes, Granule);
    EXPECT_EQ(now.reservation_bytes, Granule);
    EXPECT_EQ(now.plain_bytes, 100U);
    EXPECT_EQ(now.pinned_bytes, 200U);
    EXPECT_EQ(now.stream_count, 1U);
    EXPECT_EQ(now.event_count, 1U);
    EXPECT_EQ(now.retain_count, 1U);
    give(place);
    OK(cuMemFree_v2(plain));
    OK(cuMemFreeHost(host));
    OK(cuStreamDestroy_v2(stream));
    OK(cuEventDestroy_v2(event));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    standin_assert_clean();
}

TEST_F(Control, WhatIsLeft_EndsTheProcessByName)
{
    mbr_cuda_handle handle = 0;
    OK(create(&handle));
    EXPECT_DEATH(standin_assert_clean(), "left behind: 1 handles");
}

TEST_F(Control, AnUnmapOfAHole_IsCounted)
{
    Place place;
    OK(cuMemAddressReserve(&place.at, 2 * Granule, 0, 0, 0));
    OK(cuMemUnmap(place.at, 2 * Granule));
    EXPECT_EQ(ledger().lenient_unmap_count, 1U);
    EXPECT_DEATH(standin_assert_clean(), "1 unmaps that met a hole");
}

TEST_F(Control, AnUnmapPastTheEnd_IsCounted)
{
    Place place;
    take(&place);
    EXPECT_EQ(cuMemUnmap(place.at, UINT64_MAX), code(MBR_CUDA_INVALID_VALUE));
    EXPECT_EQ(ledger().lenient_unmap_count, 0U);
    OK(cuMemUnmap(place.at, 2 * Granule));
    EXPECT_EQ(ledger().lenient_unmap_count, 1U);
    OK(cuMemAddressFree(place.at, Granule));
}

TEST_F(Control, AModeThatIsNone_IsTakenForTheStrictestAndCounted)
{
    uint32_t mode = 7;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    mode = MBR_CUDA_CAPTURE_MODE_GLOBAL;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, code(MBR_CUDA_CAPTURE_MODE_GLOBAL));
    EXPECT_EQ(ledger().lenient_mode_count, 1U);
    EXPECT_DEATH(standin_assert_clean(), "1 capture modes that are none");
}

TEST_F(Control, ARefusedArgument_IsCounted)
{
    mbr_cuda_handle handle = 0;
    OK(create(&handle));
    EXPECT_EQ(ledger().refused_count, 0U);
    OK(cuMemRelease(handle));
    EXPECT_EQ(cuMemRelease(handle), code(MBR_CUDA_INVALID_VALUE));
    EXPECT_EQ(cuEventDestroy_v2(nullptr), code(MBR_CUDA_INVALID_HANDLE));
    EXPECT_EQ(ledger().refused_count, 2U);
}

TEST_F(Control, TheJournal_HasEachCallAndItsCode)
{
    std::string path = std::string(getenv("TEST_TMPDIR")) + "/journal";
    mbr_cuda_handle handle = 0;
    ASSERT_TRUE(standin_journal(path.c_str()));
    OK(create(&handle));
    EXPECT_EQ(create(&handle, 1), code(MBR_CUDA_INVALID_VALUE));
    ASSERT_TRUE(standin_journal(nullptr));
    OK(create(&handle));
    std::ifstream file(path);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_EQ(text, "cuMemCreate 0\ncuMemCreate 1\n");
}

TEST_F(Control, PeekAndPoke_SeeWhatTheDeviceMay)
{
    Place place;
    uint32_t word = 5;
    take(&place);
    EXPECT_TRUE(standin_poke(0, place.at, &word, sizeof word));
    EXPECT_EQ(peek(place.at), 5U);
    OK(grant(place.at, MBR_CUDA_ACCESS_READ));
    EXPECT_FALSE(standin_poke(0, place.at, &word, sizeof word));
    EXPECT_EQ(peek(place.at), 5U);
    OK(cuMemUnmap(place.at, Granule));
    EXPECT_FALSE(standin_peek(0, place.at, &word, sizeof word));
}

TEST_F(Control, ARestart_ForgetsEverything)
{
    Place place;
    mbr_cuda_context current = nullptr;
    take(&place);
    standin_restart(&options);
    EXPECT_EQ(ledger().handle_count, 0U);
    EXPECT_EQ(cuMemUnmap(place.at, Granule), code(MBR_CUDA_NOT_INITIALIZED));
    OK(cuInit(0));
    OK(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
    EXPECT_EQ(cuMemUnmap(place.at, Granule), code(MBR_CUDA_INVALID_VALUE));
}

} // namespace
} // namespace standin
