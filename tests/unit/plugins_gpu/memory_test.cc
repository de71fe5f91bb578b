// Memory over the driver: books that are the driver's, accesses of several devices, and what is
// told where a call fails before or after its effect.
#include "tests/unit/plugins_gpu/world.h"

namespace gpu_test
{

namespace
{

class Memory : public OverStandin
{
  protected:
    // A reservation of 8 granules (1), an extent of two (2) at its start, mapped and writable.
    void begin()
    {
        device = Device("device0");
        Result reserved = device.reserve(1, 8 * G);
        ASSERT_TRUE(reserved.ok());
        base = reserved.outcome.address;
        ASSERT_TRUE(device.create(2, 2 * G).ok());
        ASSERT_TRUE(device.map(1, 0, 2).ok());
        ASSERT_TRUE(device.protect(1, 0, 2 * G, MBR_ACCESS_READ_WRITE).ok());
    }
    void end()
    {
        EXPECT_TRUE(device.unmap(1, 0, 2 * G).ok());
        EXPECT_TRUE(device.destroy(2).ok());
        EXPECT_TRUE(device.unreserve(1).ok());
        EXPECT_TRUE(device.close().ok());
    }
    // Until all that was submitted to the stream has run.
    void await(mbr_native stream)
    {
        ASSERT_TRUE(device.line_open(1, stream).ok());
        ASSERT_EQ(device.signal(1).outcome.value, 1u);
        EXPECT_TRUE(device.wait(1, 1, UINT64_MAX).ok());
        EXPECT_TRUE(device.line_close(1).ok());
    }
    unsigned long long access_of(int index, uint64_t offset)
    {
        unsigned long long flags = 99;
        const mbr_gpu_location location = {MBR_GPU_LOCATION_DEVICE, index};
        EXPECT_EQ(driver().get_access(&flags, &location, base + offset), MBR_GPU_SUCCESS);
        return flags;
    }

