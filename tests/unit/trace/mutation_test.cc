// Random damage to small valid files: each answer is a trace that holds what trace.h promises, or a
// refusal with a text. The seed is printed; MEMBRANE_SEED replays one.
#include "tests/unit/trace/support.h"

#include <random>

namespace
{

const char *const valid_files[] = {
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
    "2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:49.5,0,55\n",
    "{\"timestamp\": 0, \"input_length\": 700, \"output_length\": 5, \"hash_ids\": [0, 1]}\n"
    "{\"timestamp\": 9.5, \"input_length\": 512, \"output_length\": 49, \"hash_ids\": [0]}\n"
    "{\"timestamp\": 3, \"input_length\": 0, \"output_length\": 7, \"hash_ids\": []}\n",
    "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n1e-05,396,109\n4.541877,879,55\n",
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,\"Conversation \"\"log\"\"\"\n45,GPT-4,1087,0,1087,API log\n",
};
const mbr_trace_format formats[] = {
    MBR_TRACE_AZURE, MBR_TRACE_MOONCAKE, MBR_TRACE_VIDUR, MBR_TRACE_BURSTGPT};

const std::string pieces[] = {"-1", "nan", "1e999", "1e-7", "18446744073709551616", "16777217",
    "\"", ",", "\n", "\r\n", "\r", "{", "}", "[", "]", ":", "null", "0", "-0", ".", " ", "\t",
    "\\u0000", "\xef\xbb\xbf", "\xff", std::string(1, '\0'), "9223372036854775807", "9000000000",
    "e", "", "2024-02-30 00:00:00", "+01:00", "{}", "\"hash_ids\": [0, 1]", "\"timestamp\": 1",
    "\\", "\x1b[2J"};

class Mutator
{
  public:
    explicit Mutator(uint64_t seed) : random_(seed) {}

    uint64_t below(uint64_t bound) { return random_() % bound; }

    // Half of the files keep their first line, so that the damage is met behind the header.
    std::string damaged(const std::string &text)
    {
        size_t kept = below(2) == 0 ? text.find('\n') + 1 : 0;
        std::string rest = text.substr(kept);
        for (uint64_t i = 1 + below(3); i > 0; i--)
            damage(rest);
        return text.substr(0, kept) + rest;
    }

  private:
    void damage(std::string &text)
    {
        size_t at = below(text.size() + 1);
        size_t length = below(below(4) == 0 ? text.size() + 1 : 6);
        switch (below(8)) {
        case 0: // one bit
            if (at < text.size())
                text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
            break;
        case 1: // one byte
            if (at < text.size())
                text[at] = static_cast<char>(below(256));
            break;
        case 2:
            text.erase(at, length);
            break;
        case 3: // cut off
            text.resize(at);
            break;
        case 4: // repeat a piece of it somewhere
            text.insert(below(text.size() + 1), text.substr(at, length));
            break;
        case 5:
            text.insert(at, pieces[below(std::size(pieces))]);
            break;
        case 6:
            text.replace(at, length, pieces[below(std::size(pieces))]);
            break;
        default: // a piece of another format
            std::string other = valid_files[below(std::size(valid_files))];
            text.insert(at, other.substr(below(other.size()), length));
        }
    }

