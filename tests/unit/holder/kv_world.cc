/* Caches, their contents and their oracles; see kv_world.h. */
#include "tests/unit/holder/kv_world.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace membrane
{

KvWorld::KvWorld(const Shape &wanted, uint64_t limit, const mbr_manager_seams *seams,
    const char *plugin_path, std::vector<mbr_option> options)
    : HostWorld(limit, seams, plugin_path, options), shape(wanted)
{
    streams.push_back(stream);
    for (int i = 0; i < 2; i++) {
        mbr_native another = make_stream();
        mbr_stream_handle handle = {0};
        EXPECT_EQ(MBR_OK, mbr_ep_attach_stream(manager, ep, another, &handle, &error))
            << error.text;
        natives.push_back(another);
        streams.push_back(handle);
    }
    auto payer = holder_request(MBR_ROLE_PREFIX, "prefixes");
    EXPECT_EQ(MBR_OK, mbr_manager_create_holder(manager, &payer, &prefix_holder, &error))
        << error.text;
    if (shape.ahead_bytes != 0)
        bind_ahead();
    auto request = sized<mbr_kv_request>();
    request.mode = shape.mode;
    request.binding = binding;
    request.holder = holder;
    request.prefix_holder = prefix_holder;
    request.geometry = shape.geometry.c_str();
    request.layout = shape.layout.c_str();
    request.max_tokens = shape.max_tokens;
    request.window_tokens = shape.window_tokens;
    request.extent_bytes = shape.extent_bytes;
    request.flags = shape.flags;
    request.tensor_parallel = shape.tensor_parallel;
    EXPECT_EQ(MBR_OK, mbr_kv_create(manager, &request, &kv, &error)) << error.text;
    make_extents();
}

KvWorld::~KvWorld()
{
    settle();
    auto figures = read();
    EXPECT_EQ(0u, figures.sequence_count);
    EXPECT_EQ(0u, figures.prefix_count);
    EXPECT_EQ(0u, figures.live_tokens);
    EXPECT_EQ(0u, figures.live_bytes);
    EXPECT_EQ(0u, figures.committed_bytes);
    EXPECT_EQ(0u, figures.shared_bytes);
    EXPECT_EQ(0u, figures.reserved_bytes);
    EXPECT_EQ(0u, paid(holder).charged_bytes);
    EXPECT_EQ(0u, paid(holder).mapped_bytes);
    EXPECT_EQ(0u, paid(holder).granted_bytes);
    EXPECT_EQ(0u, paid(prefix_holder).charged_bytes);
    EXPECT_EQ(MBR_OK, mbr_kv_destroy(kv, &error)) << error.text;
    for (size_t i = 0; i < natives.size(); i++) {
        EXPECT_EQ(MBR_OK, mbr_ep_detach_stream(manager, streams[i + 1], &error)) << error.text;
        end_stream(natives[i]);
    }
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(manager, prefix_holder, &error)) << error.text;
}

/* The bound is of the mechanism and authority: the last binding of both sets it. */
void KvWorld::bind_ahead()
{
    ASSERT_EQ(MBR_OK, mbr_manager_unbind(manager, binding, &error)) << error.text;
    auto request = bind_request();
    request.ahead_bytes = shape.ahead_bytes;
    ASSERT_EQ(MBR_OK, mbr_manager_bind(manager, &request, &binding, &error)) << error.text;
}

