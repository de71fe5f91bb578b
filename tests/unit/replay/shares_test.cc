// How much of public traces can be shared, and what their sequences waste, by the arithmetic that
// KV caches use: the published figures of docs/kv-geometry.md.
extern "C" {
#include "host/holder/geometry/sharing.h"
#include "tools/cli/trace/trace.h"
}

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <unordered_set>
#include <vector>

#include <unistd.h>

namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kBlock = MBR_TRACE_BLOCK_TOKENS;

// A request as the arithmetic sees it.
struct Request {
    uint64_t tokens;        // prompt and output
    uint64_t reused_tokens; // of blocks at its head that an earlier prompt had
};

struct Trace {
    std::vector<Request> requests;
    uint64_t longest = 0;

    // False: it is not there.
    bool load(const char *name)
    {
        const char *folder = std::getenv("MEMBRANE_TRACES");
        std::string path = std::string(folder == nullptr ? "" : folder) + "/" + name;
        if (folder == nullptr || *folder == '\0' || access(path.c_str(), R_OK) != 0)
            return false;
        mbr_trace_options options = {};
        mbr_trace_error error;
        mbr_trace *trace;
        options.path = path.c_str();
        EXPECT_EQ(mbr_trace_load(&options, &trace, &error), MBR_TRACE_OK) << error.text;
        std::unordered_set<uint64_t> seen;
        for (uint64_t i = 0; i < trace->request_count; i++) {
            const mbr_trace_request &from = trace->requests[i];
            uint64_t blocks = from.hash_count == 0 ? 0 : from.prompt_tokens / kBlock, known = 0;
            while (known < blocks && seen.count(from.hash_ids[known]) != 0)
                known++;
            for (uint64_t b = 0; b < blocks; b++)
                seen.insert(from.hash_ids[b]);
            uint64_t tokens = uint64_t{from.prompt_tokens} + from.output_tokens;
            requests.push_back({tokens, known * kBlock});
            longest = std::max(longest, tokens);
        }
        mbr_trace_destroy(trace);
        return true;
    }
};

// Sums over all requests of a trace.
struct Sums {
    double exact = 0, whole = 0, live = 0, committed = 0, handles = 0;

    double share_percent() const { return 100 * whole / exact; }
    double waste_percent() const { return 100 * (committed / live - 1); }
};

// Extents of `extent_mib` (0: grown with the offset) on granules of 2 MiB.
Sums sums_of(const Trace &trace, const char *model, mbr_layout_kind kind, uint64_t extent_mib)
{
    mbr_geometry geometry;
    mbr_layout layout;
    mbr_extents extents;
    uint64_t room = 1;
    while (room < trace.longest) // a power of two: fragments begin on extents
        room *= 2;
    mbr_layout_request request = {kind, room, 2 * kMiB, 0, 0};
    EXPECT_EQ(mbr_geometry_parse(model, &geometry, nullptr), MBR_GEOMETRY_OK);
    EXPECT_EQ(mbr_layout_init(&layout, &geometry.groups[0], &request, nullptr), MBR_GEOMETRY_OK);
    EXPECT_EQ(mbr_extents_init(&extents, &layout, extent_mib * kMiB, nullptr), MBR_GEOMETRY_OK);
    Sums sums;
    for (const Request &one : trace.requests) {
        mbr_sharing sharing;
        EXPECT_EQ(
            mbr_sharing_compute(&extents, one.reused_tokens, &sharing, nullptr), MBR_GEOMETRY_OK);
        sums.exact += static_cast<double>(sharing.prefix_bytes);
        sums.whole += static_cast<double>(sharing.prefix_bytes - sharing.boundary_bytes);
        sums.live += static_cast<double>(one.tokens * mbr_geometry_token_bytes(&geometry));
        sums.committed += static_cast<double>(mbr_commit_bytes(&extents, {0, one.tokens}));
        sums.handles += static_cast<double>(mbr_commit_extent_count(&extents, {0, one.tokens}));
    }
    return sums;
}

struct Row {
    const char *model;
    mbr_layout_kind kind;
    uint64_t extent_mib;
    double share_percent, waste_percent, handles;
};

void expect_rows(const Trace &trace, const std::vector<Row> &rows)
{
    for (const Row &row : rows) {
        SCOPED_TRACE(testing::Message() << row.model << " " << mbr_layout_name(row.kind)
                                        << ", extents of " << row.extent_mib << " MiB");
        Sums sums = sums_of(trace, row.model, row.kind, row.extent_mib);
        if (row.share_percent >= 0) {
            EXPECT_NEAR(sums.share_percent(), row.share_percent, 0.05);
        }
        EXPECT_NEAR(sums.waste_percent(), row.waste_percent, 0.05);
        EXPECT_NEAR(sums.handles / static_cast<double>(trace.requests.size()), row.handles, 0.05);
    }
}

TEST(Shares, MooncakeConversation_AreThosePublished)
{
    Trace trace;
    if (!trace.load("mooncake_conversation.jsonl"))
        GTEST_SKIP() << "MEMBRANE_TRACES names no folder with the public traces";
    expect_rows(trace,
        {
            {"llama-3-8b", MBR_LAYOUT_WINDOW_MAJOR, 0, 100.0, 1.30, 96.1},
            {"llama-3-8b", MBR_LAYOUT_WINDOW_MAJOR, 2, 100.0, 0.06, 774.1},
            {"llama-3-8b", MBR_LAYOUT_WINDOW_MAJOR, 16, 100.0, 0.51, 97.2},
            {"llama-3-8b", MBR_LAYOUT_WINDOW_MAJOR, 64, 100.0, 2.05, 24.7},
            {"llama-3-8b", MBR_LAYOUT_WINDOW_MAJOR, 256, 85.98, 8.03, 6.5},
            {"llama-3-8b", MBR_LAYOUT_SEQ_MAJOR, 2, 90.96, 4.24, 806.4},
            {"llama-3-8b", MBR_LAYOUT_SEQ_MAJOR, 16, 64.20, 37.45, 132.9},
            {"llama-3-8b", MBR_LAYOUT_SEQ_MAJOR, 64, 22.18, 190.72, 70.3},
            {"qwen2.5-0.5b", MBR_LAYOUT_WINDOW_MAJOR, 0, 97.97, 3.36, 38.8},
            {"qwen2.5-0.5b", MBR_LAYOUT_WINDOW_MAJOR, 2, 99.44, 1.67, 73.7},
            {"qwen2.5-0.5b", MBR_LAYOUT_WINDOW_MAJOR, 16, 87.13, 6.36, 9.6},
        });
}

TEST(Shares, AzureConversation_WasteIsThatPublished)
{
    Trace trace;
    if (!trace.load("azure_2023_conv.csv"))
        GTEST_SKIP() << "MEMBRANE_TRACES names no folder with the public traces";
    expect_rows(trace,
        {
            {"llama-3-8b", MBR_LAYOUT_WINDOW_MAJOR, 0, -1, 2.79, 47.3},
            {"llama-3-8b", MBR_LAYOUT_WINDOW_MAJOR, 2, -1, 0.55, 85.8},
            {"llama-3-8b", MBR_LAYOUT_WINDOW_MAJOR, 16, -1, 4.58, 11.2},
            {"llama-3-8b", MBR_LAYOUT_WINDOW_MAJOR, 64, -1, 15.52, 3.1},
            {"qwen2.5-0.5b", MBR_LAYOUT_WINDOW_MAJOR, 0, -1, 6.92, 8.5},
            {"qwen2.5-0.5b", MBR_LAYOUT_WINDOW_MAJOR, 16, -1, 73.86, 1.7},
        });
}

} // namespace
