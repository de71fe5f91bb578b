// The oracle of the KV arithmetic: it walks memory in the order that a layout's name spells and
// writes down where every row of every head lies. It knows no stride, no closed form and none of
// the product's code; it is meant to be slow and obvious.
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_GEOMETRY_ORACLE_H
#define MEMBRANE_TESTS_UNIT_HOLDER_GEOMETRY_ORACLE_H

extern "C" {
#include "host/holder/geometry/sharing.h"
}

#include "tests/unit/holder/extent_oracle.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace oracle
{

struct Row {
    uint64_t layer, plane, head, token;
    uint64_t offset, bytes; // dim * element bytes, contiguous
};

// What a test draws at random and hands to both sides.
struct World {
    mbr_layer_group group;
    mbr_layout_request request;
};

inline std::ostream &operator<<(std::ostream &out, const World &world)
{
    const auto &g = world.group;
    const auto &r = world.request;
    return out << mbr_layout_name(r.kind) << " layers " << g.layers << " heads " << g.heads
               << " dim " << g.dim << " bytes " << g.element_bytes << " planes " << g.planes
               << " window " << g.window_tokens << " | max_tokens " << r.max_tokens << " granule "
               << r.granule_bytes << " W " << r.window_tokens << " stride "
               << r.fragment_stride_bytes;
}

inline uint64_t HeadBytes(const mbr_layer_group &g)
{
    return static_cast<uint64_t>(g.dim) * g.element_bytes;
}

// Every row of the reservation. `window_tokens` is W for window-major (the default resolved).
inline std::vector<Row> Rows(const World &world, uint64_t window_tokens)
{
    const auto &g = world.group;
    const auto &r = world.request;
    std::vector<Row> rows;
    uint64_t at = 0;
    auto put = [&](uint64_t layer, uint64_t plane, uint64_t head, uint64_t token) {
        if (token < r.max_tokens)
            rows.push_back({layer, plane, head, token, at, HeadBytes(g)});
        at += HeadBytes(g);
    };
    auto next_fragment = [&](uint64_t base) {
        if (r.fragment_stride_bytes != 0)
            at = base + r.fragment_stride_bytes;
    };
    switch (r.kind) {
    case MBR_LAYOUT_HEAD_MAJOR:
        for (uint64_t l = 0; l < g.layers; l++)
            for (uint64_t p = 0; p < g.planes; p++)
                for (uint64_t h = 0; h < g.heads; h++) {
                    uint64_t base = at;
                    for (uint64_t t = 0; t < r.max_tokens; t++)
                        put(l, p, h, t);
                    next_fragment(base);
                }
        break;
    case MBR_LAYOUT_SEQ_MAJOR:
        for (uint64_t l = 0; l < g.layers; l++)
            for (uint64_t p = 0; p < g.planes; p++) {
                uint64_t base = at;
                for (uint64_t t = 0; t < r.max_tokens; t++)
                    for (uint64_t h = 0; h < g.heads; h++)
                        put(l, p, h, t);
                next_fragment(base);
            }
        break;
    case MBR_LAYOUT_TOKEN_MAJOR:
        for (uint64_t t = 0; t < r.max_tokens; t++)
            for (uint64_t l = 0; l < g.layers; l++)
                for (uint64_t p = 0; p < g.planes; p++)
                    for (uint64_t h = 0; h < g.heads; h++)
                        put(l, p, h, t);
        break;
    default:
        for (uint64_t w = 0; w < r.max_tokens; w += window_tokens) {
            for (uint64_t l = 0; l < g.layers; l++)
                for (uint64_t p = 0; p < g.planes; p++)
                    for (uint64_t t = w; t < w + window_tokens; t++)
                        for (uint64_t h = 0; h < g.heads; h++)
                            put(l, p, h, t);
            while (at % r.granule_bytes != 0)
                at++;
        }
    }
    return rows;
}

// A random small world: odd rows, odd granules, unaligned fragments, sliding windows.
class Generator
{
  public:
    explicit Generator(uint64_t seed) : random_(seed) {}

    uint64_t Between(uint64_t low, uint64_t high) { return low + random_() % (high - low + 1); }

    World Next(int kind)
    {
        World world = {};
        world.group.layers = static_cast<uint32_t>(Between(1, 3));
        world.group.heads = static_cast<uint32_t>(Between(1, 3));
        world.group.dim = static_cast<uint32_t>(Between(1, 7));
        world.group.element_bytes = static_cast<uint32_t>(Between(1, 4));
        world.group.planes = static_cast<uint32_t>(Between(1, 2));
        world.group.window_tokens = Between(0, 2) == 0 ? Between(1, 40) : 0;
        world.request.kind = static_cast<mbr_layout_kind>(kind);
        world.request.max_tokens = Between(1, 70);
        world.request.granule_bytes = Between(1, 3) == 1 ? Between(1, 9) : Between(10, 400);
        if (Between(0, 1) == 0)
            world.request.window_tokens = Between(1, 20);
        if (Between(0, 1) == 0 && kind <= MBR_LAYOUT_SEQ_MAJOR) {
            uint64_t row = HeadBytes(world.group);
            if (kind == MBR_LAYOUT_SEQ_MAJOR)
                row *= world.group.heads;
            world.request.fragment_stride_bytes =
                world.request.max_tokens * row + world.group.element_bytes * Between(0, 300);
        }
        return world;
    }

  private:
    std::mt19937_64 random_;
};

// A layout of the world with random extents: the default, fixed ones, or growing ones small enough
// to change their size inside the world.
inline mbr_extents RandomExtents(const World &world, Generator &draw)
{
    mbr_layout layout;
    mbr_extents extents;
    if (mbr_layout_init(&layout, &world.group, &world.request, nullptr) != MBR_GEOMETRY_OK)
        std::abort();
    bool windowed = world.request.kind == MBR_LAYOUT_WINDOW_MAJOR;
    uint64_t unit = (windowed ? layout.window_bytes : layout.granule_bytes) * draw.Between(1, 4);
    uint64_t choice = draw.Between(0, 3);
    if (mbr_extents_init(&extents, &layout, choice == 0 ? 0 : unit, nullptr) != MBR_GEOMETRY_OK)
        std::abort();
    if (choice == 3) {
        extents.rule = {layout.granule_bytes, unit, unit * draw.Between(1, 9), draw.Between(1, 5)};
        extents.reservation_bytes = Boundaries(extents.rule, layout.span_bytes).back();
    }
    return extents;
}

// The bytes of live tokens [first, end); in window-major every row of the windows they touch.
inline std::vector<bool> LiveBytes(const World &world, const mbr_layout &layout,
    const std::vector<Row> &rows, uint64_t first, uint64_t end)
{
    std::vector<bool> bytes(layout.span_bytes);
    uint64_t window = layout.window_tokens;
    for (const auto &row : rows) {
        bool live = row.token >= first && row.token < end;
        if (world.request.kind == MBR_LAYOUT_WINDOW_MAJOR)
            live = first < end && row.token / window >= first / window &&
                row.token / window <= (end - 1) / window;
        for (uint64_t i = 0; live && i < row.bytes; i++)
            bytes[row.offset + i] = true;
    }
    return bytes;
}

// One flag an extent: does it hold such a byte?
inline std::vector<bool> ExtentsOf(
    const std::vector<bool> &bytes, const std::vector<uint64_t> &boundaries)
{
    std::vector<bool> held(boundaries.size() - 1);
    for (size_t e = 0; e < held.size(); e++)
        for (uint64_t i = boundaries[e]; i < boundaries[e + 1] && i < bytes.size(); i++)
            held[e] = held[e] || bytes[i];
    return held;
}

// What a prefix shares, extent by extent.
struct Counted {
    uint64_t live = 0, extents = 0, bytes = 0, boundary = 0;
};

// The stretch of memory that one fragment's tokens [0, prefix) cover; whole windows in
// window-major.
using Stretch = std::pair<uint64_t, uint64_t>;

inline std::vector<Stretch> Stretches(
    const World &world, const mbr_layout &layout, const std::vector<Row> &rows, uint64_t prefix)
{
    std::map<std::tuple<uint64_t, uint64_t, uint64_t>, Stretch> fragments;
    if (world.request.kind == MBR_LAYOUT_WINDOW_MAJOR)
        return {{0, prefix / layout.window_tokens * layout.window_bytes}};
    bool split = world.request.kind != MBR_LAYOUT_TOKEN_MAJOR;
    bool heads = world.request.kind == MBR_LAYOUT_HEAD_MAJOR;
    for (const auto &row : rows) {
        if (row.token >= prefix)
            continue;
        auto key = std::make_tuple(
            split ? row.layer : 0, split ? row.plane : 0, heads ? row.head : UINT64_C(0));
        auto &stretch = fragments.emplace(key, Stretch{row.offset, 0}).first->second;
        stretch.first = std::min(stretch.first, row.offset);
        stretch.second = std::max(stretch.second, row.offset + row.bytes);
    }
    std::vector<Stretch> result;
    for (const auto &entry : fragments)
        result.push_back(entry.second);
    return result;
}

// Extents of `boundaries` that lie in one stretch and hold a byte of a live token.
inline Counted Count(const World &world, const mbr_layout &layout, const std::vector<Row> &rows,
    const std::vector<uint64_t> &boundaries, uint64_t prefix)
{
    uint64_t window = world.group.window_tokens;
    uint64_t first = window != 0 && prefix > window ? prefix - window : 0;
    auto touched = LiveBytes(world, layout, rows, first, prefix);
    std::vector<bool> live(touched.size());
    Counted counted;
    for (const auto &row : rows)
        for (uint64_t i = 0; row.token >= first && row.token < prefix && i < row.bytes; i++)
            live[row.offset + i] = true;
    counted.live = static_cast<uint64_t>(std::count(live.begin(), live.end(), true));
    counted.boundary = counted.live;
    auto held = ExtentsOf(touched, boundaries);
    for (const auto &stretch : Stretches(world, layout, rows, prefix))
        for (size_t e = 0; e < held.size(); e++) {
            if (!held[e] || boundaries[e] < stretch.first || boundaries[e + 1] > stretch.second)
                continue;
            counted.extents++;
            counted.bytes += boundaries[e + 1] - boundaries[e];
            for (uint64_t i = boundaries[e]; i < boundaries[e + 1]; i++)
                counted.boundary -= live[i];
        }
    return counted;
}

} // namespace oracle

#endif