/* The same from the same words, by the geometry's own functions alone. */
void KvWorld::make_extents()
{
    mbr_geometry_error refused;
    mbr_layout_kind kind;
    ASSERT_EQ(MBR_GEOMETRY_OK, mbr_geometry_parse(shape.geometry.c_str(), &geometry, &refused));
    ASSERT_EQ(MBR_GEOMETRY_OK,
        mbr_geometry_shard(
            &geometry, std::max(shape.tensor_parallel, UINT64_C(1)), &geometry, &refused))
        << refused.text;
    ASSERT_EQ(MBR_GEOMETRY_OK, mbr_layout_parse(shape.layout.c_str(), &kind, &refused));
    for (uint32_t i = 0; i < geometry.group_count; i++) {
        mbr_layout layout;
        mbr_extents made;
        mbr_layout_request request = {};
        request.kind = kind;
        request.max_tokens = shape.max_tokens;
        request.granule_bytes = shape.mode == MBR_KV_GROWING ? figures().granule_min_bytes : 256;
        request.window_tokens = shape.window_tokens;
        ASSERT_EQ(
            MBR_GEOMETRY_OK, mbr_layout_init(&layout, &geometry.groups[i], &request, &refused))
            << refused.text;
        uint64_t extent = shape.mode == MBR_KV_GROWING ? shape.extent_bytes : 0;
        ASSERT_EQ(MBR_GEOMETRY_OK, mbr_extents_init(&made, &layout, extent, &refused))
            << refused.text;
        extents.push_back(made);
    }
}

/* ---- Figures --------------------------------------------------------------------------------- */

mbr_kv_figures KvWorld::read()
{
    auto figures = sized<mbr_kv_figures>();
    EXPECT_EQ(MBR_OK, mbr_kv_read(kv, &figures, &error));
    return figures;
}

mbr_sequence_figures KvWorld::read(const Tracked &tracked)
{
    auto figures = sized<mbr_sequence_figures>();
    EXPECT_EQ(MBR_OK, mbr_sequence_read(tracked.sequence, &figures, &error));
    return figures;
}

mbr_kv_prefix_figures KvWorld::read(const TrackedPrefix &prefix)
{
    auto figures = sized<mbr_kv_prefix_figures>();
    EXPECT_EQ(MBR_OK, mbr_kv_prefix_read(prefix.prefix, &figures, &error)) << error.text;
    return figures;
}

void KvWorld::synchronize()
{
    await(native);
    for (mbr_native another : natives)
        await(another);
}

void KvWorld::settle()
{
    synchronize();
    EXPECT_EQ(MBR_OK, mbr_ep_drain(manager, ep, kNever, &error)) << error.text;
}

uint64_t KvWorld::committed_by_arithmetic(const Tracked &tracked) const
{
    uint64_t bytes = 0;
    for (const mbr_extents &group : extents) {
        uint64_t first = mbr_commit_live(&group, tracked.before_append).first;
        bytes += mbr_commit_bytes(&group, {first, tracked.ids.size()});
    }
    return bytes;
}

uint64_t KvWorld::shared_by_arithmetic(uint64_t prefix_tokens) const
{
    uint64_t bytes = 0;
    for (const mbr_extents &group : extents) {
        mbr_sharing sharing;
        EXPECT_EQ(MBR_GEOMETRY_OK, mbr_sharing_compute(&group, prefix_tokens, &sharing, nullptr));
        bytes += sharing.shared_bytes;
    }
    return bytes;
}

/* ---- Contents -------------------------------------------------------------------------------- */

/* The rows of the tokens [first, end) that live in a sequence of `live_of` tokens: where each is,
 * how long, and its own seed. */
template <typename Visit>
void KvWorld::each_row(
    const Tracked &tracked, uint64_t live_of, uint64_t first, uint64_t end, Visit visit)
{
    for (uint32_t g = 0; g < geometry.group_count; g++) {
        const mbr_layer_group &group = geometry.groups[g];
        uint64_t live = mbr_commit_live(&extents[g], live_of).first;
        auto strides = sized<mbr_kv_strides>();
        EXPECT_EQ(MBR_OK, mbr_sequence_strides(tracked.sequence, g, &strides, &error));
        for (uint64_t t = std::max(first, live); t < end; t++)
            for (uint32_t l = 0; l < group.layers; l++)
                for (uint32_t p = 0; p < group.planes; p++)
                    for (uint32_t h = 0; h < group.heads; h++) {
                        uint64_t seed = tracked.ids[t];
                        for (uint64_t part : {g, l, p, h})
                            seed = (seed ^ part) * UINT64_C(0x9E3779B97F4A7C15) + 1;
                        uint64_t address = strides.address +
                            t / strides.window_tokens * strides.window_bytes +
                            t % strides.window_tokens * strides.token_bytes +
                            l * strides.layer_bytes + p * strides.plane_bytes +
                            h * strides.head_bytes;
                        visit(address, uint64_t{group.dim} * group.element_bytes, seed, t);
                    }
    }
}

