// The governor against the model: random operations over several authorities. After each operation
// every figure, every ticket and who was asked are equal; a failure is cut down and printed.
//
// MEMBRANE_SEED replays a run, MEMBRANE_OPERATIONS sets its length.
#include "tests/unit/governor/pair.h"

#include <random>

using namespace governor_test;

namespace
{

constexpr uint64_t kOperationsPerSeed = 5000;
constexpr int kHolders = 5, kTickets = 6, kMembers = 4;

struct Shape {
    uint64_t limit;
    bool measured;
    uint64_t margin;
};

// Small ones crowd tickets; below 16 MiB no thread has credit; the last is bounded by its measure.
constexpr Shape kShapes[] = {{12, false, 0}, {1000, true, 10}, {64 * kMiB, true, 5 * kMiB},
    {80 * kGiB, false, 0}, {20 * kMiB, true, 100}};
constexpr int kPairs = sizeof(kShapes) / sizeof(kShapes[0]);

// Several authorities of one governor.
class Walk
{
  public:
    explicit Walk(Tally &tally, bool forgetful = false)
    {
        for (const Shape &shape : kShapes) {
            pairs_.push_back(
                std::make_unique<Pair>(world_, tally, shape.limit, shape.measured, shape.margin));
            pairs_.back()->model.forgetful = forgetful;
        }
    }

    Pair &At(int index) { return *pairs_[static_cast<size_t>(index)]; }

    // Empty, or what differs after the step.
    std::string Take(const Step &step, bool *applied)
    {
        *applied = step.what == Do::kGrantAll ? GrantAll(step) : At(step.at).Apply(step);
        if (step.what != Do::kGrantAll)
            return *applied ? At(step.at).Compare(step.what == Do::kCollect) : "";
        for (auto &pair : pairs_) {
            std::string difference = pair->Compare(false);
            if (!difference.empty())
                return difference;
        }
        return "";
    }

    std::string Finish()
    {
        std::string difference;
        for (auto &pair : pairs_) {
            std::string left = pair->Finish();
            difference = difference.empty() ? left : difference;
        }
        return difference;
    }

  private:
    // Holder a of each authority that has one: the first is asked for `bytes`, the others for
    // `more`; given in some order, refused by the first in ascending order that has not got them.
    bool GrantAll(const Step &step)
    {
        std::vector<mbr_claim> claims;
        int refused = kNobody, seen = 0;
        for (auto &pair : pairs_) {
            mbr_holder *holder = pair->Holder(step.a);
            if (holder == nullptr)
                continue;
            uint64_t bytes = seen == 0 ? step.bytes : step.more;
            claims.push_back({holder, bytes});
            if (refused == kNobody && pair->model.Grant(step.a, bytes) != 0)
                refused = seen;
            seen++;
        }
        int turn = seen == 0 ? 0 : step.b % seen;
        std::rotate(claims.begin(), claims.begin() + turn, claims.end());
        uint32_t index = 77;
        mbr_status status =
            mbr_grant_all(claims.data(), static_cast<uint32_t>(claims.size()), &index, nullptr);
        Pair &first = At(0);
        first.Expect(status, refused == kNobody ? MBR_OK : MBR_OVER_BUDGET, "grant_all");
        int wanted = refused == kNobody ? -1 : (refused + seen - turn) % seen;
        first.Expect(index, static_cast<uint32_t>(wanted), "grant_all's index");
        GiveBack(step, refused);
        return seen != 0;
    }

    // What the model granted before the one that was refused.
    void GiveBack(const Step &step, int refused)
    {
        int seen = 0;
        for (auto &pair : pairs_) {
            if (pair->Holder(step.a) == nullptr)
                continue;
            if (seen < refused)
                pair->model.Return(step.a, seen == 0 ? step.bytes : step.more);
            seen++;
        }
    }

    World world_;
    std::vector<std::unique_ptr<Pair>> pairs_;
};

// Draws the next step from what the model says, so that sizes lie where something changes.
class Dice
{
  public:
    explicit Dice(uint64_t seed) : random_(seed) {}

