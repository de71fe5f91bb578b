// Size classes against a table that is built by the rule as it is written down, walked linearly.
#include <gtest/gtest.h>

#include <vector>

extern "C" {
#include "host/alloc/arena.h"
#include "host/alloc/class.h"
}

namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;

std::vector<uint64_t> Classes()
{
    std::vector<uint64_t> classes = {256, 512, 768, 1024};
    for (uint64_t doubling = 1024; doubling < 64 * kMiB; doubling *= 2)
        for (uint64_t quarter = 5; quarter <= 8; quarter++)
            classes.push_back(doubling / 4 * quarter);
    return classes;
}

// Sizes where an answer can change, and their neighbours.
std::vector<uint64_t> Edges()
{
    std::vector<uint64_t> edges = {0, 1};
    for (uint64_t bytes : Classes())
        for (uint64_t edge : {bytes - 1, bytes, bytes + 1})
            edges.push_back(edge);
    return edges;
}

TEST(Class, Bytes_EveryClass_IsTheRule)
{
    std::vector<uint64_t> classes = Classes();
    ASSERT_EQ(classes.size(), size_t{MBR_CLASS_COUNT});
    for (uint32_t i = 0; i < MBR_CLASS_COUNT; i++)
        EXPECT_EQ(mbr_class_bytes(i), classes[i]);
}

TEST(Class, Of_EverySizeToAMebibyteAndAllEdges_IsTheSmallestThatHolds)
{
    std::vector<uint64_t> classes = Classes();
    uint32_t smallest = 0;
    for (uint64_t bytes = 0; bytes <= kMiB; bytes++) {
        while (classes[smallest] < bytes)
            smallest++;
        ASSERT_EQ(mbr_class_of(bytes), smallest) << bytes;
    }
    for (uint64_t bytes : Edges()) {
        if (bytes > MBR_CLASS_MAX_BYTES)
            continue;
        uint32_t expected = 0;
        while (classes[expected] < bytes)
            expected++;
        EXPECT_EQ(mbr_class_of(bytes), expected) << bytes;
    }
}

TEST(Class, Of_AboveAKibibyte_WastesAtMostAFifth)
{
    for (uint64_t bytes : Edges())
        if (bytes > 1024 && bytes <= MBR_CLASS_MAX_BYTES) {
            EXPECT_LE((mbr_class_bytes(mbr_class_of(bytes)) - bytes) * 5,
                mbr_class_bytes(mbr_class_of(bytes)))
                << bytes;
        }
}

TEST(Class, For_EveryAlignment_IsTheSmallestWhoseBlocksAreAligned)
{
    std::vector<uint64_t> classes = Classes();
    for (uint64_t align = 1; align <= 4 * kMiB; align *= 2)
        for (uint64_t bytes : Edges()) {
            uint32_t expected = 0;
            while (expected < MBR_CLASS_COUNT &&
                (classes[expected] < bytes || classes[expected] % align != 0))
                expected++;
            if (align > 2 * kMiB)
                expected = MBR_CLASS_OWN_SPAN;
            EXPECT_EQ(mbr_class_for(bytes, align), expected) << bytes << " at " << align;
        }
    EXPECT_EQ(mbr_class_for(1, 0), 0u);
    EXPECT_EQ(mbr_class_for(UINT64_MAX, 256), uint32_t{MBR_CLASS_OWN_SPAN});
    EXPECT_EQ(mbr_class_for(1, UINT64_C(1) << 63), uint32_t{MBR_CLASS_OWN_SPAN});
}

TEST(Class, Plan_EveryClass_FitsItsLimits)
{
    for (uint32_t i = 0; i < MBR_CLASS_COUNT; i++) {
        mbr_slab_plan plan = mbr_class_plan(i);
        uint64_t block = mbr_class_bytes(i);
        EXPECT_GE(plan.span_bytes, block);
        EXPECT_LE(plan.span_bytes, 64 * kMiB);
        EXPECT_GE(plan.span_bytes, 2 * kMiB);
        EXPECT_EQ(plan.span_bytes % (512 * 1024), 0u);
        EXPECT_LE(plan.span_bytes % block, plan.span_bytes / 8) << block;
        EXPECT_GE(plan.most_blocks, 1u);
        EXPECT_LE(plan.most_blocks, uint32_t{MBR_SLAB_BLOCK_LIMIT_COUNT});
        EXPECT_LE(plan.most_blocks * block, MBR_SLAB_SPAN_MAX_BYTES);
        EXPECT_GE(plan.most_blocks, plan.span_bytes / block);
        EXPECT_GE(plan.align_bytes, MBR_SPAN_ALIGN_MIN_BYTES);
        EXPECT_LE(plan.align_bytes, MBR_SPAN_ALIGN_MAX_BYTES);
        EXPECT_TRUE(block % plan.align_bytes == 0 || plan.align_bytes == MBR_SPAN_ALIGN_MIN_BYTES);
        EXPECT_GE(plan.magazine_blocks, 1u);
        EXPECT_LE(plan.magazine_blocks, 64u);
        EXPECT_GE(plan.magazine_limit, plan.magazine_blocks);
        EXPECT_LE(plan.magazine_limit, 1024u);
        if (block <= 4096) {
            EXPECT_EQ(plan.magazine_limit, 1024u) << block;
        }
        uint64_t most_bytes = i < MBR_CLASS_FIRST_LARGE ? 4 * kMiB : 64 * kMiB;
        EXPECT_LE(plan.magazine_limit * block, most_bytes) << block;
    }
    EXPECT_EQ(mbr_class_bytes(MBR_CLASS_FIRST_LARGE - 1), UINT64_C(65536));
}

TEST(Class, Plan_SmallMagazinesOfOneThread_HoldAtMost86Mebibytes)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < MBR_CLASS_FIRST_LARGE; i++)
        bytes += mbr_class_plan(i).magazine_limit * mbr_class_bytes(i);
    EXPECT_LE(bytes, 86 * kMiB);
}

TEST(Class, Divide_EveryBlockOfEveryClass_IsTheQuotient)
{
    for (uint32_t i = 0; i < MBR_CLASS_COUNT; i++) {
        uint64_t block = mbr_class_bytes(i), reciprocal = mbr_block_reciprocal(block);
        for (uint64_t start = 0; start < MBR_SLAB_SPAN_MAX_BYTES; start += block)
            for (uint64_t offset : {start, start + 1, start + block / 2, start + block - 1})
                ASSERT_EQ(mbr_block_divide(offset, reciprocal), offset / block)
                    << offset << " by " << block;
    }
}

} // namespace
