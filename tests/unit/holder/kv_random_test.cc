// Random lives of caches: create, append, share, attach, destroy in any order under a budget that
// refuses now and then. After every step the books agree with the arithmetic, with the plugin and
// with the contents. A failure prints its seed: MEMBRANE_SEED replays it.
#include "tests/unit/holder/kv_world.h"

#include <algorithm>
#include <cstdlib>
#include <list>
#include <random>

namespace membrane
{

namespace
{

constexpr char kPlain[] = "layers=2,heads=2,dim=16,bytes=2,planes=2";
constexpr char kPhi4[] = "layers=1,heads=10,dim=128,bytes=2,planes=2";
constexpr char kPhi3Mini[] = "layers=1,heads=32,dim=96,bytes=2,planes=1";
constexpr char kLatent[] = "layers=2,heads=1,dim=576,bytes=2,planes=1";
constexpr char kSliding[] = "layers=2,heads=1,dim=32,bytes=2,planes=2,window=40+"
                            "layers=1,heads=1,dim=64,bytes=2,planes=2";

class Life
{
  public:
    Life(const Shape &shape, uint64_t limit, uint64_t seed)
        : random_(seed), world_(shape, limit), shape_(shape)
    {
    }
    ~Life()
    {
        for (Tracked &one : sequences_)
            EXPECT_EQ(MBR_OK, world_.destroy(&one)) << world_.error.text;
        for (TrackedPrefix &prefix : prefixes_)
            world_.end(&prefix);
    }

    void step()
    {
        switch (between(0, 9)) {
        case 0:
        case 1:
            create();
            break;
        case 2:
            share();
            break;
        case 3:
            if (!sequences_.empty()) {
                auto one = any(sequences_);
                ASSERT_EQ(MBR_OK, world_.destroy(&*one)) << world_.error.text;
                sequences_.erase(one);
            }
            break;
        case 4:
            if (!prefixes_.empty() && between(0, 1) == 0) {
                auto prefix = any(prefixes_);
                world_.end(&*prefix);
                prefixes_.erase(prefix);
            }
            break;
        case 5:
            world_.settle();
            break;
        default:
            append();
        }
        mbr_manager_poll(world_.manager); // which maps ahead, where the shape asks for it
        check();
    }

    uint64_t refused = 0, attached = 0, copied = 0;

  private:
    uint64_t between(uint64_t low, uint64_t high) { return low + random_() % (high - low + 1); }
    template <typename List> typename List::iterator any(List &list)
    {
        auto at = list.begin();
        std::advance(at, static_cast<ptrdiff_t>(between(0, list.size() - 1)));
        return at;
    }

    void create()
    {
        if (sequences_.size() >= 7)
            return;
        const TrackedPrefix *prefix = nullptr;
        uint64_t prefix_tokens = 0;
        if (!prefixes_.empty() && between(0, 2) != 0) {
            prefix = &*any(prefixes_);
            prefix_tokens =
                between(0, 2) == 0 ? between(0, prefix->ids.size()) : prefix->ids.size();
        }
        uint64_t tokens = between(prefix_tokens, std::max(prefix_tokens, shape_.max_tokens / 2));
        Tracked one;
        mbr_kv_figures before = world_.read();
        mbr_status status = world_.create(&one, tokens, prefix, prefix_tokens, between(0, 2));
        if (status == MBR_OK) {
            attached += prefix_tokens != 0;
            copied += world_.read().copied_bytes - before.copied_bytes;
            sequences_.push_back(one);
        } else {
            expect_refused(status, before);
        }
    }

    void append()
    {
        if (sequences_.empty())
            return;
        auto one = any(sequences_);
        uint64_t room = shape_.max_tokens - one->ids.size();
        uint64_t tokens = std::min(room, between(0, 3) == 0 ? between(0, 150) : between(0, 9));
        mbr_kv_figures before = world_.read();
        mbr_status status = world_.append(&*one, tokens);
        if (status == MBR_OK)
            return;
        mbr_kv_figures after = world_.read();
        if (world_.geometry.group_count == 1) /* a window gives back before it asks */
            expect_refused(status, before);
        EXPECT_EQ(before.live_tokens, after.live_tokens);
        refused++;
        /* What was given back belongs to the tokens that stand. */
        one->before_append = std::max(one->before_append, one->ids.size());
    }

    void share()
    {
        if (sequences_.empty() || prefixes_.size() >= 4)
            return;
        auto one = any(sequences_);
        if (one->ids.empty())
            return;
        uint64_t tokens = between(0, 1) == 0 ? one->ids.size() : between(1, one->ids.size());
        TrackedPrefix prefix;
        mbr_status status = world_.share(&*one, tokens, &prefix);
        if (status == MBR_OK)
            prefixes_.push_back(prefix);
        else
            ASSERT_EQ(MBR_INVALID_ARGUMENT, status) << world_.error.text;
    }

