// The operating system as it can be: every call through which the loader meets a file fails once,
// is cut short, is interrupted, or tells another story than a moment ago.
#include "tests/unit/loader/support.h"

extern "C" {
#include "host/loader/image.h"
#include "host/loader/open.h"
#include "host/loader/search.h"
}

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace
{

// One world at a time, because the table has no context.
struct Faults {
    uint64_t call_count = 0;
    uint64_t fail_at = 0; // from 1; 0: never
    int64_t open_files = 0;
    std::function<void(const char *path, struct stat *out)> on_stat;
    std::function<ssize_t(int fd, void *to, size_t bytes, off_t offset)> on_pread;
    const char *maps = nullptr; // NULL: the real one; "": none
} faults;

bool fails(int code = EIO)
{
    if (++faults.call_count != faults.fail_at)
        return false;
    errno = code;
    return true;
}

char *FakeRealpath(const char *path, char *resolved)
{
    return fails() ? nullptr : realpath(path, resolved);
}

int FakeStat(const char *path, struct stat *out)
{
    if (fails())
        return -1;
    int answer = stat(path, out);
    if (answer == 0 && faults.on_stat)
        faults.on_stat(path, out);
    return answer;
}

int FakeLstat(const char *path, struct stat *out)
{
    return fails() ? -1 : lstat(path, out);
}

ssize_t FakeReadlink(const char *path, char *target, size_t bytes)
{
    return fails() ? -1 : readlink(path, target, bytes);
}

int FakeOpen(const char *path, int flags)
{
    if (fails(EMFILE))
        return -1;
    int fd = open(path, flags);
    faults.open_files += fd >= 0;
    return fd;
}

int FakeFstat(int fd, struct stat *out)
{
    if (fails())
        return -1;
    int answer = fstat(fd, out);
    if (answer == 0 && faults.on_stat)
        faults.on_stat(nullptr, out);
    return answer;
}

ssize_t FakePread(int fd, void *to, size_t bytes, off_t offset)
{
    if (fails())
        return -1;
    return faults.on_pread ? faults.on_pread(fd, to, bytes, offset) : pread(fd, to, bytes, offset);
}

int FakeClose(int fd)
{
    faults.open_files--;
    return close(fd);
}

FILE *FakeOpenMaps()
{
    if (fails())
        return nullptr;
    if (faults.maps == nullptr)
        return fopen("/proc/self/maps", "re");
    return fmemopen((void *)faults.maps, strlen(faults.maps), "r");
}

const mbr_loader_os fake = {FakeRealpath, FakeStat, FakeLstat, FakeReadlink, FakeOpen, FakeFstat,
    FakePread, FakeClose, FakeOpenMaps};

class Os : public testing::Test
{
  protected:
    void SetUp() override { faults = Faults(); }
    void TearDown() override { EXPECT_EQ(faults.open_files, 0); }

    mbr_status judge(const std::string &path, bool trusted = false)
    {
        auto judged = std::make_unique<mbr_judged>();
        mbr_status status = mbr_judge_open(&fake, path.c_str(), trusted, judged.get(), &candidate);
        EXPECT_EQ(status == MBR_OK, judged->fd >= 0);
        EXPECT_EQ(status == MBR_OK, candidate.reason == MBR_REASON_USED);
        EXPECT_EQ(status == MBR_OK, candidate.detail[0] == '\0');
        mbr_judge_close(judged.get());
        return status;
    }
    mbr_status open_module(const std::string &path, mbr_module **module)
    {
        mbr_module_options options = {};
        options.name_or_path = path.c_str();
        return mbr_module_open_on(&fake, &options, module, &candidate, &error);
    }

    Folder folder;
    mbr_candidate candidate;
    Error error;
};

TEST_F(Os, EveryCallFails_TypedRefusalAndNothingOpen)
{
    std::string path = folder.put_specimen("unloadable");
    ASSERT_EQ(judge(path), MBR_OK) << candidate.detail;
    uint64_t calls = faults.call_count;
    ASSERT_GT(calls, 60u);
    uint64_t refused = 0;
    for (uint64_t at = 1; at <= calls; at++) {
        faults = Faults();
        faults.fail_at = at;
        mbr_status status = judge(path);
        EXPECT_EQ(faults.open_files, 0) << at;
        refused += status != MBR_OK;
        // What pins a file is read last; what cannot be read there pins it.
        if (status == MBR_OK) {
            EXPECT_TRUE(candidate.note.has_unique_symbol) << at;
        }
        faults = Faults();
        ASSERT_EQ(judge(path), MBR_OK) << "after a failure of call " << at;
    }
    EXPECT_GT(refused, calls / 2);
}

TEST_F(Os, EveryCallFails_OpenIsWholeOrNothing)
{
    std::string path = folder.put_specimen("unloadable");
    mbr_module *module;
    ASSERT_EQ(open_module(path, &module), MBR_OK) << error.text;
    mbr_module_close(module);
    uint64_t calls = faults.call_count;
    for (uint64_t at = 1; at <= calls; at++) {
        // Another file each time: one whose pins cannot be read stays mapped for good.
        path = folder.put_specimen("unloadable", "x" + std::to_string(at) + ".so");
        faults = Faults();
        faults.fail_at = at;
        mbr_status status = open_module(path, &module);
        EXPECT_EQ(faults.open_files, 0) << at;
        EXPECT_EQ(status == MBR_OK, module != nullptr) << at;
        if (status != MBR_OK) {
            EXPECT_NE(candidate.reason, MBR_REASON_USED) << at;
            EXPECT_EQ(mapping_count(path), 0u) << at;
        }
        mbr_module_close(module);
    }
}

TEST_F(Os, SearchedFileFails_NextFolderIsLookedInto)
{
    std::string path = folder.put_specimen("good");
    mbr_loader_environment environment = {
        folder.path().c_str(), nullptr, "/nowhere", nullptr, false, nullptr, nullptr};
    faults.fail_at = 1; // the file is not there after all
    auto judged = std::make_unique<mbr_judged>();
    EXPECT_EQ(mbr_search_open(&fake, &environment, "specimen", judged.get(), &candidate),
        MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(judged->fd, -1);
}

TEST_F(Os, ReadsCutAndInterrupted_SameJudgement)
{
    std::string path = folder.put_specimen("good");
    int interruptions = 0;
    faults.on_pread = [&](int fd, void *to, size_t bytes, off_t offset) -> ssize_t {
        if (++interruptions % 3 == 0) {
            errno = EINTR;
            return -1;
        }
        return pread(fd, to, bytes > 1 ? bytes / 2 : bytes, offset);
    };
    EXPECT_EQ(judge(path), MBR_OK) << candidate.detail;
    EXPECT_STREQ(candidate.note.vendor, "tests");
    EXPECT_FALSE(candidate.note.has_unique_symbol);
    EXPECT_GT(interruptions, 100);
}

TEST_F(Os, FileShrinksWhileRead_Refused)
{
    std::string path = folder.put_specimen("good");
    for (uint64_t whole = 0; whole < 40; whole++) {
        uint64_t reads = 0;
        faults.on_pread = [&](int fd, void *to, size_t bytes, off_t offset) -> ssize_t {
            return reads++ < whole ? pread(fd, to, bytes, offset) : 0;
        };
        EXPECT_NE(judge(path), MBR_OK) << whole;
    }
}

TEST_F(Os, EachKindOfFile_Named)
{
    std::string path = folder.put_specimen("good");
    const std::pair<mode_t, const char *> kinds[] = {{S_IFBLK, "a device"}, {S_IFCHR, "a device"},
        {S_IFSOCK, "a socket"}, {S_IFIFO, "a pipe"}, {S_IFDIR, "a folder"}, {0, "no regular file"}};
    for (auto &[kind, text] : kinds) {
        faults.on_stat = [kind = kind](
                             const char *, struct stat *out) { out->st_mode = kind | 0644u; };
        EXPECT_EQ(judge(path), MBR_NOT_A_PLUGIN);
        EXPECT_EQ(candidate.reason, MBR_REASON_NOT_REGULAR);
        EXPECT_EQ(std::string(candidate.detail).rfind(text, 0), 0u) << candidate.detail;
    }
}

// Regular when its path was asked, a pipe when it was opened.
TEST_F(Os, KindChangesBeforeOpen_JudgedAsOpened)
{
    std::string path = folder.put_specimen("good");
    faults.on_stat = [](const char *asked, struct stat *out) {
        if (asked == nullptr)
            out->st_mode = S_IFIFO | 0644;
    };
    EXPECT_EQ(judge(path), MBR_NOT_A_PLUGIN);
    EXPECT_EQ(candidate.reason, MBR_REASON_NOT_REGULAR);
}

TEST_F(Os, OwnersAsTold_EachCombination)
{
    std::string path = folder.put_specimen("good");
    uid_t stranger = geteuid() + 4711;
    for (uid_t owner : {(uid_t)0, geteuid(), stranger}) {
        faults.on_stat = [owner](const char *asked, struct stat *out) {
            if (asked == nullptr)
                out->st_uid = owner;
        };
        EXPECT_EQ(judge(path), owner == stranger ? MBR_UNTRUSTED : MBR_OK);
        EXPECT_EQ(
            candidate.reason, owner == stranger ? MBR_REASON_UNTRUSTED_FILE : MBR_REASON_USED);
        EXPECT_EQ(judge(path, true), MBR_OK);
        faults.on_stat = [&](const char *asked, struct stat *out) {
            if (asked != nullptr && folder.path() == asked)
                out->st_uid = owner;
        };
        EXPECT_EQ(judge(path), owner == stranger ? MBR_UNTRUSTED : MBR_OK);
        EXPECT_EQ(
            candidate.reason, owner == stranger ? MBR_REASON_UNTRUSTED_FOLDER : MBR_REASON_USED);
        // A folder above may be another user's, as long as it is not open to all.
        faults.on_stat = [&](const char *asked, struct stat *out) {
            if (asked != nullptr && strcmp(asked, "/") == 0)
                out->st_uid = owner;
        };
        EXPECT_EQ(judge(path), MBR_OK) << candidate.detail;
    }
}

TEST_F(Os, LinkThatCannotBeRead_StillNotRegular)
{
    std::string link = folder.at("libmembrane-x.so");
    ASSERT_EQ(symlink("nowhere", link.c_str()), 0);
    faults.fail_at = 3; // realpath, lstat, readlink
    EXPECT_EQ(judge(link), MBR_NOT_A_PLUGIN);
    EXPECT_EQ(candidate.reason, MBR_REASON_NOT_REGULAR);
    EXPECT_NE(std::string(candidate.detail).find("a link to \"\""), std::string::npos);
}

// ---- The map of the process
// -----------------------------------------------------------------------

// An overlay shows a mapping under another device or inode than the file's own.
TEST_F(Os, MapOfAnotherDevice_ConstantBytesDecide)
{
    std::string path = folder.put_specimen("unloadable");
    const char *const maps[] = {
        "0-ffffffffffffffff r-xp 00000000 fe:7f 1 /elsewhere\n", // every address: another file
        "1000-2000 r-xp 00000000 fe:7f 1 /elsewhere\n",          // none of ours
        "ffffffffff000000-ffffffffffffffff r-xp 00000000 fe:7f 1 /elsewhere\n",
        "what is this\n",
    };
    for (const char *map : maps) {
        mbr_module *module;
        faults = Faults();
        faults.maps = map;
        EXPECT_EQ(open_module(path, &module), MBR_OK) << map << error.text;
        mbr_module_close(module);
    }
}

TEST_F(Os, MapOfAnotherDeviceAndEveryCallFails_WholeOrNothing)
{
    const char map[] = "0-ffffffffffffffff r-xp 00000000 fe:7f 1 /elsewhere\n";
    mbr_module *module;
    faults.maps = map;
    ASSERT_EQ(open_module(folder.put_specimen("unloadable"), &module), MBR_OK) << error.text;
    mbr_module_close(module);
    uint64_t calls = faults.call_count, changed = 0;
    for (uint64_t at = 1; at <= calls; at++) {
        std::string path = folder.put_specimen("unloadable", "x" + std::to_string(at) + ".so");
        faults = Faults();
        faults.maps = map;
        faults.fail_at = at;
        mbr_status status = open_module(path, &module);
        EXPECT_EQ(status == MBR_OK, module != nullptr) << at;
        changed += status != MBR_OK && candidate.reason == MBR_REASON_FILE_CHANGED;
        mbr_module_close(module);
    }
    EXPECT_GE(changed, 3u); // the path's stat, a read of the constant bytes, the last fstat
}

TEST_F(Os, MapOfSameDeviceOtherInode_IsNotTheMappedFile)
{
    std::string path = folder.put_specimen("unloadable");
    struct stat file;
    ASSERT_EQ(stat(path.c_str(), &file), 0);
    char map[128];
    snprintf(map, sizeof map, "0-ffffffffffffffff r-xp 00000000 %x:%x %lu /elsewhere\n",
        major(file.st_dev), minor(file.st_dev), (unsigned long)file.st_ino + 1);
    faults.maps = map;
    uint64_t stats = 0;
    faults.on_stat = [&](const char *asked, struct stat *out) {
        // The path leads to yet another inode, or device, when it is asked after the load.
        if (asked != nullptr && path == asked && ++stats % 2 == 0)
            (stats == 2 ? out->st_ino : out->st_dev)++;
    };
    for (int round = 0; round < 2; round++) {
        mbr_module *module;
        EXPECT_EQ(open_module(path, &module), MBR_UNTRUSTED);
        EXPECT_EQ(candidate.reason, MBR_REASON_FILE_CHANGED);
        EXPECT_EQ(module, nullptr);
        EXPECT_EQ(mapping_count(path), 0u);
    }
    EXPECT_EQ(stats, 4u);
}

} // namespace
