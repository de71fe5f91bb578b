// What one failed system call means: its status, its outcome, what can be done afterwards.
#include "tests/unit/plugins_host/faulty_os.h"

#include <sys/resource.h>

using namespace host_test;

namespace
{

constexpr uint64_t G = 65536;

// A mechanism in which exactly one kind of call fails from now on.
class HostErrors : public testing::Test
{
  protected:
    void SetUp() override
    {
        host = world.open({});
        ASSERT_EQ(world.open_status, MBR_OK);
        Result reserved = host.reserve(1, 16 * G);
        ASSERT_TRUE(reserved.ok());
        base = reserved.outcome.address;
        ASSERT_TRUE(host.create(10, 2 * G).ok());
        ASSERT_TRUE(host.create(11, G).ok());
        Result first = host.allocate(12, 1); // the tables have their memory from now on
        ASSERT_TRUE(host.release(12, first.outcome.address).ok());
    }
    void TearDown() override
    {
        heal();
        mbr_query_outcome at;
        for (uint64_t offset = 0; host.query(1, offset, &at) == MBR_OK;
             offset = at.offset_bytes + at.bytes)
            if (at.extent_id) {
                EXPECT_TRUE(host.unmap(1, at.offset_bytes, at.bytes).ok());
            }
        EXPECT_TRUE(host.unreserve(1).ok());
        EXPECT_TRUE(host.destroy(10).ok());
        EXPECT_TRUE(host.destroy(11).ok());
        expect_empty_and_close(host);
        EXPECT_EQ(world.blocks, 0);
    }
    void fail_next(int code, Scope scope = kOnce, bool after_effect = false)
    {
        world.arm({0, scope, after_effect, code, false});
    }
    void heal() { world.arm(Plan()); }

    FaultyOs world;
    Mechanism host;
    uint64_t base = 0;
};

} // namespace

TEST_F(HostErrors, NoMemoryAtTheLimitOfMappings_IsAStatusOfItsOwn)
{
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    world.many_mappings = true;
    auto expect = [&](const Result &result) {
        EXPECT_EQ(result.status, MBR_OUT_OF_MAPPINGS) << result.error.text;
        EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_UNCHANGED);
        EXPECT_NE(strstr(result.error.text, "max_map_count"), nullptr) << result.error.text;
        EXPECT_EQ(result.error.native_code, ENOMEM);
        heal();
    };
    // The heap's records come first in these slots: they are call 0, the system call is call 1.
    for (uint64_t left : {0, 4}) { // one call may need room for four
        world.mappings_left = left;
        world.arm({1, kOnce, false, ENOMEM, false});
        expect(host.reserve(2, G));
    }
    world.mappings_left = 5;
    world.arm({1, kOnce, false, ENOMEM, false});
    EXPECT_EQ(host.reserve(2, G).status, MBR_OUT_OF_ADDRESSES);
    world.mappings_left = 0;
    world.arm({1, kOnce, false, ENOMEM, false});
    expect(host.map(1, 4 * G, 11));
    world.arm({1, kOnce, false, ENOMEM, false});
    expect(host.map_shared(1, 4 * G, 10, MBR_ACCESS_READ));
    world.arm({1, kOnce, false, ENOMEM, false});
    expect(host.allocate(20, 1));
    fail_next(ENOMEM);
    expect(host.protect(1, 0, 2 * G, MBR_ACCESS_READ));
    fail_next(ENOMEM, kSameKind);
    expect(host.unmap(1, 0, 2 * G));
    EXPECT_TRUE(host.unmap(1, 0, 2 * G).ok());
    fail_next(ENOMEM, kSameKind);
    expect(host.unreserve(1));
    Result allocation = host.allocate(20, 1);
    fail_next(ENOMEM, kSameKind);
    expect(host.release(20, allocation.outcome.address));
    EXPECT_TRUE(host.release(20, allocation.outcome.address).ok());
}

