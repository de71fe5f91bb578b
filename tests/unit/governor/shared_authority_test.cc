// Authorities on a shared ledger: claims within the lease touch nothing, one past it leases more,
// what is idle goes back, and a refusal says whose limit it was.
#include "tests/unit/governor/crowd.h"
#include "tests/unit/governor/shared_world.h"

extern "C" {
#include "governor/ticket.h"
}

#include <random>

using namespace governor_test;

namespace
{

// Members of one ledger in one process: each an authority with a holder.
struct Member {
    mbr_shared *shared;
    mbr_authority *authority;
    mbr_holder *holder;
};

struct Ledger : SharedWorld {
    World books;

    Member Begin(uint64_t limit_bytes = kLimit, uint64_t set_bytes = kNone / 2,
        const mbr_probe *probe = nullptr)
    {
        Member made = {Join(limit_bytes), nullptr, nullptr};
        made.authority = books.Authority(set_bytes, probe, 0, made.shared);
        made.holder = books.Holder(made.authority);
        return made;
    }

    void EndAll(std::initializer_list<Member> members)
    {
        for (const Member &member : members) {
            End(member.authority, member.holder);
            mbr_shared_leave(member.shared);
        }
        EXPECT_TRUE(folder.Files().empty());
    }

    // Nothing was leased twice or lost: the page and the authorities say the same.
    void ExpectAgreement(const std::vector<Member> &members, uint64_t limit_bytes)
    {
        mbr_shared_figures page = Read();
        uint64_t sum = 0;
        for (const Member &member : members) {
            mbr_authority_figures figures = Figures(member.authority);
            EXPECT_LE(figures.claimed_bytes, figures.leased_bytes);
            EXPECT_EQ(mbr_authority_audit(member.authority, &error), MBR_OK) << error.text;
            sum += figures.leased_bytes;
        }
        EXPECT_EQ(page.leased_bytes, sum);
        EXPECT_LE(sum, limit_bytes);
    }
};

TEST(SharedAuthority_Claim, WithinTheLease_MakesNoSystemCall)
{
    Ledger ledger;
    Member member = ledger.Begin();
    EXPECT_EQ(Figures(member.authority).leased_bytes, 0u);
    ASSERT_EQ(mbr_grant(member.holder, 1, nullptr), MBR_OK);
    EXPECT_EQ(Figures(member.authority).leased_bytes, kChunk);
    EXPECT_EQ(Figures(member.authority).limit_bytes, kChunk);
    EXPECT_EQ(Figures(member.authority).revision, 0u); // the set limit did not change
    int calls = ledger.os.calls;
    ASSERT_EQ(mbr_grant(member.holder, kChunk - 1, nullptr), MBR_OK);
    mbr_charge(member.holder, kChunk);
    mbr_refund(member.holder, kChunk);
    ASSERT_EQ(mbr_grant(member.holder, kChunk, nullptr), MBR_OK);
    EXPECT_EQ(ledger.os.calls, calls);
    ASSERT_EQ(mbr_grant(member.holder, 1, nullptr), MBR_OK);
    EXPECT_GT(ledger.os.calls, calls);
    EXPECT_EQ(ledger.Read().leased_bytes, 2 * kChunk);
    mbr_grant_return(member.holder, kChunk + 1);
    ledger.EndAll({member});
}

TEST(SharedAuthority_Claim, ExactlyTheLimitOverTwoMembers_AndOneByteMoreIsRefused)
{
    Ledger ledger;
    Member a = ledger.Begin(), b = ledger.Begin();
    ASSERT_EQ(mbr_grant(a.holder, 5 * kChunk + 3, nullptr), MBR_OK); // leases six
    ASSERT_EQ(mbr_grant(b.holder, 2 * kChunk, nullptr), MBR_OK);
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_grant(b.holder, 1, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, uint32_t{MBR_REFUSED_SHARED});
    EXPECT_EQ(refusal.shared_limit_bytes, kLimit);
    EXPECT_EQ(refusal.shared_leased_bytes, kLimit);
    EXPECT_EQ(refusal.available_bytes, 0u);
    ASSERT_EQ(mbr_grant(a.holder, kChunk - 3, nullptr), MBR_OK);
    EXPECT_EQ(mbr_grant(a.holder, 1, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, uint32_t{MBR_REFUSED_SHARED});
    ledger.ExpectAgreement({a, b}, kLimit);
    mbr_grant_return(a.holder, kChunk + 1);
    EXPECT_EQ(mbr_grant(b.holder, 1, &refusal), MBR_OVER_BUDGET); // it has not given it back yet
    mbr_authority_sample(a.authority, true);
    EXPECT_EQ(ledger.Read().leased_bytes, kLimit - kChunk - 1); // all that is idle: b wants it
    EXPECT_EQ(mbr_grant(b.holder, kChunk + 2, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.available_bytes, kChunk + 1);
    EXPECT_EQ(mbr_grant(b.holder, kChunk + 1, &refusal), MBR_OK);
    EXPECT_EQ(mbr_grant(b.holder, kLimit + 1, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, uint32_t{MBR_REFUSED_CAPACITY}); // never, whoever gives back
    ledger.ExpectAgreement({a, b}, kLimit);
    mbr_grant_return(a.holder, 5 * kChunk - 1);
    mbr_grant_return(b.holder, 3 * kChunk + 1);
    ledger.EndAll({a, b});
}

TEST(SharedAuthority_Claim, OtherReasons_StayWhatTheyAre)
{
    Ledger ledger;
    FakeProbe probe;
    probe.free_bytes = 3 * kChunk;
    mbr_probe seam = probe.Seam();
    Member member = ledger.Begin(kLimit, 5 * kChunk, &seam);
    mbr_holder *bounded = ledger.books.Holder(member.authority, kMiB);
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_grant(bounded, kMiB + 1, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, uint32_t{MBR_REFUSED_ALLOWANCE});
    EXPECT_EQ(mbr_grant(member.holder, 5 * kChunk + 1, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, uint32_t{MBR_REFUSED_CAPACITY});
    EXPECT_EQ(mbr_grant(member.holder, 4 * kChunk, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, uint32_t{MBR_REFUSED_MEASURED});
    EXPECT_EQ(refusal.shared_limit_bytes, MBR_UNKNOWN_BYTES); // it was not asked
    EXPECT_EQ(ledger.Read().leased_bytes, 0u);
    EXPECT_EQ(mbr_grant(bounded, kMiB, &refusal), MBR_OK);
    EXPECT_EQ(mbr_grant(member.holder, 3 * kChunk - kMiB, &refusal), MBR_OK);
    EXPECT_EQ(ledger.Read().leased_bytes, 3 * kChunk);
    mbr_grant_return(bounded, kMiB);
    mbr_grant_return(member.holder, 3 * kChunk - kMiB);
    EXPECT_EQ(mbr_holder_destroy(bounded, nullptr), MBR_OK);
    ledger.EndAll({member});
}

TEST(SharedAuthority_Idle, GoesBackAtTheSampleDownToOneChunk)
{
    Ledger ledger;
    Member a = ledger.Begin(), b = ledger.Begin();
    ASSERT_EQ(mbr_grant(a.holder, 6 * kChunk, nullptr), MBR_OK);
    mbr_grant_return(a.holder, 4 * kChunk + 1); // claimed: two chunks less a byte
    mbr_authority_sample(a.authority, true);
    EXPECT_EQ(Figures(a.authority).leased_bytes, 3 * kChunk);
    mbr_authority_sample(a.authority, true);
    EXPECT_EQ(Figures(a.authority).leased_bytes, 3 * kChunk);
    mbr_authority_sample(b.authority, true);
    EXPECT_EQ(Figures(b.authority).leased_bytes, 0u);
    mbr_grant_return(a.holder, 2 * kChunk - 1);
    mbr_authority_sample(a.authority, false); // not due
    EXPECT_EQ(Figures(a.authority).leased_bytes, 3 * kChunk);
    ledger.books.clock.now_ns += MBR_PROBE_INTERVAL_NS;
    mbr_authority_sample(a.authority, false);
    EXPECT_EQ(Figures(a.authority).leased_bytes, kChunk);
    ledger.ExpectAgreement({a, b}, kLimit);
    ledger.EndAll({a, b});
}

TEST(SharedAuthority_Limit, LoweredFromOutside_HoldsForNewChunksAndIsReachedByGivingBack)
{
    Ledger ledger;
    Member a = ledger.Begin(), b = ledger.Begin();
    ASSERT_EQ(mbr_grant(a.holder, 4 * kChunk, nullptr), MBR_OK);
    ASSERT_EQ(mbr_grant(b.holder, 2 * kChunk, nullptr), MBR_OK);
    EXPECT_EQ(ledger.SetLimit(3 * kChunk), 3 * kChunk);
    EXPECT_EQ(mbr_grant(a.holder, 1, nullptr), MBR_OVER_BUDGET);
    EXPECT_EQ(Figures(a.authority).claimed_bytes, 4 * kChunk); // nothing was revoked
    mbr_grant_return(a.holder, 2 * kChunk);
    ASSERT_EQ(mbr_grant(a.holder, 1, nullptr), MBR_OK); // of what it has
    mbr_authority_sample(a.authority, true);
    EXPECT_EQ(ledger.Read().leased_bytes, 4 * kChunk + 1); // none is kept to spare above the limit
    mbr_grant_return(a.holder, 2 * kChunk + 1);
    mbr_authority_sample(a.authority, true);
    mbr_authority_sample(a.authority, true);
    ASSERT_EQ(mbr_grant(b.holder, kChunk, nullptr), MBR_OK);
    EXPECT_EQ(mbr_grant(b.holder, 1, nullptr), MBR_OVER_BUDGET);
    EXPECT_EQ(ledger.SetLimit(kLimit), 0u);
    ASSERT_EQ(mbr_grant(b.holder, 1, nullptr), MBR_OK);
    mbr_grant_return(b.holder, 3 * kChunk + 1);
    ledger.EndAll({a, b});
}

TEST(SharedAuthority_Recorded, PastTheLease_StandsInThePageAtTheNextSample)
{
    Ledger ledger;
    Member member = ledger.Begin();
    mbr_record_committed(member.holder, kLimit + 5);
    EXPECT_EQ(mbr_grant(member.holder, 1, nullptr), MBR_OVER_BUDGET);
    mbr_authority_sample(member.authority, true);
    EXPECT_EQ(ledger.Read().leased_bytes, kLimit + 5);
    EXPECT_EQ(Figures(member.authority).over_bytes, 0u); // it is the ledger that is over
    mbr_refund(member.holder, kLimit + 5);
    mbr_authority_sample(member.authority, true);
    EXPECT_EQ(ledger.Read().leased_bytes, 0u);
    ledger.EndAll({member});
}

TEST(SharedAuthority_Audit, PageThatIsDamagedOrNotOurs_IsSaidAndClaimsGoOnWithinTheLease)
{
    Ledger ledger;
    Member member = ledger.Begin();
    ASSERT_EQ(mbr_grant(member.holder, kMiB, nullptr), MBR_OK);
    ledger.os.after_read = [](mbr_shared_page *page) { page->records[3].pid = 1; };
    EXPECT_EQ(mbr_authority_audit(member.authority, &ledger.error), MBR_UNTRUSTED);
    EXPECT_EQ(mbr_grant(member.holder, kMiB, nullptr), MBR_OK);
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_grant(member.holder, 1, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, uint32_t{MBR_REFUSED_SHARED});
    EXPECT_EQ(refusal.shared_limit_bytes, MBR_UNKNOWN_BYTES);
    mbr_authority_sample(member.authority, true);
    EXPECT_EQ(Figures(member.authority).leased_bytes, kChunk);
    ledger.os.after_read = nullptr;
    EXPECT_EQ(mbr_grant(member.holder, 1, &refusal), MBR_OK);
    mbr_grant_return(member.holder, kChunk + 1);
    ledger.EndAll({member});
}

// Whichever call of the ledger fails, the books hold, and the next sample makes page and authority
// agree again.
TEST(SharedAuthority_Fault, EachCallFailsOnce_BooksHoldAndAgreeAfterASample)
{
    for (int at = 1, reached = 1; reached != 0; at++) {
        Ledger ledger;
        Member a = ledger.Begin(), b = ledger.Begin();
        ledger.os.calls = 0;
        ledger.os.at = at;
        ledger.os.what = OsSeam::kFail;
        uint64_t held = 0;
        for (uint64_t bytes : {kChunk + 1, kChunk, 3 * kChunk})
            held += mbr_grant(a.holder, bytes, nullptr) == MBR_OK ? bytes : 0;
        mbr_grant_return(a.holder, held);
        mbr_authority_sample(a.authority, true);
        mbr_record_committed(a.holder, 4 * kChunk);
        mbr_authority_sample(a.authority, true);
        reached = ledger.os.calls >= at;
        mbr_refund(a.holder, 4 * kChunk);
        ledger.os.what = OsSeam::kNothing;
        EXPECT_LE(Figures(a.authority).leased_bytes, ledger.Read().leased_bytes) << at;
        mbr_authority_sample(a.authority, true);
        ledger.ExpectAgreement({a, b}, kLimit);
        EXPECT_EQ(mbr_grant(b.holder, kLimit - kChunk, nullptr), MBR_OK) << at;
        mbr_grant_return(b.holder, kLimit - kChunk);
        ledger.EndAll({a, b});
        ASSERT_LT(at, 200);
    }
}

// Every refusal for the ledger's sake is right: by a count without the ledger's code, what is
// leased and what is asked would pass the limit.
TEST(SharedAuthority_Model, RandomClaimsOfThree_RefusedExactlyWhereTheChunksEnd)
{
    constexpr uint64_t kOdd = 7 * kChunk + 12345;
    Ledger ledger;
    std::vector<Member> members = {ledger.Begin(kOdd), ledger.Begin(), ledger.Begin()};
    std::vector<uint64_t> held[3];
    uint64_t claimed[3] = {}, leased[3] = {};
    int refusals = 0, grants = 0;
    std::mt19937_64 random(7);
    auto sum = [&] { return leased[0] + leased[1] + leased[2]; };
    for (int i = 0; i < 20000; i++) {
        size_t at = random() % 3;
        Member &member = members[at];
        uint64_t bytes = random() % (2 * kChunk) + 1;
        switch (random() % 8) {
        case 0:
            mbr_authority_sample(member.authority, true);
            leased[at] = Figures(member.authority).leased_bytes;
            EXPECT_GE(leased[at], claimed[at]);
            EXPECT_LT(leased[at], claimed[at] + 2 * kChunk);
            ledger.ExpectAgreement(members, kOdd);
            break;
        case 1:
        case 2:
        case 3:
            if (held[at].empty())
                break;
            mbr_grant_return(member.holder, held[at].back());
            claimed[at] -= held[at].back();
            held[at].pop_back();
            break;
        default: {
            mbr_refusal refusal = NewRefusal();
            bool fits = claimed[at] + bytes <= leased[at] ||
                claimed[at] + bytes - leased[at] <= kOdd - sum();
            ASSERT_EQ(mbr_grant(member.holder, bytes, &refusal) == MBR_OK, fits) << i;
            if (fits) {
                claimed[at] += bytes;
                held[at].push_back(bytes);
                while (leased[at] < claimed[at])
                    leased[at] += std::min(kChunk, kOdd - sum());
            } else {
                EXPECT_EQ(refusal.reason, uint32_t{MBR_REFUSED_SHARED});
                EXPECT_EQ(refusal.shared_leased_bytes, sum());
            }
            (fits ? grants : refusals)++;
            EXPECT_EQ(Figures(member.authority).leased_bytes, leased[at]);
        }
        }
    }
    EXPECT_GT(grants, 1000);
    EXPECT_GT(refusals, 1000);
    for (size_t at = 0; at < 3; at++)
        mbr_grant_return(members[at].holder, claimed[at]);
    ledger.EndAll({members[0], members[1], members[2]});
}

// Whoever waits with a ticket gets what the ledger has, and what another member gives back.
TEST(SharedAuthority_Ticket, Waits_ForTheLedgerAndGetsWhatComesBack)
{
    Ledger ledger;
    Member a = ledger.Begin(), b = ledger.Begin();
    mbr_ticket_options options = {};
    options.holder = a.holder;
    options.bytes = 3 * kChunk;
    options.deadline_ns = MBR_NO_DEADLINE;
    mbr_ticket *ticket;
    ASSERT_EQ(mbr_ticket_submit(&options, &ticket, nullptr, &ledger.error), MBR_OK);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK); // the ledger had it
    mbr_ticket_destroy(ticket);
    ASSERT_EQ(mbr_grant(b.holder, 5 * kChunk, nullptr), MBR_OK);
    ASSERT_EQ(mbr_ticket_submit(&options, &ticket, nullptr, &ledger.error), MBR_OK);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_NOT_READY);
    mbr_grant_return(b.holder, 3 * kChunk);
    mbr_authority_poll(a.authority);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_NOT_READY); // b still has it
    mbr_authority_sample(b.authority, true);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_NOT_READY); // a has not looked
    mbr_authority_poll(a.authority);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK);
    ledger.ExpectAgreement({a, b}, kLimit);
    mbr_ticket_destroy(ticket);
    mbr_grant_return(a.holder, 6 * kChunk);
    mbr_grant_return(b.holder, 2 * kChunk);
    ledger.EndAll({a, b});
}

// What no release can change is said at once: of one that is submitted, and of one that waits when
// the ledger's limit falls. A limit that has risen meanwhile is seen.
TEST(SharedAuthority_Ticket, AboveTheLedgersLimit_IsRefusedAtOnce)
{
    Ledger ledger;
    Member a = ledger.Begin(), b = ledger.Begin();
    mbr_ticket_options options = {};
    options.holder = a.holder;
    options.bytes = kLimit + 1;
    options.deadline_ns = MBR_NO_DEADLINE;
    mbr_ticket *ticket;
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_ticket_submit(&options, &ticket, &refusal, &ledger.error), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_CAPACITY));
    EXPECT_EQ(refusal.shared_limit_bytes, kLimit);
    EXPECT_EQ(refusal.retry_after_ns, MBR_UNKNOWN_BYTES);
    ASSERT_EQ(mbr_grant(b.holder, 1, nullptr), MBR_OK);
    ledger.SetLimit(2 * kLimit);
    options.bytes = 2 * kLimit;
    ASSERT_EQ(mbr_ticket_submit(&options, &ticket, nullptr, &ledger.error), MBR_OK);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_NOT_READY); // b has a byte of it
    ledger.SetLimit(2 * kLimit - 1);
    mbr_authority_sample(a.authority, true);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OVER_BUDGET);
    mbr_ticket_destroy(ticket);
    mbr_grant_return(b.holder, 1);
    ledger.EndAll({a, b});
}

