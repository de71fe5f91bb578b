// Ranges of two tags beside a plain model of units, who has them, and what is in them. The tags
// sleep, wake and are dropped in any order, while prefixes and sharers come and go, and calls below
// fail or come too late: whatever was refused changed nothing, a sleep takes all that nobody else
// has, and what slept comes back and may be written.
#include "tests/unit/holder/sleep/world.h"

#include "tests/support/faulty/failing.h"

#include <memory>
#include <random>
#include <string>

namespace membrane
{
namespace
{

constexpr uint64_t kUnit = 16 * 1024;
constexpr uint64_t kChunks[] = {4096, 3 * kUnit / 2 + 1000, kMiB};
constexpr size_t kUnits = 8, kRanges = 5;
constexpr uint64_t kTags = 2;

struct Block {
    uint8_t seed;
};

struct Unit {
    std::shared_ptr<Block> block; /* whoever shares it has the same one; NULL: not committed */
    bool is_writable = false, is_asleep = false;
    bool is_own() const { return block && block.use_count() == 1; }
};

struct Range {
    mbr_range_reserve_result place = {};
    uint64_t tag = 0;
    std::vector<Unit> units = std::vector<Unit>(kUnits);
};

struct Prefix {
    mbr_prefix_handle handle = {0};
    size_t first = 0;
    std::vector<std::shared_ptr<Block>> blocks;
};

enum Nap { AWAKE = 0, KEPT, DROPPED };

/* What a refusal may not change. */
struct Books {
    uint64_t committed, asleep, asleep_count;
    bool operator==(const Books &other) const
    {
        return std::memcmp(this, &other, sizeof(*this)) == 0;
    }
};

class Model
{
  public:
    explicit Model(uint32_t seed)
        : random_(seed),
          refuses_unmaps_(seed % 4 == 0), seams_{&heap_.heap, nullptr, nullptr, nullptr, nullptr},
          world_(64 * kMiB, 64 * kMiB, &seams_, "tests/support/libmembrane-faulty.so",
              faulty_.options(), seed % 2 != 0 ? 0 : UINT64_MAX, kChunks[seed % 3])
    {
        for (Range &range : ranges_)
            make(&range);
    }
    void step()
    {
        using Move = void (Model::*)();
        static constexpr Move moves[] = {&Model::grow, &Model::grow, &Model::write, &Model::share,
            &Model::attach, &Model::end_prefix, &Model::renew, &Model::sleep, &Model::sleep,
            &Model::sleep, &Model::wake, &Model::drop};
        range_ = &ranges_[pick(kRanges)];
        tag_ = 1 + pick(kTags);
        (this->*moves[pick(std::size(moves))])();
        check();
    }
    void finish()
    {
        for (tag_ = 1; tag_ <= kTags; tag_++)
            wake_now();
        check();
        for (Range &range : ranges_)
            world_.end(range.place.range);
        for (Prefix &prefix : prefixes_)
            EXPECT_EQ(MBR_OK, mbr_prefix_release(world_.manager, prefix.handle, &world_.error));
        EXPECT_EQ(MBR_OK, world_.drain());
    }
    const std::string &moves() const { return moves_; }
    uint64_t refused = 0, residual = 0, once_more = 0;

  private:
    uint32_t pick(size_t below) { return static_cast<uint32_t>(random_() % below); }
    void note(const char *what, uint64_t of, mbr_status status)
    {
        moves_ += std::string(what) + " " + std::to_string(of) + ": " + std::to_string(status) +
            (status != MBR_OK ? std::string(" ") + world_.error.text : "") + "\n";
    }
    uint64_t index() const { return static_cast<uint64_t>(range_ - ranges_); }
    bool sleeps(const Range &range) const { return naps_[range.tag] != AWAKE; }
    uint64_t at(const Range &range, size_t unit) { return range.place.address + unit * kUnit; }
    void put(Range *range, size_t unit)
    {
        range->units[unit].block->seed = ++seed_;
        world_.await(world_.native); /* a sleep that came too late may still copy from there */
        world_.put(at(*range, unit), SleepWorld::pattern(kUnit, seed_));
    }

    /* ---- Ranges and who shares them */

