// Quantiles against a plain sort of everything, and the even choice of the samples that stay.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <vector>

extern "C" {
#include "tools/cli/quantile.h"
}

namespace
{

class CountingHeap
{
  public:
    CountingHeap() : heap_{allocate, release, this} {}
    ~CountingHeap() { EXPECT_TRUE(live_.empty()); }
    const mbr_heap *heap() const { return &heap_; }
    uint64_t call_count = 0;
    uint64_t fail_at = 0;
    uint64_t largest_bytes = 0;

  private:
    static void *allocate(void *context, size_t bytes)
    {
        auto *self = static_cast<CountingHeap *>(context);
        if (++self->call_count == self->fail_at)
            return nullptr;
        self->largest_bytes = std::max<uint64_t>(self->largest_bytes, bytes);
        void *memory = std::calloc(1, bytes);
        self->live_.insert(memory);
        return memory;
    }
    static void release(void *context, void *memory)
    {
        if (memory == nullptr)
            return;
        EXPECT_EQ(static_cast<CountingHeap *>(context)->live_.erase(memory), 1u);
        std::free(memory);
    }
    mbr_heap heap_;
    std::set<void *> live_;
};

// The definition, counted out: the smallest sample with at least that share at or below it.
uint64_t by_definition(
    const std::vector<uint64_t> &sorted, uint64_t numerator, uint64_t denominator)
{
    for (size_t i = 0; i < sorted.size(); i++)
        if ((i + 1) * denominator >= numerator * sorted.size())
            return sorted[i];
    return 0;
}

TEST(Quantile, NoSample_EverythingIsZero)
{
    CountingHeap heap;
    mbr_quantiles quantiles;
    mbr_quantile_summary summary;
    mbr_quantiles_init(&quantiles, heap.heap(), 0, 1);
    mbr_quantiles_summarize(&quantiles, &summary);
    EXPECT_EQ(summary.count, 0u);
    EXPECT_EQ(summary.minimum, 0u);
    EXPECT_EQ(summary.p50, 0u);
    EXPECT_EQ(summary.p99, 0u);
    EXPECT_EQ(summary.p999, 0u);
    EXPECT_EQ(summary.maximum, 0u);
    EXPECT_FALSE(summary.is_sampled);
    mbr_quantiles_finish(&quantiles);
    EXPECT_EQ(heap.call_count, 0u);
    mbr_quantiles_finish(&quantiles); // twice does nothing
}

TEST(Quantile, RandomSamples_EqualTheDefinitionAtEveryShare)
{
    const uint32_t seed = 31337;
    std::mt19937_64 random(seed);
    for (int round = 0; round < 300; round++) {
        CountingHeap heap;
        mbr_quantiles quantiles;
        mbr_quantiles_init(&quantiles, heap.heap(), 0, 1);
        std::vector<uint64_t> all;
        uint64_t count = 1 + random() % (round < 200 ? 40 : 3000);
        uint64_t range = round % 3 == 0 ? 5 : UINT64_MAX;
        for (uint64_t i = 0; i < count; i++) {
            all.push_back(round % 5 == 0 ? UINT64_MAX - random() % 3 : random() % range);
            ASSERT_TRUE(mbr_quantiles_add(&quantiles, all.back()));
            if (i % 7 == 0) { // asked in the middle: later samples still count
                mbr_quantiles_at(&quantiles, 1, 2);
            }
        }
        std::sort(all.begin(), all.end());
        mbr_quantile_summary summary;
        mbr_quantiles_summarize(&quantiles, &summary);
        ASSERT_EQ(summary.count, count);
        ASSERT_EQ(summary.minimum, all.front());
        ASSERT_EQ(summary.maximum, all.back());
        ASSERT_EQ(summary.p50, by_definition(all, 1, 2)) << "seed " << seed << " round " << round;
        ASSERT_EQ(summary.p99, by_definition(all, 99, 100));
        ASSERT_EQ(summary.p999, by_definition(all, 999, 1000));
        ASSERT_FALSE(summary.is_sampled);
        for (uint32_t share = 0; share <= 37; share++)
            ASSERT_EQ(mbr_quantiles_at(&quantiles, share, 37), by_definition(all, share, 37));
        mbr_quantiles_finish(&quantiles);
    }
}

TEST(Quantile, MoreThanTheLimit_MemoryStaysBoundedAndEndsAreExact)
{
    CountingHeap heap;
    mbr_quantiles quantiles;
    mbr_quantiles_init(&quantiles, heap.heap(), 1000, 77);
    for (uint64_t i = 0; i < 1000; i++)
        ASSERT_TRUE(mbr_quantiles_add(&quantiles, i + 5));
    mbr_quantile_summary summary;
    mbr_quantiles_summarize(&quantiles, &summary);
    EXPECT_FALSE(summary.is_sampled);
    for (uint64_t i = 1000; i < 200000; i++)
        ASSERT_TRUE(mbr_quantiles_add(&quantiles, i + 5));
    mbr_quantiles_summarize(&quantiles, &summary);
    EXPECT_TRUE(summary.is_sampled);
    EXPECT_EQ(summary.count, 200000u);
    EXPECT_EQ(summary.minimum, 5u);
    EXPECT_EQ(summary.maximum, 200004u);
    // The seed is fixed, so this is one number; the bounds are four standard errors of a median.
    EXPECT_NEAR(static_cast<double>(summary.p50), 100000, 12700);
    EXPECT_NEAR(static_cast<double>(summary.p99), 198000, 2600);
    EXPECT_LE(heap.largest_bytes, 1000u * sizeof(uint64_t));
    mbr_quantiles_finish(&quantiles);
}

// Each of n samples stays with the same probability, also when summaries are asked in between,
// which sort the places.
TEST(Quantile, MoreThanTheLimit_EachSampleStaysEquallyOften)
{
    const uint64_t held = 3;
    const uint64_t count = 12;
    const uint64_t rounds = 20000;
    for (bool asks : {false, true}) {
        std::vector<uint64_t> stayed(count);
        for (uint64_t seed = 0; seed < rounds; seed++) {
            mbr_quantiles quantiles;
            mbr_quantiles_init(&quantiles, nullptr, held, seed);
            for (uint64_t i = 0; i < count; i++) {
                ASSERT_TRUE(mbr_quantiles_add(&quantiles, i));
                if (asks)
                    mbr_quantiles_at(&quantiles, 1, 2);
            }
            ASSERT_EQ(quantiles.held_count, held);
            for (uint64_t i = 0; i < held; i++)
                stayed[quantiles.samples[i]]++;
            mbr_quantiles_finish(&quantiles);
        }
        const double expected = static_cast<double>(rounds * held) / count;
        double chi_square = 0;
        for (uint64_t times : stayed) {
            double off = static_cast<double>(times) - expected;
            chi_square += off * off / expected;
        }
        EXPECT_LT(chi_square, 31.3); // 11 degrees of freedom, one chance in a thousand
    }
}

TEST(Quantile, SameSeed_SameAnswers)
{
    mbr_quantile_summary first;
    for (int round = 0; round < 2; round++) {
        mbr_quantiles quantiles;
        mbr_quantile_summary summary;
        mbr_quantiles_init(&quantiles, nullptr, 50, 9);
        for (uint64_t i = 0; i < 5000; i++)
            ASSERT_TRUE(mbr_quantiles_add(&quantiles, i * 2654435761u % 10007));
        mbr_quantiles_summarize(&quantiles, &summary);
        if (round == 0)
            first = summary;
        EXPECT_EQ(summary.p50, first.p50);
        EXPECT_EQ(summary.p99, first.p99);
        mbr_quantiles_finish(&quantiles);
    }
}

TEST(Quantile, EachAllocationFails_NothingChangesAndTheNextOneWorks)
{
    const uint64_t count = 5000;
    for (uint64_t fail_at = 1;; fail_at++) {
        CountingHeap heap;
        heap.fail_at = fail_at;
        mbr_quantiles quantiles;
        mbr_quantiles_init(&quantiles, heap.heap(), 0, 1);
        uint64_t refused = 0;
        for (uint64_t i = 0; i < count; i++) {
            if (mbr_quantiles_add(&quantiles, i))
                continue;
            refused++;
            ASSERT_EQ(quantiles.count, i);
            ASSERT_EQ(mbr_quantiles_at(&quantiles, 1, 1), i == 0 ? 0 : i - 1);
            ASSERT_TRUE(mbr_quantiles_add(&quantiles, i));
        }
        ASSERT_EQ(quantiles.count, count);
        ASSERT_EQ(mbr_quantiles_at(&quantiles, 1, 2), count / 2 - 1);
        mbr_quantiles_finish(&quantiles);
        if (fail_at > 4) {
            ASSERT_EQ(refused, 0u);
            break;
        }
        ASSERT_EQ(refused, 1u) << "allocation " << fail_at;
    }
}

TEST(Quantile, LimitThatNoMemoryHas_IsRefusedWhenItIsReached)
{
    CountingHeap heap;
    mbr_quantiles quantiles;
    mbr_quantiles_init(&quantiles, heap.heap(), UINT64_MAX, 1);
    EXPECT_TRUE(mbr_quantiles_add(&quantiles, 1));
    quantiles.capacity_count = UINT64_C(1) << 62; // as if so many were held
    quantiles.held_count = quantiles.capacity_count;
    EXPECT_FALSE(mbr_quantiles_add(&quantiles, 1));
    quantiles.capacity_count = UINT64_C(1) << 63;
    quantiles.held_count = quantiles.capacity_count;
    EXPECT_FALSE(mbr_quantiles_add(&quantiles, 1));
    mbr_quantiles_finish(&quantiles);
}

} // namespace
