// The governor against the model: random operations over several authorities, and every sequence of
// a small scope. After each operation every figure is equal, refused ones changed nothing.
//
// MEMBRANE_SEED replays a run, MEMBRANE_OPERATIONS sets its length.
#include "tests/unit/governor/model.h"

#include <cstdlib>
#include <memory>
#include <random>
#include <sstream>
#include <vector>

using namespace governor_test;

namespace
{

// The thread sanitizer slows these down thirtyfold and has nothing to see in a single thread.
#ifdef __SANITIZE_THREAD__
constexpr uint64_t kDefaultOperations = 20000;
constexpr size_t kScopeLength = 5;
#else
constexpr uint64_t kDefaultOperations = 400000;
constexpr size_t kScopeLength = 7;
#endif

uint64_t FromEnvironment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == nullptr ? otherwise : strtoull(text, nullptr, 10);
}

// One authority beside its model. An operation answers whether it was applicable, and changes both.
class Pair
{
  public:
    Pair(World &world, uint64_t limit, bool measured, uint64_t margin)
        : world_(world), measured_(measured)
    {
        probe_.free_bytes = limit;
        probe_seam_ = probe_.Seam();
        authority = world.Authority(limit, measured ? &probe_seam_ : nullptr, margin);
        model.set_limit = limit;
        model.margin = margin;
        Sampled();
        model.Settle(limit); // the first sample counts as a change of the limit
    }

    void Create(uint64_t allowance, uint32_t role)
    {
        mbr_holder *holder = world_.Holder(authority, allowance, role);
        model.holders[holder].allowance = allowance;
        model.holders[holder].role = role;
    }

    // Refused while anything is left, which is an operation of its own.
    void Destroy(mbr_holder *holder)
    {
        const ModelHolder &h = model.holders[holder];
        bool empty = h.granted == 0 && h.charged == 0 && h.mapped == 0;
        Expect(mbr_holder_destroy(holder, nullptr), empty ? MBR_OK : MBR_IN_USE, "destroy");
        if (empty)
            model.holders.erase(holder);
    }

    void Grant(mbr_holder *holder, uint64_t bytes)
    {
        ModelHolder &h = model.holders[holder];
        uint32_t reason = model.Refuses(h, bytes);
        mbr_refusal refusal = NewRefusal();
        Expect(mbr_grant(holder, bytes, &refusal), reason == 0 ? MBR_OK : MBR_OVER_BUDGET, "grant");
        if (reason != 0) {
            model.refusals++;
            Note(Differs(refusal, model, h, bytes, reason));
        } else {
            model.grants += bytes != 0;
            h.granted += bytes;
        }
    }

    bool GrantReturn(mbr_holder *holder, uint64_t bytes)
    {
        if (bytes > model.holders[holder].granted)
            return false;
        mbr_grant_return(holder, bytes);
        model.holders[holder].granted -= bytes;
        return true;
    }

    bool Charge(mbr_holder *holder, uint64_t bytes)
    {
        if (bytes > model.holders[holder].granted)
            return false;
        mbr_charge(holder, bytes);
        model.holders[holder].granted -= bytes;
        model.holders[holder].charged += bytes;
        return true;
    }

    // Bytes that are marked stay charged.
    uint64_t Unmarked(mbr_holder *holder)
    {
        const ModelHolder &h = model.holders[holder];
        return h.charged - h.quarantined - h.retained;
    }

    bool Refund(mbr_holder *holder, uint64_t bytes)
    {
        if (bytes > Unmarked(holder))
            return false;
        mbr_refund(holder, bytes);
        model.holders[holder].charged -= bytes;
        return true;
    }

    bool Transfer(mbr_holder *from, mbr_holder *to, uint64_t bytes)
    {
        if (bytes > Unmarked(from))
            return false;
        mbr_transfer(from, to, bytes);
        model.holders[from].charged -= bytes;
        model.holders[to].charged += bytes;
        return true;
    }

    bool TryTransfer(mbr_holder *from, mbr_holder *to, uint64_t bytes)
    {
        if (bytes > Unmarked(from))
            return false;
        bool fits = from == to || bytes <= Model::Left(model.holders[to]);
        mbr_refusal refusal = NewRefusal();
        Expect(mbr_try_transfer(from, to, bytes, &refusal), fits ? MBR_OK : MBR_OVER_BUDGET,
            "try_transfer");
        if (fits) {
            model.holders[from].charged -= bytes;
            model.holders[to].charged += bytes;
        } else {
            model.refusals++;
            Expect(static_cast<int>(refusal.reason), MBR_REFUSED_ALLOWANCE, "try_transfer");
        }
        return true;
    }

    bool RecordCommitted(mbr_holder *holder, uint64_t bytes)
    {
        if (bytes > (UINT64_C(1) << 60) || model.Claimed() > (UINT64_C(1) << 60))
            return false;
        mbr_record_committed(holder, bytes);
        model.holders[holder].charged += bytes;
        return true;
    }

