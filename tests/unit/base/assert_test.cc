// Assertions: what they print, that they evaluate once, and which of them stay in a release build.
extern "C" {
#include "abi/base/assert.h"
}

#include <gtest/gtest.h>

namespace
{

TEST(Assert, TrueExpression_EvaluatedOnceAndSilent)
{
    int evaluations = 0;
    MBR_CHECK(++evaluations > 0);
    EXPECT_EQ(evaluations, 1);
}

TEST(Assert, AssertInThisBuild_EvaluatedOnlyWithoutNdebug)
{
    int evaluations = 0;
    MBR_ASSERT(++evaluations > 0);
#ifdef NDEBUG
    EXPECT_EQ(evaluations, 0);
#else
    EXPECT_EQ(evaluations, 1);
#endif
}

TEST(AssertDeathTest, FalseCheck_SaysWhereAndWhat)
{
    EXPECT_DEATH(MBR_CHECK(1 + 1 == 3),
        "membrane: .*tests/unit/base/assert_test\\.cc:[0-9]+: assertion failed: 1 \\+ 1 == 3");
}

TEST(AssertDeathTest, FalseCheck_EndsByAbort)
{
    EXPECT_EXIT(mbr_assert_failed("books", "ledger.c", 7), ::testing::KilledBySignal(SIGABRT),
        "membrane: ledger\\.c:7: assertion failed: books");
}

} // namespace