// One that waits for its holder's allowance is no reason not to lease for those behind it.
TEST(SharedAuthority_Ticket, BehindOneAtItsAllowance_IsLeasedFor)
{
    Ledger ledger;
    Member a = ledger.Begin();
    mbr_holder *bounded = ledger.books.Holder(a.authority, 20);
    ASSERT_EQ(mbr_grant(bounded, 15, nullptr), MBR_OK);
    mbr_ticket_options options = {};
    options.holder = bounded;
    options.bytes = 10;
    options.priority = MBR_PRIORITY_COUNT - 1;
    options.deadline_ns = MBR_NO_DEADLINE;
    mbr_ticket *first, *behind;
    ASSERT_EQ(mbr_ticket_submit(&options, &first, nullptr, &ledger.error), MBR_OK);
    options.holder = a.holder;
    options.bytes = 3 * kChunk;
    options.priority = 0;
    ASSERT_EQ(mbr_ticket_submit(&options, &behind, nullptr, &ledger.error), MBR_OK);
    EXPECT_EQ(mbr_ticket_claim(first), MBR_NOT_READY);
    EXPECT_EQ(mbr_ticket_claim(behind), MBR_OK);
    mbr_ticket_destroy(first);
    mbr_ticket_destroy(behind);
    mbr_grant_return(a.holder, 3 * kChunk);
    mbr_grant_return(bounded, 15);
    EXPECT_EQ(mbr_holder_destroy(bounded, nullptr), MBR_OK);
    ledger.EndAll({a});
}

