// Free host memory from fixture trees: /proc and the two versions of cgroups as kernels write them,
// and as they must not bring the figure down when they are cut short, absent or nonsense.
#include "tests/unit/governor/world.h"

#include <filesystem>
#include <fstream>

using namespace governor_test;

namespace
{

constexpr const char *kNoLimitV1 = "9223372036854771712\n"; // what a version 1 kernel says for none

// A tree of small files below a folder of the test's own; gone at the end.
class Tree
{
  public:
    Tree()
    {
        const char *base = getenv("TEST_TMPDIR");
        std::string name = std::string(base == nullptr ? "/tmp" : base) + "/memory-XXXXXX";
        EXPECT_NE(mkdtemp(name.data()), nullptr);
        root_ = name;
    }

    ~Tree() { std::filesystem::remove_all(root_); }

    Tree &File(const std::string &path, const std::string &text)
    {
        std::filesystem::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
        std::ofstream(root_ + path, std::ios::binary) << text;
        return *this;
    }

    Tree &Folder(const std::string &path)
    {
        std::filesystem::create_directories(root_ + path);
        return *this;
    }

    Tree &Available(uint64_t kib)
    {
        return File("/proc/meminfo",
            "MemTotal:       99999999 kB\nMemFree:         1 kB\n"
            "MemAvailable:   " +
                std::to_string(kib) + " kB\nBuffers:          5 kB\n");
    }

    Tree &Cgroup(const std::string &text) { return File("/proc/self/cgroup", text); }

    // One version 2 cgroup; `stat` is the sum of its file pages, half of them active.
    Tree &V2(const std::string &path, const std::string &max, uint64_t current, uint64_t stat,
        const std::string &mount = "/sys/fs/cgroup")
    {
        std::string folder = mount + path;
        File(folder + "/memory.max", max + "\n");
        File(folder + "/memory.current", std::to_string(current) + "\n");
        return File(folder + "/memory.stat",
            "anon 123\nfile " + std::to_string(stat) +
                "\nkernel 5\ninactive_anon 7\nactive_anon 8\n" + "inactive_file " +
                std::to_string(stat - stat / 2) + "\nactive_file " + std::to_string(stat / 2) +
                "\nunevictable 9\nworkingset_activate_file 11\n");
    }

    Tree &V1(const std::string &path, const std::string &limit, uint64_t usage, uint64_t stat)
    {
        std::string folder = "/sys/fs/cgroup/memory" + path;
        File(folder + "/memory.limit_in_bytes", limit + "\n");
        File(folder + "/memory.usage_in_bytes", std::to_string(usage) + "\n");
        return File(folder + "/memory.stat",
            "cache 1\nrss 2\ninactive_file 77777\nactive_file 88888\ntotal_cache 3\n"
            "total_inactive_file " +
                std::to_string(stat - stat / 2) + "\ntotal_active_file " +
                std::to_string(stat / 2) + "\ntotal_unevictable 0\n");
    }

    // The figure, or kNone where it is unknown.
    uint64_t Free() const
    {
        uint64_t bytes = 99;
        bool known = mbr_host_free_bytes(root_.c_str(), &bytes);
        if (!known) {
            EXPECT_EQ(bytes, 0u);
        }
        return known ? bytes : kNone;
    }

