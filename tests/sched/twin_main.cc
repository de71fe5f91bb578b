// Runs the scenarios that its argument names against a product with one step less: each must fail.
#include "tests/sched/explore.h"

#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char **argv)
{
    testing::InitGoogleTest(&argc, argv);
    if (argc != 2)
        return 2;
    testing::GTEST_FLAG(filter) = argv[1];
    sched_test::ExpectFaults();
    int failed = RUN_ALL_TESTS();
    if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
        fprintf(stderr, "no scenario is called %s\n", argv[1]);
        return 1;
    }
    return failed;
}