    Device device;
    uint64_t base = 0;
};

TEST_F(Memory, SeveralDevices_OneCallGivesEachItsAccess)
{
    begin();
    uint64_t calls = standin().calls(name().set_access);
    const std::vector<mbr_access> both = {{1, MBR_ACCESS_READ}, {0, MBR_ACCESS_READ_WRITE}};
    EXPECT_TRUE(device.protect_all(1, 0, 2 * G, both).ok());
    EXPECT_EQ(standin().calls(name().set_access), calls + 1);
    EXPECT_EQ(access_of(0, G), 3u);
    EXPECT_EQ(access_of(1, G), 1u);
    EXPECT_TRUE(device.protect_all(1, 0, 2 * G, {{0, MBR_ACCESS_NONE}}).ok());
    EXPECT_EQ(access_of(0, 0), 0u);
    EXPECT_EQ(access_of(1, 0), 1u) << "a device that is not named keeps its access";
    mbr_query_outcome at;
    EXPECT_EQ(device.query(1, 0, &at), MBR_OK);
    EXPECT_EQ(at.access, (uint32_t)MBR_ACCESS_NONE) << "of the mechanism's own device";
    const mbr_access two[] = {{1, MBR_ACCESS_READ}, {1, MBR_ACCESS_READ}};
    EXPECT_EQ(device.protect_all(1, 0, 2 * G, {two[0], two[1]}).status, MBR_INVALID_ARGUMENT);
    EXPECT_EQ(device.protect_all(1, 0, 2 * G, {{2, MBR_ACCESS_READ}}).status, MBR_OUT_OF_RANGE);
    end();
}

TEST_F(Memory, ProtectFailsAfterItsEffect_EveryDeviceIsPutBack)
{
    begin();
    ASSERT_TRUE(device.protect_all(1, 0, 2 * G, {{1, MBR_ACCESS_READ}}).ok());
    const standin_fault fault = {name().set_access, 1, false, true, MBR_GPU_UNKNOWN};
    standin().plan_fault(&fault);
    const std::vector<mbr_access> change = {{0, MBR_ACCESS_READ}, {1, MBR_ACCESS_NONE}};
    Result failed = device.protect_all(1, 0, 2 * G, change);
    EXPECT_EQ(failed.status, MBR_SYSTEM);
    EXPECT_EQ(failed.error.native_code, MBR_GPU_UNKNOWN);
    EXPECT_EQ(failed.outcome.state, (uint32_t)MBR_STATE_UNCHANGED);
    EXPECT_EQ(access_of(0, 0), 3u);
    EXPECT_EQ(access_of(1, 0), 1u);
    end();
}

// What the driver made and does not take back stays on the books, under its id.
TEST_F(Memory, CreateFailsAfterItsEffectAndItsUndoToo_BytesStayOwned)
{
    for (int undo : {MBR_GPU_INVALID_VALUE, MBR_GPU_UNKNOWN}) {
        bool is_there = undo == MBR_GPU_INVALID_VALUE; // else nobody knows
        restart();
        device = Device("device0");
        const standin_fault faults[] = {{name().handle_create, 1, false, true, MBR_GPU_UNKNOWN},
            {name().handle_release, 1, false, false, undo}};
        for (const standin_fault &fault : faults)
            standin().plan_fault(&fault);
        Result failed = device.create(1, 2 * G);
        EXPECT_EQ(failed.status, MBR_RESIDUAL);
        EXPECT_EQ(failed.error.native_code, undo);
        EXPECT_EQ(
            failed.outcome.state, (uint32_t)(is_there ? MBR_STATE_PARTIAL : MBR_STATE_QUARANTINED));
        EXPECT_EQ(failed.outcome.newly_owned_bytes, 2 * G);
        EXPECT_EQ(failed.outcome.residual_owned_bytes, 2 * G);
        EXPECT_EQ(device.stats().owned_bytes, ledger().handle_bytes);
        EXPECT_EQ(device.stats().owned_bytes, 2 * G);
        ASSERT_TRUE(device.reserve(2, 2 * G).ok());
        EXPECT_EQ(device.map(2, 0, 1).status, MBR_BUSY);
        EXPECT_TRUE(device.unreserve(2).ok());
        EXPECT_TRUE(device.destroy(1).ok()); // the host does so where it is told that it is there
        EXPECT_TRUE(device.close().ok());
    }
}

TEST_F(Memory, NoMoreMemory_IsExhaustedAndNotForGood)
{
    begin();
    Result refused = device.create(3, kCapacity - G);
    EXPECT_EQ(refused.status, MBR_OUT_OF_MEMORY);
    EXPECT_EQ(refused.error.native_code, MBR_GPU_OUT_OF_MEMORY);
    EXPECT_EQ(refused.error.asked_bytes, kCapacity - G);
    EXPECT_EQ(device.create(3, kCapacity + G).status, MBR_INVALID_ARGUMENT);
    EXPECT_EQ(device.reserve(3, UINT64_C(1) << 46).status, MBR_OUT_OF_ADDRESSES);
    EXPECT_TRUE(device.create(3, 4 * G).ok());
    EXPECT_TRUE(device.destroy(3).ok());
    end();
}

// The driver would take the address for the host's and read it itself.
TEST_F(Memory, CopyWhereNothingIsMapped_IsRefused)
{
    begin();
    mbr_native stream;
    ASSERT_EQ(device.stream_create(&stream), MBR_OK);
    std::vector<char> host(3 * G);
    const uint64_t at = reinterpret_cast<uint64_t>(host.data());
    for (uint64_t offset : {G, 2 * G, 7 * G}) {
        EXPECT_EQ(device.copy(stream, at, base + offset, G + 1).status, MBR_INVALID_ARGUMENT);
        EXPECT_EQ(device.copy(stream, base + offset, at, G + 1).status, MBR_INVALID_ARGUMENT);
    }
    EXPECT_EQ(device.fill(stream, base + G, 2 * G, 1).status, MBR_INVALID_ARGUMENT);
    EXPECT_TRUE(device.copy(stream, at, base, 2 * G).ok());
    EXPECT_TRUE(device.copy(stream, base, at, 2 * G).ok());
    await(stream);
    EXPECT_TRUE(device.stream_destroy(stream).ok());
    end();
}

// From a hole at the end of one reservation into the mapped start of the next.
TEST_F(Memory, CopyOverTwoReservations_IsRefusedForAHoleInEither)
{
    begin();
    mbr_native stream;
    ASSERT_EQ(device.stream_create(&stream), MBR_OK);
    ASSERT_EQ(device.reserve(3, 2 * G).outcome.address, base + 8 * G);
    ASSERT_TRUE(device.create(4, G).ok());
    ASSERT_TRUE(device.map(3, 0, 4).ok());
    ASSERT_TRUE(device.protect(3, 0, G, MBR_ACCESS_READ_WRITE).ok());
    std::vector<char> host(2 * G);
    const uint64_t at = reinterpret_cast<uint64_t>(host.data());
    uint64_t copies = standin().calls(name().copy_async);
    EXPECT_EQ(device.copy(stream, at, base + 7 * G, 2 * G).status, MBR_INVALID_ARGUMENT);
    EXPECT_EQ(device.copy(stream, base + 7 * G, at, 2 * G).status, MBR_INVALID_ARGUMENT);
    EXPECT_EQ(standin().calls(name().copy_async), copies);
    ASSERT_TRUE(device.map_shared(1, 6 * G, 2, MBR_ACCESS_READ_WRITE).ok());
    EXPECT_TRUE(device.copy(stream, at, base + 7 * G, 2 * G).ok());
    EXPECT_EQ(device.copy(stream, at, base + 8 * G, 2 * G).status, MBR_INVALID_ARGUMENT);
    EXPECT_EQ(standin().calls(name().copy_async), copies + 1);
    await(stream);
    EXPECT_TRUE(device.unmap(1, 6 * G, 2 * G).ok());
    EXPECT_TRUE(device.unmap(3, 0, G).ok());
    EXPECT_TRUE(device.destroy(4).ok());
    EXPECT_TRUE(device.unreserve(3).ok());
    EXPECT_TRUE(device.stream_destroy(stream).ok());
    end();
}

// Nobody knows of the first reservation; where it stood the driver has put the second.
TEST_F(Memory, AddressesGivenBackInDoubtAndReservedAgain_CopyIntoThemIsLookedAt)
{
    device = Device("device0");
    mbr_native stream;
    ASSERT_EQ(device.stream_create(&stream), MBR_OK);
    Result first = device.reserve(1, 4 * G);
    const standin_fault fault = {name().address_free, 1, false, true, MBR_GPU_UNKNOWN};
    standin().plan_fault(&fault);
    EXPECT_EQ(device.unreserve(1).outcome.state, (uint32_t)MBR_STATE_QUARANTINED);
    ASSERT_EQ(device.reserve(2, 4 * G).outcome.address, first.outcome.address);
    std::vector<char> host(G);
    const uint64_t at = reinterpret_cast<uint64_t>(host.data());
    ASSERT_TRUE(device.create(3, G).ok());
    ASSERT_TRUE(device.map(2, 0, 3).ok());
    ASSERT_TRUE(device.protect(2, 0, G, MBR_ACCESS_READ_WRITE).ok());
    EXPECT_TRUE(device.copy(stream, at, first.outcome.address, G).ok());
    uint64_t copies = standin().calls(name().copy_async);
    EXPECT_EQ(device.copy(stream, at, first.outcome.address + G, G).status, MBR_INVALID_ARGUMENT);
    EXPECT_EQ(standin().calls(name().copy_async), copies);
    EXPECT_TRUE(device.unmap(2, 0, G).ok());
    EXPECT_TRUE(device.destroy(3).ok());
    EXPECT_TRUE(device.unreserve(2).ok());
    EXPECT_TRUE(device.stream_destroy(stream).ok());
    give_up(device);
    restart();
}

TEST_F(Memory, AddressesAreNotGivenBack_CopyIntoThemIsLookedAtFurther)
{
    begin();
    mbr_native stream;
    ASSERT_EQ(device.stream_create(&stream), MBR_OK);
    Result other = device.reserve(3, 4 * G);
    const standin_fault fault = {name().address_free, 1, false, false, MBR_GPU_INVALID_VALUE};
    standin().plan_fault(&fault);
    EXPECT_EQ(device.unreserve(3).outcome.state, (uint32_t)MBR_STATE_UNCHANGED);
    uint64_t copies = standin().calls(name().copy_async);
    EXPECT_EQ(device.copy(stream, other.outcome.address, base, G).status, MBR_INVALID_ARGUMENT);
    EXPECT_EQ(standin().calls(name().copy_async), copies);
    EXPECT_TRUE(device.unreserve(3).ok());
    EXPECT_TRUE(device.stream_destroy(stream).ok());
    end();
}

TEST_F(Memory, Alignment_IsOwnedWhereTheDriverHasNone)
{
    for (const char *name : {"device0", "pinned0", "unified0"}) {
        Device it(name);
        Result taken = it.allocate(1, 100, 65536);
        ASSERT_TRUE(taken.ok()) << name;
        EXPECT_EQ(taken.outcome.address % 65536, 0u);
        EXPECT_EQ(taken.outcome.newly_owned_bytes, 256u + 65536 - 256);
        EXPECT_EQ(it.stats().owned_bytes, taken.outcome.newly_owned_bytes);
        EXPECT_EQ(it.allocate(2, 100, 65536, 65535).status, MBR_OVER_BUDGET);
        Result released = it.release(1, taken.outcome.address);
        EXPECT_EQ(released.outcome.released_bytes, taken.outcome.newly_owned_bytes);
        EXPECT_TRUE(it.close().ok());
    }
}

// ---- Every call fails once, before its effect and after it ----------------------------------

// What a run holds; each step that fails is made again, as the host would.
struct Run {
    Device device;
    uint64_t withheld_count = 0; // objects that nobody knows of any more

