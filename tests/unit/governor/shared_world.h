// A folder for ledgers, members in it, and the system calls of a member under the test's hand: each
// may fail, or kill the process before or after its effect.
#ifndef MEMBRANE_TESTS_UNIT_GOVERNOR_SHARED_WORLD_H
#define MEMBRANE_TESTS_UNIT_GOVERNOR_SHARED_WORLD_H

#include "tests/support/child.h"
#include "tests/unit/governor/world.h"

extern "C" {
#include "governor/shared_page.h"
}

#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace governor_test
{

class Folder
{
  public:
    Folder()
    {
        path = testing::TempDir() + "/ledger-XXXXXX";
        EXPECT_NE(mkdtemp(path.data()), nullptr);
    }

    ~Folder()
    {
        for (const std::string &name : Files())
            EXPECT_EQ(unlink((path + "/" + name).c_str()), 0);
        EXPECT_EQ(rmdir(path.c_str()), 0);
    }

    std::vector<std::string> Files() const
    {
        std::vector<std::string> names;
        DIR *folder = opendir(path.c_str());
        while (dirent *entry = readdir(folder))
            if (entry->d_name[0] != '.')
                names.emplace_back(entry->d_name);
        closedir(folder);
        return names;
    }

    std::string File(const std::string &name) const
    {
        return path + "/membrane-" + std::to_string(geteuid()) + "-" + name;
    }

    std::string path;
};

struct OsSeam {
    enum What { kNothing, kFail, kKillBefore, kKillAfter };

    std::atomic<int> calls{0}; // of all members that use it
    int at = 0;                // the call that `what` happens to
    What what = kNothing;
    int error = EIO;
    std::function<void(mbr_shared_page *)> after_read; // what the member sees instead
    std::function<void(struct stat *)> after_stat;

    mbr_shared_os Seam()
    {
        return {Open, Stat, Find, Read, Write, Lock, IsLocked, Remove, Close, this};
    }

  private:
    // Giving up a lock or a descriptor does not fail: the system needs nothing for it.
    template <typename Effect> static int Call(void *context, Effect effect, bool fails = true)
    {
        auto *self = static_cast<OsSeam *>(context);
        bool here = ++self->calls == self->at;
        if (here && self->what == kKillBefore)
            kill(getpid(), SIGKILL);
        if (here && fails && self->what == kFail)
            return -self->error;
        int answer = effect(self);
        if (here && self->what == kKillAfter)
            kill(getpid(), SIGKILL);
        return answer;
    }

    static int Open(void *context, const char *path, int flags, unsigned mode)
    {
        return Call(context,
            [&](OsSeam *) { return mbr_shared_os_system.open(nullptr, path, flags, mode); });
    }

    static int Stat(void *context, int file, struct stat *status)
    {
        return Call(context, [&](OsSeam *self) {
            int answer = mbr_shared_os_system.stat(nullptr, file, status);
            if (self->after_stat)
                self->after_stat(status);
            return answer;
        });
    }

    static int Find(void *context, const char *path, struct stat *status)
    {
        return Call(
            context, [&](OsSeam *) { return mbr_shared_os_system.find(nullptr, path, status); });
    }

    static int Read(void *context, int file, void *to, size_t bytes)
    {
        return Call(context, [&](OsSeam *self) {
            int answer = mbr_shared_os_system.read(nullptr, file, to, bytes);
            if (self->after_read)
                self->after_read(static_cast<mbr_shared_page *>(to));
            return answer;
        });
    }

    static int Write(void *context, int file, const void *from, size_t bytes, uint64_t offset)
    {
        return Call(context, [&](OsSeam *) {
            return mbr_shared_os_system.write(nullptr, file, from, bytes, offset);
        });
    }

    static int Lock(void *context, int file, mbr_shared_lock kind, uint64_t offset, uint64_t bytes)
    {
        return Call(
            context,
            [&](OsSeam *) { return mbr_shared_os_system.lock(nullptr, file, kind, offset, bytes); },
            kind != MBR_SHARED_UNLOCK);
    }

    static int IsLocked(void *context, int file, uint64_t offset)
    {
        return Call(context,
            [&](OsSeam *) { return mbr_shared_os_system.is_locked(nullptr, file, offset); });
    }

    static int Remove(void *context, const char *path)
    {
        return Call(context, [&](OsSeam *) { return mbr_shared_os_system.remove(nullptr, path); });
    }

    static int Close(void *context, int file)
    {
        return Call(
            context, [&](OsSeam *) { return mbr_shared_os_system.close(nullptr, file); }, false);
    }
};

constexpr const char *kLedger = "gpu0";
constexpr uint64_t kLimit = 16 * kMiB;
constexpr uint64_t kChunk = 2 * kMiB;        // of the limits that the tests use
constexpr uint64_t kAny = MBR_UNKNOWN_BYTES; // no free figure

// One folder, one name, a clock that all members share.
struct SharedWorld {
    Folder folder;
    HandClock clock;
    OsSeam os;
    mbr_clock clock_seam = clock.Seam();
    mbr_shared_os os_seam = os.Seam();
    mbr_error error = NewError();

    mbr_shared_place Place(const char *name = kLedger)
    {
        return {name, folder.path.c_str(), &os_seam, &clock_seam};
    }

    mbr_status TryJoin(uint64_t limit_bytes, mbr_shared **shared)
    {
        mbr_shared_place place = Place();
        return mbr_shared_join(&place, nullptr, limit_bytes, shared, &error);
    }

    mbr_shared *Join(uint64_t limit_bytes)
    {
        mbr_shared *shared = nullptr;
        EXPECT_EQ(TryJoin(limit_bytes, &shared), MBR_OK) << error.text;
        return shared;
    }

    mbr_shared_figures Read()
    {
        mbr_shared_figures figures;
        mbr_shared_place place = Place();
        EXPECT_EQ(mbr_shared_read(&place, &figures, &error), MBR_OK) << error.text;
        return figures;
    }

    uint64_t SetLimit(uint64_t limit_bytes)
    {
        uint64_t over = 0;
        mbr_shared_place place = Place();
        EXPECT_EQ(mbr_shared_set_limit(&place, limit_bytes, &over, &error), MBR_OK) << error.text;
        return over;
    }

    // What a member could lease now, found by leasing it and giving it back.
    uint64_t Leasable(mbr_shared *shared)
    {
        mbr_shared_view view;
        mbr_shared_figures figures = Read();
        uint64_t free = figures.limit_bytes - std::min(figures.limit_bytes, figures.leased_bytes);
        if (free == 0)
            return 0;
        EXPECT_EQ(mbr_shared_lease(shared, free, 0, &view, &error), MBR_OK) << error.text;
        uint64_t most = free + 1;
        EXPECT_EQ(mbr_shared_lease(shared, most, 0, &view, &error), MBR_OVER_BUDGET);
        EXPECT_EQ(mbr_shared_return(shared, free, 0, &view, &error), MBR_OK) << error.text;
        return free;
    }
};

// How long a test of chance goes on: MEMBRANE_SECONDS, or a few.
inline uint64_t Seconds()
{
    const char *text = getenv("MEMBRANE_SECONDS");
    return text != nullptr ? strtoull(text, nullptr, 10) : 3;
}

inline uint64_t NowNs()
{
    return mbr_clock_now(&mbr_clock_monotonic);
}

// A member that dies with what it has leased.
inline void LeaseAndDie(SharedWorld &world, uint64_t bytes)
{
    ASSERT_EQ(membrane::in_child([&] {
        mbr_shared *shared;
        mbr_shared_view view;
        if (world.TryJoin(kLimit, &shared) != MBR_OK)
            return 1;
        return mbr_shared_lease(shared, bytes, bytes, &view, nullptr) == MBR_OK ? 0 : 2;
    }),
        0);
}

} // namespace governor_test

#endif
