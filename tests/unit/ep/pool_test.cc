// The pool of equal objects: the heap is asked only for more than were ever out.
#include "tests/unit/ep/seams.h"

extern "C" {
#include "host/ep/pool.h"
}

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

using namespace ep_test;

namespace
{

TEST(Pool, Objects_AreZeroedAlignedAndApart)
{
    Heap heap;
    mbr_pool pool;
    mbr_pool_init(&pool, heap.seam(), 21);
    std::set<char *> objects;
    for (int i = 0; i < 200; i++) {
        ASSERT_TRUE(mbr_pool_try_ensure(&pool, 1));
        char *object = static_cast<char *>(mbr_pool_take(&pool));
        EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(object) % alignof(max_align_t));
        for (int byte = 0; byte < 21; byte++)
            EXPECT_EQ(0, object[byte]);
        memset(object, 0xff, 21);
        objects.insert(object);
    }
    EXPECT_EQ(200u, objects.size());
    EXPECT_EQ(4, heap.live); // chunks of 64
    char *before = nullptr;
    for (char *object : objects) {
        if (before != nullptr) {
            EXPECT_GE(object - before, 21);
        }
        before = object;
    }
    for (char *object : objects)
        mbr_pool_give(&pool, object);
    EXPECT_EQ(0u, pool.out_count);
    EXPECT_EQ(256u, pool.free_count);
    char *again = static_cast<char *>(mbr_pool_take(&pool));
    EXPECT_EQ(1u, objects.count(again));
    EXPECT_EQ(0, again[20]);
    mbr_pool_give(&pool, again);
    mbr_pool_finish(&pool);
    EXPECT_EQ(0, heap.live);
}

TEST(Pool, HeapRefuses_NothingIsLostAndLaterItWorks)
{
    Heap heap;
    mbr_pool pool;
    mbr_pool_init(&pool, heap.seam(), 8);
    heap.fail_at = 1;
    EXPECT_FALSE(mbr_pool_try_ensure(&pool, 1));
    heap.fail_at = 3;
    EXPECT_FALSE(mbr_pool_try_ensure(&pool, 65)); // the first of two chunks is kept
    EXPECT_EQ(64u, pool.free_count);
    EXPECT_TRUE(mbr_pool_try_ensure(&pool, 64));
    EXPECT_EQ(3u, heap.calls);
    EXPECT_TRUE(mbr_pool_try_ensure(&pool, 65));
    mbr_pool_finish(&pool);
    EXPECT_EQ(0, heap.live);
}

TEST(PoolDeathTest, FinishWithAnObjectOut_EndsTheProcess)
{
    Heap heap;
    mbr_pool pool;
    mbr_pool_init(&pool, heap.seam(), 8);
    ASSERT_TRUE(mbr_pool_try_ensure(&pool, 1));
    void *object = mbr_pool_take(&pool);
    EXPECT_DEATH(mbr_pool_finish(&pool), "out_count == 0");
    mbr_pool_give(&pool, object);
    mbr_pool_finish(&pool);
}

} // namespace