/* The contents of one row. Whole words, so that sanitizers do not look at each byte. */
static const uint8_t *row_of(uint64_t seed, uint64_t length)
{
    static thread_local std::vector<uint64_t> words;
    words.resize((length + 7) / 8);
    for (uint64_t &word : words)
        word = seed = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    return reinterpret_cast<const uint8_t *>(words.data());
}

/* Writes rows, but never a byte that is not private: a store into a shared one would end the
 * process, and one that next_private wrongly leaves out is missed by holds(). */
void KvWorld::write(Tracked *tracked, uint64_t first, uint64_t end)
{
    std::vector<std::pair<uint64_t, uint64_t>> parts;
    uint64_t cursor = 0, start, bytes;
    for (;;) {
        ASSERT_EQ(
            MBR_OK, mbr_sequence_next_private(tracked->sequence, &cursor, &start, &bytes, &error));
        if (bytes == 0)
            break;
        parts.push_back({start, start + bytes});
    }
    std::sort(parts.begin(), parts.end());
    for (size_t i = 1; i < parts.size(); i++)
        ASSERT_LE(parts[i - 1].second, parts[i].first) << "private parts overlap";
    each_row(*tracked, tracked->before_append, first, end,
        [&](uint64_t address, uint64_t length, uint64_t seed, uint64_t) {
            auto part =
                std::upper_bound(parts.begin(), parts.end(), std::make_pair(address, UINT64_MAX));
            if (part != parts.begin())
                part--;
            for (; part != parts.end() && part->first < address + length; part++) {
                uint64_t from = std::max(address, part->first);
                uint64_t to = std::min(address + length, part->second);
                if (to > from)
                    std::memcpy(view_of(from), row_of(seed, length) + (from - address), to - from);
            }
        });
}

::testing::AssertionResult KvWorld::holds(const Tracked &tracked)
{
    synchronize();
    std::string wrong;
    each_row(tracked, tracked.ids.size(), 0, tracked.ids.size(),
        [&](uint64_t address, uint64_t length, uint64_t seed, uint64_t token) {
            if (wrong.empty() && std::memcmp(view_of(address), row_of(seed, length), length) != 0)
                wrong =
                    "token " + std::to_string(token) + " of " + std::to_string(tracked.ids.size());
        });
    if (wrong.empty())
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << wrong << " in " << shape.layout;
}

/* ---- Physical bytes -------------------------------------------------------------------------- */

struct Mapping {
    uint64_t start, end, offset;
};

static std::vector<Mapping> file_mappings()
{
    std::vector<Mapping> mappings;
    FILE *file = std::fopen("/proc/self/maps", "r");
    char line[512];
    while (std::fgets(line, sizeof(line), file) != nullptr) {
        Mapping mapping;
        char mode[8];
        if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64, &mapping.start, &mapping.end,
                mode, &mapping.offset) == 4 &&
            mode[3] == 's') /* shared: the mechanism's file, the only one of the process */
            mappings.push_back(mapping);
    }
    std::fclose(file);
    return mappings;
}

