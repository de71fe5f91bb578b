// Two processes with eight threads each at the limit's edge, watched from outside: over a
// hundred times a second the ledger's page and the blocks of the memory that their plugins hold are
// asked of the system. Faults of one granule are planted, and must be seen. MEMBRANE_SECONDS says
// how long.
#include "tests/unit/governor/shared_edge.h"
#include "tests/unit/governor/shared_world.h"

#include <algorithm>
#include <cstring>
#include <sys/timerfd.h>

using namespace governor_test;

namespace
{

constexpr long kSampleNs = 1000000;   // that they run between two looks
constexpr uint64_t kBlock = 512;      // of st_blocks
constexpr uint64_t kLongSeconds = 50; // a fault is seen long before

struct Seen {
    uint64_t samples = 0;
    uint64_t highest_leased = 0;
    uint64_t highest_owned = 0;
};

// The memory file of a member's plugin, if it has one by now; open here as well, so that it can be
// asked when the member has ended.
int FindMemory(pid_t member)
{
    std::string folder = "/proc/" + std::to_string(member) + "/fd/";
    DIR *files = opendir(folder.c_str());
    int found = -1;
    while (dirent *entry = files != nullptr ? readdir(files) : nullptr) {
        char target[32] = "";
        std::string path = folder + entry->d_name;
        if (readlink(path.c_str(), target, sizeof(target) - 1) > 0 &&
            strncmp(target, "/memfd:membrane-host", strlen("/memfd:membrane-host")) == 0)
            found = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    }
    if (files != nullptr)
        closedir(files);
    return found;
}

class Edge
{
  public:
    Edge(const std::string &twin, uint64_t seconds)
    {
        for (uint64_t i = 0; i < kEdgeMembers; i++)
            members_.push_back({Start(i, twin, seconds), -1});
    }

    ~Edge()
    {
        for (const Member &member : members_)
            close(member.memory);
    }

    // Until both have ended by themselves.
    Seen Watch()
    {
        return WatchUntil([](const Seen &) { return false; });
    }

    // Or until `enough`: then they are killed.
    Seen WatchUntil(const std::function<bool(const Seen &)> &enough)
    {
        Seen seen;
        int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
        while (Stop()) {
            seen.highest_owned = std::max(seen.highest_owned, Owned());
            SignalAll(SIGCONT);
            seen.highest_leased = std::max(seen.highest_leased, Leased());
            seen.samples++;
            if (enough(seen))
                KillAll();
            LetThemRun(timer);
        }
        close(timer);
        return seen;
    }

    uint64_t Owned()
    {
        uint64_t bytes = 0;
        for (Member &member : members_) {
            if (member.memory < 0 && member.pid != 0)
                member.memory = FindMemory(member.pid);
            struct stat status = {};
            EXPECT_EQ(member.memory < 0 ? 0 : fstat(member.memory, &status), 0);
            bytes += static_cast<uint64_t>(status.st_blocks) * kBlock;
        }
        return bytes;
    }

    bool SawMemoryOfAll() const
    {
        return std::all_of(members_.begin(), members_.end(),
            [](const Member &member) { return member.memory >= 0; });
    }

    Folder folder;

  private:
    struct Member {
        pid_t pid; // 0: has ended
        int memory;
    };

    pid_t Start(uint64_t index, const std::string &twin, uint64_t seconds)
    {
        std::string words[] = {"tests/unit/governor/shared_edge_worker", folder.path,
            std::to_string(kEdgeLimit), std::to_string(seconds), std::to_string(index),
            index == 0 ? twin : "none"};
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

    // Anew for each look, so that they get on however long a look takes.
    static void LetThemRun(int timer)
    {
        itimerspec once = {{0, 0}, {0, kSampleNs}};
        EXPECT_EQ(timerfd_settime(timer, 0, &once, nullptr), 0);
        uint64_t passed;
        EXPECT_EQ(read(timer, &passed, sizeof(passed)), static_cast<ssize_t>(sizeof(passed)));
    }

    void SignalAll(int signal)
    {
        for (const Member &member : members_) {
            if (member.pid != 0) {
                EXPECT_EQ(kill(member.pid, signal), 0);
            }
        }
    }

    // The members stand still: the memory of both is that of one instant only then. False: all of
    // them have ended.
    bool Stop()
    {
        SignalAll(SIGSTOP);
        bool any = false;
        for (Member &member : members_) {
            int status = 0;
            if (member.pid == 0)
                continue;
            EXPECT_EQ(waitpid(member.pid, &status, WUNTRACED), member.pid);
            if (WIFSTOPPED(status)) {
                any = true;
                continue;
            }
            EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
            member.pid = 0;
        }
        return any;
    }

    void KillAll()
    {
        SignalAll(SIGKILL);
        for (Member &member : members_) {
            if (member.pid == 0)
                continue;
            EXPECT_EQ(waitpid(member.pid, nullptr, 0), member.pid);
            member.pid = 0;
        }
    }

    std::vector<Member> members_;
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
    EXPECT_GT(seen.samples, 10 * Seconds());    // 160 a second on a quiet machine
    EXPECT_EQ(seen.highest_leased, kEdgeLimit); // it was at the edge
    EXPECT_LE(seen.highest_owned, kEdgeLimit);
    EXPECT_GT(seen.highest_owned, kEdgeLimit - kEdgeLimit / 16);
    EXPECT_TRUE(edge.SawMemoryOfAll());
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
