// Every slot of the real file that takes or gives memory: what it does, and what it refuses without
// side effect.
#include "tests/unit/plugins_host/fixture.h"

using namespace host_test;

// ---- allocate, release ----------------------------------------------------------------------

TEST_F(HostSlots, Allocate_EverySizeAndAlignment_OwnsWholePagesAndIsZeroAndPopulated)
{
    uint64_t id = 100;
    for (uint64_t bytes : {1ul, 7ul, 4096ul, 4097ul, G - 1, G + 1, 3ul << 20})
        for (uint64_t align : {0ul, 1ul, 64ul, 4096ul, 8192ul, 2ul << 20, 1ul << 30}) {
            uint64_t pages = (bytes + 4095) / 4096 * 4096;
            uint64_t before = host.stats().owned_bytes;
            Result result = host.allocate(++id, bytes, align, pages, MBR_ALLOCATE_ZEROED);
            ASSERT_TRUE(result.ok()) << result.error.text;
            uint64_t address = result.outcome.address;
            EXPECT_EQ(address % (align ? align : 4096), 0u);
            EXPECT_EQ(result.outcome.newly_owned_bytes, pages);
            EXPECT_EQ(result.outcome.newly_mapped_bytes, pages);
            EXPECT_EQ(result.outcome.content, (uint32_t)MBR_CONTENT_ZERO);
            EXPECT_EQ(result.outcome.granted_flags, (uint32_t)MBR_ALLOCATE_ZEROED);
            EXPECT_EQ(host.stats().owned_bytes, before + pages);
            EXPECT_EQ(resident_bytes(address, pages), pages);
            auto *first = reinterpret_cast<unsigned char *>(address);
            for (uint64_t at = 0; at < bytes; at += 509)
                ASSERT_EQ(first[at], 0);
            memset(first, 0xAB, bytes);
            Result released = host.release(id, address);
            ASSERT_TRUE(released.ok()) << released.error.text;
            EXPECT_EQ(released.outcome.released_bytes, pages);
            EXPECT_EQ(released.outcome.unmapped_bytes, pages);
            EXPECT_EQ(host.stats().owned_bytes, before);
        }
}

TEST_F(HostSlots, AllocateBeyondWhatIsAllowed_IsRefused)
{
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.allocate(0, 1));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.allocate(100, 0));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.allocate(100, 1, 3));
    EXPECT_REFUSED(MBR_OVERFLOW, host.allocate(100, UINT64_MAX - 10));
    EXPECT_REFUSED(MBR_OVERFLOW, host.allocate(100, 1ul << 63, 1ul << 63));
    EXPECT_REFUSED(MBR_OVER_BUDGET, host.allocate(100, 4097, 0, 8191));
    EXPECT_REFUSED(MBR_OVER_BUDGET, host.allocate(100, 1, 0, 0));
    EXPECT_REFUSED(MBR_UNSUPPORTED, host.allocate(100, 1, 0, kAny, 2));
    EXPECT_REFUSED(MBR_OUT_OF_MEMORY, host.allocate(100, 1ul << 50));
    Result result = host.allocate(100, 1, 0, 4096, 0x80000000u); // optional: ignored
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result.outcome.granted_flags, 0u);
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.allocate(100, 1));
    EXPECT_TRUE(host.release(100, result.outcome.address).ok());
}

TEST_F(HostSlots, ZeroIdAndZeroSize_AreToldApart)
{
    EXPECT_NE(strstr(host.allocate(0, 1).error.text, "id"), nullptr);
    EXPECT_NE(strstr(host.allocate(100, 0).error.text, "size"), nullptr);
}

TEST_F(HostSlots, OverBudget_SaysWhatWasAskedAndWhatIsAllowed)
{
    Result result = host.allocate(100, 4097, 0, 5000);
    EXPECT_EQ(result.error.asked_bytes, 8192u);
    EXPECT_EQ(result.error.free_bytes, 5000u);
    result = host.create(100, 2 * G, G);
    EXPECT_EQ(result.status, MBR_OVER_BUDGET);
    EXPECT_EQ(result.error.asked_bytes, 2 * G);
    EXPECT_EQ(result.error.free_bytes, G);
}

