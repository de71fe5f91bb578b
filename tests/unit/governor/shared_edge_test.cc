// Two processes with eight threads each at the limit's edge, watched from outside: a thousand times
// a second the ledger's page and the blocks of the memory that their plugins hold are asked of the
// system, while the members run. Both under the ledger's lock: without it no lease changes, so what
// a member owns at whatever instant meanwhile has to be within the lease that stands in the page.
// Faults of one granule are planted, and must be seen. MEMBRANE_SECONDS says how long,
// MEMBRANE_SAMPLES_A_SECOND how often at least.
#include "tests/unit/governor/shared_edge.h"
#include "tests/unit/governor/shared_world.h"

#include <algorithm>
#include <cstring>
#include <sys/timerfd.h>

using namespace governor_test;

namespace
{

constexpr long kSampleNs = 500000;    // from one look to the next
constexpr int kNiceOfMembers = 10;    // a look takes some microseconds, and goes first
constexpr uint64_t kBlock = 512;      // of st_blocks
constexpr uint64_t kLongSeconds = 50; // a fault is seen long before

struct Seen {
    uint64_t samples = 0, first_ns = 0, last_ns = 0;
    uint64_t highest_leased = 0;
    uint64_t highest_owned = 0;
    uint64_t highest_past_lease = 0; // owned by one member

    uint64_t SamplesASecond() const
    {
        return samples * kSecond / std::max<uint64_t>(last_ns - first_ns, 1);
    }
};

// A run beside others is not to fail because they took the cores: what is promised is measured by
// the one that is named for it.
uint64_t SamplesASecondWanted()
{
    const char *text = getenv("MEMBRANE_SAMPLES_A_SECOND");
    return text != nullptr ? strtoull(text, nullptr, 10) : 250;
}

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
        os_.after_read = [this](mbr_shared_page *page) { LookAt(*page); };
        os_seam_ = os_.Seam();
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
        int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
        itimerspec every = {{0, kSampleNs}, {0, kSampleNs}};
        EXPECT_EQ(timerfd_settime(timer, 0, &every, nullptr), 0);
        while (AnyRuns()) {
            Look();
            if (enough(seen_))
                KillAll();
            uint64_t passed;
            EXPECT_EQ(read(timer, &passed, sizeof(passed)), static_cast<ssize_t>(sizeof(passed)));
        }
        close(timer);
        return seen_;
    }

    uint64_t Owned()
    {
        uint64_t bytes = 0;
        for (Member &member : members_)
            bytes += OwnedBy(member);
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
            (void)!nice(kNiceOfMembers);
            execv(arguments[0], arguments.data());
            _exit(127);
        }
        return child;
    }

    static uint64_t OwnedBy(Member &member)
    {
        if (member.memory < 0 && member.pid != 0)
            member.memory = FindMemory(member.pid);
        struct stat status = {};
        EXPECT_EQ(member.memory < 0 ? 0 : fstat(member.memory, &status), 0);
        return static_cast<uint64_t>(status.st_blocks) * kBlock;
    }

    static uint64_t LeasedBy(const mbr_shared_page &page, pid_t pid)
    {
        for (const mbr_shared_record &record : page.records)
            if (record.member != 0 && record.pid == static_cast<uint32_t>(pid))
                return record.leased_bytes;
        return 0;
    }

    // With the ledger's lock.
    void LookAt(const mbr_shared_page &page)
    {
        uint64_t all = 0;
        for (Member &member : members_) {
            uint64_t owned = OwnedBy(member);
            uint64_t leased = member.pid != 0 ? LeasedBy(page, member.pid) : 0;
            seen_.highest_past_lease =
                std::max(seen_.highest_past_lease, owned - std::min(owned, leased));
            all += owned;
        }
        seen_.highest_owned = std::max(seen_.highest_owned, all);
        seen_.last_ns = NowNs();
        if (seen_.samples++ == 0)
            seen_.first_ns = seen_.last_ns;
    }

    void Look()
    {
        mbr_shared_figures figures;
        mbr_shared_place place = {kLedger, folder.path.c_str(), &os_seam_, nullptr};
        mbr_error error = NewError();
        mbr_status status = mbr_shared_read(&place, &figures, &error);
        EXPECT_TRUE(status == MBR_OK || status == MBR_UNKNOWN_OBJECT) << error.text;
        seen_.highest_leased = std::max(seen_.highest_leased, figures.leased_bytes);
    }

    bool AnyRuns()
    {
        bool any = false;
        for (Member &member : members_) {
            int status = 0;
            if (member.pid == 0)
                continue;
            if (waitpid(member.pid, &status, WNOHANG) == 0) {
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
        for (Member &member : members_) {
            if (member.pid == 0)
                continue;
            EXPECT_EQ(kill(member.pid, SIGKILL), 0);
            EXPECT_EQ(waitpid(member.pid, nullptr, 0), member.pid);
            member.pid = 0;
        }
    }

    std::vector<Member> members_;
    OsSeam os_;
    mbr_shared_os os_seam_ = {};
    Seen seen_;
};

void Print(const Seen &seen)
{
    printf("%lu samples, %lu a second; of %lu bytes at most %lu leased, %lu owned\n", seen.samples,
        seen.SamplesASecond(), kEdgeLimit, seen.highest_leased, seen.highest_owned);
}

TEST(Shared_Edge, TwoProcessesOfEightThreads_NeverAboveAndNoDrift)
{
    Edge edge("none", Seconds());
    Seen seen = edge.Watch();
    Print(seen);
    EXPECT_GE(seen.SamplesASecond(), SamplesASecondWanted());
    EXPECT_EQ(seen.highest_leased, kEdgeLimit); // it was at the edge
    EXPECT_EQ(seen.highest_past_lease, 0u);
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
    Seen seen = edge.WatchUntil([](const Seen &now) { return now.highest_past_lease != 0; });
    Print(seen);
    EXPECT_LE(seen.highest_leased, kEdgeLimit);
    EXPECT_GT(seen.highest_past_lease, 0u);
    EXPECT_LE(seen.highest_past_lease, kGranule); // it may have been seen half made
}

} // namespace