  private:
    std::string root_;
};

TEST(Memory_Machine, MemAvailable_IsInKiB)
{
    EXPECT_EQ(Tree().Available(1000).Free(), 1000 * kKiB);
    EXPECT_EQ(Tree().Available(0).Free(), 0u);
}

TEST(Memory_Machine, NothingReadable_IsUnknown)
{
    EXPECT_EQ(Tree().Free(), kNone);
    EXPECT_EQ(Tree().File("/proc/meminfo", "").Free(), kNone);
    EXPECT_EQ(Tree().File("/proc/meminfo", "MemTotal: 5 kB\nMemFree: 5 kB\n").Free(), kNone);
    EXPECT_EQ(Tree().File("/proc/meminfo", "MemAvailable:   lots kB\n").Free(), kNone);
    EXPECT_EQ(Tree().File("/proc/meminfo", "MemAvailable:   -5 kB\n").Free(), kNone);
    EXPECT_EQ(Tree().File("/proc/meminfo", "MemAvailable:").Free(), kNone);
    EXPECT_EQ(Tree().File("/proc/meminfo", "XMemAvailable: 5 kB\n").Free(), kNone);
    EXPECT_EQ(Tree().Folder("/proc/meminfo").Free(), kNone); // opens, does not read
    EXPECT_EQ(Tree().Cgroup("0::/\n").Free(), kNone);
}

TEST(Memory_Machine, FiguresThatDoNotFit_AreUnknown)
{
    EXPECT_EQ(Tree().File("/proc/meminfo", "MemAvailable: 18014398509481984 kB\n").Free(), kNone);
    EXPECT_EQ(
        Tree().File("/proc/meminfo", "MemAvailable: 99999999999999999999 kB\n").Free(), kNone);
    EXPECT_EQ(Tree().File("/proc/meminfo", "MemAvailable: 18014398509481983 kB").Free(),
        UINT64_C(18014398509481983) * 1024);
}

TEST(Memory_Cgroup2, OwnLimit_LessUsagePlusFilePages)
{
    EXPECT_EQ(
        Tree().Available(1 << 20).Cgroup("0::/app\n").V2("/app", "1000", 600, 101).Free(), 501u);
    EXPECT_EQ(Tree().Available(1 << 20).Cgroup("0::/app\n").V2("/app", "1000", 1000, 0).Free(), 0u);
    // above the limit, and more file pages than usage
    EXPECT_EQ(Tree().Available(1 << 20).Cgroup("0::/app\n").V2("/app", "1000", 1500, 0).Free(), 0u);
    EXPECT_EQ(
        Tree().Available(1 << 20).Cgroup("0::/app\n").V2("/app", "1000", 100, 500).Free(), 1000u);
}

TEST(Memory_Cgroup2, MachineHasLess_MemAvailableBinds)
{
    EXPECT_EQ(Tree().Available(1).Cgroup("0::/app\n").V2("/app", "5000", 10, 0).Free(), kKiB);
}

TEST(Memory_Cgroup2, MemAvailableUnknown_CgroupAloneIsTheFigure)
{
    EXPECT_EQ(Tree().Cgroup("0::/app\n").V2("/app", "5000", 10, 0).Free(), 4990u);
}

TEST(Memory_Cgroup2, Nested_TheTightestAncestorBinds)
{
    for (int tightest = 0; tightest < 4; tightest++) {
        Tree tree;
        tree.Available(1 << 20).Cgroup("0::/a/b/c\n");
        const char *paths[] = {"", "/a", "/a/b", "/a/b/c"};
        for (int i = 0; i < 4; i++)
            tree.V2(paths[i], i == tightest ? "1000" : "9000", 300, 20);
        EXPECT_EQ(tree.Free(), 720u) << paths[tightest];
    }
}

TEST(Memory_Cgroup2, Unlimited_IsPassedOver)
{
    Tree tree;
    tree.Available(7).Cgroup("0::/a/b\n").V2("/a/b", "max", 5, 5);
    EXPECT_EQ(tree.Free(), 7 * kKiB);
    tree.V2("/a", "1000", 100, 0);
    EXPECT_EQ(tree.Free(), 900u);
}

TEST(Memory_Cgroup2, LevelsThatAreNotThere_ArePassedOver)
{
    // A container: the path is the machine's, the mount is the own cgroup.
    EXPECT_EQ(Tree().Available(1 << 20).Cgroup("0::/system/docker-1\n").V2("", "1000", 1, 0).Free(),
        999u);
    EXPECT_EQ(
        Tree().Available(1 << 20).Cgroup("0::/system/docker-1\n").V2("/system", "50", 1, 0).Free(),
        49u);
}

TEST(Memory_Cgroup2, PathOfANamespace_IsTheMountItself)
{
    for (const char *path : {"/", "/..", "/../..", "/../other", "/a/../../b"}) {
        EXPECT_EQ(Tree()
                      .Available(1 << 20)
                      .Cgroup(std::string("0::") + path + "\n")
                      .V2("", "1000", 1, 0)
                      .Free(),
            999u)
            << path;
    }
}

TEST(Memory_Cgroup2, Garbage_IsNoLimit)
{
    for (const char *max : {"", "garbage", "-1", " 100", "99999999999999999999999", "0x10", "7.5"})
        EXPECT_EQ(Tree().Available(9).Cgroup("0::/app\n").V2("/app", max, 1, 0).Free(), 9 * kKiB)
            << "'" << max << "'";
    EXPECT_EQ(Tree()
                  .Available(1 << 20)
                  .Cgroup("9:name=systemd:/\n4:memory:/app\n0::/\n")
                  .V1("/app", "200000", 150000, 1001)
                  .Free(),
        51001u);
}

TEST(Memory_Cgroup1, AbsurdLimit_IsNone)
{
    Tree tree;
    tree.Available(3)
        .Cgroup("4:memory:/a/b\n")
        .V1("", kNoLimitV1, 5, 0)
        .V1("/a/b", kNoLimitV1, 5, 0);
    EXPECT_EQ(tree.Free(), 3 * kKiB);
    tree.V1("/a", "4611686018427387903", 5, 0); // one byte below 2^62: a limit, but not the least
    EXPECT_EQ(tree.Free(), 3 * kKiB);
    tree.V1("/a", "1000", 5, 0);
    EXPECT_EQ(tree.Free(), 995u);
    tree.Available(UINT64_C(1) << 53); // so much that the bound of "none" itself shows
    tree.V1("/a", "4611686018427387903", 5, 0);
    EXPECT_EQ(tree.Free(), 4611686018427387898u);
    tree.V1("/a", "4611686018427387904", 5, 0);
    EXPECT_EQ(tree.Free(), UINT64_C(1) << 63);
}

TEST(Memory_Cgroup1, Nested_TheTightestAncestorBinds)
{
    for (int tightest = 0; tightest < 3; tightest++) {
        Tree tree;
        tree.Available(1 << 20).Cgroup("12:cpu,memory,pids:/a/b\n");
        const char *paths[] = {"", "/a", "/a/b"};
        for (int i = 0; i < 3; i++)
            tree.V1(paths[i], i == tightest ? "1000" : "9000", 300, 21);
        EXPECT_EQ(tree.Free(), 721u) << paths[tightest];
    }
}

TEST(Memory_Cgroup1, ControllersThatOnlyLookLikeMemory_AreNotIt)
{
    for (const char *line : {"3:memoryx:/app\n", "3:xmemory:/app\n", "3:mem:/app\n",
             "3:name=memory:/app\n", "3:cpu,mem,ory:/app\n"}) {
        EXPECT_EQ(Tree().Available(9).Cgroup(line).V1("/app", "1000", 1, 0).Free(), 9 * kKiB)
            << line;
    }
}

TEST(Memory_Cgroup1, Beside2_BothCount)
{
    Tree tree;
    tree.Available(1 << 20).Cgroup("4:memory:/one\n0::/two\n").V1("/one", "5000", 0, 0);
    EXPECT_EQ(tree.Free(), 5000u);
    tree.V2("/two", "3000", 0, 0, "/sys/fs/cgroup/unified");
    EXPECT_EQ(tree.Free(), 3000u);
    tree.V1("/one", "2000", 0, 0);
    EXPECT_EQ(tree.Free(), 2000u);
}

TEST(Memory_Cgroup, LinesThatAreNone_ArePassedOver)
{
    Tree tree;
    tree.Available(9).V2("/app", "1000", 1, 0).V1("/app", "900", 1, 0);
    for (const char *text : {"", "\n\n", "0", "0:", "0::", "nonsense\n", "4:memory\n", ":::\n",
             "1::/app\n", "00::/app\n"}) {
        tree.Cgroup(text);
        EXPECT_EQ(tree.Free(), 9 * kKiB) << "'" << text << "'";
    }
    tree.Cgroup("nonsense\n\n0::/app"); // no newline at the end
    EXPECT_EQ(tree.Free(), 999u);
}

TEST(Memory_Cgroup, PathTooLong_IsPassedOverAndNothingIsCut)
{
    Tree tree;
    tree.Available(9).V2("", "1000", 1, 0);
    std::string deep;
    while (deep.size() < 5000)
        deep += "/aaaaaaaaaaaaaaa";
    tree.Cgroup("0::" + deep + "\n");
    EXPECT_EQ(tree.Free(), 9 * kKiB);
    // Fits as a folder, not with the file's name: the ancestors still count.
    deep.resize(4095 -
        (std::string(getenv("TEST_TMPDIR")).size() + strlen("/memory-XXXXXX") +
            strlen("/sys/fs/cgroup")));
    tree.Cgroup("0::" + deep + "\n");
    EXPECT_EQ(tree.Free(), 999u);
    std::string root(5000, 'r');
    uint64_t bytes = 99;
    EXPECT_FALSE(mbr_host_free_bytes(root.c_str(), &bytes));
    EXPECT_EQ(bytes, 0u);
}

TEST(Memory_Cgroup, TextLongerThanTheBuffer_ItsBeginningCounts)
{
    Tree tree;
    std::string filler(20000, 'x');
    tree.Available(9).Cgroup("0::/app\n" + filler).V2("/app", "1000", 400, 0);
    EXPECT_EQ(tree.Free(), 600u);
    tree.File("/sys/fs/cgroup/app/memory.stat", filler + "\ninactive_file 100\n");
    EXPECT_EQ(tree.Free(), 600u); // beyond the buffer: as if it were not there
}

// The machine that runs the test: the figure is known, and the probe's is of the same kind.
TEST(Memory_Machine, TheRealOne_IsKnownAndBelowItsTotal)
{
    uint64_t total_kib = 0;
    std::ifstream meminfo("/proc/meminfo");
    for (std::string word; meminfo >> word && total_kib == 0;) {
        if (word == "MemTotal:")
            meminfo >> total_kib;
    }
    uint64_t direct = 0, probed = 0;
    ASSERT_TRUE(mbr_host_free_bytes("", &direct));
    ASSERT_TRUE(mbr_probe_host_memory.free_bytes(mbr_probe_host_memory.context, &probed));
    EXPECT_GT(direct, 0u);
    EXPECT_LE(direct, total_kib * kKiB);
    EXPECT_GT(probed, 0u);
    EXPECT_LE(probed, total_kib * kKiB);

    World world;
    mbr_authority *authority = world.Authority(kNone, &mbr_probe_host_memory, kMiB);
    EXPECT_GT(Figures(authority).limit_bytes, 0u);
    EXPECT_LE(Figures(authority).limit_bytes, total_kib * kKiB);
    End<mbr_holder *>(authority, nullptr);
}

} // namespace