TEST_F(HostErrors, GivingUpAtTheLimitOfMappings_WorksByDroppingTheBallast)
{
    auto ballast = [&] {
        int count = 0;
        for (const Mapping &mapping : mappings_in(0, UINT64_MAX))
            count += mapping.name.find("memfd:membrane-host") != std::string::npos;
        return count;
    };
    ASSERT_EQ(ballast(), 8);
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    ASSERT_TRUE(host.reserve(2, G).ok());
    Result allocation = host.allocate(20, 1);
    world.many_mappings = true;
    fail_next(ENOMEM); // once: with the ballast gone the kernel has room
    EXPECT_TRUE(host.unmap(1, 0, 2 * G).ok());
    EXPECT_EQ(ballast(), 8); // and back, because there was room for it
    fail_next(ENOMEM);
    EXPECT_TRUE(host.unreserve(2).ok());
    // mmap fails for good: dropped, used up, and taken again with the first chance.
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    fail_next(ENOMEM, kSameKind);
    EXPECT_EQ(host.unmap(1, 0, 2 * G).status, MBR_OUT_OF_MAPPINGS);
    EXPECT_EQ(ballast(), 1); // extent 10
    heal();
    EXPECT_TRUE(host.release(20, allocation.outcome.address).ok());
    EXPECT_EQ(ballast(), 9);
    EXPECT_TRUE(host.unmap(1, 0, 2 * G).ok());
    // Another failure than that of memory costs no ballast.
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    fail_next(EPERM);
    EXPECT_EQ(host.unmap(1, 0, 2 * G).status, MBR_SYSTEM);
    EXPECT_EQ(ballast(), 9);
}

TEST_F(HostErrors, CloseThatFails_LeavesAnInstanceThatCanBeClosed)
{
    FaultyOs other;
    Mechanism second = other.open({});
    other.arm({0, kSameKind, false, EPERM, false});
    Result result = second.close();
    EXPECT_EQ(result.status, MBR_SYSTEM);
    other.arm(Plan());
    EXPECT_EQ(second.stats().owned_bytes, 0u);
    EXPECT_TRUE(second.close().ok());
    EXPECT_EQ(other.blocks, 0);
}

TEST_F(HostErrors, NoMemoryBelowTheLimitOfMappings_SaysWhatIsExhausted)
{
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    world.arm({1, kOnce, false, ENOMEM, false});
    EXPECT_EQ(host.reserve(2, G).status, MBR_OUT_OF_ADDRESSES);
    world.arm({1, kOnce, false, ENOMEM, false});
    EXPECT_EQ(host.map(1, 4 * G, 11).status, MBR_OUT_OF_MEMORY);
    world.arm({1, kOnce, false, ENOMEM, false});
    EXPECT_EQ(host.allocate(20, 1).status, MBR_OUT_OF_MEMORY);
    fail_next(ENOMEM);
    EXPECT_EQ(host.protect(1, 0, 2 * G, MBR_ACCESS_READ).status, MBR_OUT_OF_MEMORY);
    fail_next(EPERM);
    Result result = host.unmap(1, 0, 2 * G);
    EXPECT_EQ(result.status, MBR_SYSTEM);
    EXPECT_EQ(result.error.native_code, EPERM);
    EXPECT_EQ(result.error.native_domain, (uint32_t)MBR_NATIVE_ERRNO);
    EXPECT_NE(strstr(result.error.text, "EPERM"), nullptr);
}

TEST_F(HostErrors, FallocateFailures_HaveTheirStatusAlsoAtTheLimitOfMappings)
{
    world.many_mappings = true;
    const struct {
        int code;
        mbr_status status;
    } cases[] = {{ENOMEM, MBR_OUT_OF_MEMORY}, {ENOSPC, MBR_OUT_OF_MEMORY},
        {EFBIG, MBR_FILE_SIZE_LIMIT}, {EPERM, MBR_SYSTEM}, {12345, MBR_SYSTEM}};
    for (const auto &one : cases) {
        world.arm({2, kOnce, false, one.code, false}); // after the record and RLIMIT_FSIZE
        Result result = host.create(20, G);
        EXPECT_EQ(result.status, one.status) << result.error.text;
        EXPECT_EQ(result.error.asked_bytes, G);
        EXPECT_EQ(host.destroy(20).status, MBR_UNKNOWN_OBJECT);
    }
    heal();
}