    Step Draw(Walk &walk)
    {
        // Mostly the two small authorities, where everything is contended.
        int at = Below(3) != 0 ? Int(2) : Int(kPairs);
        const Pair &pair = walk.At(at);
        const Model &model = pair.model;
        Step step = {DrawKind(), at, Int(kHolders), Int(kHolders), Int(kTickets)};
        if (model.holders.count(step.a) == 0 && Below(4) == 0)
            step.what = Do::kCreate;
        auto found = model.holders.find(step.a);
        ModelHolder none;
        Fill(step, model, found == model.holders.end() ? none : found->second, pair.IsMeasured());
        return step;
    }

  private:
    uint64_t Below(uint64_t bound) { return random_() % bound; }
    int Int(int bound) { return static_cast<int>(Below(static_cast<uint64_t>(bound))); }
    uint32_t Word(uint32_t bound) { return static_cast<uint32_t>(Below(bound)); }
    uint32_t Flag(uint64_t odds, uint32_t flag) { return Below(odds) == 0 ? flag : 0; }

    Do DrawKind()
    {
        struct Weight {
            Do what;
            uint64_t weight;
        };
        static const Weight weights[] = {{Do::kCreate, 2}, {Do::kDestroy, 2}, {Do::kGrant, 24},
            {Do::kReturn, 8}, {Do::kCharge, 12}, {Do::kRefund, 12}, {Do::kTransfer, 4},
            {Do::kTryTransfer, 4}, {Do::kRecord, 2}, {Do::kMap, 2}, {Do::kUnmap, 2},
            {Do::kMapTransfer, 1}, {Do::kQuarantine, 1}, {Do::kQuarantineSettle, 2},
            {Do::kRetain, 1}, {Do::kRetainSettle, 2}, {Do::kSetLimit, 2}, {Do::kChangeLimit, 2},
            {Do::kExhausted, 1}, {Do::kSample, 2}, {Do::kSampleIfDue, 1}, {Do::kClock, 5},
            {Do::kManners, 6}, {Do::kSubmit, 20}, {Do::kPoll, 5}, {Do::kClaim, 10},
            {Do::kCancel, 3}, {Do::kDestroyTicket, 12}, {Do::kRetire, 1}, {Do::kPollAll, 6},
            {Do::kDeliver, 2}, {Do::kAdmit, 5}, {Do::kGrow, 8}, {Do::kShrink, 2}, {Do::kLeave, 2},
            {Do::kCollect, 4}, {Do::kPressCaches, 3}, {Do::kGrantAll, 1}};
        uint64_t all = 0;
        for (const Weight &one : weights)
            all += one.weight;
        uint64_t drawn = Below(all);
        for (const Weight &one : weights) {
            if (drawn < one.weight)
                return one.what;
            drawn -= one.weight;
        }
        return Do::kPoll;
    }

    // Small ones, around what is left, around credit, absurd ones.
    uint64_t Amount(const Model &model, uint64_t near)
    {
        switch (Below(8)) {
        case 0:
            return Below(4);
        case 1:
        case 2:
            return Below(model.limit / 5000 + 3);
        case 3:
            return Below(model.limit / 4096 * 3 + 3);
        case 4:
            return near + Below(3) - (near > 0);
        case 5:
            return near / (1 + Below(4));
        case 6:
            return Below(model.limit + 2);
        default:
            return Below(4) == 0 ? kNone - Below(100) : near;
        }
    }

    uint64_t SomeLimit(const Model &model, const Shape &shape, bool measured)
    {
        if (Below(8) == 0)
            return measured ? kNone - Below(2) : kNone - 1;
        return Below(4) == 0 ? model.Claimed() / 2 % (UINT64_C(1) << 62)
                             : shape.limit / (1 + Below(3)) + Below(3);
    }

    uint64_t SomeTime()
    {
        static const uint64_t times[] = {1, kSecond / 1000, MBR_PRESS_INTERVAL_NS,
            MBR_AGEING_NS / 2, MBR_AGEING_NS, 3 * MBR_AGEING_NS, kSecond};
        return times[Below(sizeof(times) / sizeof(times[0]))];
    }