    std::mt19937_64 random_;
};

// What trace.h promises of a trace.
void check_promises(const mbr_trace &trace)
{
    ASSERT_GT(trace.request_count, 0u);
    ASSERT_GT(trace.format, MBR_TRACE_AUTO);
    ASSERT_LT(trace.format, MBR_TRACE_FORMAT_COUNT);
    ASSERT_EQ(trace.has_hash_ids, trace.format == MBR_TRACE_MOONCAKE);
    ASSERT_LT(trace.out_of_order_count, trace.request_count);
    for (uint64_t i = 0; i < trace.request_count; i++) {
        const mbr_trace_request &request = trace.requests[i];
        ASSERT_LE(request.prompt_tokens, MBR_TRACE_MAX_TOKENS);
        ASSERT_LE(request.output_tokens, MBR_TRACE_MAX_TOKENS);
        ASSERT_GT(request.prompt_tokens + request.output_tokens, 0u);
        ASSERT_LE(request.arrival_ns, MBR_TRACE_MAX_TIME_SECONDS * UINT64_C(1000000000));
        ASSERT_EQ(request.hash_count, trace.has_hash_ids ? (request.prompt_tokens + 511) / 512 : 0);
        ASSERT_EQ(request.hash_ids == nullptr, request.hash_count == 0);
        for (uint32_t id = 0; id < request.hash_count; id++)
            ASSERT_LE(request.hash_ids[id], static_cast<uint64_t>(INT64_MAX));
        if (i == 0) {
            ASSERT_EQ(request.arrival_ns, 0u);
            continue;
        }
        const mbr_trace_request &before = trace.requests[i - 1];
        ASSERT_LE(before.arrival_ns, request.arrival_ns);
        if (before.arrival_ns == request.arrival_ns) {
            ASSERT_LT(before.source_line, request.source_line);
        }
    }
}

// The trace written again as vidur CSV and read back has the same requests.
void check_round_trip(const mbr_trace &trace)
{
    std::string content = "arrived_at,num_prefill_tokens,num_decode_tokens\n";
    for (uint64_t i = 0; i < trace.request_count; i++) {
        const mbr_trace_request &request = trace.requests[i];
        char line[96];
        snprintf(line, sizeof line, "%llu.%09llu,%u,%u\n",
            static_cast<unsigned long long>(request.arrival_ns / 1000000000),
            static_cast<unsigned long long>(request.arrival_ns % 1000000000), request.prompt_tokens,
            request.output_tokens);
        content += line;
    }
    Loaded again = load_text(content);
    ASSERT_EQ(again.status, MBR_TRACE_OK) << again.text();
    ASSERT_EQ(again.trace->request_count, trace.request_count);
    ASSERT_EQ(again.trace->out_of_order_count, 0u);
    for (uint64_t i = 0; i < trace.request_count; i++) {
        ASSERT_EQ(again.trace->requests[i].arrival_ns, trace.requests[i].arrival_ns);
        ASSERT_EQ(again.trace->requests[i].prompt_tokens, trace.requests[i].prompt_tokens);
        ASSERT_EQ(again.trace->requests[i].output_tokens, trace.requests[i].output_tokens);
    }
}

class TraceMutation : public testing::TestWithParam<size_t>
{
};

TEST_P(TraceMutation, TwentyThousandDamagedFiles_AreReadOrRefused)
{
    const char *given = std::getenv("MEMBRANE_SEED");
    const uint64_t seed = given == nullptr ? 20240501 + GetParam() : strtoull(given, nullptr, 10);
    std::cout << "MEMBRANE_SEED=" << seed << "\n";
    Mutator mutator(seed);
    TestHeap heap;
    uint64_t ok_count = 0;
    uint64_t count_by_status[MBR_TRACE_STATUS_COUNT] = {};
    for (uint64_t round = 0; round < 20000; round++) {
        const std::string content = mutator.damaged(valid_files[GetParam()]);
        MemoryFile file(content);
        file.read_bytes = 1 + mutator.below(mutator.below(2) == 0 ? 8 : 4096);
        mbr_trace_options options = {};
        options.path = "test.trace";
        options.format = mutator.below(2) == 0 ? MBR_TRACE_AUTO : formats[GetParam()];
        options.max_requests = mutator.below(8) == 0 ? mutator.below(4) : 0;
        options.os = file.os();
        options.heap = heap.heap();
        heap.restart();
        heap.fail_at(mutator.below(16) == 0 ? 1 + mutator.below(6) : 0);
        {
            Loaded loaded = load(options);
            count_by_status[loaded.status]++;
            if (loaded.status == MBR_TRACE_OK) {
                ok_count++;
                check_promises(*loaded.trace);
                check_round_trip(*loaded.trace);
            }
        }
        ASSERT_EQ(heap.live_count(), 0u);
        ASSERT_FALSE(HasFailure()) << "round " << round << " of MEMBRANE_SEED=" << seed << ":\n"
                                   << content;
    }
    for (int status = MBR_TRACE_OK; status < MBR_TRACE_STATUS_COUNT; status++)
        std::cout << "status " << status << ": " << count_by_status[status] << "\n";
    // The damage is neither too light nor too heavy: every way out is taken.
    EXPECT_GT(ok_count, 500u);
    for (int status = MBR_TRACE_EMPTY; status < MBR_TRACE_OVER_LIMIT; status++)
        EXPECT_GT(count_by_status[status], 0u) << "status " << status << " was never answered";
    EXPECT_GT(count_by_status[MBR_TRACE_OUT_OF_MEMORY], 0u);
}

INSTANTIATE_TEST_SUITE_P(Formats, TraceMutation, testing::Values(0, 1, 2, 3),
    [](const testing::TestParamInfo<size_t> &info) {
        return std::string(mbr_trace_format_name(formats[info.param]));
    });

} // namespace
