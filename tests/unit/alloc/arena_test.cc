// One thread, one arena: what an allocation answers, what it costs whom, and what is refused.
#include "tests/unit/alloc/world.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

namespace alloc_test
{
namespace
{

TEST(Arena, AllocAndFree_OneBlock_IsChargedAndRefunded)
{
    World world;
    mbr_alloc_result block = world.Alloc(Request{1000, 0, 0, 0, 42});
    EXPECT_EQ(block.usable_bytes, 1024u);
    EXPECT_EQ(block.charged_bytes, 1024u);
    EXPECT_EQ(block.content, uint32_t{MBR_CONTENT_ZERO});
    EXPECT_EQ(block.address % 256, 0u);
    EXPECT_EQ(world.Charged(world.kv), 1024u);
    EXPECT_EQ(world.Books(world.kv).mapped_bytes, 1024u);
    EXPECT_EQ(world.Figures().live_count, 1u);
    EXPECT_EQ(world.Figures().live_bytes, 1024u);
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(world.Free(block.allocation), MBR_OK);
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_EQ(world.Figures().live_count, 0u);
    EXPECT_TRUE(world.Agree());
}

} // namespace
} // namespace alloc_test