TEST_F(HostSlots, ReleaseOfWrongIdOrAddress_IsRefusedAndTheRightOneStillWorks)
{
    Result first = host.allocate(100, 10), second = host.allocate(101, 10);
    uint64_t address = first.outcome.address;
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.release(102, address));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.release(0, address));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.release(100, address + 1));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.release(100, second.outcome.address));
    EXPECT_TRUE(host.release(100, address).ok());
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.release(100, address));
    EXPECT_TRUE(host.release(101, second.outcome.address).ok());
}

// ---- reserve, unreserve ---------------------------------------------------------------------

TEST_F(HostSlots, Reserve_CostsNothingAndHonoursTheAlignment)
{
    for (uint64_t align : {0ul, 1ul, G, 2ul << 20, 1ul << 30}) {
        auto before = host.stats();
        Result result = host.reserve(2, 3 * G, align);
        ASSERT_TRUE(result.ok()) << result.error.text;
        EXPECT_EQ(result.outcome.address % std::max(align, G), 0u);
        EXPECT_EQ(host.stats().owned_bytes, before.owned_bytes);
        EXPECT_EQ(host.stats().mapped_bytes, before.mapped_bytes);
        EXPECT_EQ(host.stats().reserved_bytes, before.reserved_bytes + 3 * G);
        EXPECT_FALSE(can_read(result.outcome.address));
        ASSERT_TRUE(host.unreserve(2).ok());
        for (const Mapping &mapping :
            mappings_in(result.outcome.address, result.outcome.address + 3 * G))
            EXPECT_EQ(mapping.name, "") << "a neighbour of the freed range";
    }
}

TEST_F(HostSlots, ReserveWithWrongArguments_IsRefused)
{
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.reserve(0, G));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.reserve(2, 0));
    EXPECT_REFUSED(MBR_MISALIGNED, host.reserve(2, G + 1));
    EXPECT_REFUSED(MBR_MISALIGNED, host.reserve(2, 4096));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.reserve(2, G, 3 * G));
    EXPECT_REFUSED(MBR_OVERFLOW, host.reserve(2, UINT64_MAX - G + 1));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.reserve(2, 1ul << 47));
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.reserve(1, G));
    auto request = sized<mbr_reserve_request>();
    request.flags = 1;
    request.reservation_id = 2;
    request.bytes = G;
    auto outcome = sized<mbr_outcome>();
    EXPECT_EQ(host.virtual_->reserve(host.instance, &request, &outcome, nullptr), MBR_UNSUPPORTED);
    request.flags = 0x10000; // optional: ignored
    EXPECT_EQ(host.virtual_->reserve(host.instance, &request, &outcome, nullptr), MBR_OK);
}

TEST_F(HostSlots, Unreserve_OnlyOnceAndOnlyEmpty)
{
    ASSERT_TRUE(host.map(1, 2 * G, 11).ok());
    EXPECT_REFUSED(MBR_BUSY, host.unreserve(1));
    ASSERT_TRUE(host.unmap(1, 2 * G, G).ok());
    EXPECT_TRUE(host.unreserve(1).ok());
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.unreserve(1));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.map(1, 0, 11));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.protect(1, 0, G, 1));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.unmap(1, 0, G));
    mbr_query_outcome at;
    EXPECT_EQ(host.query(1, 0, &at), MBR_UNKNOWN_OBJECT);
}

// ---- extent_create, extent_destroy ----------------------------------------------------------

TEST_F(HostSlots, ExtentCreate_OwnsItsPagesAtOnce)
{
    uint64_t before = file_bytes();
    EXPECT_EQ(before, 4 * G);
    Result result = host.create(20, 5 * G, 5 * G, MBR_EXTENT_ZEROED | MBR_EXTENT_HUGE_PAGES);
    ASSERT_TRUE(result.ok()) << result.error.text;
    EXPECT_EQ(result.outcome.newly_owned_bytes, 5 * G);
    EXPECT_EQ(result.outcome.newly_mapped_bytes, 0u);
    EXPECT_EQ(result.outcome.granted_flags, (uint32_t)MBR_EXTENT_ZEROED);
    EXPECT_EQ(file_bytes(), before + 5 * G);
    result = host.destroy(20);
    ASSERT_TRUE(result.ok()) << result.error.text;
    EXPECT_EQ(result.outcome.released_bytes, 5 * G);
    EXPECT_EQ(file_bytes(), before);
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.destroy(20));
}