TEST_F(HostErrors, CreateWhoseUndoFails_LeavesABrokenExtentThatOnlyDestroyTakes)
{
    world.arm({2, kAll, true, EPERM, false}); // pages taken, and the hole's blocks cannot be asked
    Result result = host.create(20, 2 * G);
    heal();
    EXPECT_EQ(result.status, MBR_RESIDUAL);
    EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_PARTIAL);
    EXPECT_EQ(result.outcome.residual_owned_bytes, 2 * G); // nobody could tell
    EXPECT_EQ(host.stats().owned_bytes, 5 * G);
    EXPECT_EQ(host.map(1, 0, 20).status, MBR_BUSY);
    result = host.destroy(20);
    EXPECT_TRUE(result.ok());
    EXPECT_EQ(result.outcome.released_bytes, 2 * G);
    EXPECT_EQ(file_bytes(), 3 * G);
}

TEST_F(HostErrors, DestroyThatFailedBeforeItsEffect_ChangesNothing)
{
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    ASSERT_TRUE(host.protect(1, 0, 2 * G, MBR_ACCESS_READ_WRITE).ok());
    ASSERT_TRUE(host.unmap(1, 0, 2 * G).ok());
    fail_next(EPERM);
    Result result = host.destroy(10);
    EXPECT_EQ(result.status, MBR_SYSTEM);
    EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_UNCHANGED);
    EXPECT_TRUE(host.map(1, 0, 10).ok()); // as good as before
    ASSERT_TRUE(host.unmap(1, 0, 2 * G).ok());
    fail_next(EPERM, kOnce, true); // after its effect: it is gone, and that is what was asked
    EXPECT_TRUE(host.destroy(10).ok());
    ASSERT_TRUE(host.create(10, 2 * G).ok());
}

TEST_F(HostErrors, ObjectsInACall_AreBusyForEveryOther)
{
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    auto reservation_is_busy = [&] {
        mbr_query_outcome at;
        EXPECT_EQ(host.query(1, 0, &at), MBR_BUSY);
        EXPECT_EQ(host.map(1, 4 * G, 11).status, MBR_BUSY);
        EXPECT_EQ(host.map_shared(1, 4 * G, 10, MBR_ACCESS_READ).status, MBR_BUSY);
        EXPECT_EQ(host.protect(1, 0, 2 * G, MBR_ACCESS_READ).status, MBR_BUSY);
        EXPECT_EQ(host.unmap(1, 0, 2 * G).status, MBR_BUSY);
        EXPECT_EQ(host.unreserve(1).status, MBR_BUSY);
        EXPECT_EQ(host.destroy(10).status, MBR_BUSY);
        EXPECT_TRUE(host.reserve(2, G).ok()); // others go on
        EXPECT_TRUE(host.unreserve(2).ok());
    };
    world.meanwhile = reservation_is_busy;
    EXPECT_TRUE(host.protect(1, 0, 2 * G, MBR_ACCESS_READ).ok());
    world.meanwhile = reservation_is_busy;
    EXPECT_TRUE(host.unmap(1, 0, 2 * G).ok());
    world.meanwhile = [&] {
        EXPECT_EQ(host.unreserve(3).status, MBR_BUSY);
        EXPECT_EQ(host.reserve(3, G).status, MBR_ALREADY_EXISTS);
    };
    EXPECT_TRUE(host.reserve(3, G).ok());
    world.meanwhile = [&] { EXPECT_EQ(host.unreserve(3).status, MBR_BUSY); };
    EXPECT_TRUE(host.unreserve(3).ok());
    world.meanwhile = [&] {
        EXPECT_EQ(host.destroy(11).status, MBR_BUSY);
        EXPECT_EQ(host.map(1, 0, 11).status, MBR_BUSY);
        EXPECT_EQ(host.create(11, G).status, MBR_ALREADY_EXISTS);
    };
    EXPECT_TRUE(host.destroy(11).ok());
    // The first call of a create is getrlimit, before anything is booked; fallocate is the second.
    world.meanwhile = [&] {
        EXPECT_EQ(host.destroy(11).status, MBR_UNKNOWN_OBJECT);
        world.meanwhile = [&] {
            EXPECT_EQ(host.destroy(11).status, MBR_BUSY);
            EXPECT_EQ(host.map(1, 0, 11).status, MBR_BUSY);
            EXPECT_EQ(host.create(11, G).status, MBR_ALREADY_EXISTS);
        };
    };
    EXPECT_TRUE(host.create(11, G).ok());
    uint64_t address = 0;
    world.meanwhile = [&] { EXPECT_EQ(host.release(20, address).status, MBR_UNKNOWN_OBJECT); };
    address = host.allocate(20, 1).outcome.address;
    ASSERT_NE(address, 0u);
    world.meanwhile = [&] { EXPECT_EQ(host.release(20, address).status, MBR_UNKNOWN_OBJECT); };
    EXPECT_TRUE(host.release(20, address).ok());
    EXPECT_EQ(world.meanwhile, nullptr);
}

