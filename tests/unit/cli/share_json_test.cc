// The JSON of `membrane share` when memory runs out: every allocation of the library fails once,
// and the answer is then "not printed", with nothing lost; an answer that is printed is always
// whole.
extern "C" {
#include "tools/cli/share.h"
}

#include <gtest/gtest.h>
#include <jansson.h>

#include <cstdlib>
#include <string>

namespace
{

uint64_t allocations_left;
int64_t live_blocks;

void *FailingMalloc(size_t bytes)
{
    if (allocations_left == 0)
        return nullptr;
    allocations_left--;
    live_blocks++;
    return std::malloc(bytes);
}

void CountingFree(void *memory)
{
    live_blocks -= memory != nullptr;
    std::free(memory);
}

struct Printed {
    bool good;
    std::string text;
};

Printed Print(const mbr_share_options &options, const mbr_share_answer &answer, uint64_t allowed)
{
    char *text = nullptr;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    allocations_left = allowed;
    live_blocks = 0;
    json_set_alloc_funcs(FailingMalloc, CountingFree);
    bool good = mbr_share_print_json(out, &options, &answer);
    json_set_alloc_funcs(std::malloc, std::free);
    std::fclose(out);
    Printed printed = {good, std::string(text, bytes)};
    std::free(text);
    return printed;
}

mbr_share_options Options(const char *model, uint64_t prefix_tokens)
{
    mbr_share_options options = {};
    EXPECT_EQ(mbr_geometry_parse(model, &options.geometry, nullptr), MBR_GEOMETRY_OK);
    options.layout = MBR_LAYOUT_SEQ_MAJOR;
    options.granule_bytes = 2 << 20;
    options.tensor_parallel = 1;
    options.max_tokens = 131072;
    options.prefix_tokens = prefix_tokens;
    options.sequences = 3;
    options.budget_bytes = UINT64_C(80) << 30;
    return options;
}

// Tries with 0, 1, 2 ... allocations until all that it takes are there.
void FailEveryAllocation(const mbr_share_options &options)
{
    mbr_share_answer answer;
    ASSERT_EQ(mbr_share_compute(&options, &answer, nullptr), MBR_GEOMETRY_OK);
    Printed whole = Print(options, answer, UINT64_MAX);
    ASSERT_TRUE(whole.good);
    EXPECT_EQ(live_blocks, 0);
    uint64_t allowed = 0;
    for (;; allowed++) {
        Printed printed = Print(options, answer, allowed);
        ASSERT_EQ(live_blocks, 0) << allowed;
        if (printed.good) {
            EXPECT_EQ(printed.text, whole.text) << allowed;
            break;
        }
    }
    EXPECT_GT(allowed, 60u) << "the sweep reached the parts of the object";
}

TEST(ShareJson, EveryAllocationFails_NothingIsLostAndNoPartIsMissing)
{
    FailEveryAllocation(Options("gemma-3-4b", 8192));
}

TEST(ShareJson, EveryAllocationFailsOfARefusal_NothingIsLostAndNoPartIsMissing)
{
    FailEveryAllocation(Options("qwen2.5-14b", 900));
}

} // namespace