// What a cache keeps is not idle here, but it goes before another process is refused for ever; what
// others hold stays.
TEST(SharedAuthority_Yield, CacheOfOneMember_IsGivenUpForAnother)
{
    Ledger ledger;
    Member a = ledger.Begin(), b = ledger.Begin();
    mbr_holder *cache = nullptr;
    mbr_holder_options options = {"cache", MBR_ROLE_CACHE, MBR_NO_ALLOWANCE, false, {}};
    options.pressed.ask = [](void *context, const mbr_pressure *) {
        return Figures(*static_cast<mbr_holder **>(context)).charged_bytes;
    };
    options.pressed.give = [](void *context, const mbr_pressure *, uint64_t bytes) {
        mbr_refund(*static_cast<mbr_holder **>(context), bytes);
    };
    options.pressed.context = &cache;
    ASSERT_EQ(mbr_holder_create(a.authority, &options, &cache, nullptr), MBR_OK);
    ASSERT_EQ(mbr_grant(cache, 3 * kChunk, nullptr), MBR_OK);
    mbr_charge(cache, 3 * kChunk);
    ASSERT_EQ(mbr_grant(a.holder, 5 * kChunk, nullptr), MBR_OK);
    mbr_authority_poll(a.authority);
    EXPECT_EQ(Figures(cache).charged_bytes, 3 * kChunk); // nobody wants it
    EXPECT_EQ(mbr_grant(b.holder, 2 * kChunk, nullptr), MBR_OVER_BUDGET);
    mbr_authority_sample(a.authority, true);
    mbr_authority_poll(a.authority);
    EXPECT_EQ(Figures(cache).charged_bytes, kChunk);
    EXPECT_EQ(mbr_grant(b.holder, 2 * kChunk, nullptr), MBR_OK);
    EXPECT_EQ(mbr_grant(b.holder, 4 * kChunk, nullptr), MBR_OVER_BUDGET);
    mbr_authority_sample(a.authority, true);
    mbr_authority_poll(a.authority);
    EXPECT_EQ(Figures(cache).charged_bytes, 0u); // a part, and of nobody else
    EXPECT_EQ(mbr_grant(b.holder, kChunk, nullptr), MBR_OK);
    ledger.ExpectAgreement({a, b}, kLimit);
    mbr_grant_return(a.holder, 5 * kChunk);
    mbr_grant_return(b.holder, 3 * kChunk);
    EXPECT_EQ(mbr_holder_destroy(cache, nullptr), MBR_OK);
    ledger.EndAll({a, b});
}