uint64_t KvWorld::physical_live_bytes(const std::vector<const Tracked *> &all)
{
    std::vector<Mapping> mappings = file_mappings();
    std::vector<std::pair<uint64_t, uint64_t>> pieces; // offsets in the file
    for (const Tracked *tracked : all)
        each_row(*tracked, tracked->ids.size(), 0, tracked->ids.size(),
            [&](uint64_t row, uint64_t length, uint64_t, uint64_t) {
                auto address = reinterpret_cast<uint64_t>(view_of(row));
                auto found = std::upper_bound(mappings.begin(), mappings.end(), address,
                    [](uint64_t at, const Mapping &mapping) { return at < mapping.end; });
                for (uint64_t at = address; at < address + length; found++) {
                    ASSERT_NE(found, mappings.end());
                    uint64_t to = std::min(address + length, found->end);
                    uint64_t offset = found->offset + (at - found->start);
                    pieces.push_back({offset, offset + (to - at)});
                    at = to;
                }
            });
    std::sort(pieces.begin(), pieces.end());
    uint64_t bytes = 0, reached = 0;
    for (auto [from, to] : pieces) {
        from = std::max(from, reached);
        if (to > from)
            bytes += to - from;
        reached = std::max(reached, to);
    }
    return bytes;
}

/* ---- Life ------------------------------------------------------------------------------------ */

mbr_status KvWorld::create(Tracked *tracked, uint64_t tokens, const TrackedPrefix *prefix,
    uint64_t prefix_tokens, size_t on, mbr_refusal *refusal)
{
    auto request = sized<mbr_sequence_request>();
    request.stream = streams[on];
    request.tokens = tokens;
    request.prefix = prefix != nullptr ? prefix->prefix : nullptr;
    request.prefix_tokens = prefix_tokens;
    request.tag = next_id;
    request.refusal = refusal;
    *tracked = Tracked();
    mbr_status status = mbr_sequence_create(kv, &request, &tracked->sequence, &error);
    if (status != MBR_OK)
        return status;
    tracked->stream = on;
    tracked->before_append = prefix_tokens;
    for (uint64_t t = 0; t < tokens; t++)
        tracked->ids.push_back(t < prefix_tokens ? prefix->ids[t] : next_id++);
    uint64_t valid = read(*tracked).valid_tokens;
    EXPECT_LE(valid, prefix_tokens);
    synchronize(); /* copies of the boundary, before the host writes beside them */
    write(tracked, valid, tokens);
    return MBR_OK;
}

mbr_status KvWorld::append(Tracked *tracked, uint64_t tokens, mbr_refusal *refusal)
{
    uint64_t from = tracked->ids.size();
    mbr_status status = mbr_sequence_append(tracked->sequence, tokens, refusal, &error);
    if (status == MBR_BUSY) { /* kv.h: an extent is still on its way back */
        settle();
        status = mbr_sequence_append(tracked->sequence, tokens, refusal, &error);
    }
    if (status != MBR_OK)
        return status;
    tracked->before_append = from;
    for (uint64_t t = 0; t < tokens; t++)
        tracked->ids.push_back(next_id++);
    synchronize();
    write(tracked, from, tracked->ids.size());
    return MBR_OK;
}

mbr_status KvWorld::destroy(Tracked *tracked)
{
    mbr_status status = mbr_sequence_destroy(tracked->sequence, nullptr, 0, &error);
    if (status == MBR_OK)
        *tracked = Tracked();
    return status;
}

mbr_status KvWorld::share(Tracked *source, uint64_t tokens, TrackedPrefix *prefix)
{
    mbr_status status = mbr_kv_prefix_create(source->sequence, tokens, &prefix->prefix, &error);
    if (status == MBR_OK)
        prefix->ids.assign(
            source->ids.begin(), source->ids.begin() + static_cast<ptrdiff_t>(tokens));
    return status;
}

void KvWorld::end(TrackedPrefix *prefix)
{
    EXPECT_EQ(MBR_OK, mbr_kv_prefix_destroy(prefix->prefix, &error)) << error.text;
    *prefix = TrackedPrefix();
}

} // namespace membrane