    void expect_refused(mbr_status status, const mbr_kv_figures &before)
    {
        mbr_kv_figures after = world_.read();
        ASSERT_TRUE(status == MBR_OVER_BUDGET) << world_.error.text;
        if (shape_.ahead_bytes != 0) { // what was adopted ahead was taken back for another try
            EXPECT_LE(after.committed_bytes, before.committed_bytes);
            after.committed_bytes = before.committed_bytes;
        }
        EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
        refused++;
    }

    void check()
    {
        uint64_t committed = 0, reserved = 0, tokens = 0;
        for (const Tracked &one : sequences_) {
            auto figures = world_.read(one);
            uint64_t needed = world_.committed_by_arithmetic(one);
            ASSERT_LE(needed, figures.committed_bytes + figures.shared_bytes);
            if (shape_.ahead_bytes == 0) { // else some may be adopted before it is needed
                ASSERT_EQ(needed, figures.committed_bytes + figures.shared_bytes);
            }
            ASSERT_LE(figures.tokens, figures.capacity_tokens);
            committed += figures.committed_bytes;
            tokens += figures.tokens;
            for (const mbr_extents &group : world_.extents)
                reserved += group.reservation_bytes;
        }
        auto figures = world_.read();
        ASSERT_EQ(sequences_.size(), figures.sequence_count);
        ASSERT_EQ(prefixes_.size(), figures.prefix_count);
        ASSERT_EQ(committed, figures.committed_bytes);
        ASSERT_EQ(reserved, figures.reserved_bytes);
        ASSERT_EQ(tokens, figures.live_tokens);
        ASSERT_LE(figures.live_bytes, figures.committed_bytes + figures.shared_bytes);
        ASSERT_TRUE(world_.clean());
        if (!sequences_.empty()) {
            ASSERT_TRUE(world_.holds(*any(sequences_)));
        }
        if (++steps_ % 16 == 0)
            check_at_rest();
    }

    /* With nothing queued, what is charged is what is committed and shared, and what lives is what
     * the system shows of it. */
    void check_at_rest()
    {
        world_.settle();
        auto figures = world_.read();
        ASSERT_EQ(figures.committed_bytes + figures.shared_bytes,
            world_.paid(world_.holder).charged_bytes +
                world_.paid(world_.prefix_holder).charged_bytes);
        std::vector<const Tracked *> all;
        for (const Tracked &one : sequences_) {
            all.push_back(&one);
            ASSERT_TRUE(world_.holds(one));
        }
        uint64_t physical = world_.physical_live_bytes(all);
        ASSERT_LE(physical, figures.live_bytes); /* a prefix without a sharer is mapped nowhere */
        if (prefixes_.empty()) {
            ASSERT_EQ(physical, figures.live_bytes);
        }
    }

    std::mt19937_64 random_;
    KvWorld world_;
    Shape shape_;
    std::list<Tracked> sequences_;
    std::list<TrackedPrefix> prefixes_;
    uint64_t steps_ = 0;
};

TEST(KvRandom, Life_OnEveryShape_BooksContentsAndArithmeticAgree)
{
    const char *given = std::getenv("MEMBRANE_SEED");
    uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20240611;
    uint64_t refused = 0, attached = 0, copied = 0;
    for (const char *layout : {"head-major", "seq-major", "token-major", "window-major"})
        for (const char *geometry : {kPlain, kPhi4, kPhi3Mini, kLatent, kSliding}) {
            bool windowed = std::string(layout) == "window-major";
            SCOPED_TRACE(std::string("MEMBRANE_SEED=") + std::to_string(seed) + " " + layout + " " +
                geometry);
            Shape shape = {geometry, layout, 300, 0, windowed ? 0 : UINT64_C(4096)};
            shape.ahead_bytes = seed % 2 * kMiB;
            mbr_geometry parsed;
            ASSERT_EQ(MBR_GEOMETRY_OK, mbr_geometry_parse(geometry, &parsed, nullptr));
            Life life(shape, 3 * 300 * mbr_geometry_token_bytes(&parsed) + 500000, seed++);
            for (int i = 0; i < 120 && !::testing::Test::HasFatalFailure(); i++)
                life.step();
            refused += life.refused;
            attached += life.attached;
            copied += life.copied;
        }
    EXPECT_LT(20u, refused) << "the budget must bite";
    EXPECT_LT(100u, attached);
    EXPECT_LT(0u, copied);
}

} // namespace

} // namespace membrane