TEST_F(HostSlots, ExtentCreateWithWrongArguments_IsRefused)
{
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.create(0, G));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.create(20, 0));
    EXPECT_REFUSED(MBR_MISALIGNED, host.create(20, G - 1));
    EXPECT_REFUSED(MBR_MISALIGNED, host.create(20, UINT64_MAX - 10));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.create(20, (1ul << 46) + G));
    EXPECT_REFUSED(MBR_OUT_OF_MEMORY, host.create(20, 1ul << 46)); // more than any machine's RAM
    EXPECT_REFUSED(MBR_OVER_BUDGET, host.create(20, 2 * G, 2 * G - 1));
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.create(11, G));
    EXPECT_REFUSED(MBR_UNSUPPORTED, host.create(20, G, kAny, MBR_EXTENT_EXPORTABLE));
    EXPECT_REFUSED(MBR_UNSUPPORTED, host.create(20, G, kAny, 0x8000));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.destroy(20));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.destroy(0));
}

TEST_F(HostSlots, ExtentDestroyWhileMapped_IsBusyWithContentsIntact)
{
    ASSERT_TRUE(host.map(1, 0, 11).ok());
    ASSERT_TRUE(host.protect(1, 0, G, MBR_ACCESS_READ_WRITE).ok());
    word(base) = 42;
    EXPECT_REFUSED(MBR_BUSY, host.destroy(11));
    EXPECT_EQ(word(base), 42u);
}

// ---- map, map_shared ------------------------------------------------------------------------

TEST_F(HostSlots, Map_HasNoAccessUntilProtect)
{
    Result result = host.map(1, G, 12);
    ASSERT_TRUE(result.ok()) << result.error.text;
    EXPECT_EQ(result.outcome.newly_mapped_bytes, 2 * G);
    EXPECT_EQ(result.outcome.newly_owned_bytes, 0u);
    EXPECT_EQ(result.outcome.content, (uint32_t)MBR_CONTENT_ZERO);
    EXPECT_FALSE(can_read(base + G));
    result = host.protect(1, G, 2 * G, MBR_ACCESS_READ);
    ASSERT_TRUE(result.ok()) << result.error.text;
    EXPECT_EQ(result.outcome.newly_mapped_bytes, 0u);
    EXPECT_TRUE(can_read(base + G));
    EXPECT_FALSE(can_write(base + 3 * G - 1));
    ASSERT_TRUE(host.protect(1, G, 2 * G, MBR_ACCESS_READ_WRITE).ok());
    EXPECT_TRUE(can_write(base + 3 * G - 1));
    ASSERT_TRUE(host.protect(1, G, 2 * G, MBR_ACCESS_NONE).ok());
    EXPECT_FALSE(can_read(base + G));
    EXPECT_FALSE(can_read(base));
    EXPECT_FALSE(can_read(base + 3 * G));
}

TEST_F(HostSlots, MapWithWrongArguments_IsRefused)
{
    ASSERT_TRUE(host.map(1, 4 * G, 12).ok());
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.map(9, 0, 11));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.map(1, 0, 99));
    EXPECT_REFUSED(MBR_MISALIGNED, host.map(1, 1, 11));
    EXPECT_REFUSED(MBR_MISALIGNED, host.map(1, 4096, 11));
    EXPECT_REFUSED(MBR_OUT_OF_RANGE, host.map(1, 16 * G, 11));
    EXPECT_REFUSED(MBR_OVERFLOW, host.map(1, UINT64_MAX - G + 1, 11));
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.map(1, 4 * G, 11));
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.map(1, 5 * G, 11));
    EXPECT_REFUSED(MBR_BUSY, host.map(1, 8 * G, 12)); // mapped already
    ASSERT_TRUE(host.create(20, 4 * G).ok());
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.map(1, 3 * G, 20)); // over the whole of it
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.map(1, G, 20));     // its tail
    EXPECT_REFUSED(MBR_OUT_OF_RANGE, host.map(1, 13 * G, 20));
    EXPECT_TRUE(host.map(1, 12 * G, 20).ok()); // up to the last byte
    EXPECT_TRUE(host.unmap(1, 12 * G, 4 * G).ok());
    EXPECT_TRUE(host.map(1, 0, 20).ok()); // up to the neighbour
    EXPECT_TRUE(host.map(1, 6 * G, 11).ok());
    EXPECT_TRUE(host.unmap(1, 0, 4 * G).ok());
    EXPECT_TRUE(host.destroy(20).ok());
    auto request = sized<mbr_map_request>();
    request.flags = 1;
    auto outcome = sized<mbr_outcome>();
    EXPECT_EQ(host.virtual_->map(host.instance, &request, &outcome, nullptr), MBR_UNSUPPORTED);
}