    void make(Range *range)
    {
        *range = {};
        tag_ = 1 + pick(kTags);
        wake_now();
        range->tag = tag_;
        range->place = world_.reserve(kUnits * kUnit, kUnit);
        ASSERT_EQ(MBR_OK, world_.add(range->place.range, tag_)) << world_.error.text;
    }
    void renew()
    {
        mbr_status status = mbr_sleeper_remove(world_.sleeper, range_->place.range, &world_.error);
        note("renew", index(), status);
        ASSERT_EQ(sleeps(*range_) ? MBR_BUSY : MBR_OK, status) << world_.error.text;
        if (status != MBR_OK)
            return;
        EXPECT_EQ(MBR_OK, world_.release(range_->place.range));
        EXPECT_EQ(MBR_OK, world_.drain()) << "what a wake had from one that came too late";
        make(range_);
    }
    void trim()
    {
        uint64_t released = 0;
        EXPECT_EQ(MBR_OK,
            mbr_manager_trim(
                world_.manager, world_.mechanism, UINT64_MAX, &released, &world_.error))
            << world_.error.text;
    }
    /* Unless the growth would change nothing: what could not be given back stands there, too. */
    void expect_refused(mbr_status status, size_t end)
    {
        bool changes = false;
        for (size_t u = 0; u < end; u++) {
            const Unit &unit = range_->units[u];
            changes |= !unit.block || (unit.is_asleep && !has_rest_[range_->tag]);
        }
        EXPECT_TRUE(status == MBR_BUSY || (status == MBR_OK && !changes)) << world_.error.text;
    }
    void grow()
    {
        size_t end = 1 + pick(kUnits);
        mbr_status status = world_.grow(range_->place.range, 0, end * kUnit);
        if (status == MBR_BUSY && refuses_unmaps_ && !sleeps(*range_)) {
            /* A place that was in the cache when an unmap was refused. */
            trim();
            status = world_.grow(range_->place.range, 0, end * kUnit);
        }
        note("grow", index(), status);
        if (sleeps(*range_))
            return expect_refused(status, end);
        ASSERT_EQ(MBR_OK, status) << world_.error.text;
        for (size_t u = 0; u < end; u++) {
            if (range_->units[u].block)
                continue;
            range_->units[u] = {std::make_shared<Block>(), true, false};
            put(range_, u);
        }
    }
    void write()
    {
        for (size_t u = 0; u < kUnits && !sleeps(*range_); u++)
            if (range_->units[u].is_own() && range_->units[u].is_writable)
                put(range_, u);
    }
    void protect(const Prefix &prefix)
    {
        auto request = sized<mbr_prefix_protect_request>();
        request.prefix = prefix.handle;
        request.stream_count = 1;
        request.streams = &world_.stream;
        request.deadline_ns = kNever;
        mbr_status status = mbr_prefix_protect(world_.manager, &request, &world_.error);
        note("protect", index(), status);
        ASSERT_EQ(MBR_OK, status) << world_.error.text;
        for (size_t i = 0; i < prefix.blocks.size(); i++)
            range_->units[prefix.first + i].is_writable = false;
    }
    void share()
    {
        Prefix prefix;
        prefix.first = pick(3);
        for (size_t u = prefix.first; u < kUnits && prefix.blocks.size() < 4; u++) {
            if (!range_->units[u].is_own() || !range_->units[u].is_writable)
                break;
            prefix.blocks.push_back(range_->units[u].block);
        }
        if (prefix.blocks.empty())
            return;
        mbr_piece piece = {range_->place.range, prefix.first * kUnit, prefix.blocks.size() * kUnit};
        auto request = sized<mbr_prefix_request>();
        request.piece_count = 1;
        request.holder = world_.holder;
        request.pieces = &piece;
        auto result = sized<mbr_prefix_result>();
        mbr_status status = mbr_prefix_create(world_.manager, &request, &result, &world_.error);
        note("share", index(), status);
        ASSERT_EQ(sleeps(*range_) ? MBR_BUSY : MBR_OK, status) << world_.error.text;
        if (status != MBR_OK)
            return;
        prefix.handle = result.prefix;
        if (pick(3) == 0)
            protect(prefix);
        prefixes_.push_back(prefix);
    }
    /* Into an empty one. */
    void attach()
    {
        for (const Unit &unit : range_->units)
            if (unit.block)
                return;
        if (prefixes_.empty() || refuses_unmaps_ || sleeps(*range_))
            return;
        const Prefix &prefix = prefixes_[pick(prefixes_.size())];
        auto request = sized<mbr_prefix_attach_request>();
        request.target_count = 1;
        request.prefix = prefix.handle;
        request.holder = world_.holder;
        request.targets = &range_->place.range;
        auto result = sized<mbr_prefix_attach_result>();
        mbr_status status = mbr_prefix_attach(world_.manager, &request, &result, &world_.error);
        note("attach", index(), status);
        ASSERT_EQ(MBR_OK, status) << world_.error.text;
        for (size_t i = 0; i < prefix.blocks.size(); i++)
            range_->units[prefix.first + i] = {prefix.blocks[i], false, false};
    }
    void end_prefix()
    {
        if (prefixes_.empty())
            return;
        auto prefix = prefixes_.begin() + pick(prefixes_.size());
        mbr_status status = mbr_prefix_release(world_.manager, prefix->handle, &world_.error);
        note("end prefix", prefix->handle.value, status);
        ASSERT_EQ(MBR_OK, status) << world_.error.text;
        prefixes_.erase(prefix);
    }

