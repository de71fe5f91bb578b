// What the host plugin's memory is to the kernel and to the CPU: contents, aliases, protection,
// merged mappings, residence, children.
#include "tests/unit/plugins_host/mechanism.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

using namespace host_test;

namespace
{

constexpr uint64_t G = 65536;

class HostMemory : public testing::Test
{
  protected:
    void open(const Options &options)
    {
        host = Mechanism::open(options);
        for (uint64_t id : {1, 2}) {
            Result result = host.reserve(id, 64 * G);
            ASSERT_TRUE(result.ok()) << result.error.text;
            base[id] = result.outcome.address;
        }
    }
    void SetUp() override { open({}); }

    // Maps a new extent read-write.
    void grow(uint64_t reservation, uint64_t offset, uint64_t extent, uint64_t bytes)
    {
        ASSERT_TRUE(host.create(extent, bytes).ok());
        ASSERT_TRUE(host.map(reservation, offset, extent).ok());
        Result result = host.protect(reservation, offset, bytes, MBR_ACCESS_READ_WRITE);
        ASSERT_TRUE(result.ok()) << result.error.text;
    }

    void end()
    {
        mbr_query_outcome at;
        for (uint64_t id : {1, 2})
            for (uint64_t offset = 0; host.query(id, offset, &at) == MBR_OK;
                 offset = at.offset_bytes + at.bytes)
                if (at.extent_id) {
                    EXPECT_TRUE(host.unmap(id, at.offset_bytes, at.bytes).ok());
                }
        for (uint64_t id = 1; host.report().extent_count + host.report().reservation_count > 0;
             id++) {
            host.destroy(id);
            host.unreserve(id);
        }
        EXPECT_EQ(file_bytes(), 0u);
        expect_empty_and_close(host);
    }
    void TearDown() override { end(); }

    std::vector<Mapping> mappings_of(uint64_t id)
    {
        return mappings_in(base[id], base[id] + 64 * G);
    }

    Mechanism host;
    uint64_t base[3] = {};
};

uint64_t total(const std::vector<Mapping> &mappings, uint64_t Mapping::*figure)
{
    uint64_t bytes = 0;
    for (const Mapping &mapping : mappings)
        bytes += mapping.*figure;
    return bytes;
}

int memory_mappings(const std::vector<Mapping> &mappings)
{
    int count = 0;
    for (const Mapping &mapping : mappings)
        count += mapping.name.find("memfd:membrane-host") != std::string::npos;
    return count;
}

} // namespace

// ---- Contents -------------------------------------------------------------------------------

TEST_F(HostMemory, FreshExtent_IsZeroAlsoWhereAnotherOneWas)
{
    for (int round = 0; round < 3; round++) {
        grow(1, 0, 10, 4 * G);
        for (uint64_t at = 0; at < 4 * G; at += 8)
            ASSERT_EQ(word(base[1] + at), 0u);
        memset(reinterpret_cast<void *>(base[1]), 0xCD, 4 * G);
        ASSERT_TRUE(host.unmap(1, 0, 4 * G).ok());
        ASSERT_TRUE(host.destroy(10).ok());
    }
}

TEST_F(HostMemory, UnmapAndMapElsewhere_KeepsTheContents)
{
    grow(1, 0, 10, 2 * G);
    word(base[1]) = 0xA1;
    word(base[1] + 2 * G - 8) = 0xA2;
    ASSERT_TRUE(host.unmap(1, 0, 2 * G).ok());
    EXPECT_FALSE(can_read(base[1]));
    Result result = host.map(2, 5 * G, 10);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result.outcome.content, (uint32_t)MBR_CONTENT_STALE);
    ASSERT_TRUE(host.protect(2, 5 * G, 2 * G, MBR_ACCESS_READ).ok());
    EXPECT_EQ(word(base[2] + 5 * G), 0xA1u);
    EXPECT_EQ(word(base[2] + 7 * G - 8), 0xA2u);
}

TEST_F(HostMemory, Content_IsZeroUntilTheFirstWritableMapping)
{
    ASSERT_TRUE(host.create(10, G).ok());
    EXPECT_EQ(host.map(1, 0, 10).outcome.content, (uint32_t)MBR_CONTENT_ZERO);
    Result result = host.protect(1, 0, G, MBR_ACCESS_READ);
    EXPECT_EQ(result.outcome.content, (uint32_t)MBR_CONTENT_ZERO);
    EXPECT_EQ(host.map_shared(2, 0, 10, MBR_ACCESS_READ_WRITE).outcome.content,
        (uint32_t)MBR_CONTENT_ZERO);
    EXPECT_EQ(host.protect(1, 0, G, MBR_ACCESS_READ).outcome.content, (uint32_t)MBR_CONTENT_STALE);
    EXPECT_EQ(
        host.map_shared(2, G, 10, MBR_ACCESS_READ).outcome.content, (uint32_t)MBR_CONTENT_STALE);
}

// ---- Aliases --------------------------------------------------------------------------------