    void Fill(Step &step, const Model &model, const ModelHolder &h, bool measured)
    {
        const Shape &shape = kShapes[step.at];
        switch (step.what) {
        case Do::kCreate:
            step.bytes = Below(2) == 0 ? MBR_NO_ALLOWANCE : Below(model.limit + 1);
            step.rank = Word(MBR_ROLE_COUNT);
            step.flags = Flag(2, kBorrows) | Flag(2, kPressed);
            break;
        case Do::kGrant:
        case Do::kGrantAll:
            step.bytes = Amount(model, std::min(model.Room(), h.LeaseLeft()));
            step.more = Amount(model, model.Room());
            break;
        case Do::kReturn:
        case Do::kCharge:
            step.bytes = Amount(model, model.holders.count(step.a) == 0 ? 0 : model.Usable(step.a));
            break;
        case Do::kRecord:
            step.bytes = Amount(model, model.Room()) % kGiB;
            break;
        case Do::kMap:
        case Do::kUnmap:
        case Do::kMapTransfer:
            step.bytes = Amount(model, h.mapped) % (64 * kGiB);
            break;
        case Do::kQuarantine:
        case Do::kRetain:
            step.bytes = Amount(model, h.Unmarked()) / 4;
            break;
        case Do::kQuarantineSettle:
        case Do::kRetainSettle:
            step.bytes = step.what == Do::kRetainSettle ? h.retained : h.quarantined;
            break;
        case Do::kSetLimit:
        case Do::kChangeLimit:
            step.bytes = SomeLimit(model, shape, measured);
            step.flags = Flag(2, kRestore);
            step.more = Below(2) == 0 ? MBR_ANY_REVISION : model.set_revision - Below(2);
            break;
        case Do::kSample:
        case Do::kSampleIfDue:
            step.bytes =
                Below(10) == 0 ? kNone - Below(3) : shape.limit / (1 + Below(3)) + Below(3);
            break;
        case Do::kClock:
            step.bytes = SomeTime();
            break;
        case Do::kManners:
            step.bytes = Amount(model, h.charged);
            step.more = Amount(model, h.charged);
            step.flags = Flag(6, kGreedy);
            step.b = Below(3) == 0 ? step.b : kNobody;
            break;
        case Do::kSubmit:
            step.bytes = Amount(model, model.Room() + model.limit / 4);
            step.rank = Word(MBR_PRIORITY_COUNT + (Below(50) == 0 ? 1 : 0));
            step.more = Below(3) == 0 ? SomeTime() : kNone;
            step.flags = Flag(3, kQuiet) | Flag(2, kTells);
            break;
        case Do::kAdmit:
        case Do::kGrow:
        case Do::kShrink:
        case Do::kLeave:
            FillMember(step, model);
            break;
        default:
            step.bytes = Amount(model, h.Unmarked());
        }
    }

    void FillMember(Step &step, const Model &model)
    {
        step.a = model.admission_holder == kNobody ? step.a : model.admission_holder;
        step.name = Int(kMembers);
        auto found = model.members.find(step.name);
        bool is_in = found != model.members.end();
        uint64_t has = is_in ? found->second.has : 0;
        uint64_t lacks = is_in ? found->second.most - has : model.limit / 2;
        step.bytes = Amount(model, step.what == Do::kShrink ? has : lacks);
    }

