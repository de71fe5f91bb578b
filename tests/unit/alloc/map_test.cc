// The address map against a plain map of pages.
#include "tests/unit/alloc/door.h"
#include "tests/unit/alloc/world.h"

#include <map>
#include <random>

namespace alloc_test
{
namespace
{

constexpr uint64_t kPage = 64 * kKiB;
constexpr uint64_t kEnd = UINT64_C(1) << 57;

struct Map {
    CountedHeap heap;
    door_map *map = door_map_create(&heap.seam);

    ~Map()
    {
        door_map_destroy(map);
        EXPECT_EQ(heap.blocks_out, 0);
    }
};

void *Name(uint64_t number)
{
    return reinterpret_cast<void *>(number * 64);
}

TEST(Map, InsertAndRemove_AtRandom_IsAPlainMapOfPages)
{
    Map map;
    std::map<uint64_t, uint64_t> pages; // page -> number
    std::map<uint64_t, uint64_t> spans; // address -> bytes
    std::mt19937_64 random(20);
    // Places on both sides of the borders of leaves (512 MiB), middles (8 TiB) and of the whole.
    const uint64_t places[] = {kPage, 512 * kMiB - 4 * kPage, 8192 * kGiB - 4 * kPage,
        kEnd - 16 * kPage, UINT64_C(0x7f0000000000)};
    for (uint64_t number = 1; number < 4000; number++) {
        uint64_t address = places[random() % 5] + random() % 12 * kPage;
        uint64_t bytes = 1 + random() % (4 * kPage);
        uint64_t end = (address + bytes - 1) / kPage;
        bool taken = false;
        for (uint64_t page = address / kPage; page <= end; page++)
            taken |= pages.count(page) != 0;
        int expected = address + bytes > kEnd ? DOOR_MAP_OUTSIDE
            : taken                           ? DOOR_MAP_TAKEN
                                              : DOOR_MAP_DONE;
        ASSERT_EQ(door_map_insert(map.map, address, bytes, Name(number)), expected);
        if (expected == DOOR_MAP_DONE) {
            spans[address] = bytes;
            for (uint64_t page = address / kPage; page <= end; page++)
                pages[page] = number;
        }
        if (random() % 2 == 0 && !spans.empty()) {
            auto gone = std::next(spans.begin(), static_cast<long>(random() % spans.size()));
            door_map_remove(map.map, gone->first, gone->second);
            for (uint64_t page = gone->first / kPage;
                 page <= (gone->first + gone->second - 1) / kPage; page++)
                pages.erase(page);
            spans.erase(gone);
        }
        for (uint64_t place : places)
            for (uint64_t i = 0; i < 16; i++) {
                uint64_t address_of = place + i * kPage + random() % kPage;
                auto found = pages.find(address_of / kPage);
                ASSERT_EQ(door_map_find(map.map, address_of),
                    found == pages.end() ? nullptr : Name(found->second));
            }
    }
}

// Spans that fill runs of 2 MiB and leaves of 512 MiB, with pages at their ends, and others
// over them.
TEST(Map, InsertAndRemove_OfWideSpansAtRandom_IsAPlainMapOfSpans)
{
    Map map;
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> spans; // address -> bytes in pages, number
    std::mt19937_64 random(21);
    auto owner = [&](uint64_t address) -> void * {
        auto after = spans.upper_bound(address);
        if (after == spans.begin())
            return nullptr;
        auto &[start, span] = *std::prev(after);
        return address < start + span.first ? Name(span.second) : nullptr;
    };
    const uint64_t units[] = {kPage, 2 * kMiB, 512 * kMiB};
    const uint64_t origin = 8192 * kGiB - 2 * kGiB; // two leaves and four on either side
    uint64_t done = 0, taken = 0;
    for (uint64_t number = 1; number < 20000; number++) {
        uint64_t start = units[random() % 3], length = units[random() % 3];
        uint64_t address = origin + start * (random() % (4 * kGiB / start)) % (4 * kGiB);
        uint64_t bytes = length * (1 + random() % 3) + kPage * (random() % 3) - kPage / 2;
        uint64_t whole = (bytes + kPage - 1) / kPage * kPage;
        auto next = spans.lower_bound(address);
        bool is_taken =
            owner(address) != nullptr || (next != spans.end() && next->first < address + whole);
        ASSERT_EQ(door_map_insert(map.map, address, bytes, Name(number)),
            is_taken ? DOOR_MAP_TAKEN : DOOR_MAP_DONE);
        (is_taken ? taken : done)++;
        if (!is_taken)
            spans[address] = {whole, number};
        if (random() % 2 == 0 && !spans.empty()) {
            auto gone = std::next(spans.begin(), static_cast<long>(random() % spans.size()));
            door_map_remove(map.map, gone->first, gone->second.first);
            spans.erase(gone);
        }
        for (uint64_t at : {address, address + whole / 2, address + whole})
            for (uint64_t unit : units)
                for (uint64_t near : {at - unit, at - 1, at, at + kPage, at + unit})
                    ASSERT_EQ(door_map_find(map.map, near), owner(near)) << number;
    }
    EXPECT_GT(done, 1000u);
    EXPECT_GT(taken, 1000u);
}

TEST(Map, Find_WhereNothingWasEver_IsNull)
{
    Map map;
    for (uint64_t address :
        {UINT64_C(0), UINT64_C(1), kEnd - 1, kEnd, UINT64_MAX, UINT64_C(1) << 63})
        EXPECT_EQ(door_map_find(map.map, address), nullptr);
}

TEST(Map, Insert_OutsideOfTheMap_IsRefused)
{
    Map map;
    EXPECT_EQ(door_map_insert(map.map, kPage + 1, kPage, Name(1)), DOOR_MAP_OUTSIDE);
    EXPECT_EQ(door_map_insert(map.map, kPage + 4096, kPage, Name(1)), DOOR_MAP_OUTSIDE);
    EXPECT_EQ(door_map_insert(map.map, kPage, 0, Name(1)), DOOR_MAP_OUTSIDE);
    EXPECT_EQ(door_map_insert(map.map, kEnd, kPage, Name(1)), DOOR_MAP_OUTSIDE);
    EXPECT_EQ(door_map_insert(map.map, kEnd - kPage, kPage + 1, Name(1)), DOOR_MAP_OUTSIDE);
    EXPECT_EQ(door_map_insert(map.map, kPage, UINT64_MAX, Name(1)), DOOR_MAP_OUTSIDE);
    EXPECT_EQ(door_map_insert(map.map, kEnd - kPage, kPage, Name(1)), DOOR_MAP_DONE);
    EXPECT_EQ(door_map_find(map.map, kEnd - 1), Name(1));
}

TEST(Map, Insert_WithoutHeap_ChangesNothing)
{
    for (uint64_t fail_at : {2, 3}) { // the middle, the leaf
        Map map;
        map.heap.fail_at = fail_at;
        EXPECT_EQ(door_map_insert(map.map, kPage, kPage, Name(1)), DOOR_MAP_NO_HEAP);
        EXPECT_EQ(door_map_find(map.map, kPage), nullptr);
        EXPECT_EQ(door_map_insert(map.map, kPage, kPage, Name(2)), DOOR_MAP_DONE);
        EXPECT_EQ(door_map_find(map.map, kPage), Name(2));
    }
}

TEST(Map, Insert_OfAWholeLeaf_NeedsNoLeaf)
{
    Map map;
    map.heap.fail_at = 3;
    EXPECT_EQ(door_map_insert(map.map, 512 * kMiB, 512 * kMiB, Name(1)), DOOR_MAP_DONE);
    EXPECT_EQ(door_map_find(map.map, 1024 * kMiB - 1), Name(1));
    EXPECT_EQ(door_map_insert(map.map, 1024 * kMiB, kPage, Name(2)), DOOR_MAP_NO_HEAP);
    EXPECT_EQ(map.heap.calls, 3u);
}

TEST(Map, Insert_OverTwoLeavesAndTheSecondFails_MarksNeither)
{
    Map map;
    map.heap.fail_at = 4;
    uint64_t address = 512 * kMiB - kPage;
    EXPECT_EQ(door_map_insert(map.map, address, 2 * kPage, Name(1)), DOOR_MAP_NO_HEAP);
    EXPECT_EQ(door_map_find(map.map, address), nullptr);
}

} // namespace
} // namespace alloc_test
