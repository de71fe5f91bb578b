// Who could have written a plugin's file, and what else stands under a plugin's name. Runs outside
// of a sandbox, whose user namespace would show other owners than the machine's.
#include "tests/unit/loader/support.h"

#include <gtest/gtest.h>

#include <cstring>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

mbr_candidate judge(const std::string &path, bool trusted = false)
{
    mbr_candidate candidate;
    unsigned before = descriptor_count();
    mbr_status status = mbr_loader_judge(path.c_str(), trusted, &candidate);
    EXPECT_EQ(status == MBR_OK, candidate.reason == MBR_REASON_USED);
    EXPECT_EQ(descriptor_count(), before);
    return candidate;
}

void expect_reason(const mbr_candidate &candidate, mbr_reason reason, const std::string &part = "")
{
    EXPECT_STREQ(mbr_reason_word(candidate.reason), mbr_reason_word(reason)) << candidate.detail;
    EXPECT_NE(std::string(candidate.detail).find(part), std::string::npos) << candidate.detail;
}

TEST(Trust, OwnFileInOwnFolder_Used)
{
    Folder folder;
    expect_reason(judge(folder.put_specimen("good")), MBR_REASON_USED);
}

TEST(Trust, FileWritableByOthers_Untrusted)
{
    Folder folder;
    std::string path = folder.put_specimen("good");
    for (int mode : {0664, 0646, 0666, 0777}) {
        ASSERT_EQ(chmod(path.c_str(), (mode_t)mode), 0);
        expect_reason(judge(path), MBR_REASON_UNTRUSTED_FILE, "chmod go-w");
        EXPECT_EQ(judge(path, true).reason, MBR_REASON_USED);
    }
    for (int mode : {0400, 0600, 0644, 0755}) {
        ASSERT_EQ(chmod(path.c_str(), (mode_t)mode), 0);
        EXPECT_EQ(judge(path).reason, MBR_REASON_USED);
    }
}

TEST(Trust, OwnFolderWritableByOthers_UntrustedAlsoWithStickyBit)
{
    Folder folder;
    std::string path = folder.put_specimen("good");
    for (int mode : {0775, 0757, 0777, 01777}) {
        ASSERT_EQ(chmod(folder.path().c_str(), (mode_t)mode), 0);
        expect_reason(judge(path), MBR_REASON_UNTRUSTED_FOLDER, folder.path());
        EXPECT_EQ(judge(path, true).reason, MBR_REASON_USED);
    }
}

TEST(Trust, ParentWritableByOthers_OnlyWithStickyBit)
{
    Folder folder;
    folder.make_folder("own");
    std::string path = folder.put_specimen("good", "own/libmembrane-specimen.so");
    ASSERT_EQ(chmod(folder.path().c_str(), 01777), 0);
    EXPECT_EQ(judge(path).reason, MBR_REASON_USED);
    ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
    expect_reason(judge(path), MBR_REASON_UNTRUSTED_FOLDER, "0777");
    EXPECT_EQ(judge(path, true).reason, MBR_REASON_USED);
}

TEST(Trust, LinkFromUntrustedFolder_TargetIsJudged)
{
    Folder open, own;
    std::string target = own.put_specimen("good");
    ASSERT_EQ(symlink(target.c_str(), open.at("libmembrane-specimen.so").c_str()), 0);
    ASSERT_EQ(chmod(open.path().c_str(), 0777), 0);
    EXPECT_EQ(judge(open.at("libmembrane-specimen.so")).reason, MBR_REASON_USED);
    ASSERT_EQ(chmod(own.path().c_str(), 0777), 0);
    expect_reason(judge(open.at("libmembrane-specimen.so")), MBR_REASON_UNTRUSTED_FOLDER);
}

TEST(Trust, FileOrFolderOfStranger_Untrusted)
{
    if (geteuid() != 0)
        GTEST_SKIP() << "only root can give a file to another user";
    Folder folder;
    std::string path = folder.put_specimen("good");
    ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0) << strerror(errno);
    expect_reason(judge(path), MBR_REASON_UNTRUSTED_FILE, "user 65534");
    EXPECT_EQ(judge(path, true).reason, MBR_REASON_USED);
    ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
    ASSERT_EQ(chown(folder.path().c_str(), 65534, 65534), 0);
    expect_reason(judge(path), MBR_REASON_UNTRUSTED_FOLDER, "user 65534");
    ASSERT_EQ(chown(folder.path().c_str(), 0, 0), 0);
}

