// Real caches of geometries that nobody has chosen: groups, rows, sliding windows, degrees of
// tensor parallelism, layouts, granules and extents are drawn. What a sequence commits, shares and
// may read is counted by the walk of each group's memory, and looked at byte by byte.
#include "tests/unit/holder/geometry_oracle.h"
#include "tests/unit/holder/kv_world.h"

#include <algorithm>
#include <set>

namespace membrane
{

namespace
{

struct Drawn {
    Shape shape;
    uint64_t granule_bytes = 4096;
    std::vector<mbr_layer_group> groups; // of one device

    std::string text() const
    {
        return shape.geometry + " " + shape.layout + " over " +
            std::to_string(shape.tensor_parallel) + ", granule " + std::to_string(granule_bytes) +
            ", extent " + std::to_string(shape.extent_bytes) + ", W " +
            std::to_string(shape.window_tokens) + ", at most " + std::to_string(shape.max_tokens);
    }
};

// Appends a group of layers, whose heads the degree divides, or is above.
void draw_group(oracle::Generator &draw, Drawn *drawn)
{
    uint64_t degree = std::max(drawn->shape.tensor_parallel, UINT64_C(1));
    bool repeats = draw.Between(0, 2) == 0;
    uint64_t heads = repeats ? draw.Between(1, degree) : degree * draw.Between(1, 3);
    if (repeats && degree % heads != 0)
        heads = 1;
    mbr_layer_group group = {static_cast<uint32_t>(draw.Between(1, 3)),
        static_cast<uint32_t>(std::max(heads / degree, UINT64_C(1))),
        static_cast<uint32_t>(draw.Between(1, 90)), static_cast<uint32_t>(draw.Between(1, 4)),
        static_cast<uint32_t>(draw.Between(1, 2)),
        draw.Between(0, 2) == 0 ? draw.Between(1, 60) : 0};
    std::string &text = drawn->shape.geometry;
    text += (text.empty() ? "layers=" : "+layers=") + std::to_string(group.layers) +
        ",heads=" + std::to_string(heads) + ",dim=" + std::to_string(group.dim) +
        ",bytes=" + std::to_string(group.element_bytes) + ",planes=" + std::to_string(group.planes);
    if (group.window_tokens != 0)
        text += ",window=" + std::to_string(group.window_tokens);
    drawn->groups.push_back(group);
}

Drawn draw_shape(oracle::Generator &draw, int kind)
{
    Drawn drawn;
    bool windowed = kind == MBR_LAYOUT_WINDOW_MAJOR;
    drawn.granule_bytes = UINT64_C(4096) << draw.Between(0, 2); // the plugin's are powers of two
    drawn.shape.layout = mbr_layout_name(static_cast<mbr_layout_kind>(kind));
    drawn.shape.max_tokens = draw.Between(30, 160);
    drawn.shape.tensor_parallel = draw.Between(0, 6);
    drawn.shape.window_tokens = windowed ? draw.Between(0, 1) * draw.Between(1, 20) : 0;
    drawn.shape.extent_bytes = windowed ? 0 : drawn.granule_bytes * draw.Between(1, 3);
    for (uint64_t groups = draw.Between(1, 3); groups != 0; groups--)
        draw_group(draw, &drawn);
    return drawn;
}

// The memory of one group, by the walk.
struct Walked {
    oracle::World world;
    const mbr_extents *extents;
    std::vector<oracle::Row> rows;
    std::vector<uint64_t> boundaries;

    Walked(const Drawn &drawn, size_t index, const mbr_extents *made) : extents(made)
    {
        world.group = drawn.groups[index];
        world.request = {made->layout.kind, drawn.shape.max_tokens, drawn.granule_bytes,
            drawn.shape.window_tokens, 0};
        rows = oracle::Rows(world, made->layout.window_tokens);
        boundaries = oracle::Boundaries(made->rule, made->layout.span_bytes);
    }

    // Tokens that come and go together.
    uint64_t unit_tokens() const { return std::max(extents->layout.window_tokens, UINT64_C(1)); }
    size_t extent_of(uint64_t offset) const
    {
        auto behind = std::upper_bound(boundaries.begin(), boundaries.end(), offset);
        return static_cast<size_t>(behind - boundaries.begin()) - 1;
    }
    uint64_t first_live(uint64_t tokens) const
    {
        uint64_t window = world.group.window_tokens;
        return window != 0 && tokens > window ? tokens - window : 0;
    }
    // Of the extents that hold a row of a token that was live `before` the last growth, or since.
    uint64_t held_bytes(uint64_t before, uint64_t tokens) const
    {
        std::set<size_t> held;
        uint64_t first = first_live(before), unit = unit_tokens(), bytes = 0;
        for (const auto &row : rows)
            if (first < tokens && row.token / unit >= first / unit &&
                row.token / unit <= (tokens - 1) / unit)
                for (size_t e = extent_of(row.offset); e <= extent_of(row.offset + row.bytes - 1);
                     e++)
                    held.insert(e);
        for (size_t e : held)
            bytes += boundaries[e + 1] - boundaries[e];
        return bytes;
    }
    oracle::Counted shared(uint64_t prefix_tokens) const
    {
        return oracle::Count(world, extents->layout, rows, boundaries, prefix_tokens);
    }
};

class Life
{
  public:
    Life(oracle::Generator &draw, const Drawn &drawn)
        : draw_(draw), granule_(std::to_string(drawn.granule_bytes)),
          world_(drawn.shape, 64 * kMiB, nullptr, nullptr, {{"granule", granule_.c_str()}})
    {
        for (size_t i = 0; i < drawn.groups.size(); i++)
            walked_.emplace_back(drawn, i, &world_.extents[i]);
    }