    void SetLimit(uint64_t bytes)
    {
        bool fits = bytes == kNone ? measured_ : bytes < UINT64_C(1) << 63;
        uint64_t over = 77;
        mbr_status status = mbr_authority_set_limit(authority, bytes, &over, nullptr);
        Expect(status == MBR_OK, fits, "set_limit");
        if (fits) {
            model.set_limit = bytes;
            model.exhausted = kNone;
        }
        uint64_t expected = model.Claimed() > model.Limit() ? model.Claimed() - model.Limit() : 0;
        Expect(over, fits ? expected : 0, "set_limit's over");
    }

    void NoteExhausted()
    {
        mbr_authority_note_exhausted(authority);
        model.exhausted = model.Claimed();
    }

    void Sample(uint64_t free, bool known)
    {
        probe_.free_bytes = free;
        probe_.known = known;
        mbr_authority_sample(authority, true);
        Sampled();
    }

    bool Mark(mbr_holder *holder, uint64_t bytes, bool quarantine)
    {
        if (bytes > Unmarked(holder))
            return false;
        (quarantine ? mbr_quarantine : mbr_retain)(holder, bytes);
        ModelHolder &h = model.holders[holder];
        (quarantine ? h.quarantined : h.retained) += bytes;
        return true;
    }

    bool Settle(mbr_holder *holder, uint64_t bytes, bool quarantine)
    {
        ModelHolder &h = model.holders[holder];
        uint64_t &marked = quarantine ? h.quarantined : h.retained;
        if (bytes > marked)
            return false;
        (quarantine ? mbr_quarantine_settle : mbr_retain_settle)(holder, bytes);
        marked -= bytes;
        return true;
    }

    bool Map(mbr_holder *from, mbr_holder *to, uint64_t bytes, int way)
    {
        ModelHolder &f = model.holders[from];
        if (way != 0 && bytes > f.mapped)
            return false;
        if (way == 0)
            mbr_mapped_add(from, bytes);
        else if (way == 1)
            mbr_mapped_sub(from, bytes);
        else
            mbr_mapped_transfer(from, to, bytes);
        f.mapped = way == 0 ? f.mapped + bytes : f.mapped - bytes;
        if (way == 2)
            model.holders[to].mapped += bytes;
        return true;
    }

    // Compares every figure; `exact` collects credit first. Empty if all are equal.
    std::string Compare(uint64_t limit_before, bool exact)
    {
        model.Settle(limit_before);
        if (!difference_.empty())
            return difference_;
        if (exact)
            mbr_authority_collect_credit(authority);
        uint64_t credit = exact || model.Claimed() > model.Limit() ? 0 : model.Limit() / 64;
        std::string difference = Differs(Figures(authority), model, credit);
        for (auto &[holder, h] : model.holders) {
            if (difference.empty())
                difference = Differs(Figures(holder), h);
        }
        mbr_error error = NewError();
        if (difference.empty() && mbr_authority_audit(authority, &error) != MBR_OK)
            difference = error.text;
        return difference;
    }

    // Gives everything back and ends the authority.
    void Finish()
    {
        while (!model.holders.empty()) {
            mbr_holder *holder = model.holders.begin()->first;
            ModelHolder &h = model.holders[holder];
            mbr_quarantine_settle(holder, h.quarantined);
            mbr_retain_settle(holder, h.retained);
            mbr_refund(holder, h.charged);
            mbr_grant_return(holder, h.granted);
            mbr_mapped_sub(holder, h.mapped);
            h = ModelHolder();
            Destroy(holder);
        }
        End<mbr_holder *>(authority, nullptr);
        EXPECT_EQ(difference_, "");
    }

    mbr_authority *authority;
    Model model;

  private:
    template <typename A, typename B> void Expect(A got, B expected, const char *what)
    {
        if (static_cast<uint64_t>(got) != static_cast<uint64_t>(expected))
            Note(std::string(what) + " answered " + std::to_string(got) + ", expected " +
                std::to_string(expected));
    }

    void Note(const std::string &difference)
    {
        if (difference_.empty())
            difference_ = difference;
    }

    void Sampled()
    {
        if (measured_ && probe_.known && probe_.free_bytes != MBR_UNKNOWN_BYTES) {
            uint64_t free = probe_.free_bytes;
            uint64_t usable = free > model.margin ? free - model.margin : 0;
            unsigned __int128 sum = usable;
            sum += model.Sum(&ModelHolder::charged);
            uint64_t most = (UINT64_C(1) << 63) - 1;
            model.measured = sum > most ? most : static_cast<uint64_t>(sum);
            model.device_free = free;
        }
        model.exhausted = kNone;
    }

