// Where plugins are looked for, in which order, and what is never looked at.
#include "tests/unit/loader/support.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace
{

// A world of the four kinds of folders, each with its own specimen on demand.
struct World {
    World()
    {
        root.make_folder("path-a");
        root.make_folder("path-b");
        root.make_folder("home/membrane/plugins");
        root.make_folder("share-a/membrane/plugins");
        root.make_folder("share-b/membrane/plugins");
        root.make_folder("built-in");
        plugin_path = root.at("path-a") + ":" + root.at("path-b");
        data_home = root.at("home");
        data_dirs = root.at("share-a") + ":" + root.at("share-b");
        built_in = root.at("built-in");
    }
    mbr_loader_environment environment() const
    {
        return {plugin_path.c_str(), data_home.c_str(), data_dirs.c_str(), built_in.c_str(), secure,
            nullptr, nullptr};
    }
    Folder root;
    std::string plugin_path, data_home, data_dirs, built_in;
    bool secure = false;
};

const std::vector<std::string> places = {"path-a", "path-b", "home/membrane/plugins",
    "share-a/membrane/plugins", "share-b/membrane/plugins", "built-in"};

struct Listing {
    explicit Listing(const mbr_loader_environment *environment, const mbr_heap *heap = nullptr)
        : heap(heap)
    {
        status = mbr_loader_list(environment, heap, &items, &count, &error);
    }
    ~Listing() { mbr_loader_list_release(heap, items); }
    Listing(const Listing &) = delete;
    Listing &operator=(const Listing &) = delete;
    const mbr_heap *heap;
    mbr_candidate *items = nullptr;
    uint32_t count = 0;
    Error error;
    mbr_status status;
};

TEST(Search, ByName_FirstFolderOfTheOrderWins)
{
    World world;
    for (const std::string &place : places)
        world.root.put_specimen("good", place + "/libmembrane-specimen.so");
    for (const std::string &place : places) {
        mbr_loader_environment environment = world.environment();
        Opened opened("specimen", false, &environment);
        ASSERT_EQ(opened.status, MBR_OK) << opened.error.text;
        EXPECT_EQ(opened.candidate.path, world.root.at(place) + "/libmembrane-specimen.so");
        ASSERT_EQ(unlink(opened.candidate.path), 0); // next time the next place
    }
    mbr_loader_environment environment = world.environment();
    Opened opened("specimen", false, &environment);
    EXPECT_EQ(opened.status, MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(opened.candidate.reason, MBR_REASON_NOT_FOUND);
    EXPECT_NE(std::string(opened.candidate.detail)
                  .find("libmembrane-specimen.so in " + world.root.at("path-a")),
        std::string::npos)
        << opened.candidate.detail;
}

TEST(Search, ByName_RefusedCopyDoesNotHideAGoodOne)
{
    World world;
    world.root.put("path-a/libmembrane-specimen.so", "no plugin");
    world.root.put_specimen("good", "built-in/libmembrane-specimen.so");
    mbr_loader_environment environment = world.environment();
    {
        Opened opened("specimen", false, &environment);
        ASSERT_EQ(opened.status, MBR_OK) << opened.error.text;
        EXPECT_EQ(opened.candidate.path, world.root.at("built-in/libmembrane-specimen.so"));
    }
    // Without the good one, the first refusal is told.
    ASSERT_EQ(unlink(world.root.at("built-in/libmembrane-specimen.so").c_str()), 0);
    Opened opened("specimen", false, &environment);
    EXPECT_EQ(opened.status, MBR_NOT_A_PLUGIN);
    EXPECT_EQ(opened.candidate.reason, MBR_REASON_NOT_ELF);
    EXPECT_EQ(opened.candidate.path, world.root.at("path-a/libmembrane-specimen.so"));
    // A second refusal does not take the first one's place.
    world.root.put_specimen("exec_stack", "path-b/libmembrane-specimen.so");
    Opened again("specimen", false, &environment);
    EXPECT_EQ(again.candidate.reason, MBR_REASON_NOT_ELF);
}

TEST(Search, ByName_FoundFileIsJudgedEvenIfTrusted)
{
    World world;
    std::string path = world.root.put_specimen("good", "path-a/libmembrane-specimen.so");
    ASSERT_EQ(chmod(path.c_str(), 0666), 0);
    mbr_loader_environment environment = world.environment();
    Opened opened("specimen", true, &environment); // trust is for a path that somebody wrote down
    EXPECT_EQ(opened.status, MBR_UNTRUSTED);
    EXPECT_EQ(opened.candidate.reason, MBR_REASON_UNTRUSTED_FILE);
}

TEST(Search, BadNames_RefusedWithAdvice)
{
    World world;
    mbr_loader_environment environment = world.environment();
    for (const char *name : {"libmembrane-specimen.so.1", "Specimen", "", ".", "..", "a b",
             "0123456789012345678901234567890123456789"}) {
        Opened opened(name, false, &environment);
        EXPECT_EQ(opened.status, MBR_UNKNOWN_OBJECT) << name;
        EXPECT_EQ(opened.candidate.reason, MBR_REASON_NOT_FOUND) << name;
        EXPECT_NE(std::string(opened.error.text).find("a path has a '/'"), std::string::npos)
            << opened.error.text;
    }
}

TEST(Search, NothingConfigured_SaysSo)
{
    mbr_loader_environment environment = {"", "", "/nowhere", "", false, nullptr, nullptr};
    Opened opened("specimen", false, &environment);
    EXPECT_EQ(opened.candidate.reason, MBR_REASON_NOT_FOUND);
    EXPECT_NE(
        std::string(opened.candidate.detail).find("/nowhere/membrane/plugins"), std::string::npos);
    Listing list(&environment);
    EXPECT_EQ(list.status, MBR_OK);
    EXPECT_EQ(list.count, 0u);
}

TEST(Search, ManyFolders_CountedInTheText)
{
    std::string path;
    for (int i = 0; i < 100; i++)
        path += (i > 0 ? ":" : "") + ("/nowhere/of/some/length/" + std::to_string(i));
    mbr_loader_environment environment = {
        path.c_str(), nullptr, nullptr, nullptr, false, nullptr, nullptr};
    Opened opened("specimen", false, &environment);
    EXPECT_NE(std::string(opened.candidate.detail).find(" more; set MEMBRANE_PLUGIN_PATH"),
        std::string::npos)
        << opened.candidate.detail;
}

// The current directory holds a plugin of the right name; nothing may find it.
TEST(Search, HostilePath_EmptyAndRelativeElementsNeverUsed)
{
    World world;
    world.root.put_specimen("good", "libmembrane-specimen.so");
    world.root.make_folder("membrane/plugins");
    world.root.put_specimen("good", "membrane/plugins/libmembrane-specimen.so");
    char before[4096];
    ASSERT_NE(getcwd(before, sizeof before), nullptr);
    std::string mark = world.root.at("mark");
    Variable variable("SPECIMEN_MARK", mark);
    const std::string root = world.root.path();
    const std::string elements[] = {":", ".", "./", "..", ":.:", "path-a/..", "membrane/plugins",
        "~", "$PWD", std::string(5000, 'a'), "/" + std::string(5000, 'a'),
        "/" + std::string(4085, 'a')};
    for (const std::string &element : elements) {
        mbr_loader_environment environment = {element.c_str(), element.c_str(), element.c_str(),
            element.c_str(), false, nullptr, nullptr};
        // The build moves with the current directory only for these calls.
        ASSERT_EQ(chdir(root.c_str()), 0);
        Opened opened("specimen", false, &environment);
        Listing list(&environment);
        ASSERT_EQ(chdir(before), 0);
        EXPECT_EQ(opened.status, MBR_UNKNOWN_OBJECT) << element;
        ASSERT_EQ(list.status, MBR_OK);
        EXPECT_GE(list.count, 1u) << element;
        for (uint32_t i = 0; i < list.count; i++) {
            EXPECT_EQ(list.items[i].reason, MBR_REASON_UNTRUSTED_FOLDER) << element;
            EXPECT_NE(std::string(list.items[i].detail).find("absolute"), std::string::npos);
        }
    }
    EXPECT_NE(access(mark.c_str(), F_OK), 0);
}

TEST(Search, Elevated_OnlyWhatItsUserCannotSet)
{
    World world;
    world.secure = true;
    for (const std::string &place : places)
        world.root.put_specimen("good", place + "/libmembrane-specimen.so");
    mbr_loader_environment environment = world.environment();
    Listing list(&environment);
    ASSERT_EQ(list.status, MBR_OK);
    unsigned own = 0;
    for (uint32_t i = 0; i < list.count; i++)
        if (std::string(list.items[i].path).rfind(world.root.path(), 0) == 0) {
            own++;
            EXPECT_EQ(list.items[i].path, world.root.at("built-in/libmembrane-specimen.so"));
        }
    EXPECT_EQ(own, 1u);
    Opened opened("specimen", false, &environment);
    ASSERT_EQ(opened.status, MBR_OK) << opened.error.text;
    EXPECT_EQ(opened.candidate.path, world.root.at("built-in/libmembrane-specimen.so"));
}

TEST(Search, ProcessEnvironment_HomeAndDefaults)
{
    char storage[MBR_LOADER_PATH_BYTES];
    mbr_loader_environment environment;
    {
        Variable home("HOME", "/home/somebody");
        mbr_loader_environment_read(&environment, storage);
        EXPECT_STREQ(environment.data_home, "/home/somebody/.local/share");
        EXPECT_EQ(environment.plugin_path, nullptr);
        EXPECT_FALSE(environment.secure);
        EXPECT_EQ(environment.built_in_dir[0], '/');
        Variable empty("XDG_DATA_HOME", "");
        mbr_loader_environment_read(&environment, storage);
        EXPECT_STREQ(environment.data_home, "/home/somebody/.local/share");
    }
    {
        Variable home("HOME", "/home/somebody"), data("XDG_DATA_HOME", "/data");
        Variable path("MEMBRANE_PLUGIN_PATH", "/plugins"), dirs("XDG_DATA_DIRS", "/share");
        mbr_loader_environment_read(&environment, storage);
        EXPECT_STREQ(environment.data_home, "/data");
        EXPECT_STREQ(environment.plugin_path, "/plugins");
        EXPECT_STREQ(environment.data_dirs, "/share");
    }
    unsetenv("HOME");
    mbr_loader_environment_read(&environment, storage);
    EXPECT_EQ(environment.data_home, nullptr);
    {
        Variable home("HOME", "");
        mbr_loader_environment_read(&environment, storage);
        EXPECT_EQ(environment.data_home, nullptr);
    }
    Variable home("HOME", "/" + std::string(5000, 'h'));
    mbr_loader_environment_read(&environment, storage);
    EXPECT_EQ(environment.data_home, nullptr);
}

TEST(Search, ProcessEnvironment_UsedByDefault)
{
    World world;
    world.root.put_specimen("good", "path-b/libmembrane-specimen.so");
    Variable path("MEMBRANE_PLUGIN_PATH", world.plugin_path);
    Opened opened("specimen");
    ASSERT_EQ(opened.status, MBR_OK) << opened.error.text;
    EXPECT_EQ(opened.candidate.path, world.root.at("path-b/libmembrane-specimen.so"));
    Listing list(nullptr);
    ASSERT_EQ(list.status, MBR_OK);
    ASSERT_GE(list.count, 1u);
    EXPECT_EQ(list.items[0].path, world.root.at("path-b/libmembrane-specimen.so"));
}

TEST(List, SortedInAFolder_ReasonsAndShadows)
{
    World world;
    world.root.put_specimen("good", "path-a/libmembrane-specimen.so");
    world.root.put("path-a/libmembrane-broken.so", "");
    world.root.put_specimen("other", "path-a/libmembrane-other.so");
    world.root.put_specimen("illegal", "path-a/libmembrane-zz.so"); // its note says "specimen"
    world.root.put("path-a/libmembrane-BAD.so", "x");
    world.root.put("path-a/libmembrane-.so", "x");
    world.root.put("path-a/libother.so", "x");
    world.root.put("path-a/libmembrane-x.so.1", "x");
    world.root.put_specimen("good", "path-b/libmembrane-specimen.so");
    world.root.put_specimen("good", "built-in/libmembrane-broken.so");
    Variable mark("SPECIMEN_MARK", world.root.at("mark"));
    mbr_loader_environment environment = world.environment();
    Listing list(&environment);
    ASSERT_EQ(list.status, MBR_OK) << list.error.text;
    struct {
        const char *path;
        mbr_reason reason;
    } const expected[] = {
        {"path-a/libmembrane-BAD.so", MBR_REASON_NAME_MISMATCH},
        {"path-a/libmembrane-broken.so", MBR_REASON_NOT_ELF},
        {"path-a/libmembrane-other.so", MBR_REASON_USED},
        {"path-a/libmembrane-specimen.so", MBR_REASON_USED},
        {"path-a/libmembrane-zz.so", MBR_REASON_NAME_MISMATCH},
        {"path-b/libmembrane-specimen.so", MBR_REASON_SHADOWED},
        {"built-in/libmembrane-broken.so", MBR_REASON_NAME_MISMATCH},
    };
    ASSERT_EQ(list.count, sizeof expected / sizeof *expected);
    for (uint32_t i = 0; i < list.count; i++) {
        EXPECT_EQ(list.items[i].path, world.root.at(expected[i].path)) << i;
        EXPECT_STREQ(mbr_reason_word(list.items[i].reason), mbr_reason_word(expected[i].reason))
            << i << list.items[i].detail;
        EXPECT_EQ(list.items[i].detail[0] == '\0', list.items[i].reason == MBR_REASON_USED) << i;
    }
    EXPECT_NE(std::string(list.items[5].detail).find(world.root.at("path-a")), std::string::npos);
    EXPECT_NE(access(world.root.at("mark").c_str(), F_OK), 0) << "listing ran a constructor";
}

TEST(List, SameFolderTwice_ListedOnce)
{
    World world;
    world.plugin_path = world.root.at("path-a") + ":" + world.root.at("path-a");
    world.root.put_specimen("good", "path-a/libmembrane-specimen.so");
    mbr_loader_environment environment = world.environment();
    Listing list(&environment);
    EXPECT_EQ(list.count, 1u);
}

TEST(List, EveryAllocationFails_NothingIsLeft)
{
    World world;
    for (int i = 0; i < 20; i++)
        world.root.put("path-a/libmembrane-x" + std::to_string(i) + ".so", "x");
    mbr_loader_environment environment = world.environment();
    CountedHeap good;
    {
        Listing list(&environment, &good.heap);
        ASSERT_EQ(list.status, MBR_OK);
        EXPECT_EQ(list.count, 20u);
    }
    EXPECT_EQ(good.live_count, 0u);
    ASSERT_GE(good.call_count, 2u); // the array grew
    for (uint64_t at = 1; at <= good.call_count; at++) {
        CountedHeap heap(at);
        unsigned before = descriptor_count();
        Listing list(&environment, &heap.heap);
        EXPECT_EQ(list.status, MBR_OUT_OF_HOST_MEMORY) << at;
        EXPECT_EQ(list.items, nullptr);
        EXPECT_EQ(list.count, 0u);
        EXPECT_EQ(heap.live_count, 0u) << at;
        EXPECT_EQ(descriptor_count(), before);
        EXPECT_NE(std::string(list.error.text).find("no memory"), std::string::npos);
    }
}

TEST(List, RefusedFolderWithoutMemory_Told)
{
    mbr_loader_environment environment = {
        "relative", nullptr, "/nowhere", nullptr, false, nullptr, nullptr};
    CountedHeap heap(1);
    Listing list(&environment, &heap.heap);
    EXPECT_EQ(list.status, MBR_OUT_OF_HOST_MEMORY);
    EXPECT_EQ(list.count, 0u);
}

// A file whose path would not fit is no candidate: nothing could open it.
TEST(List, PathAtTheLimit_TooLongNamesLeftOut)
{
    Folder folder;
    std::string path = folder.path();
    int here = open(path.c_str(), O_RDONLY | O_DIRECTORY);
    while (path.size() < 4070) {
        size_t room = 4079 - path.size();
        std::string name(room > 250 ? 200 : room - 1, 'd');
        ASSERT_EQ(mkdirat(here, name.c_str(), 0755), 0) << strerror(errno);
        int next = openat(here, name.c_str(), O_RDONLY | O_DIRECTORY);
        ASSERT_GE(next, 0);
        close(here);
        here = next;
        path += "/" + name;
    }
    int file = openat(here, "libmembrane-specimen.so", O_CREAT | O_WRONLY, 0644);
    ASSERT_GE(file, 0);
    close(file);
    file = openat(here, "libmembrane-x.so", O_CREAT | O_WRONLY, 0644);
    ASSERT_GE(file, 0);
    close(file);
    close(here);
    mbr_loader_environment environment = {
        path.c_str(), nullptr, "/nowhere", nullptr, false, nullptr, nullptr};
    Listing list(&environment);
    ASSERT_EQ(list.status, MBR_OK) << list.error.text;
    EXPECT_EQ(list.count, 0u);
    Opened opened("specimen", false, &environment);
    EXPECT_EQ(opened.candidate.reason, MBR_REASON_NOT_FOUND);
}

TEST(List, TooManyFiles_RefusedWithTheNumber)
{
    Folder folder;
    std::string first = folder.put("libmembrane-a0.so", "x");
    for (int i = 1; i <= 4096; i++)
        ASSERT_EQ(
            link(first.c_str(), folder.at("libmembrane-a" + std::to_string(i) + ".so").c_str()), 0)
            << strerror(errno);
    mbr_loader_environment environment = {
        folder.path().c_str(), nullptr, "/nowhere", nullptr, false, nullptr, nullptr};
    Listing list(&environment);
    EXPECT_EQ(list.status, MBR_OUT_OF_RANGE);
    EXPECT_NE(std::string(list.error.text).find("4096"), std::string::npos);
}

} // namespace
