// Members that are killed: at every system call of a member's life, before and after its effect,
// and from outside at any moment. No byte is lost, none is leased twice.
#include "tests/unit/governor/shared_world.h"

#include <random>
#include <sched.h>
#include <sys/mman.h>

using namespace governor_test;

namespace
{

// Memory that a child shares with the test.
template <typename T> class Common
{
  public:
    Common()
    {
        void *memory =
            mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(memory, MAP_FAILED);
        value_ = new (memory) T();
    }

    ~Common() { munmap(value_, sizeof(T)); }

    T *operator->() const { return value_; }
    T &operator*() const { return *value_; }

  private:
    T *value_;
};

// What the child uses: after the lease was stored, until before the return is stored.
struct Used {
    std::atomic<uint64_t> bytes{0};
};

// Everything that a member does. Exit codes: 0 all went well.
int Live(SharedWorld &world, Used &used)
{
    mbr_shared *shared;
    mbr_shared_view view;
    if (world.TryJoin(kLimit, &shared) != MBR_OK)
        return 1;
    if (mbr_shared_lease(shared, kChunk + 1, 1, &view, nullptr) != MBR_OK)
        return 2;
    used.bytes = view.own_bytes;
    if (mbr_shared_look(shared, 100, 2, &view, nullptr) != MBR_OK)
        return 3;
    if (mbr_shared_lease(shared, kLimit, 3, &view, nullptr) != MBR_OVER_BUDGET)
        return 4;
    used.bytes = kChunk;
    if (mbr_shared_return(shared, kChunk, 4, &view, nullptr) != MBR_OK)
        return 5;
    if (mbr_shared_lease_past_limit(shared, kChunk, 5, &view, nullptr) != MBR_OK)
        return 6;
    used.bytes = 0;
    mbr_shared_leave(shared);
    return 0;
}

// True: it was killed. False: it lived to its end.
bool LiveAndDie(SharedWorld &world, Used &used, int at, OsSeam::What what)
{
    pid_t child = fork();
    if (child == 0) {
        world.os.calls = 0;
        world.os.at = at;
        world.os.what = what;
        _exit(Live(world, used));
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        EXPECT_EQ(WTERMSIG(status), SIGKILL);
        return true;
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return false;
}

// After the time of those that are gone nothing of theirs is left.
void ExpectNothingLost(SharedWorld &world, mbr_shared *shared, uint64_t own_bytes)
{
    mbr_shared_view view;
    for (int i = 0; i < 2; i++) { // the first look sees, the second one acts
        ASSERT_EQ(mbr_shared_look(shared, kAny, 0, &view, &world.error), MBR_OK)
            << world.error.text;
        world.clock.now_ns += MBR_SHARED_GONE_NS;
    }
    EXPECT_EQ(world.Leasable(shared), kLimit - own_bytes);
    EXPECT_EQ(world.Read().member_count, 1u);
}

int KillEverywhere(const std::function<void(int at, OsSeam::What what, bool *killed)> &round)
{
    int points = 0;
    for (OsSeam::What what : {OsSeam::kKillBefore, OsSeam::kKillAfter}) {
        bool killed = true;
        for (int at = 1; killed; at++) {
            round(at, what, &killed);
            points += killed;
        }
    }
    return points;
}

TEST(Shared_Crash, MemberKilledAtEveryCall_OthersLoseNothingAndGetNothingTwice)
{
    int points = KillEverywhere([](int at, OsSeam::What what, bool *killed) {
        SharedWorld world;
        Common<Used> used;
        mbr_shared_view view;
        mbr_shared *other = world.Join(kLimit);
        ASSERT_EQ(mbr_shared_lease(other, 1, 0, &view, nullptr), MBR_OK);
        LeaseAndDie(world, 1); // for the one that is killed to look after
        ASSERT_EQ(mbr_shared_look(other, kAny, 0, &view, nullptr), MBR_OK);
        world.clock.now_ns += MBR_SHARED_GONE_NS;
        *killed = LiveAndDie(world, *used, at, what);
        mbr_shared_figures page = world.Read(); // sound, whatever happened
        EXPECT_LE(page.leased_bytes, kLimit);
        uint64_t theirs = 0;
        for (uint32_t i = 1; i < page.member_count; i++)
            theirs += page.members[i].leased_bytes;
        EXPECT_GE(theirs, used->bytes) << at; // what it used was not for others
        EXPECT_EQ(page.members[0].leased_bytes, kChunk);
        EXPECT_EQ(world.Leasable(other), kLimit - page.leased_bytes);
        ExpectNothingLost(world, other, kChunk);
        mbr_shared_leave(other);
        EXPECT_TRUE(world.folder.Files().empty()) << at;
    });
    EXPECT_GE(points, 90);
}

TEST(Shared_Crash, FirstMemberKilledAtEveryCall_NextOneFindsALedger)
{
    int points = KillEverywhere([](int at, OsSeam::What what, bool *killed) {
        SharedWorld world;
        Common<Used> used;
        *killed = LiveAndDie(world, *used, at, what);
        mbr_shared *next = world.Join(kLimit);
        EXPECT_LE(world.Leasable(next), kLimit - used->bytes) << at;
        ExpectNothingLost(world, next, 0);
        mbr_shared_leave(next);
        EXPECT_TRUE(world.folder.Files().empty()) << at;
    });
    EXPECT_GE(points, 80);
}

TEST(Shared_Crash, LimitSetterKilledAtEveryCall_OldLimitOrNewOne)
{
    int points = KillEverywhere([](int at, OsSeam::What what, bool *killed) {
        SharedWorld world;
        mbr_shared *shared = world.Join(kLimit);
        pid_t child = fork();
        if (child == 0) {
            world.os.calls = 0;
            world.os.at = at;
            world.os.what = what;
            _exit(world.SetLimit(2 * kLimit) == 0 ? 0 : 1);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        *killed = WIFSIGNALED(status);
        uint64_t limit = world.Read().limit_bytes;
        EXPECT_TRUE(limit == kLimit || limit == 2 * kLimit);
        if (!*killed) {
            EXPECT_EQ(limit, 2 * kLimit);
        }
        EXPECT_EQ(world.Leasable(shared), limit);
        mbr_shared_leave(shared);
    });
    EXPECT_GE(points, 12);
}

// ---- From outside
constexpr int kWorkers = 4;

struct Crowd {
    std::atomic<uint64_t> now_ns{5 * kSecond};
    std::atomic<int> broken{0}; // what a worker saw that must not be
    struct {
        Used used;
        std::atomic<uint64_t> steps{0};
    } workers[kWorkers];
};

uint64_t CrowdNow(void *context)
{
    return static_cast<Crowd *>(context)->now_ns;
}

struct CrowdWorld : SharedWorld {
    CrowdWorld() { clock_seam = {CrowdNow, &*crowd}; }

    Common<Crowd> crowd;
};

// One member's life over and over, until it is killed.
[[noreturn]] void Work(CrowdWorld &world, int index, uint64_t seed)
{
    Crowd &crowd = *world.crowd;
    auto &mine = crowd.workers[index];
    std::mt19937_64 random(seed);
    mbr_shared_view view;
    for (;;) {
        mbr_shared *shared;
        if (world.TryJoin(kLimit, &shared) != MBR_OK)
            crowd.broken++;
        for (uint64_t step = random() % 40; step > 0; step--, mine.steps++) {
            uint64_t bytes = random() % (3 * kChunk) + 1;
            mbr_status status = MBR_OK;
            if (random() % 2 == 0) {
                status = mbr_shared_lease(shared, bytes, 0, &view, nullptr);
                mine.used.bytes = view.own_bytes;
            } else if (mine.used.bytes >= bytes) {
                mine.used.bytes -= bytes;
                status = mbr_shared_return(shared, bytes, 0, &view, nullptr);
            } else {
                status = mbr_shared_look(shared, kAny, 0, &view, nullptr);
            }
            crowd.broken += status != MBR_OK && status != MBR_OVER_BUDGET;
            crowd.broken += view.own_bytes != mine.used.bytes || view.leased_bytes > kLimit;
        }
        mine.used.bytes = 0;
        mbr_shared_leave(shared);
        mine.steps++;
    }
}

pid_t Start(CrowdWorld &world, int index, uint64_t seed)
{
    world.crowd->workers[index].used.bytes = 0;
    pid_t child = fork();
    if (child == 0)
        Work(world, index, seed);
    return child;
}

void KillAndCheck(CrowdWorld &world, int index, pid_t child)
{
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    mbr_shared_figures page = {};
    mbr_shared_place place = world.Place();
    mbr_status read = mbr_shared_read(&place, &page, &world.error);
    ASSERT_TRUE(read == MBR_OK || read == MBR_UNKNOWN_OBJECT) << world.error.text;
    EXPECT_LE(page.leased_bytes, kLimit);
    uint64_t leased = 0;
    for (uint32_t i = 0; i < page.member_count; i++)
        leased +=
            page.members[i].pid == static_cast<uint32_t>(child) ? page.members[i].leased_bytes : 0;
    EXPECT_GE(leased, world.crowd->workers[index].used.bytes);
    EXPECT_EQ(world.crowd->broken, 0);
}

// MEMBRANE_SEED chooses other lives, MEMBRANE_SECONDS how long it goes on.
TEST(Shared_Crash, WorkersKilledAtRandom_NothingLostAndNothingTwice)
{
    const char *text = getenv("MEMBRANE_SEED");
    uint64_t seed = text != nullptr ? strtoull(text, nullptr, 10) : 1;
    std::mt19937_64 random(seed);
    CrowdWorld world;
    pid_t children[kWorkers];
    for (int i = 0; i < kWorkers; i++)
        children[i] = Start(world, i, random());
    for (uint64_t until = NowNs() + Seconds() * kSecond;
         NowNs() < until && !testing::Test::HasFailure();) {
        int index = static_cast<int>(random() % kWorkers);
        std::atomic<uint64_t> &steps = world.crowd->workers[index].steps;
        for (uint64_t until = steps + random() % 20; steps < until;)
            sched_yield(); // it works on, and is somewhere in the middle
        KillAndCheck(world, index, children[index]);
        if (random() % 2 == 0)
            world.crowd->now_ns += MBR_SHARED_GONE_NS; // those seen before may be taken off
        children[index] = Start(world, index, random());
    }
    for (int i = 0; i < kWorkers; i++)
        KillAndCheck(world, i, children[i]);
    mbr_shared *next = world.Join(kLimit);
    mbr_shared_view view;
    for (int i = 0; i < 2; i++) {
        ASSERT_EQ(mbr_shared_look(next, kAny, 0, &view, nullptr), MBR_OK);
        world.crowd->now_ns += MBR_SHARED_GONE_NS;
    }
    EXPECT_EQ(world.Leasable(next), kLimit);
    EXPECT_EQ(world.Read().member_count, 1u);
    mbr_shared_leave(next);
    EXPECT_TRUE(world.folder.Files().empty()) << "MEMBRANE_SEED=" << seed;
}

} // namespace