    World &world_;
    bool measured_;
    FakeProbe probe_;
    mbr_probe probe_seam_;
    std::string difference_;
};

// ---- Random operations
class Walk
{
  public:
    explicit Walk(uint64_t seed) : random_(seed)
    {
        struct Shape {
            uint64_t limit;
            bool measured;
            uint64_t margin;
        } shapes[] = {
            {1000, false, 0},
            {64 * kMiB, true, 5 * kMiB},
            {80 * kGiB, false, 0},
            {kNone, true, 100},
        };
        for (const Shape &shape : shapes) {
            bool only_measured = shape.limit == kNone;
            pairs_.push_back(std::make_unique<Pair>(
                world_, only_measured ? 20 * kMiB : shape.limit, shape.measured, shape.margin));
            if (only_measured)
                pairs_.back()->SetLimit(kNone);
        }
    }

    // One operation on one authority, then the comparison. What it was is in `said`.
    std::string Step(std::ostringstream &said, bool *applied)
    {
        Pair &pair = *pairs_[Below(pairs_.size())];
        uint64_t limit_before = pair.model.Limit();
        *applied = Apply(pair, said);
        return pair.Compare(limit_before, Below(2) == 0);
    }

    void Finish()
    {
        for (auto &pair : pairs_)
            pair->Finish();
    }

  private:
    uint64_t Below(uint64_t bound) { return random_() % bound; }

    mbr_holder *AnyHolder(Pair &pair)
    {
        auto one = pair.model.holders.begin();
        std::advance(one, static_cast<long>(Below(pair.model.holders.size())));
        return one->first;
    }

    // Sizes where something changes: small ones, around what is left, around credit, absurd ones.
    uint64_t Amount(Pair &pair, uint64_t near)
    {
        switch (Below(8)) {
        case 0:
            return Below(4);
        case 1:
        case 2:
            return Below(pair.model.Limit() / 5000 + 3);
        case 3:
            return Below(pair.model.Limit() / 4096 * 3 + 3);
        case 4:
            return near + Below(3) - (near > 0);
        case 5:
            return near / (1 + Below(4));
        case 6:
            return Below(pair.model.Limit() + 2);
        default:
            return Below(4) == 0 ? kNone - Below(100) : near;
        }
    }

    bool Apply(Pair &pair, std::ostringstream &said)
    {
        if (pair.model.holders.empty() || Below(200) == 0) {
            uint64_t allowance = Below(3) == 0 ? Below(pair.model.Limit() + 1) : MBR_NO_ALLOWANCE;
            said << "create " << allowance;
            if (pair.model.holders.size() >= 5)
                return false;
            pair.Create(allowance, static_cast<uint32_t>(Below(MBR_ROLE_COUNT)));
            return true;
        }
        mbr_holder *a = AnyHolder(pair);
        mbr_holder *b = AnyHolder(pair);
        ModelHolder &h = pair.model.holders[a];
        uint64_t kind = Below(100), bytes = 0;
        bool applied = true;
        if (kind < 30)
            pair.Grant(a, bytes = Amount(pair, std::min(pair.model.Room(), Model::Left(h))));
        else if (kind < 40)
            applied = pair.GrantReturn(a, bytes = Amount(pair, h.granted));
        else if (kind < 52)
            applied = pair.Charge(a, bytes = Amount(pair, h.granted));
        else if (kind < 66)
            applied = pair.Refund(a, bytes = Amount(pair, pair.Unmarked(a)));
        else if (kind < 72)
            applied = pair.Transfer(a, b, bytes = Amount(pair, pair.Unmarked(a)));
        else if (kind < 76)
            applied = pair.TryTransfer(a, b, bytes = Amount(pair, pair.Unmarked(a)));
        else if (kind < 78)
            applied = pair.RecordCommitted(a, bytes = Amount(pair, pair.model.Room()) % kGiB);
        else if (kind < 83)
            applied = pair.Map(
                a, b, bytes = Amount(pair, h.mapped) % (64 * kGiB), static_cast<int>(Below(3)));
        else if (kind < 87)
            applied = pair.Mark(a, bytes = Amount(pair, pair.Unmarked(a)) / 4, kind < 85);
        else if (kind < 91)
            applied = pair.Settle(a, bytes = kind < 89 ? h.quarantined : h.retained, kind < 89);
        else
            return ApplyRare(pair, a, kind, said);
        said << "operation " << kind << " of " << bytes << " bytes";
        return applied;
    }