TEST_F(HostMemory, Alias_IsSeenBothWaysAndOwnedOnce)
{
    grow(1, 0, 10, 2 * G);
    auto before = host.stats();
    Result result = host.map_shared(2, G, 10, MBR_ACCESS_READ_WRITE);
    ASSERT_TRUE(result.ok()) << result.error.text;
    EXPECT_EQ(result.outcome.newly_mapped_bytes, 2 * G);
    EXPECT_EQ(result.outcome.newly_owned_bytes, 0u);
    EXPECT_EQ(host.stats().owned_bytes, before.owned_bytes);
    EXPECT_EQ(host.stats().mapped_bytes, before.mapped_bytes + 2 * G);
    EXPECT_EQ(file_bytes(), 2 * G);
    word(base[1] + 8) = 1;
    EXPECT_EQ(word(base[2] + G + 8), 1u);
    word(base[2] + G + 8) = 2;
    EXPECT_EQ(word(base[1] + 8), 2u);
    // Rss counts an alias twice, Pss once.
    auto all = mappings_of(1);
    for (const Mapping &mapping : mappings_of(2))
        all.push_back(mapping);
    EXPECT_EQ(total(all, &Mapping::rss_bytes), 4 * G);
    EXPECT_EQ(total(all, &Mapping::pss_bytes), 2 * G);
}

TEST_F(HostMemory, EitherUnmapOrder_LeavesTheOtherAlive)
{
    for (uint64_t first : {1, 2}) {
        grow(1, 0, 10, G);
        word(base[1]) = 77;
        ASSERT_TRUE(host.map_shared(2, 0, 10, MBR_ACCESS_READ).ok());
        ASSERT_TRUE(host.unmap(first, 0, G).ok());
        EXPECT_EQ(host.destroy(10).status, MBR_BUSY);
        EXPECT_EQ(word(base[3 - first]), 77u);
        // With one mapping left a further one is still map_shared's.
        EXPECT_EQ(host.map(first, 0, 10).status, MBR_BUSY);
        ASSERT_TRUE(host.unmap(3 - first, 0, G).ok());
        EXPECT_EQ(host.map_shared(1, 0, 10, MBR_ACCESS_READ).status, MBR_INVALID_ARGUMENT);
        EXPECT_TRUE(host.destroy(10).ok());
        EXPECT_EQ(file_bytes(), 0u);
    }
}

TEST_F(HostMemory, ReadOnlySharer_CannotWriteWhileTheOwnerCan)
{
    grow(1, 0, 10, G);
    ASSERT_TRUE(host.map_shared(2, 0, 10, MBR_ACCESS_READ).ok());
    ASSERT_TRUE(host.map_shared(2, G, 10, MBR_ACCESS_NONE).ok());
    EXPECT_TRUE(can_write(base[1]));
    EXPECT_TRUE(can_read(base[2]));
    EXPECT_FALSE(can_write(base[2]));
    EXPECT_FALSE(can_read(base[2] + G));
    // Each mapping has its own access.
    ASSERT_TRUE(host.protect(1, 0, G, MBR_ACCESS_READ).ok());
    ASSERT_TRUE(host.protect(2, G, G, MBR_ACCESS_READ_WRITE).ok());
    EXPECT_FALSE(can_write(base[1]));
    EXPECT_TRUE(can_write(base[2] + G));
}

TEST_F(HostMemory, StoreIntoAReadOnlyMapping_IsASegmentationFault)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // executes this program anew
    grow(1, 0, 10, G);
    ASSERT_TRUE(host.map_shared(2, 0, 10, MBR_ACCESS_READ).ok());
    EXPECT_EXIT(
        {
            membrane::exit_on_access_fault();
            word(base[1]) = 5;
            if (*reinterpret_cast<volatile uint64_t *>(base[2]) == 5)
                *reinterpret_cast<volatile uint64_t *>(base[2]) = 6;
        },
        testing::ExitedWithCode(membrane::kAccessFaultExit), "");
}

// ---- The kernel's mappings ------------------------------------------------------------------

TEST_F(HostMemory, ExtentsCreatedAndMappedInOrder_AreOneMappingOfTheKernel)
{
    for (uint64_t i = 0; i < 20; i++)
        grow(1, i * G, 10 + i, G);
    EXPECT_EQ(memory_mappings(mappings_of(1)), 1);
    for (uint64_t i = 0; i < 20; i++)
        ASSERT_TRUE(host.map_shared(2, i * G, 10 + i, MBR_ACCESS_READ).ok());
    EXPECT_EQ(memory_mappings(mappings_of(2)), 1);
    // The negative twin: in another order nothing merges.
    ASSERT_TRUE(host.unmap(2, 0, 20 * G).ok());
    for (uint64_t i = 0; i < 20; i++)
        ASSERT_TRUE(host.map_shared(2, (19 - i) * G, 10 + i, MBR_ACCESS_READ).ok());
    EXPECT_EQ(memory_mappings(mappings_of(2)), 20);
}

TEST_F(HostMemory, ExtentsCreatedAfterHolesAppeared_StillMerge)
{
    for (uint64_t i = 0; i < 10; i++)
        ASSERT_TRUE(host.create(100 + i, G).ok());
    for (uint64_t i = 0; i < 10; i += 2)
        ASSERT_TRUE(host.destroy(100 + i).ok());
    for (uint64_t i = 0; i < 8; i++)
        grow(1, i * G, 10 + i, G);
    EXPECT_EQ(memory_mappings(mappings_of(1)), 1);
}