    /* ---- Trouble: with each second call of a tag something fails, or is too late */

    void begin_trouble()
    {
        const uint32_t slots[] = {
            FAULTY_RESERVE, FAULTY_EXTENT_CREATE, FAULTY_MAP, FAULTY_PROTECT, FAULTY_UNMAP};
        uint32_t kind = pick(8);
        if (kind == 0)
            heap_.fail_at = heap_.calls + 1 + pick(30);
        else if (kind == 1)
            gate_ = std::make_unique<Gate>(world_);
        else if (kind - 2 < std::size(slots) - !refuses_unmaps_)
            faulty_.fail(slots[kind - 2], 1 + pick(8), pick(2) != 0 ? 1 : 1000);
    }
    void end_trouble()
    {
        faulty_.stop();
        heap_.fail_at = 0;
        gate_.reset();
    }
    uint64_t deadline_ns() const { return gate_ ? 1 : kNever; }

    /* ---- Tags */

    Books books()
    {
        auto figures = world_.SleepWorld::read();
        Books books = {0, figures.asleep_bytes, figures.asleep_count};
        for (const Range &range : ranges_)
            books.committed += world_.read(range.place.range).committed_bytes;
        return books;
    }
    template <typename Visit> uint64_t for_units(Visit visit)
    {
        uint64_t count = 0;
        for (Range &range : ranges_)
            for (size_t u = 0; u < kUnits && range.tag == tag_; u++) {
                visit(&range, u);
                count++;
            }
        return count;
    }
    void fall_asleep(uint32_t level)
    {
        uint64_t own = 0, shared = 0;
        once_more += naps_[tag_] != AWAKE;
        naps_[tag_] = level == MBR_SLEEP_KEEP ? KEPT : DROPPED;
        for_units([&](Range *range, size_t u) {
            Unit &unit = range->units[u];
            unit.is_asleep |= unit.is_own();
            own += unit.is_asleep ? kUnit : 0;
            shared += unit.block && !unit.is_asleep ? kUnit : 0;
        });
        EXPECT_EQ(own, world_.slept.slept_bytes);
        EXPECT_EQ(shared, world_.slept.shared_bytes);
    }
    void sleep()
    {
        if (for_units([](Range *, size_t) {}) == 0)
            return;
        uint32_t level = pick(4) == 0 ? MBR_SLEEP_DROP : MBR_SLEEP_KEEP;
        Books before = books();
        begin_trouble();
        mbr_status status = world_.sleep(tag_, level, deadline_ns());
        end_trouble();
        note(level == MBR_SLEEP_KEEP ? "sleep" : "sleep without contents", tag_, status);
        residual += status == MBR_RESIDUAL;
        if (status == MBR_OK || status == MBR_RESIDUAL) {
            has_rest_[tag_] = status == MBR_RESIDUAL;
            EXPECT_EQ(has_rest_[tag_], world_.slept.residual_bytes != 0);
            return fall_asleep(level);
        }
        if (naps_[tag_] == DROPPED && level == MBR_SLEEP_KEEP) {
            EXPECT_EQ(MBR_INVALID_ARGUMENT, status);
        }
        refused++;
        EXPECT_TRUE(before == books());
    }
    void open_eyes()
    {
        Nap nap = std::exchange(naps_[tag_], AWAKE);
        /* Fills run on. */
        EXPECT_EQ(MBR_OK, mbr_ep_synchronize(world_.manager, world_.stream, kNever, nullptr));
        for_units([&](Range *range, size_t u) {
            Unit &unit = range->units[u];
            if (!std::exchange(unit.is_asleep, false))
                return;
            unit.is_writable = true;
            if (nap == KEPT)
                return;
            EXPECT_EQ(std::vector<uint8_t>(kUnit), world_.get(at(*range, u), kUnit));
            put(range, u);
        });
    }
    /* Nothing fails: it can only succeed, whatever failed before. */
    void wake_now()
    {
        if (naps_[tag_] == AWAKE)
            return;
        mbr_status status = world_.wake(tag_, MBR_WAKE_ZEROED);
        note("wake", tag_, status);
        ASSERT_EQ(MBR_OK, status) << world_.error.text;
        open_eyes();
    }
    void wake()
    {
        if (naps_[tag_] == AWAKE || pick(2) == 0)
            return wake_now();
        uint64_t asleep_bytes = books().asleep;
        begin_trouble();
        mbr_status status = world_.wake(tag_, MBR_WAKE_ZEROED, deadline_ns());
        end_trouble();
        note("troubled wake", tag_, status);
        if (status == MBR_OK)
            return open_eyes();
        refused++;
        EXPECT_EQ(asleep_bytes, books().asleep);
    }
    void drop()
    {
        if (naps_[tag_] == AWAKE || pick(3) != 0)
            return;
        uint32_t level = naps_[tag_] == KEPT ? MBR_SLEEP_KEEP : MBR_SLEEP_DROP;
        ASSERT_EQ(MBR_OK, world_.sleep(tag_, level)) << "what was left: " << world_.error.text;
        fall_asleep(level);
        mbr_status status = mbr_sleeper_drop(world_.sleeper, tag_, kNever, &world_.error);
        note("drop", tag_, status);
        ASSERT_EQ(MBR_OK, status) << world_.error.text;
        EXPECT_EQ(MBR_OK, world_.drain()) << "of wakes that came too late";
        naps_[tag_] = AWAKE;
        for_units([](Range *range, size_t u) {
            if (range->units[u].is_asleep)
                range->units[u] = {};
        });
    }

