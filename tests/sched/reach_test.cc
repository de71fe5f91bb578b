// Tickets against what they may hope for, where that is more than the limit that was set: what is
// measured, what a shared ledger has, what is withheld.
#include "tests/sched/world.h"

extern "C" {
#include "governor/shared_page.h"
}

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

using namespace sched_test;

namespace
{

constexpr uint64_t kBytes = 20000;

// One waits for more than is left beside what another has charged, and is served, or told that it
// never can be.
class Hoping : public GovernorScenario
{
  public:
    Hoping(Draw &draw, uint64_t limit_bytes, const mbr_probe *probe, mbr_shared *shared)
        : GovernorScenario(limit_bytes, probe, shared)
    {
        may_go_below_ = 7;
        payer_ = Holder();
        wanting_ = Holder();
        passing_ = Holder();
        charged_ = draw.From(kBytes / 2, kBytes - 1);
        wanted_ = draw.From(kBytes - charged_ + 1, kBytes);
        quiet_ = draw.Coin();
    }

  protected:
    void Wait()
    {
        mbr_ticket_options options = {};
        options.holder = wanting_;
        options.bytes = wanted_;
        options.quiet = quiet_;
        options.deadline_ns = MBR_NO_DEADLINE;
        mbr_ticket *ticket = nullptr;
        mbr_status status = mbr_ticket_submit(&options, &ticket, nullptr, nullptr);
        if (status == MBR_OK)
            status = mbr_ticket_wait(ticket);
        SCHED_REQUIRE(status == MBR_OK || (status == MBR_OVER_BUDGET && may_be_refused_),
            "status %d", static_cast<int>(status));
        mbr_ticket_destroy(ticket);
        if (status == MBR_OK)
            mbr_grant_return(wanting_, wanted_);
    }

    void Release() { mbr_refund(payer_, charged_); }

    // Somebody who claims and gives back meanwhile.
    void Pass()
    {
        if (mbr_grant(passing_, 1, nullptr) == MBR_OK)
            mbr_grant_return(passing_, 1);
    }

    mbr_holder *payer_, *wanting_, *passing_;
    uint64_t charged_, wanted_;
    bool quiet_, may_be_refused_ = false;
};

// A part of what is charged is quarantined for a while, and retained for another.
class Withheld : public Hoping
{
  public:
    explicit Withheld(Draw &draw) : Hoping(draw, kBytes, nullptr, nullptr)
    {
        Charge(payer_, charged_);
        withheld_ = draw.From(1, charged_ / 2);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Wait(); }, [this] { Withhold(); }};
    }

  private:
    void Withhold()
    {
        mbr_quarantine(payer_, withheld_);
        mbr_refund(payer_, charged_ - 2 * withheld_);
        mbr_retain(payer_, withheld_);
        mbr_quarantine_settle(payer_, withheld_);
        mbr_refund(payer_, withheld_);
        mbr_retain_settle(payer_, withheld_);
        mbr_refund(payer_, withheld_);
    }

    uint64_t withheld_;
};

TEST(Sched_Reach, WithheldForAWhile_ATicketIsServedAfterwards)
{
    ExpectHolds(ExploreRandom(Make<Withheld>()));
}

// A device that others use, too.
struct Device {
    static bool FreeBytes(void *context, uint64_t *bytes)
    {
        auto *self = static_cast<Device *>(context);
        *bytes = kBytes - self->owned - self->others;
        return true;
    }

    mbr_probe probe = {FreeBytes, this};
    uint64_t owned = 0, others = 0;
};

// What is measured falls while others have a part of the device, and rises again.
class Measured : private Device, public Hoping
{
  public:
    explicit Measured(Draw &draw) : Hoping(draw, UINT64_MAX, &probe, nullptr)
    {
        Charge(payer_, charged_);
        owned = charged_;
        theirs_ = draw.From(1, kBytes - charged_);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Wait(); }, [this] { Sample(); }, [this] { Pass(); }};
    }

  private:
    // One after another: a sample that a release passes by is low until the next.
    void Sample()
    {
        others = theirs_;
        mbr_authority_sample(authority_, true);
        owned = 0;
        Release();
        mbr_authority_sample(authority_, true);
        mbr_authority_note_exhausted(authority_);
        others = 0;
        mbr_authority_sample(authority_, true);
    }

    uint64_t theirs_;
};

TEST(Sched_Reach, MeasuredLowAndHigh_ATicketIsServedAfterwards)
{
    ExpectHolds(ExploreRandom(Make<Measured>()));
}

// A ledger's page in memory. Who has its lock has it for himself: fibers are not left inside.
class Page
{
  public:
    Page() { SCHED_REQUIRE(mbr_shared_join(&place, nullptr, kBytes, &member, nullptr) == MBR_OK); }

    ~Page() { mbr_shared_leave(member); }

    void SetLimit(uint64_t bytes)
    {
        uint64_t over;
        SCHED_REQUIRE(mbr_shared_set_limit(&place, bytes, &over, nullptr) == MBR_OK);
    }

    mbr_shared *member = nullptr;

  private:
    static int Stat(void *context, int /*file*/, struct stat *status)
    {
        *status = {};
        status->st_size = static_cast<off_t>(static_cast<Page *>(context)->bytes_);
        status->st_uid = geteuid();
        status->st_mode = S_IFREG | 0600;
        status->st_nlink = 1;
        return 0;
    }

    static int Read(void *context, int /*file*/, void *to, size_t bytes)
    {
        auto *self = static_cast<Page *>(context);
        bytes = std::min(bytes, self->bytes_);
        memcpy(to, &self->page_, bytes);
        return static_cast<int>(bytes);
    }

    static int Write(void *context, int /*file*/, const void *from, size_t bytes, uint64_t offset)
    {
        auto *self = static_cast<Page *>(context);
        memcpy(reinterpret_cast<char *>(&self->page_) + offset, from, bytes);
        self->bytes_ = std::max(self->bytes_, offset + bytes);
        return static_cast<int>(bytes);
    }

    size_t bytes_ = 0;
    mbr_shared_page page_ = {};
    mbr_shared_os os_ = {[](void *, const char *, int, unsigned) { return 1; }, Stat,
        [](void *context, const char *, struct stat *status) { return Stat(context, 1, status); },
        Read, Write, [](void *, int, mbr_shared_lock, uint64_t, uint64_t) { return 0; },
        [](void *, int, uint64_t) { return 1; }, [](void *, const char *) { return 0; },
        [](void *, int) { return 0; }, this};
    const mbr_shared_place place = {"pool", "/ledgers", &os_, &sched_clock};
};

// The limit of all members falls, below what the ticket wants or not, and rises again.
class Leased : private Page, public Hoping
{
  public:
    explicit Leased(Draw &draw) : Hoping(draw, 2 * kBytes, nullptr, member)
    {
        Charge(payer_, charged_);
        lowered_ = draw.From(1, kBytes);
        may_be_refused_ = wanted_ > lowered_;
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Wait(); }, [this] { Limit(); }, [this] { Release(); }};
    }

  private:
    void Limit()
    {
        SetLimit(lowered_);
        mbr_authority_sample(authority_, true);
        SetLimit(kBytes);
        mbr_authority_sample(authority_, true);
    }

    uint64_t lowered_;
};

TEST(Sched_Reach, LedgersLimitLoweredAndRaised_ATicketIsServedOrRefused)
{
    ExpectHolds(ExploreRandom(Make<Leased>()));
}

} // namespace