TEST_F(HostMemory, UnmappedRange_IsReservedAgainWithoutAGap)
{
    for (uint64_t i = 0; i < 5; i++)
        grow(1, i * G, 10 + i, G);
    ASSERT_TRUE(host.unmap(1, 2 * G, G).ok());
    auto mappings = mappings_of(1);
    for (size_t i = 1; i < mappings.size(); i++)
        EXPECT_EQ(mappings[i - 1].end, mappings[i].start);
    EXPECT_EQ(memory_mappings(mappings), 2);
    ASSERT_TRUE(host.unmap(1, 0, 2 * G).ok());
    ASSERT_TRUE(host.unmap(1, 3 * G, 2 * G).ok());
    EXPECT_EQ(mappings_of(1).size(), 1u); // one range without access, as after reserve
    EXPECT_EQ(mappings_of(1)[0].access, "---p");
}

// ---- Residence ------------------------------------------------------------------------------

TEST_F(HostMemory, Protect_PopulatesThePageTables)
{
    ASSERT_TRUE(host.create(10, 8 * G).ok());
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    EXPECT_EQ(total(mappings_of(1), &Mapping::rss_bytes), 0u);
    ASSERT_TRUE(host.protect(1, 0, 8 * G, MBR_ACCESS_READ).ok());
    EXPECT_EQ(total(mappings_of(1), &Mapping::rss_bytes), 8 * G);
    ASSERT_TRUE(host.map_shared(2, 0, 10, MBR_ACCESS_READ_WRITE).ok());
    EXPECT_EQ(total(mappings_of(2), &Mapping::rss_bytes), 8 * G);
    EXPECT_EQ(file_bytes(), 8 * G);
}

TEST_F(HostMemory, WithoutPopulate_PagesComeWithTheFirstTouch)
{
    end();
    open({{"populate", "0"}});
    grow(1, 0, 10, 8 * G);
    ASSERT_TRUE(host.map_shared(2, 0, 10, MBR_ACCESS_READ).ok());
    EXPECT_EQ(file_bytes(), 0u);
    EXPECT_EQ(total(mappings_of(1), &Mapping::rss_bytes), 0u);
    EXPECT_EQ(host.stats().owned_bytes, 8 * G); // charged, not resident
    word(base[1]) = 3;
    word(base[1] + 8 * G - 8) = 4;
    EXPECT_EQ(file_bytes(), 8192u);
    EXPECT_EQ(word(base[2] + 8 * G - 8), 4u);
    // Parts that end and begin in any order never cut the file short.
    grow(1, 8 * G, 11, G);
    ASSERT_TRUE(host.unmap(1, 8 * G, G).ok());
    ASSERT_TRUE(host.destroy(11).ok());
    EXPECT_EQ(word(base[1] + 8 * G - 8), 4u);
    Result result = host.allocate(20, G);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(resident_bytes(result.outcome.address, G), 0u);
    EXPECT_TRUE(host.release(20, result.outcome.address).ok());
}

TEST_F(HostMemory, HugeAdvise_ReachesTheMappings)
{
    grow(1, 0, 10, G);
    EXPECT_EQ(mappings_of(1)[0].flags.find(" hg "), std::string::npos);
    end();
    open({{"huge", "advise"}});
    grow(1, 0, 10, G);
    EXPECT_NE(mappings_of(1)[0].flags.find(" hg "), std::string::npos);
    Result result = host.allocate(20, 4 << 20, 2 << 20);
    ASSERT_TRUE(result.ok());
    EXPECT_NE(mappings_in(result.outcome.address, result.outcome.address + 1)[0].flags.find(" hg "),
        std::string::npos);
    EXPECT_TRUE(host.release(20, result.outcome.address).ok());
}

// ---- Children -------------------------------------------------------------------------------

TEST_F(HostMemory, ForkedChild_SeesNeitherReservationsNorMappings)
{
    grow(1, 0, 10, G);
    grow(1, G, 11, G);
    ASSERT_TRUE(host.map_shared(2, 0, 10, MBR_ACCESS_READ).ok());
    ASSERT_TRUE(host.unmap(1, G, G).ok());
    for (uint64_t id : {1, 2})
        for (const Mapping &mapping : mappings_of(id))
            EXPECT_NE(mapping.flags.find(" dc "), std::string::npos) << mapping.flags;
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        // A sanitizer's runtime may use the free addresses for itself, so look for what would be
        // ours: the file, or a whole reservation without access.
        bool seen = false;
        for (const Mapping &mapping : mappings_in(0, UINT64_MAX))
            seen = seen || mapping.name.find("memfd:membrane-host") != std::string::npos;
        for (uint64_t id : {1, 2})
            for (const Mapping &mapping : mappings_of(id))
                seen = seen || (mapping.start <= base[id] && mapping.access == "---p");
        _exit(seen);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_TRUE(can_write(base[1]));
}