    /* ---- What holds behind every move */

    void check()
    {
        EXPECT_TRUE(world_.clean());
        for (const Range &range : ranges_)
            for (size_t u = 0; u < kUnits; u++) {
                const Unit &unit = range.units[u];
                if (unit.block && !unit.is_asleep) {
                    EXPECT_TRUE(world_.holds(at(range, u), kUnit, unit.block->seed))
                        << "range " << &range - ranges_ << ", unit " << u;
                }
            }
    }

    std::mt19937 random_;
    /* In worlds without sharers: what cannot be unmapped of one that has ended stays shared for as
     * long as the extent is used, and no model of units knows it. */
    bool refuses_unmaps_;
    FailingHeap heap_;
    mbr_manager_seams seams_;
    Faulty faulty_;
    SleepWorld world_;
    std::unique_ptr<Gate> gate_;
    Range ranges_[kRanges];
    std::vector<Prefix> prefixes_;
    Nap naps_[kTags + 1] = {AWAKE, AWAKE, AWAKE};
    bool has_rest_[kTags + 1] = {}; /* of the last sleep */
    uint8_t seed_ = 0;
    std::string moves_;
    Range *range_ = nullptr; /* of the move */
    uint64_t tag_ = 0;
};

TEST(SleepModel, AnyMovesInAnyOrderWithFaults_NothingIsLost)
{
    uint64_t refused = 0, residual = 0, once_more = 0;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        Model model(seed);
        for (int i = 0; i < 120 && !::testing::Test::HasFailure(); i++)
            model.step();
        if (!::testing::Test::HasFailure())
            model.finish();
        ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed << "\n" << model.moves();
        refused += model.refused;
        residual += model.residual;
        once_more += model.once_more;
    }
    EXPECT_LT(50u, refused);
    EXPECT_LT(3u, residual);
    EXPECT_LT(200u, once_more);
}

} // namespace
} // namespace membrane