// What root owns is good for everybody; what another user owns is not.
TEST(Trust, OtherUserAsks_RootsFileIsUsed)
{
    if (geteuid() != 0)
        GTEST_SKIP() << "only root can become another user";
    Folder folder;
    std::string good = folder.put_specimen("good");
    char visible[] = "/tmp/membrane-trust-XXXXXX";
    ASSERT_NE(mkdtemp(visible), nullptr);
    ASSERT_EQ(chmod(visible, 0755), 0);
    std::string path = std::string(visible) + "/libmembrane-specimen.so";
    ASSERT_EQ(system(("cp " + good + " " + path).c_str()), 0);
    pid_t child = fork();
    if (child == 0) {
        mbr_candidate candidate;
        bool is_used = setresuid(65534, 65534, 65534) == 0 &&
            mbr_loader_judge(path.c_str(), false, &candidate) == MBR_OK;
        _exit(is_used ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(unlink(path.c_str()), 0);
    EXPECT_EQ(rmdir(visible), 0);
}

TEST(Trust, NotRegular_EachKind)
{
    Folder folder;
    expect_reason(
        judge(folder.make_folder("libmembrane-folder.so")), MBR_REASON_NOT_REGULAR, "a folder");
    std::string pipe = folder.at("libmembrane-pipe.so");
    ASSERT_EQ(mkfifo(pipe.c_str(), 0644), 0);
    expect_reason(judge(pipe), MBR_REASON_NOT_REGULAR, "a pipe"); // and does not wait for a writer
    expect_reason(judge("/dev/null"), MBR_REASON_NOT_REGULAR, "a device");
    std::string dangling = folder.at("libmembrane-dangling.so");
    ASSERT_EQ(symlink("nowhere.so", dangling.c_str()), 0);
    expect_reason(judge(dangling), MBR_REASON_NOT_REGULAR, "nowhere.so");
    std::string loop = folder.at("libmembrane-loop.so");
    ASSERT_EQ(symlink("libmembrane-loop.so", loop.c_str()), 0);
    expect_reason(judge(loop), MBR_REASON_NOT_REGULAR, "libmembrane-loop.so");
    struct sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    int here = socket(AF_UNIX, SOCK_STREAM, 0);
    char before[4096]; // a socket's address is short: its path is relative
    ASSERT_NE(getcwd(before, sizeof before), nullptr);
    ASSERT_EQ(chdir(folder.path().c_str()), 0);
    strcpy(address.sun_path, "libmembrane-socket.so");
    ASSERT_EQ(bind(here, (struct sockaddr *)&address, sizeof address), 0);
    expect_reason(judge(folder.at("libmembrane-socket.so")), MBR_REASON_NOT_REGULAR, "a socket");
    close(here);
    ASSERT_EQ(chdir(before), 0);
}

TEST(Trust, NotThere_NotFound)
{
    Folder folder;
    expect_reason(judge(folder.at("none.so")), MBR_REASON_NOT_FOUND, "No such file");
    expect_reason(judge(folder.at("none/none.so")), MBR_REASON_NOT_FOUND, "No such file");
    expect_reason(judge("/" + std::string(5000, 'x')), MBR_REASON_NOT_FOUND, "5001 bytes long");
    expect_reason(judge(""), MBR_REASON_NOT_FOUND);
    std::string file = folder.put("file", "x");
    expect_reason(judge(file + "/none.so"), MBR_REASON_NOT_FOUND, "Not a directory");
}

TEST(Trust, Unreadable_SaysSo)
{
    if (geteuid() != 0)
        GTEST_SKIP() << "only root can become another user";
    Folder folder;
    std::string path = folder.put_specimen("good");
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
    char visible[] = "/tmp/membrane-trust-XXXXXX";
    ASSERT_NE(mkdtemp(visible), nullptr);
    ASSERT_EQ(chmod(visible, 0755), 0);
    std::string copy = std::string(visible) + "/libmembrane-specimen.so";
    ASSERT_EQ(system(("cp -p " + path + " " + copy).c_str()), 0);
    pid_t child = fork();
    if (child == 0) {
        mbr_candidate candidate;
        bool is_refused = setresuid(65534, 65534, 65534) == 0 &&
            mbr_loader_judge(copy.c_str(), false, &candidate) != MBR_OK &&
            candidate.reason == MBR_REASON_NOT_FOUND &&
            strstr(candidate.detail, "Permission denied") != nullptr;
        _exit(is_refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(unlink(copy.c_str()), 0);
    EXPECT_EQ(rmdir(visible), 0);
}

// The name of a link's target comes from a stranger and must not steer a terminal.
TEST(Trust, TextOfStranger_Printable)
{
    Folder folder;
    std::string link = folder.at("libmembrane-x.so");
    ASSERT_EQ(symlink("\x1b[2Jnone\n", link.c_str()), 0);
    mbr_candidate candidate = judge(link);
    for (const char *at = candidate.detail; *at != '\0'; at++)
        EXPECT_GE((unsigned char)*at, ' ');
}

} // namespace
