// Where the rows of sequences lie: by the strides, by locate, and by what is committed, for layouts
// and for rows that divide neither extent nor granule.
#include "tests/unit/holder/kv_world.h"

#include <algorithm>

namespace membrane
{

namespace
{

class KvRows : public ::testing::TestWithParam<Shape>
{
};

/* All that may be touched of a sequence, by address; parts that meet are one. */
std::vector<std::pair<uint64_t, uint64_t>> parts_of(const Tracked &one)
{
    std::vector<std::pair<uint64_t, uint64_t>> parts, joined;
    for (auto next : {mbr_sequence_next_shared, mbr_sequence_next_private}) {
        uint64_t bytes = 1, start;
        for (uint64_t cursor = 0; bytes != 0;) {
            EXPECT_EQ(MBR_OK, next(one.sequence, &cursor, &start, &bytes, nullptr));
            parts.push_back({start, start + bytes});
        }
    }
    std::sort(parts.begin(), parts.end());
    for (auto [start, end] : parts) {
        if (!joined.empty() && joined.back().second == start)
            joined.back().second = end;
        else if (start != end)
            joined.push_back({start, end});
    }
    return joined;
}

/* By walking every row: the formula of the strides and locate agree, rows do not overlap, and each
 * lies in what is committed, also where it straddles two extents. */
TEST_P(KvRows, EveryRow_IsWhereStridesAndLocateSayAndHasItsOwnCommittedBytes)
{
    KvWorld world(GetParam());
    Tracked source, one;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 130));
    bool shares = world.share(&source, 130, &prefix) == MBR_OK;
    ASSERT_EQ(MBR_OK, world.create(&one, 171, shares ? &prefix : nullptr, shares ? 130 : 0));
    auto parts = parts_of(one);
    std::vector<std::pair<uint64_t, uint64_t>> rows;
    for (uint32_t g = 0; g < world.geometry.group_count; g++) {
        const mbr_layer_group &group = world.geometry.groups[g];
        auto strides = sized<mbr_kv_strides>();
        ASSERT_EQ(MBR_OK, mbr_sequence_strides(one.sequence, g, &strides, nullptr));
        for (uint64_t t = mbr_commit_live(&world.extents[g], 171).first; t < 171; t++)
            for (uint32_t l = 0; l < group.layers; l++)
                for (uint32_t p = 0; p < group.planes; p++)
                    for (uint32_t h = 0; h < group.heads; h++) {
                        uint64_t address;
                        ASSERT_EQ(MBR_OK,
                            mbr_sequence_locate(one.sequence, g, l, p, h, t, &address, nullptr));
                        ASSERT_EQ(address,
                            strides.address + t / strides.window_tokens * strides.window_bytes +
                                t % strides.window_tokens * strides.token_bytes +
                                l * strides.layer_bytes + p * strides.plane_bytes +
                                h * strides.head_bytes);
                        rows.push_back(
                            {address, address + uint64_t{group.dim} * strides.element_bytes});
                    }
    }
    std::sort(rows.begin(), rows.end());
    for (size_t i = 0; i < rows.size(); i++) {
        ASSERT_TRUE(i == 0 || rows[i - 1].second <= rows[i].first);
        auto part =
            std::upper_bound(parts.begin(), parts.end(), std::make_pair(rows[i].first, UINT64_MAX));
        ASSERT_NE(part, parts.begin());
        ASSERT_LE(rows[i].second, (part - 1)->second);
    }
    EXPECT_EQ(MBR_OK, world.destroy(&one));
    EXPECT_EQ(MBR_OK, world.destroy(&source));
    if (shares)
        world.end(&prefix);
}

std::vector<Shape> shapes()
{
    std::vector<Shape> all;
    for (const char *layout : {"head-major", "seq-major", "token-major", "window-major"})
        for (const char *geometry : {
                 "layers=2,heads=2,dim=64,bytes=2,planes=2",
                 "layers=2,heads=10,dim=128,bytes=2,planes=2", // Phi-4: rows of 2560 B
                 "layers=1,heads=32,dim=96,bytes=2,planes=2",  // Phi-3-mini: rows of 6144 B
                 "layers=3,heads=1,dim=576,bytes=2,planes=1",  // MLA: rows of 1152 B
                 "layers=3,heads=1,dim=64,bytes=2,planes=2,window=48+"
                 "layers=1,heads=1,dim=64,bytes=2,planes=2",
             })
            all.push_back({geometry, layout, 400, 0,
                std::string(layout) == "window-major" ? 0 : UINT64_C(4096)});
    return all;
}

INSTANTIATE_TEST_SUITE_P(All, KvRows, ::testing::ValuesIn(shapes()));

} // namespace

} // namespace membrane
