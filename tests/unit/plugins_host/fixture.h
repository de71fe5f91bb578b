// A host mechanism of the real file with a few objects, and the proof that a refusal changed
// nothing.
#ifndef MEMBRANE_TESTS_UNIT_PLUGINS_HOST_FIXTURE_H
#define MEMBRANE_TESTS_UNIT_PLUGINS_HOST_FIXTURE_H

#include "tests/unit/plugins_host/mechanism.h"

#include <gtest/gtest.h>

#include <functional>

namespace host_test
{

constexpr uint64_t G = 65536; // the default granule

// A mechanism with a reservation of 16 granules (1) and extents of 1 (11), 2 (12) and 1 (13).
class HostSlots : public testing::Test
{
  protected:
    void SetUp() override
    {
        host = Mechanism::open();
        Result reserved = host.reserve(1, 16 * G);
        ASSERT_TRUE(reserved.ok()) << reserved.error.text;
        base = reserved.outcome.address;
        ASSERT_TRUE(host.create(11, G).ok());
        ASSERT_TRUE(host.create(12, 2 * G).ok());
        ASSERT_TRUE(host.create(13, G).ok());
    }

    void TearDown() override
    {
        mbr_query_outcome at;
        for (uint64_t id : {1, 2})
            for (uint64_t offset = 0; host.query(id, offset, &at) == MBR_OK;
                 offset = at.offset_bytes + at.bytes)
                if (at.extent_id) {
                    EXPECT_TRUE(host.unmap(id, at.offset_bytes, at.bytes).ok());
                }
        for (uint64_t id : {1, 2})
            host.unreserve(id);
        for (uint64_t id : {11, 12, 13})
            EXPECT_TRUE(host.destroy(id).ok());
        expect_empty_and_close(host);
        EXPECT_TRUE(memory_files().empty());
    }

    // The figures that no refusal may change.
    std::vector<uint64_t> figures()
    {
        mbr_mechanism_stats stats = host.stats();
        mbr_report report = host.report();
        return {stats.owned_bytes, stats.mapped_bytes, stats.reserved_bytes,
            report.allocation_count, report.reservation_count, report.extent_count,
            report.mapping_count, file_bytes()};
    }

    void expect_refusal(const std::function<Result()> &act, mbr_status status)
    {
        auto before = figures();
        Result result = act();
        EXPECT_EQ(result.status, status) << result.error.text;
        EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_UNCHANGED);
        EXPECT_EQ(figures(), before);
    }

    Mechanism host;
    uint64_t base = 0;
};

} // namespace host_test

#define EXPECT_REFUSED(status, call) expect_refusal([&] { return call; }, status)

#endif
