// Two processes with eight threads each at the limit's edge, watched from outside: a thousand times
// a second the ledger's page and the blocks of the members' memory are asked of the system. Faults
// of one granule are planted, and must be seen. MEMBRANE_SECONDS says how long it goes on.
#include "tests/unit/governor/shared_edge.h"
#include "tests/unit/governor/shared_world.h"

#include <sys/mman.h>
#include <sys/timerfd.h>

using namespace governor_test;

namespace
{

constexpr long kSampleNs = 1000000;
constexpr uint64_t kBlock = 512;      // of st_blocks
constexpr uint64_t kLongSeconds = 50; // a fault is seen long before

struct Seen {
    uint64_t samples = 0;
    uint64_t highest_leased = 0;
    uint64_t highest_owned = 0;
};

class Edge
{
  public:
    Edge(const std::string &twin, uint64_t seconds) : file_(memfd_create("edge", 0))
    {
        EXPECT_EQ(ftruncate(file_,
                      static_cast<off_t>(kEdgeMembers * kEdgeThreads * kSlotsOfThread * kGranule)),
            0);
        for (uint64_t i = 0; i < kEdgeMembers; i++)
            members_.push_back(Start(i, twin, seconds));
    }

    ~Edge() { close(file_); }

    // Until both have ended by themselves.
    Seen Watch()
    {
        return WatchUntil([](const Seen &) { return false; });
    }

    // Or until `enough`: then they are killed.
    Seen WatchUntil(const std::function<bool(const Seen &)> &enough)
    {
        Seen seen;
        itimerspec period = {{0, kSampleNs}, {0, kSampleNs}};
        int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
        timerfd_settime(timer, 0, &period, nullptr);
        while (!HaveEnded()) {
            uint64_t periods;
            EXPECT_EQ(
                read(timer, &periods, sizeof(periods)), static_cast<ssize_t>(sizeof(periods)));
            seen.highest_leased = std::max(seen.highest_leased, Leased());
            seen.highest_owned = std::max(seen.highest_owned, Owned());
            seen.samples++;
            if (enough(seen))
                KillAll();
        }
        close(timer);
        return seen;
    }

    uint64_t Owned()
    {
        struct stat status;
        EXPECT_EQ(fstat(file_, &status), 0);
        return static_cast<uint64_t>(status.st_blocks) * kBlock;
    }

    Folder folder;

  private:
    pid_t Start(uint64_t index, const std::string &twin, uint64_t seconds)
    {
        std::string words[] = {"tests/unit/governor/shared_edge_worker", folder.path,
            std::to_string(kEdgeLimit), std::to_string(seconds), std::to_string(file_),
            std::to_string(index), index == 0 ? twin : "none"};
        std::vector<char *> arguments;
        for (std::string &word : words)
            arguments.push_back(word.data());
        arguments.push_back(nullptr);
        pid_t child = fork();
        if (child == 0) {
            execv(arguments[0], arguments.data());
            _exit(127);
        }
        return child;
    }

    uint64_t Leased()
    {
        mbr_shared_figures figures;
        mbr_shared_place place = {kLedger, folder.path.c_str(), nullptr, nullptr};
        mbr_error error = NewError();
        mbr_status status = mbr_shared_read(&place, &figures, &error);
        EXPECT_TRUE(status == MBR_OK || status == MBR_UNKNOWN_OBJECT) << error.text;
        return figures.leased_bytes;
    }

    void KillAll()
    {
        for (pid_t member : members_) {
            EXPECT_EQ(kill(member, SIGKILL), 0);
            EXPECT_EQ(waitpid(member, nullptr, 0), member);
        }
        members_.clear();
    }

    bool HaveEnded()
    {
        for (size_t i = 0; i < members_.size(); i++) {
            int status = 0;
            if (waitpid(members_[i], &status, WNOHANG) == 0)
                continue;
            EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
            members_.erase(members_.begin() + static_cast<long>(i--));
        }
        return members_.empty();
    }

    int file_;
    std::vector<pid_t> members_;
};

void Print(const Seen &seen)
{
    printf("%lu samples; of %lu bytes at most %lu leased, %lu owned\n", seen.samples, kEdgeLimit,
        seen.highest_leased, seen.highest_owned);
}

TEST(Shared_Edge, TwoProcessesOfEightThreads_NeverAboveAndNoDrift)
{
    Edge edge("none", Seconds());
    Seen seen = edge.Watch();
    Print(seen);
    EXPECT_GT(seen.samples, 100 * Seconds());   // a thousand a second where the machine lets it
    EXPECT_EQ(seen.highest_leased, kEdgeLimit); // it was at the edge
    EXPECT_LE(seen.highest_owned, kEdgeLimit);
    EXPECT_GT(seen.highest_owned, kEdgeLimit - kEdgeLimit / 16);
    EXPECT_EQ(edge.Owned(), 0u);
    EXPECT_TRUE(edge.folder.Files().empty());
}

TEST(Shared_Edge, OneGranuleLeasedTooMuch_IsSeenInThePage)
{
    Edge edge("lease", kLongSeconds);
    Seen seen = edge.WatchUntil([](const Seen &now) { return now.highest_leased > kEdgeLimit; });
    Print(seen);
    EXPECT_EQ(seen.highest_leased, kEdgeLimit + kGranule);
}

TEST(Shared_Edge, OneGranuleTakenWithoutAClaim_IsSeenInTheMemory)
{
    Edge edge("claim", kLongSeconds);
    Seen seen = edge.WatchUntil([](const Seen &now) { return now.highest_owned > kEdgeLimit; });
    Print(seen);
    EXPECT_LE(seen.highest_leased, kEdgeLimit);
    EXPECT_GT(seen.highest_owned, kEdgeLimit);
}

} // namespace
