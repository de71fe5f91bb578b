// The table of ids against std::unordered_map, and its only failure.
extern "C" {
#include "plugins/common/id_table.h"
}

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <unordered_map>

namespace
{

struct Heap {
    mbr_heap heap{allocate, release, this};
    long blocks = 0;
    bool exhausted = false;

    static void *allocate(void *context, size_t bytes)
    {
        auto *self = static_cast<Heap *>(context);
        if (self->exhausted)
            return nullptr;
        self->blocks++;
        return calloc(1, bytes);
    }
    static void release(void *context, void *memory)
    {
        static_cast<Heap *>(context)->blocks -= memory != nullptr;
        free(memory);
    }
};

void *object_of(uint64_t id)
{
    return reinterpret_cast<void *>(id * 8);
}

} // namespace

TEST(IdTable, Empty_FindsNothing)
{
    mbr_id_table table = {};
    EXPECT_EQ(mbr_id_table_find(&table, 1), nullptr);
    EXPECT_EQ(mbr_id_table_find(&table, 0), nullptr);
}

TEST(IdTable, RandomEdits_EqualAMap)
{
    const uint64_t seed = 20260101;
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Heap heap;
    mbr_id_table table = {};
    std::unordered_map<uint64_t, void *> model;
    for (int i = 0; i < 200000; i++) {
        // Few ids, so that chains form and break; every third far away, so that homes collide.
        uint64_t id = random() % 700 + 1;
        if (id % 3 == 0)
            id <<= 40;
        auto known = model.find(id);
        ASSERT_EQ(mbr_id_table_find(&table, id), known == model.end() ? nullptr : known->second);
        if (known == model.end()) {
            ASSERT_TRUE(mbr_id_table_reserve(&table, &heap.heap));
            mbr_id_table_insert(&table, id, object_of(id));
            model[id] = object_of(id);
        } else {
            mbr_id_table_remove(&table, id);
            model.erase(known);
        }
        ASSERT_EQ(table.id_count, model.size());
    }
    for (const auto &[id, object] : model)
        ASSERT_EQ(mbr_id_table_find(&table, id), object);
    mbr_id_table_finish(&table, &heap.heap);
    EXPECT_EQ(heap.blocks, 0);
}

TEST(IdTable, HeapExhausted_RefusesAndKeepsWhatItHas)
{
    Heap heap;
    mbr_id_table table = {};
    heap.exhausted = true;
    EXPECT_FALSE(mbr_id_table_reserve(&table, &heap.heap));
    heap.exhausted = false;
    uint64_t id = 0;
    do {
        ASSERT_TRUE(mbr_id_table_reserve(&table, &heap.heap));
        id++;
        mbr_id_table_insert(&table, id, object_of(id));
        heap.exhausted = true; // only the first growth is granted
    } while (mbr_id_table_reserve(&table, &heap.heap));
    EXPECT_EQ(table.id_count, 48u); // three quarters of 64
    for (uint64_t i = 1; i <= id; i++)
        EXPECT_EQ(mbr_id_table_find(&table, i), object_of(i));
    heap.exhausted = false;
    EXPECT_TRUE(mbr_id_table_reserve(&table, &heap.heap));
    mbr_id_table_finish(&table, &heap.heap);
    EXPECT_EQ(heap.blocks, 0);
}