TEST_F(HostErrors, DestroyThatFailedBesideAnother_CannotTellAndKeepsItAll)
{
    // While another slot changes the file's blocks, they do not tell whose are gone.
    Result inner = {};
    world.meanwhile = [&] {
        fail_next(EPERM, kOnce, true);
        inner = host.destroy(11);
        heal();
    };
    EXPECT_TRUE(host.destroy(10).ok());
    EXPECT_EQ(inner.status, MBR_SYSTEM);
    EXPECT_EQ(inner.outcome.state, (uint32_t)MBR_STATE_PARTIAL);
    EXPECT_EQ(inner.outcome.residual_owned_bytes, G);
    EXPECT_EQ(host.stats().owned_bytes, G);
    EXPECT_EQ(host.map(1, 0, 11).status, MBR_BUSY); // its contents may be gone
    EXPECT_EQ(host.destroy(11).outcome.released_bytes, G);
    ASSERT_TRUE(host.create(10, 2 * G).ok());
    ASSERT_TRUE(host.create(11, G).ok());
}

TEST_F(HostErrors, ErrorOfNoOrLittleRoom_IsNotWrittenPastItsEnd)
{
    auto request = sized<mbr_unmap_request>();
    request.reservation_id = 1;
    request.bytes = 2 * G;
    auto outcome = sized<mbr_outcome>();
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    for (uint32_t size : {4, 8, 24, 32, 40, 41, 60}) {
        auto error = sized<mbr_error>();
        memset(&error.status, 0x77, sizeof(error) - 4);
        error.struct_size = size;
        fail_next(EPERM);
        EXPECT_EQ(host.virtual_->unmap(host.instance, &request, &outcome, &error), MBR_SYSTEM);
        const char *bytes = reinterpret_cast<const char *>(&error);
        for (size_t i = size; i < sizeof(error); i++)
            ASSERT_EQ(bytes[i], 0x77) << size;
        if (size >= 32) {
            EXPECT_EQ(error.asked_bytes, 2 * G);
        }
    }
    fail_next(EPERM);
    EXPECT_EQ(host.virtual_->unmap(host.instance, &request, &outcome, nullptr), MBR_SYSTEM);
}

TEST_F(HostErrors, MapWhoseUndoFails_SaysWhetherItKnowsWhatIsLeft)
{
    // Record, mmap, then MADV_DONTFORK fails, and so does the mmap that would undo the first.
    for (bool blind : {false, true}) {
        world.arm({2, kOnce, false, EPERM, blind, kMmap});
        Result result = host.map(1, 0, 10);
        heal();
        EXPECT_EQ(result.status, MBR_RESIDUAL);
        EXPECT_EQ(
            result.outcome.state, (uint32_t)(blind ? MBR_STATE_QUARANTINED : MBR_STATE_PARTIAL));
        EXPECT_EQ(result.outcome.residual_mapped_bytes, 2 * G);
        EXPECT_EQ(host.stats().mapped_bytes, 2 * G);
        EXPECT_EQ(host.destroy(10).status, MBR_BUSY);
        if (!blind) { // what is known needs no second look
            world.arm({1 << 20, kOnce, false, EPERM, true, -1});
        }
        EXPECT_TRUE(host.unmap(1, 0, 2 * G).ok());
        heal();
    }
    EXPECT_EQ(host.stats().mapped_bytes, 0u);
}

TEST_F(HostErrors, UnmapThatFailedInTheDark_IsQuarantinedUntilSomebodyCanLook)
{
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    ASSERT_TRUE(host.map(1, 2 * G, 11).ok());
    world.arm({0, kAll, false, ENOMEM, true});
    Result result = host.unmap(1, 0, 3 * G);
    EXPECT_EQ(result.status, MBR_RESIDUAL);
    EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_QUARANTINED);
    EXPECT_EQ(host.destroy(10).status, MBR_BUSY);
    EXPECT_EQ(host.unreserve(1).status, MBR_BUSY);
    // The call would work by now, but without a look it is not even tried.
    world.arm({1 << 20, kOnce, false, ENOMEM, true});
    EXPECT_EQ(host.unmap(1, 2 * G, G).status, MBR_RESIDUAL);
    heal();
    EXPECT_TRUE(host.unmap(1, 0, 3 * G).ok());
    EXPECT_EQ(host.stats().mapped_bytes, 0u);
}