    bool ApplyRare(Pair &pair, mbr_holder *a, uint64_t kind, std::ostringstream &said)
    {
        uint64_t base[] = {1000, 64 * kMiB, 80 * kGiB, 20 * kMiB};
        uint64_t bytes = base[Below(4)] / (1 + Below(3)) + Below(3);
        said << "rare " << kind << " of " << bytes;
        if (kind < 93)
            pair.Destroy(a);
        else if (kind < 95)
            pair.SetLimit(Below(10) == 0 ? kNone - Below(2) : bytes);
        else if (kind < 96)
            pair.SetLimit(pair.model.Claimed() / 2 % (UINT64_C(1) << 62));
        else if (kind < 97)
            pair.NoteExhausted();
        else
            pair.Sample(Below(20) == 0 ? kNone - Below(2) : bytes, Below(10) != 0);
        return true;
    }

    World world_;
    std::mt19937_64 random_;
    std::vector<std::unique_ptr<Pair>> pairs_;
};

TEST(Model_Random, EveryFigure_IsTheModelsAfterEachOperation)
{
    uint64_t first_seed = FromEnvironment("MEMBRANE_SEED", 20240229);
    uint64_t operations = FromEnvironment("MEMBRANE_OPERATIONS", kDefaultOperations);
    constexpr uint64_t kOperationsPerSeed = 20000;
    uint64_t applied_count = 0;
    uint64_t seed = first_seed;
    for (uint64_t done = 0; done < operations; seed++) {
        Walk walk(seed);
        for (uint64_t i = 0; i < kOperationsPerSeed && done < operations; i++, done++) {
            std::ostringstream said;
            bool applied = false;
            std::string difference = walk.Step(said, &applied);
            applied_count += applied;
            ASSERT_EQ(difference, "")
                << "MEMBRANE_SEED=" << seed << " MEMBRANE_OPERATIONS=" << i + 1
                << ", last: " << said.str();
        }
        walk.Finish();
    }
    printf("%llu operations, %llu applied, seeds %llu to %llu\n",
        static_cast<unsigned long long>(operations), static_cast<unsigned long long>(applied_count),
        static_cast<unsigned long long>(first_seed), static_cast<unsigned long long>(seed - 1));
    if (operations >= 300000) {
        EXPECT_GE(applied_count, 250000u);
    }
}

// ---- Small scope: limit of three bytes, two holders, every sequence
class Scope
{
  public:
    static constexpr int kOperations = 10;

    // Runs the sequence in a fresh authority. False as soon as an operation is not applicable: what
    // follows is covered by a shorter sequence.
    bool Run(const std::vector<int> &sequence)
    {
        Pair pair(world_, 3, false, 0);
        pair.Create(MBR_NO_ALLOWANCE, MBR_ROLE_KV);
        mbr_holder *a = pair.model.holders.begin()->first;
        pair.Create(2, MBR_ROLE_CACHE);
        mbr_holder *b = nullptr;
        for (auto &[holder, h] : pair.model.holders)
            b = holder == a ? b : holder;
        bool applicable = true;
        std::string difference;
        for (size_t i = 0; i < sequence.size() && applicable && difference.empty(); i++) {
            uint64_t limit_before = pair.model.Limit();
            applicable = Apply(pair, a, b, sequence[i]);
            bool last = i + 1 == sequence.size(); // the shorter ones were compared before
            if (last)
                difference = pair.Compare(limit_before, true);
            else
                pair.model.Settle(limit_before);
        }
        if (!difference.empty()) {
            std::string text;
            for (int operation : sequence)
                text += std::to_string(operation) + " ";
            ADD_FAILURE() << "sequence " << text << ": " << difference;
        }
        pair.Finish();
        return applicable;
    }

  private:
    static bool Apply(Pair &pair, mbr_holder *a, mbr_holder *b, int operation)
    {
        switch (operation) {
        case 0:
            return pair.Grant(a, 1), true;
        case 1:
            return pair.Grant(a, 2), true;
        case 2:
            return pair.Grant(b, 1), true;
        case 3:
            return pair.GrantReturn(a, 1);
        case 4:
            return pair.Charge(a, 1);
        case 5:
            return pair.Refund(a, 1);
        case 6:
            return pair.TryTransfer(a, b, 1);
        case 7:
            return pair.Transfer(a, b, 1);
        case 8:
            return pair.SetLimit(pair.model.set_limit == 3 ? 1 : 3), true;
        default:
            return pair.RecordCommitted(b, 1);
        }
    }

    World world_;
};

TEST(Model_SmallScope, EverySequence_IsTheModels)
{
    Scope scope;
    uint64_t count = 0;
    std::vector<int> sequence = {0};
    while (!sequence.empty() && !::testing::Test::HasFailure()) {
        bool deeper = scope.Run(sequence) && sequence.size() < kScopeLength;
        count++;
        if (deeper) {
            sequence.push_back(0);
            continue;
        }
        while (!sequence.empty() && ++sequence.back() == Scope::kOperations)
            sequence.pop_back();
    }
    printf("%llu sequences\n", static_cast<unsigned long long>(count));
    EXPECT_GE(count, kScopeLength == 7 ? 700000u : 10000u);
}

} // namespace