TEST_F(HostSlots, MapSharedWithWrongArguments_IsRefused)
{
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.map_shared(1, 0, 11, MBR_ACCESS_READ)); // not mapped
    ASSERT_TRUE(host.map(1, 0, 11).ok());
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.map_shared(1, G, 11, 2));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.map_shared(1, G, 11, 4));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.map_shared(1, G, 99, MBR_ACCESS_READ));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.map_shared(9, G, 11, MBR_ACCESS_READ));
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.map_shared(1, 0, 11, MBR_ACCESS_READ));
    EXPECT_REFUSED(MBR_MISALIGNED, host.map_shared(1, G + 4096, 11, MBR_ACCESS_READ));
    EXPECT_REFUSED(MBR_OUT_OF_RANGE, host.map_shared(1, 16 * G, 11, MBR_ACCESS_READ));
    ASSERT_TRUE(host.unmap(1, 0, G).ok());
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.map_shared(1, G, 11, MBR_ACCESS_READ));
}

TEST_F(HostSlots, AccessLists_OfOtherDevicesOrShapes_AreRefused)
{
    ASSERT_TRUE(host.map(1, 0, 11).ok());
    const mbr_access device_one[] = {{1, MBR_ACCESS_READ}};
    const mbr_access twice[] = {{0, MBR_ACCESS_READ}, {0, MBR_ACCESS_READ}};
    const struct {
        const mbr_access *list;
        uint32_t count;
        mbr_status status;
    } cases[] = {
        {device_one, 1, MBR_OUT_OF_RANGE},
        {twice, 2, MBR_INVALID_ARGUMENT},
        {twice, 0, MBR_INVALID_ARGUMENT},
        {nullptr, 1, MBR_INVALID_ARGUMENT},
    };
    for (const auto &one : cases) {
        auto protect = sized<mbr_protect_request>();
        protect.reservation_id = 1;
        protect.bytes = G;
        protect.access = one.list;
        protect.access_count = one.count;
        auto outcome = sized<mbr_outcome>();
        EXPECT_EQ(host.virtual_->protect(host.instance, &protect, &outcome, nullptr), one.status);
        auto share = sized<mbr_map_shared_request>();
        share.reservation_id = 1;
        share.offset_bytes = G;
        share.extent_id = 11;
        share.access = one.list;
        share.access_count = one.count;
        EXPECT_EQ(host.shared->map_shared(host.instance, &share, &outcome, nullptr), one.status);
    }
    EXPECT_FALSE(can_read(base));
    EXPECT_EQ(host.report().mapping_count, 1u);
}

// ---- protect, unmap, query ------------------------------------------------------------------