TEST_F(HostErrors, QuarantinedRangeTakenBySomebodyElse_IsNeverTouched)
{
    Result reserved = host.reserve(2, G);
    ASSERT_TRUE(reserved.ok());
    ASSERT_TRUE(host.map(2, 0, 11).ok());
    world.arm({0, kAll, false, ENOMEM, true});
    EXPECT_EQ(host.unmap(2, 0, G).outcome.state, (uint32_t)MBR_STATE_QUARANTINED);
    heal();
    // An older kernel may have left a hole, which another thread was then given.
    uint64_t address = reserved.outcome.address;
    ASSERT_EQ(mmap(reinterpret_cast<void *>(address), G, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        reinterpret_cast<void *>(address));
    word(address) = 99;
    Result result = host.unmap(2, 0, G);
    EXPECT_EQ(result.status, MBR_RESIDUAL);
    EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_QUARANTINED);
    EXPECT_EQ(word(address), 99u);
    EXPECT_EQ(host.stats().mapped_bytes, G); // still on the books
    // Put the kernel's view right by hand, so that the test can end clean.
    uint64_t place = address;
    ASSERT_EQ(world.real.mmap(nullptr, &place, G, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0),
        0);
    EXPECT_TRUE(host.unmap(2, 0, G).ok());
    EXPECT_TRUE(host.unreserve(2).ok());
}

TEST_F(HostErrors, ProtectThatFails_RestoresWhatItChanged)
{
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    ASSERT_TRUE(host.map(1, 2 * G, 11).ok());
    ASSERT_TRUE(host.protect(1, 0, 2 * G, MBR_ACCESS_READ_WRITE).ok());
    Result result = host.protect(1, 2 * G, G, MBR_ACCESS_READ);
    ASSERT_TRUE(result.ok());
    world.arm({1, kOnce, false, ENOMEM, false}); // mprotect works, populating does not
    result = host.protect(1, 0, 3 * G, MBR_ACCESS_READ);
    EXPECT_EQ(result.status, MBR_OUT_OF_MEMORY);
    EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_UNCHANGED);
    heal();
    EXPECT_TRUE(can_write(base));
    EXPECT_FALSE(can_write(base + 2 * G));
    EXPECT_TRUE(can_read(base + 2 * G));
}

TEST_F(HostErrors, KernelWithoutPopulate_IsTouchedByHand)
{
    world.old_kernel = true;
    Result allocation = host.allocate(20, 3 * G);
    ASSERT_TRUE(allocation.ok()) << allocation.error.text;
    EXPECT_EQ(resident_bytes(allocation.outcome.address, 3 * G), 3 * G);
    EXPECT_TRUE(host.release(20, allocation.outcome.address).ok());
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    ASSERT_TRUE(host.protect(1, 0, 2 * G, MBR_ACCESS_READ_WRITE).ok());
    ASSERT_TRUE(host.map_shared(1, 4 * G, 10, MBR_ACCESS_READ).ok());
    uint64_t rss = 0;
    for (const Mapping &mapping : mappings_in(base, base + 16 * G))
        if (mapping.name.find("memfd:membrane-host") != std::string::npos)
            rss += mapping.rss_bytes;
    EXPECT_EQ(rss, 4 * G);
}

TEST_F(HostErrors, InterruptedFallocate_GoesOnInSmallerStepsUpToALimit)
{
    world.interrupted_above = 3 * 4096;
    ASSERT_TRUE(host.create(20, 4 * G).ok()); // in steps of 2 pages
    EXPECT_EQ(file_bytes(), 7 * G);
    ASSERT_TRUE(host.destroy(20).ok());
    ASSERT_TRUE(host.create(20, 7 * G).ok()); // in steps of 3 pages, and a rest of one
    EXPECT_EQ(file_bytes(), 10 * G);
    ASSERT_TRUE(host.destroy(20).ok());
    ASSERT_TRUE(host.create(20, 4 * G).ok());
    world.interrupted_above = 1; // nothing comes through
    Result result = host.create(21, G);
    world.interrupted_above = 0;
    EXPECT_EQ(result.status, MBR_SYSTEM);
    EXPECT_EQ(result.error.native_code, EINTR);
    EXPECT_EQ(file_bytes(), 7 * G);
    ASSERT_TRUE(host.destroy(20).ok());
}