// All threads together hold exactly the limit at most: whoever is refused was refused wrongly.
TEST(SharedAuthority_Threads, SharesThatSumUpToTheLimit_NobodyIsEverRefused)
{
    constexpr uint64_t kPiece = kMiB / 8, kShare = kLimit / kThreads;
    Ledger ledger;
    Member member = ledger.Begin();
    std::atomic<int> refused{0};
    std::atomic<bool> done{false};
    std::thread sampler([&] {
        while (!done)
            mbr_authority_sample(member.authority, true); // gives back as fast as it can
    });
    RunThreads(kThreads, [&](int index) {
        std::mt19937_64 random(static_cast<uint64_t>(index));
        uint64_t held = 0;
        for (int round = 0; round < 400; round++) {
            uint64_t target = round % 4 == 0 ? kShare : random() % kShare / kPiece * kPiece;
            for (; held < target; held += kPiece)
                refused += mbr_grant(member.holder, kPiece, nullptr) != MBR_OK;
            for (; held > target; held -= kPiece)
                mbr_grant_return(member.holder, kPiece);
        }
        mbr_grant_return(member.holder, held);
    });
    done = true;
    sampler.join();
    EXPECT_EQ(refused, 0);
    ledger.EndAll({member});
}

// Two members of one process against each other: never above, and every refusal is the ledger's.
TEST(SharedAuthority_Threads, TwoMembersAtTheEdge_SumNeverAboveTheLimit)
{
    Ledger ledger;
    std::vector<Member> members = {ledger.Begin(), ledger.Begin()};
    std::atomic<uint64_t> held{0};
    std::atomic<int> above{0}, refusals{0}, wrong{0};
    RunThreads(kThreads, [&](int index) {
        std::mt19937_64 random(static_cast<uint64_t>(index));
        Member &member = members[static_cast<size_t>(index) % 2];
        std::vector<uint64_t> pieces;
        for (int i = 0; i < 3000; i++) {
            uint64_t bytes = random() % kMiB + 1;
            mbr_refusal refusal = NewRefusal();
            if (mbr_grant(member.holder, bytes, &refusal) == MBR_OK) {
                above += (held += bytes) > kLimit;
                pieces.push_back(bytes);
            } else {
                refusals++;
                wrong += refusal.reason != MBR_REFUSED_SHARED;
            }
            while (pieces.size() > 12 || (!pieces.empty() && random() % 4 == 0)) {
                held -= pieces.back();
                mbr_grant_return(member.holder, pieces.back());
                pieces.pop_back();
            }
            if (i % 16 == 0)
                mbr_authority_sample(member.authority, true);
        }
        for (uint64_t bytes : pieces) {
            held -= bytes;
            mbr_grant_return(member.holder, bytes);
        }
    });
    EXPECT_EQ(above, 0);
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(refusals, 0);
    ledger.ExpectAgreement(members, kLimit);
    ledger.EndAll({members[0], members[1]});
}

} // namespace
