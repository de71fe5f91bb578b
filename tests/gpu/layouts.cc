// Sequences of every layout under a real kernel, which knows a layout by its strides alone:
// attention over a shared prefix and private rows behind it, against the processor's. Rows are
// written where the client's own call finds them.
#include "tests/gpu/world.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace membrane
{
namespace
{

constexpr uint32_t kLayers = 2, kPlanes = 2, kHeads = 2, kDim = MBR_ATTEND_DIM;
constexpr char kGeometry[] = "layers=2,heads=2,dim=128,bytes=4,planes=2";
constexpr uint64_t kRowBytes = kDim * sizeof(float);
constexpr uint64_t kOwnTokens = 16; // behind the prefix

using Row = std::vector<float>;

Row row_of(uint32_t layer, uint32_t plane, uint32_t head, uint64_t token)
{
    Row row(kDim);
    uint64_t state = ((token * kLayers + layer) * kPlanes + plane) * kHeads + head + 1;
    for (float &number : row) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        number = static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1;
    }
    return row;
}

// By the processor, as the kernel's head comment says.
std::vector<double> attention(const Row &query, uint32_t layer, uint32_t head, uint64_t tokens)
{
    std::vector<double> scores, out(kDim);
    double best = -INFINITY, sum = 0;
    for (uint64_t token = 0; token < tokens; token++) {
        Row key = row_of(layer, 0, head, token);
        double score = 0;
        for (uint32_t i = 0; i < kDim; i++)
            score += double{query[i]} * double{key[i]};
        scores.push_back(score);
        best = std::max(best, score);
    }
    for (uint64_t token = 0; token < tokens; token++) {
        Row value = row_of(layer, 1, head, token);
        double weight = std::exp2(scores[token] - best);
        sum += weight;
        for (uint32_t i = 0; i < kDim; i++)
            out[i] += weight * double{value[i]};
    }
    for (double &number : out)
        number /= sum;
    return out;
}

class Layouts : public GpuTest, public ::testing::WithParamInterface<const char *>
{
  protected:
    // As many tokens as one extent of the coarsest layout has.
    uint64_t prefix_tokens() { return granule() / kRowBytes; }
    uint64_t tokens() { return prefix_tokens() + kOwnTokens; }

    void open_cache()
    {
        bool grows = std::string(GetParam()) == "window-major";
        mbr_kv_request request{};
        request.struct_size = sizeof(request);
        request.binding = device.world.binding;
        request.holder = device.world.holder;
        request.geometry = kGeometry;
        request.layout = GetParam();
        request.max_tokens = 2 * prefix_tokens();
        request.extent_bytes = grows ? 0 : granule();
        ASSERT_OK(mbr_kv_create(manager(), &request, &kv, error()));
    }
    mbr_sequence *begin(uint64_t count, const mbr_kv_prefix *prefix)
    {
        mbr_sequence_request request{};
        request.struct_size = sizeof(request);
        request.stream = device.attached;
        request.tokens = count;
        request.prefix = prefix;
        request.prefix_tokens = prefix == nullptr ? 0 : prefix_tokens();
        mbr_sequence *made = nullptr;
        EXPECT_EQ(mbr_sequence_create(kv, &request, &made, error()), MBR_OK) << error()->text;
        return made;
    }
    void write_rows(mbr_sequence *sequence, uint64_t first, uint64_t end)
    {
        for (uint32_t layer = 0; layer < kLayers; layer++)
            for (uint32_t plane = 0; plane < kPlanes; plane++)
                for (uint32_t head = 0; head < kHeads; head++)
                    for (uint64_t token = first; token < end; token++) {
                        uint64_t address;
                        ASSERT_OK(mbr_sequence_locate(
                            sequence, 0, layer, plane, head, token, &address, error()));
                        to_device(address, row_of(layer, plane, head, token).data(), kRowBytes);
                    }
    }
    void to_device(mbr_cuda_address to, const void *from, uint64_t bytes)
    {
        ASSERT_DID(
            mbr_hand_did(hand(), hand()->call.copy_to_device(to, from, bytes), "cuMemcpyHtoD"));
    }
    // Close to the keys of three tokens of each head, which outweigh the others: two of the prefix,
    // and the last one, which is private.
    std::vector<float> query_of(uint32_t layer)
    {
        std::vector<float> query;
        for (uint32_t head = 0; head < kHeads; head++) {
            Row first = row_of(layer, 0, head, 3);
            Row middle = row_of(layer, 0, head, prefix_tokens() - 1);
            Row last = row_of(layer, 0, head, tokens() - 1);
            for (uint32_t i = 0; i < kDim; i++)
                query.push_back((first[i] + middle[i] + last[i]) / 6);
        }
        return query;
    }
    // The kernel's job, by the strides of the sequence; all that it reads beside the cache.
    void lay_out(mbr_sequence *sequence)
    {
        strides.struct_size = sizeof(strides);
        ASSERT_OK(mbr_sequence_strides(sequence, 0, &strides, error()));
        uint64_t pages = (tokens() + strides.window_tokens - 1) / strides.window_tokens;
        std::vector<uint64_t> table;
        for (uint64_t page = 0; page < pages; page++)
            table.push_back(strides.address + page * strides.window_bytes);
        uint64_t bytes = 2 * kHeads * kRowBytes + pages * sizeof(uint64_t);
        ASSERT_DID(
            mbr_hand_did(hand(), hand()->call.device_allocate(&words, 256 + bytes), "cuMemAlloc"));
        job = {words + 256, words + 256 + 2 * kHeads * kRowBytes, words + 256 + kHeads * kRowBytes,
            tokens(), strides.window_tokens, strides.token_bytes, strides.head_bytes,
            strides.plane_bytes, kHeads, pages, 1};
        to_device(job.table, table.data(), table.size() * sizeof(uint64_t));
        to_device(words, &job, sizeof(job));
    }
    void attend(uint32_t layer, const std::vector<float> &query, std::vector<float> *out)
    {
        to_device(job.query, query.data(), query.size() * sizeof(float));
        ASSERT_DID(mbr_kernels_attend(
            hand(), &kernels, &job, words, layer * strides.layer_bytes, device.stream));
        synchronize();
        ASSERT_DID(mbr_hand_did(hand(),
            hand()->call.copy_to_host(out->data(), job.out, out->size() * sizeof(float)),
            "cuMemcpyDtoH"));
    }

    mbr_kv *kv = nullptr;
    mbr_kv_strides strides{};
    mbr_cuda_address words = 0;
    mbr_attend_job job{};
};

TEST_P(Layouts, SharerOfAnEndedSource_IsReadByAKernelThatKnowsItsStrides)
{
    open_cache();
    mbr_sequence *source = begin(prefix_tokens(), nullptr);
    write_rows(source, 0, prefix_tokens());
    mbr_kv_prefix *prefix = nullptr;
    ASSERT_OK(mbr_kv_prefix_create(source, prefix_tokens(), &prefix, error()));
    mbr_sequence *sharer = begin(tokens(), prefix);
    mbr_sequence_figures figures{};
    figures.struct_size = sizeof(figures);
    ASSERT_OK(mbr_sequence_read(sharer, &figures, error()));
    EXPECT_GT(figures.shared_bytes, 0U);
    EXPECT_EQ(figures.valid_tokens, prefix_tokens());
    ASSERT_OK(mbr_sequence_destroy(source, nullptr, 0, error()));
    ASSERT_OK(mbr_kv_prefix_destroy(prefix, error()));
    synchronize(); // the copies around what is shared
    write_rows(sharer, prefix_tokens(), tokens());
    lay_out(sharer);
    for (uint32_t layer = 0; layer < kLayers; layer++) {
        std::vector<float> query = query_of(layer), out(kHeads * kDim);
        attend(layer, query, &out);
        for (uint32_t head = 0; head < kHeads; head++) {
            auto expected =
                attention({&query[head * kDim], &query[head * kDim] + kDim}, layer, head, tokens());
            for (uint32_t i = 0; i < kDim; i++)
                ASSERT_NEAR(out[head * kDim + i], expected[i], 1e-4) << layer << " " << head;
        }
    }
    EXPECT_TRUE(mbr_hand_did(hand(), hand()->call.device_free(words), "cuMemFree"));
    ASSERT_OK(mbr_sequence_destroy(sharer, nullptr, 0, error()));
    ASSERT_OK(mbr_ep_drain(manager(), device.world.ep, UINT64_MAX, error()));
    ASSERT_OK(mbr_kv_destroy(kv, error()));
}

INSTANTIATE_TEST_SUITE_P(All, Layouts,
    ::testing::Values("head-major", "seq-major", "token-major", "window-major"),
    [](const auto &named) {
        std::string name = named.param;
        return name.replace(name.find('-'), 1, "_");
    });

} // namespace
} // namespace membrane