TEST_F(HostErrors, UnknownFreeMemory_IsSaidSo)
{
    fail_next(EMFILE);
    mbr_mechanism_stats stats = host.stats();
    EXPECT_EQ(stats.free_bytes, MBR_UNKNOWN_BYTES);
    EXPECT_GT(stats.total_bytes, 0u);
    EXPECT_EQ(stats.owned_bytes, 3 * G);
    heal();
    stats = host.stats();
    EXPECT_GT(stats.free_bytes, 0u);
    EXPECT_LE(stats.free_bytes, stats.total_bytes);
}

TEST(HostInspect, TellsHolesReservationsTheFileAndOtherThings)
{
    mbr_host_os os;
    mbr_host_os_linux(&os);
    int file, other;
    uint64_t inode, other_inode;
    ASSERT_EQ(os.file_create(nullptr, &file, &inode), 0);
    ASSERT_EQ(os.file_create(nullptr, &other, &other_inode), 0);
    uint64_t address = 0;
    ASSERT_EQ(os.mmap(nullptr, &address, 8 * G, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
        0);
    auto kind = [&](uint64_t offset, uint64_t bytes) {
        mbr_host_range range;
        EXPECT_EQ(os.inspect(nullptr, address + offset, bytes, inode, &range), 0);
        EXPECT_GT(range.mapping_count, 10u);
        EXPECT_GT(range.mapping_count_limit, range.mapping_count);
        return range.kind;
    };
    auto put = [&](uint64_t offset, uint64_t bytes, int flags, int source) {
        uint64_t place = address + offset;
        ASSERT_EQ(os.mmap(nullptr, &place, bytes, PROT_NONE, flags | MAP_FIXED, source, 0), 0);
    };
    EXPECT_EQ(kind(0, 8 * G), MBR_HOST_RANGE_RESERVED);
    put(2 * G, 2 * G, MAP_SHARED, file);
    EXPECT_EQ(kind(2 * G, 2 * G), MBR_HOST_RANGE_FILE);
    EXPECT_EQ(kind(3 * G, G), MBR_HOST_RANGE_FILE);
    EXPECT_EQ(kind(0, 2 * G), MBR_HOST_RANGE_RESERVED);
    EXPECT_EQ(kind(G, 2 * G), MBR_HOST_RANGE_OTHER); // a mixture
    put(4 * G, G, MAP_SHARED, other);
    EXPECT_EQ(kind(4 * G, G), MBR_HOST_RANGE_OTHER);
    EXPECT_EQ(kind(3 * G, 2 * G), MBR_HOST_RANGE_OTHER);
    put(5 * G, G, MAP_PRIVATE, file);
    EXPECT_EQ(kind(5 * G, G), MBR_HOST_RANGE_OTHER);
    ASSERT_EQ(os.mprotect(nullptr, address + 6 * G, G, PROT_READ), 0);
    EXPECT_EQ(kind(6 * G, G), MBR_HOST_RANGE_OTHER);
    ASSERT_EQ(os.munmap(nullptr, address, 2 * G), 0);
    EXPECT_EQ(kind(0, 2 * G), MBR_HOST_RANGE_HOLE);
    EXPECT_EQ(kind(G, 2 * G), MBR_HOST_RANGE_OTHER); // half a hole
    mbr_host_range unused;
    rlimit old_limit, limit;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 0;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(os.inspect(nullptr, address, G, inode, &unused), EMFILE);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
    EXPECT_EQ(os.file_owned(nullptr, -1, &inode), EBADF);
    EXPECT_EQ(os.mmap(nullptr, &inode, 0, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), EINVAL);
    ASSERT_EQ(os.munmap(nullptr, address + 2 * G, 6 * G), 0);
    EXPECT_EQ(kind(2 * G, 6 * G), MBR_HOST_RANGE_HOLE);
    EXPECT_EQ(os.file_close(nullptr, file), 0);
    EXPECT_EQ(os.file_close(nullptr, other), 0);
    EXPECT_EQ(os.file_close(nullptr, other), EBADF);
}