    template <typename Step> Result twice(Step step)
    {
        Result result = step();
        if (!result.ok() && result.outcome.state == MBR_STATE_UNCHANGED)
            result = step();
        withheld_count += result.outcome.state == MBR_STATE_QUARANTINED;
        EXPECT_TRUE(result.ok() || result.outcome.state == MBR_STATE_QUARANTINED)
            << result.error.text;
        return result;
    }
};

// The books and the driver's own agree, but for what is withheld.
void expect_agreement(Run &run)
{
    standin_ledger told = ledger();
    mbr_mechanism_stats books = run.device.stats();
    mbr_report report = run.device.report();
    if (run.withheld_count == 0) {
        EXPECT_EQ(told.handle_bytes + told.plain_bytes, books.owned_bytes);
        EXPECT_EQ(told.handle_count, report.extent_count);
        EXPECT_EQ(told.reservation_bytes, books.reserved_bytes);
        EXPECT_EQ(told.stream_count, report.stream_count);
    }
    EXPECT_LE(told.handle_bytes + told.plain_bytes, books.owned_bytes) << "never below the driver";
    EXPECT_EQ(told.mapping_count, report.mapping_count);
    EXPECT_EQ(told.lenient_unmap_count, 0u);
}

// What a failed call left of the plugin's on the thread would stay to the end: every later call
// finds it there, and puts it back.
void expect_callers_state()
{
    EXPECT_EQ(current(), 0u);
    uint32_t mode = MBR_GPU_CAPTURE_MODE_GLOBAL;
    EXPECT_EQ(driver().exchange_capture_mode(&mode), MBR_GPU_SUCCESS);
    EXPECT_EQ(mode, (uint32_t)MBR_GPU_CAPTURE_MODE_GLOBAL);
}

void scenario(Run &run)
{
    Device &device = run.device;
    mbr_native stream = {};
    if (device.stream_create(&stream) != MBR_OK) {
        ASSERT_EQ(device.stream_create(&stream), MBR_OK);
    }
    run.twice([&] { return device.reserve(1, 8 * G); });
    run.twice([&] { return device.create(2, 2 * G); });
    run.twice([&] { return device.map(1, 0, 2); });
    expect_agreement(run);
    run.twice([&] { return device.protect(1, 0, 2 * G, MBR_ACCESS_READ_WRITE); });
    run.twice([&] { return device.map_shared(1, 4 * G, 2, MBR_ACCESS_READ); });
    expect_agreement(run);
    Result taken = run.twice([&] { return device.allocate(3, 1000); });
    run.twice([&] { return device.line_open(4, stream); });
    run.twice([&] { return device.fill(stream, taken.outcome.address, 1000, 7); });
    run.twice([&] {
        return device.copy(stream, taken.outcome.address, taken.outcome.address + 512, 512);
    });
    Result signalled = run.twice([&] { return device.signal(4); });
    run.twice([&] { return device.stream_wait(4, signalled.outcome.value, stream); });
    run.twice([&] { return device.wait(4, signalled.outcome.value, UINT64_MAX); });
    expect_agreement(run);
    run.twice([&] { return device.line_close(4); });
    run.twice([&] { return device.release(3, taken.outcome.address); });
    run.twice([&] { return device.unmap(1, 0, 2 * G); });
    run.twice([&] { return device.unmap(1, 4 * G, 2 * G); });
    expect_agreement(run);
    run.twice([&] { return device.destroy(2); });
    run.twice([&] { return device.unreserve(1); });
    run.twice([&] { return device.stream_destroy(stream); });
    expect_agreement(run);
}

// Returns whether the fault struck.
bool run_with_fault(uint64_t index, bool is_after, int code)
{
    restart();
    Run run;
    run.device = Device("device0");
    uint64_t calls = ledger().call_count;
    const standin_fault fault = {"*", index, false, is_after, code};
    standin().plan_fault(&fault);
    scenario(run);
    bool has_struck = ledger().call_count >= calls + index;
    standin().forget_faults();
    expect_callers_state();
    Result closed = run.device.close();
    EXPECT_EQ(closed.ok(), run.withheld_count == 0) << closed.error.text;
    if (run.withheld_count == 0)
        standin().assert_clean();
    else
        give_up(run.device);
    return has_struck;
}

TEST_F(Memory, EveryCallFailsOnce_BooksAreTheDriversAndItGoesOn)
{
    uint64_t struck_count = 0;
    for (int code : {MBR_GPU_OUT_OF_MEMORY, MBR_GPU_UNKNOWN})
        for (bool is_after : {false, true})
            for (uint64_t index = 1; run_with_fault(index, is_after, code); index++) {
                struck_count++;
                if (HasFailure())
                    FAIL() << "call " << index << (is_after ? " after" : " before") << ", code "
                           << code;
            }
    EXPECT_GE(struck_count, 200u);
    RecordProperty("faults", (int)struck_count);
    restart();
}

} // namespace

} // namespace gpu_test
