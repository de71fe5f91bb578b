// Small scopes, exhaustively: every sequence of a few steps over the books of two holders, and over
// the tickets of three, is as the model says. A sequence ends where a step does not apply: what
// would follow is covered by a shorter one.
#include "tests/unit/governor/pair.h"

using namespace governor_test;

namespace
{

// Shorter where random runs are.
size_t Length()
{
    uint64_t operations = OperationCount();
    return operations >= kMostOperations ? 7 : operations >= 100000 ? 6 : 5;
}

class Scope
{
  public:
    // `begin` leads to where every sequence starts, from empty books.
    Scope(uint64_t limit, std::vector<Step> holders, std::vector<Step> begin,
        std::vector<Step> alphabet)
        : pair_(world_, tally, limit, false, 0), limit_(limit), begin_(std::move(begin)),
          alphabet_(std::move(alphabet))
    {
        for (const Step &step : holders)
            pair_.Apply(step);
    }

    // The number of sequences.
    uint64_t RunAll(size_t length)
    {
        uint64_t count = 0;
        std::vector<size_t> sequence = {0};
        while (!sequence.empty() && !::testing::Test::HasFailure()) {
            bool deeper = Run(sequence) && sequence.size() < length;
            count++;
            if (deeper) {
                sequence.push_back(0);
                continue;
            }
            while (!sequence.empty() && ++sequence.back() == alphabet_.size())
                sequence.pop_back();
        }
        printf("%llu sequences\n", static_cast<unsigned long long>(count));
        EXPECT_EQ(pair_.Finish(), "");
        return count;
    }

    Tally tally;

  private:
    // True: each step applied. Only the last is compared, the shorter ones were before.
    bool Run(const std::vector<size_t> &sequence)
    {
        pair_.Clear();
        pair_.Apply({Do::kSetLimit, 0, 0, 0, 0, limit_});
        for (const Step &step : begin_)
            pair_.Apply(step);
        bool applies = true;
        for (size_t i = 0; i < sequence.size() && applies; i++)
            applies = pair_.Apply(alphabet_[sequence[i]]);
        std::string difference = applies ? pair_.Compare(true) : "";
        if (!difference.empty()) {
            std::string text;
            for (size_t index : sequence)
                text += Text(alphabet_[index]) + "\n";
            ADD_FAILURE() << difference << " after\n" << text;
        }
        return applies;
    }

    World world_;
    Pair pair_;
    uint64_t limit_;
    std::vector<Step> begin_, alphabet_;
};

Step Of(Do what, int a, uint64_t bytes)
{
    return {what, 0, a, 1 - a, 0, bytes};
}

TEST(Scope_Books, EverySequence_IsTheModels)
{
    Step bounded = Of(Do::kCreate, 1, 2);
    bounded.rank = MBR_ROLE_CACHE;
    Scope scope(3, {Of(Do::kCreate, 0, MBR_NO_ALLOWANCE), bounded}, {},
        {Of(Do::kGrant, 0, 1), Of(Do::kGrant, 0, 2), Of(Do::kGrant, 1, 1), Of(Do::kReturn, 0, 1),
            Of(Do::kCharge, 0, 1), Of(Do::kRefund, 0, 1), Of(Do::kTryTransfer, 0, 1),
            Of(Do::kTransfer, 0, 1), Of(Do::kSetLimit, 0, 1), Of(Do::kRecord, 1, 1)});
    EXPECT_GE(scope.RunAll(Length()), Length() == 7 ? 700000u : 10000u);
}

Step Submits(int name, int holder, uint64_t bytes, uint32_t flags, uint64_t deadline = kNone)
{
    return {Do::kSubmit, 0, holder, 0, name, bytes, deadline, static_cast<uint32_t>(name), flags};
}

Step OfTicket(Do what, int name)
{
    return {what, 0, 0, 0, name};
}

// Holder 0 owns three of four bytes and gives two when it is asked; 1 is bounded by two, 2 by
// nothing.
TEST(Scope_Tickets, EverySequence_IsTheModelsAndTakesEveryEdge)
{
    Step owner = Of(Do::kCreate, 0, MBR_NO_ALLOWANCE);
    owner.flags = kPressed;
    Step manners = {Do::kManners, 0, 0, kNobody, 0, 2, 2};
    Scope scope(4, {owner, Of(Do::kCreate, 1, 2), Of(Do::kCreate, 2, MBR_NO_ALLOWANCE)},
        {manners, Of(Do::kGrant, 0, 3), Of(Do::kCharge, 0, 3)},
        {Submits(0, 1, 1, kQuiet | kTells), Submits(1, 1, 2, kQuiet | kTells, 5),
            Submits(2, 2, 3, kTells), Of(Do::kRefund, 0, 1), OfTicket(Do::kCancel, 1),
            OfTicket(Do::kClaim, 1), OfTicket(Do::kClaim, 2), Of(Do::kClock, 0, 5),
            Of(Do::kClock, 0, MBR_PRIORITY_COUNT * (uint64_t)MBR_AGEING_NS),
            Of(Do::kSetLimit, 0, 2), OfTicket(Do::kRetire, 0)});
    EXPECT_GE(scope.RunAll(Length()), Length() == 7 ? 1000000u : 10000u);
    EXPECT_EQ(EdgesTaken(scope.tally.edges, 1), "");
}

} // namespace