    std::mt19937_64 random_;
};

// Empty, or the first difference.
std::string Replay(const std::vector<Step> &steps, bool forgetful)
{
    Tally tally;
    Walk walk(tally, forgetful);
    std::string difference;
    for (size_t i = 0; i < steps.size() && difference.empty(); i++) {
        bool applied;
        difference = walk.Take(steps[i], &applied);
    }
    std::string left = walk.Finish();
    return difference.empty() ? left : difference;
}

// Counts, over a whole run.
struct Seen {
    Tally tally;
    std::array<std::array<uint64_t, static_cast<size_t>(Do::kCount)>,
        static_cast<size_t>(Do::kCount)>
        pairs = {};
    uint64_t operations = 0, applied = 0;
};

// A walk of one seed: the steps that fail, cut down, or nothing.
std::vector<Step> RunSeed(
    uint64_t seed, uint64_t operations, bool forgetful, Seen &seen, std::string &difference)
{
    std::vector<Step> steps;
    Walk walk(seen.tally, forgetful);
    Dice dice(seed);
    size_t last = static_cast<size_t>(Do::kPoll);
    while (steps.size() < operations && difference.empty()) {
        Step step = dice.Draw(walk);
        bool applied = false;
        difference = walk.Take(step, &applied);
        steps.push_back(step);
        seen.operations++;
        seen.applied += applied;
        if (applied) {
            seen.pairs[last][static_cast<size_t>(step.what)]++;
            last = static_cast<size_t>(step.what);
        }
    }
    std::string left = walk.Finish();
    difference = difference.empty() ? left : difference;
    if (difference.empty())
        return {};
    std::vector<Step> failing = Shrunk(
        steps, [&](const std::vector<Step> &fewer) { return !Replay(fewer, forgetful).empty(); });
    difference = Replay(failing, forgetful);
    return failing;
}

std::string Text(const std::vector<Step> &steps)
{
    std::string text;
    for (const Step &step : steps)
        text += governor_test::Text(step) + "\n";
    return text;
}

// A long run that never came to the crowded corners has shown little.
void ExpectVariety(const Seen &seen, uint64_t operations)
{
    uint64_t often = operations >= 300000 ? 100 : 0;
    EXPECT_EQ(EdgesTaken(seen.tally.edges, often), "");
    EXPECT_GE(seen.applied, operations / 2);
    EXPECT_GE(seen.tally.gave, often);
    EXPECT_GE(seen.tally.held, often);
    for (uint32_t kind = MBR_LIMIT_APPLIED; kind <= MBR_LIMIT_CONFLICT; kind++)
        EXPECT_GE(seen.tally.limit_kinds[kind], often) << "change_limit's kind " << kind;
    for (uint32_t reason = MBR_REFUSED_LIMIT; reason <= MBR_REFUSED_MEASURED; reason++)
        EXPECT_GE(seen.tally.reasons[reason], often) << "reason " << reason;
    uint64_t never_adjacent = 0;
    for (const auto &row : seen.pairs)
        never_adjacent += static_cast<uint64_t>(std::count(row.begin(), row.end(), 0u));
    printf("holders gave in %llu, bytes were held after %llu; %llu pairs of kinds never adjacent\n",
        static_cast<unsigned long long>(seen.tally.gave),
        static_cast<unsigned long long>(seen.tally.held),
        static_cast<unsigned long long>(never_adjacent));
    EXPECT_TRUE(operations < kMostOperations || never_adjacent == 0) << never_adjacent;
}

TEST(Model_Random, EveryFigure_IsTheModelsAfterEachOperation)
{
    uint64_t first_seed = FromEnvironment("MEMBRANE_SEED", 20240229);
    uint64_t operations = OperationCount();
    Seen seen;
    uint64_t seed = first_seed;
    for (; seen.operations < operations; seed++) {
        uint64_t count = std::min(kOperationsPerSeed, operations - seen.operations);
        std::string difference;
        std::vector<Step> failing = RunSeed(seed, count, false, seen, difference);
        ASSERT_EQ(difference, "") << "MEMBRANE_SEED=" << seed << " MEMBRANE_OPERATIONS=" << count
                                  << "; enough are these " << failing.size() << ":\n"
                                  << Text(failing);
    }
    printf("%llu operations, %llu applied, seeds %llu to %llu\n",
        static_cast<unsigned long long>(seen.operations),
        static_cast<unsigned long long>(seen.applied), static_cast<unsigned long long>(first_seed),
        static_cast<unsigned long long>(seed - 1));
    ExpectVariety(seen, operations);
}

// The checker is awake: a model that forgets one thing is found out, and few steps say where.
TEST(Model_Random, PlantedFault_IsFoundAndCutDown)
{
    Seen seen;
    std::string difference;
    std::vector<Step> failing = RunSeed(1, 20000, true, seen, difference);
    EXPECT_NE(difference, "");
    EXPECT_LE(failing.size(), 20u) << Text(failing);
    EXPECT_GE(failing.size(), 4u) << Text(failing);
}

} // namespace