    void run()
    {
        uint64_t most = world_.shape.max_tokens;
        Tracked source;
        ASSERT_EQ(MBR_OK, world_.create(&source, draw_.Between(1, most / 2))) << world_.error.text;
        ASSERT_NO_FATAL_FAILURE(compare(source, 0));
        for (int i = 0; i < 4; i++) {
            uint64_t room = most - source.ids.size();
            ASSERT_EQ(
                MBR_OK, world_.append(&source, draw_.Between(0, std::min<uint64_t>(room, 40))))
                << world_.error.text;
            ASSERT_NO_FATAL_FAILURE(compare(source, 0));
        }
        share(&source);
        EXPECT_EQ(MBR_OK, world_.destroy(&source));
    }

    uint64_t shared_bytes = 0, copied_bytes = 0;

  private:
    // What it commits and shares is what the walk says, and every row holds what was written.
    void compare(const Tracked &one, uint64_t shared)
    {
        uint64_t held = 0, never_back = 0, need = 0;
        for (const Walked &group : walked_) {
            held += group.held_bytes(one.before_append, one.ids.size());
            never_back += group.held_bytes(0, one.ids.size());
        }
        ASSERT_EQ(MBR_OK, mbr_kv_need_bytes(world_.kv, one.ids.size(), &need, nullptr));
        ASSERT_EQ(never_back, need);
        auto figures = world_.read(one);
        ASSERT_EQ(shared, figures.shared_bytes);
        ASSERT_EQ(held - shared, figures.committed_bytes) << one.ids.size() << " tokens";
        ASSERT_TRUE(world_.holds(one));
    }

    void share(Tracked *source)
    {
        uint64_t tokens = draw_.Between(source->before_append, source->ids.size()), expected = 0;
        for (const Walked &group : walked_)
            expected += group.shared(tokens).bytes;
        TrackedPrefix prefix;
        mbr_status status = world_.share(source, tokens, &prefix);
        ASSERT_EQ(expected == 0 ? MBR_INVALID_ARGUMENT : MBR_OK, status) << world_.error.text;
        if (status == MBR_OK)
            attach(source, &prefix, expected);
    }

    void attach(Tracked *source, TrackedPrefix *prefix, uint64_t expected)
    {
        Tracked sharer;
        uint64_t tokens = prefix->ids.size();
        EXPECT_EQ(expected, world_.read(*prefix).shared_bytes);
        ASSERT_EQ(MBR_OK,
            world_.create(
                &sharer, draw_.Between(tokens, world_.shape.max_tokens), prefix, tokens, 1))
            << world_.error.text;
        ASSERT_NO_FATAL_FAILURE(compare(sharer, expected));
        EXPECT_EQ(tokens, world_.read(sharer).valid_tokens);
        EXPECT_TRUE(world_.holds(*source));
        shared_bytes += expected;
        copied_bytes += world_.read().copied_bytes;
        world_.end(prefix);
        world_.settle();
        auto figures = world_.read();
        EXPECT_EQ(figures.committed_bytes + figures.shared_bytes,
            world_.paid(world_.holder).charged_bytes +
                world_.paid(world_.prefix_holder).charged_bytes);
        EXPECT_EQ(figures.live_bytes, world_.physical_live_bytes({source, &sharer}));
        EXPECT_TRUE(world_.clean());
        EXPECT_EQ(MBR_OK, world_.destroy(&sharer));
    }

    oracle::Generator &draw_;
    std::string granule_;
    KvWorld world_;
    std::vector<Walked> walked_;
};

TEST(KvGeometry, DrawnAtRandom_CommitsAndSharesWhatTheWalkOfItsMemorySays)
{
    oracle::Generator draw(oracle::Seed());
    uint64_t shared = 0, copied = 0, sharing_rounds = 0, divided = 0, odd_extents = 0;
    for (int round = 0; round < 48; round++) {
        Drawn drawn = draw_shape(draw, round % MBR_LAYOUT_COUNT);
        SCOPED_TRACE("round " + std::to_string(round) + ": " + drawn.text());
        Life life(draw, drawn);
        life.run();
        if (testing::Test::HasFailure())
            return;
        shared += life.shared_bytes;
        copied += life.copied_bytes;
        sharing_rounds += life.shared_bytes != 0;
        divided += drawn.shape.tensor_parallel > 1;
        odd_extents += drawn.shape.extent_bytes == 3 * drawn.granule_bytes;
    }
    EXPECT_GT(shared, 0u);
    EXPECT_GT(copied, 0u);
    EXPECT_GT(sharing_rounds, 10u) << "the generator must reach both answers";
    EXPECT_LT(sharing_rounds, 46u);
    EXPECT_GT(divided, 10u);
    EXPECT_GT(odd_extents, 5u);
}

} // namespace

} // namespace membrane
