// Whole traces: the project's own sample, and public ones where the environment variable
// MEMBRANE_TRACES names a folder that has them.
#include "tests/unit/trace/support.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace
{

struct Totals {
    uint64_t requests;
    uint64_t prompt_tokens;
    uint64_t output_tokens;
    uint64_t blocks;
    uint64_t reused_blocks; // at the head of a request, and in an earlier one
    uint64_t last_arrival_ns;
};

Totals totals_of(const mbr_trace &trace)
{
    Totals totals = {};
    std::unordered_set<uint64_t> seen;
    totals.requests = trace.request_count;
    for (uint64_t i = 0; i < trace.request_count; i++) {
        const mbr_trace_request &request = trace.requests[i];
        totals.prompt_tokens += request.prompt_tokens;
        totals.output_tokens += request.output_tokens;
        totals.blocks += request.hash_count;
        totals.last_arrival_ns = request.arrival_ns;
        uint32_t reused = 0;
        while (reused < request.hash_count && seen.count(request.hash_ids[reused]) != 0)
            reused++;
        totals.reused_blocks += reused;
        for (uint32_t id = 0; id < request.hash_count; id++)
            seen.insert(request.hash_ids[id]);
    }
    return totals;
}

void expect_totals(const std::string &name, mbr_trace_format format, const Totals &expected)
{
    const char *folder = std::getenv("MEMBRANE_TRACES");
    if (folder == nullptr || *folder == '\0')
        GTEST_SKIP() << "MEMBRANE_TRACES names no folder with public traces";
    std::string path = std::string(folder) + "/" + name;
    if (access(path.c_str(), R_OK) != 0)
        GTEST_SKIP() << path << " is not there";
    mbr_trace_options options = {};
    options.path = path.c_str();
    Loaded loaded = load(options);
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    EXPECT_EQ(loaded.trace->format, format);
    EXPECT_EQ(loaded.trace->out_of_order_count, 0u);
    Totals totals = totals_of(*loaded.trace);
    EXPECT_EQ(totals.requests, expected.requests);
    EXPECT_EQ(totals.prompt_tokens, expected.prompt_tokens);
    EXPECT_EQ(totals.output_tokens, expected.output_tokens);
    EXPECT_EQ(totals.blocks, expected.blocks);
    EXPECT_EQ(totals.reused_blocks, expected.reused_blocks);
    EXPECT_EQ(totals.last_arrival_ns, expected.last_arrival_ns);
}

// The figures were computed from the files by another program.
TEST(Trace, Public_AzureCode_HasItsTotals)
{
    expect_totals(
        "azure_2023_code.csv", MBR_TRACE_AZURE, {8819, 18059974, 245896, 0, 0, 3435948056000});
}

TEST(Trace, Public_AzureConversation_HasItsTotals)
{
    expect_totals(
        "azure_2023_conv.csv", MBR_TRACE_AZURE, {19366, 22361870, 4088665, 0, 0, 3501721937000});
}

TEST(Trace, Public_MooncakeConversation_HasItsTotals)
{
    expect_totals("mooncake_conversation.jsonl", MBR_TRACE_MOONCAKE,
        {12031, 144793823, 4122048, 288500, 105710, 3536999000000});
}

TEST(Trace, Public_MooncakeSynthetic_HasItsTotals)
{
    expect_totals("mooncake_synthetic.jsonl", MBR_TRACE_MOONCAKE,
        {3993, 61194628, 595432, 121877, 77953, 1022025000000});
}

const char *const sample_path = "tools/cli/trace/sample.jsonl";

uint32_t quantile(std::vector<uint32_t> values, double share)
{
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(share * static_cast<double>(values.size()))];
}

TEST(Trace, Sample_IsSmallAndFollowsTheFiguresOfItsPage)
{
    struct stat file;
    ASSERT_EQ(stat(sample_path, &file), 0);
    EXPECT_LT(file.st_size, 200000);
    mbr_trace_options options = {};
    options.path = sample_path;
    Loaded loaded = load(options);
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    EXPECT_EQ(loaded.trace->format, MBR_TRACE_MOONCAKE);
    EXPECT_EQ(loaded.trace->out_of_order_count, 0u);

    Totals totals = totals_of(*loaded.trace);
    EXPECT_EQ(totals.requests, 400u);
    EXPECT_GT(totals.last_arrival_ns, UINT64_C(170000000000));
    EXPECT_LT(totals.last_arrival_ns, UINT64_C(180000000000));
    double reuse = static_cast<double>(totals.reused_blocks) / static_cast<double>(totals.blocks);
    EXPECT_NEAR(reuse, 0.366, 0.03); // the Mooncake conversation trace

    std::vector<uint32_t> prompts;
    std::vector<uint32_t> outputs;
    for (uint64_t i = 0; i < totals.requests; i++) {
        prompts.push_back(loaded.trace->requests[i].prompt_tokens);
        outputs.push_back(loaded.trace->requests[i].output_tokens);
    }
    struct {
        double share;
        uint32_t prompt;
        uint32_t output;
    } rows[] = {{0.25, 396, 85}, {0.5, 1020, 129}, {0.75, 1189, 395}, {0.9, 2735, 424},
        {0.95, 4083, 451}}; // the Azure conversation trace
    for (const auto &row : rows) {
        EXPECT_NEAR(quantile(prompts, row.share), row.prompt, row.prompt * 0.03) << row.share;
        EXPECT_NEAR(quantile(outputs, row.share), row.output, row.output * 0.03) << row.share;
    }
}

// A block id stands for everything before it too, so one id never has two predecessors.
TEST(Trace, Sample_IdsFormATree)
{
    mbr_trace_options options = {};
    options.path = sample_path;
    Loaded loaded = load(options);
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    std::unordered_map<uint64_t, uint64_t> before;
    for (uint64_t i = 0; i < loaded.trace->request_count; i++) {
        const mbr_trace_request &request = loaded.trace->requests[i];
        for (uint32_t id = 0; id < request.hash_count; id++) {
            uint64_t previous = id == 0 ? UINT64_MAX : request.hash_ids[id - 1];
            auto [at, is_new] = before.emplace(request.hash_ids[id], previous);
            ASSERT_EQ(at->second, previous) << "block " << request.hash_ids[id];
            // A block that is not full ends a prompt and is nobody else's.
            bool is_partial = id + 1 == request.hash_count && request.prompt_tokens % 512 != 0;
            ASSERT_TRUE(!is_partial || is_new) << "block " << request.hash_ids[id];
        }
    }
}

} // namespace