TEST_F(HostSlots, ProtectAndUnmap_NeedAnExactCoverOfWholeMappings)
{
    ASSERT_TRUE(host.map(1, 2 * G, 12).ok()); // [2, 4)
    ASSERT_TRUE(host.map(1, 4 * G, 11).ok()); // [4, 5)
    ASSERT_TRUE(host.map(1, 6 * G, 13).ok()); // [6, 7)
    const struct {
        uint64_t offset, bytes;
        mbr_status status;
    } cases[] = {
        {2 * G, G, MBR_INVALID_ARGUMENT},     // the first half of one
        {3 * G, G, MBR_INVALID_ARGUMENT},     // the second half
        {3 * G, 2 * G, MBR_INVALID_ARGUMENT}, // begins inside one
        {4 * G, 3 * G, MBR_INVALID_ARGUMENT}, // a hole
        {G, 3 * G, MBR_INVALID_ARGUMENT},     // begins in a hole
        {5 * G, G, MBR_INVALID_ARGUMENT},     // only a hole
        {6 * G, 2 * G, MBR_INVALID_ARGUMENT}, // ends in a hole
        {15 * G, 2 * G, MBR_OUT_OF_RANGE},    // ends behind the reservation
        {16 * G, G, MBR_OUT_OF_RANGE},        // begins behind it
        {4 * G, 0, MBR_INVALID_ARGUMENT},     // nothing
        {4 * G, G - 1, MBR_MISALIGNED},       // no whole granules
        {4 * G + 1, G, MBR_MISALIGNED},       // between granules
        {4 * G, UINT64_MAX - G + 1, MBR_OVERFLOW},
    };
    for (const auto &one : cases) {
        SCOPED_TRACE(std::to_string(one.offset / G) + " +" + std::to_string(one.bytes / G));
        EXPECT_REFUSED(one.status, host.unmap(1, one.offset, one.bytes));
        EXPECT_REFUSED(one.status, host.protect(1, one.offset, one.bytes, MBR_ACCESS_READ));
        EXPECT_FALSE(can_read(base + 4 * G));
    }
    EXPECT_TRUE(host.protect(1, 2 * G, 3 * G, MBR_ACCESS_READ).ok()); // two whole mappings
    EXPECT_TRUE(can_read(base + 2 * G) && can_read(base + 5 * G - 1));
    Result result = host.unmap(1, 2 * G, 3 * G);
    ASSERT_TRUE(result.ok()) << result.error.text;
    EXPECT_EQ(result.outcome.unmapped_bytes, 3 * G);
    EXPECT_EQ(result.outcome.released_bytes, 0u);
    EXPECT_FALSE(can_read(base + 2 * G));
    EXPECT_EQ(host.report().mapping_count, 1u);
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.unmap(1, 2 * G, 3 * G)); // twice
    auto request = sized<mbr_unmap_request>();
    request.flags = 1;
    auto outcome = sized<mbr_outcome>();
    EXPECT_EQ(host.virtual_->unmap(host.instance, &request, &outcome, nullptr), MBR_UNSUPPORTED);
}

TEST_F(HostSlots, Query_TellsMappingsAndHoles)
{
    auto expect = [&](uint64_t offset, uint64_t extent, uint32_t access, uint64_t start,
                      uint64_t bytes) {
        mbr_query_outcome at;
        ASSERT_EQ(host.query(1, offset, &at), MBR_OK);
        EXPECT_EQ(at.extent_id, extent) << offset / G;
        EXPECT_EQ(at.access, access) << offset / G;
        EXPECT_EQ(at.offset_bytes, start) << offset / G;
        EXPECT_EQ(at.bytes, bytes) << offset / G;
    };
    expect(5, 0, 0, 0, 16 * G);
    ASSERT_TRUE(host.map(1, 2 * G, 12).ok());
    ASSERT_TRUE(host.map(1, 4 * G, 11).ok());
    ASSERT_TRUE(host.protect(1, 4 * G, G, MBR_ACCESS_READ).ok());
    expect(0, 0, 0, 0, 2 * G);
    expect(2 * G, 12, MBR_ACCESS_NONE, 2 * G, 2 * G);
    expect(4 * G - 1, 12, MBR_ACCESS_NONE, 2 * G, 2 * G);
    expect(4 * G, 11, MBR_ACCESS_READ, 4 * G, G);
    expect(5 * G, 0, 0, 5 * G, 11 * G);
    expect(16 * G - 1, 0, 0, 5 * G, 11 * G);
    mbr_query_outcome at;
    EXPECT_EQ(host.query(1, 16 * G, &at), MBR_OUT_OF_RANGE);
    EXPECT_EQ(at.bytes, 0u);
}
