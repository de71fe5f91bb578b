// Plots by the real gnuplot, by programs that only bear its name, and with every call of the
// operating system failing in turn. Whatever happens, the folder has the picture or what it had.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include "tools/cli/plot.h"
}

namespace
{

const mbr_plot_point owned_points[] = {
    {0, 0}, {500000000, UINT64_C(512) << 20}, {1500000000, UINT64_C(900) << 20}};
const mbr_plot_point mapped_points[] = {{0, 0}, {2000000000, UINT64_C(1) << 30}};

std::string content_of(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    std::stringstream content;
    content << file.rdbuf();
    return content.str();
}

std::set<std::string> names_in(const std::string &folder)
{
    std::set<std::string> names;
    DIR *list = opendir(folder.c_str());
    EXPECT_NE(list, nullptr);
    while (dirent *entry = readdir(list))
        names.insert(entry->d_name);
    closedir(list);
    names.erase(".");
    names.erase("..");
    return names;
}

// The system's calls, of which one may be made to fail.
class FailingSystem
{
  public:
    FailingSystem()
    {
        os_ = {memory_file, is_replaceable, create, write, size, read, rewind, run, rename, remove,
            close, this};
    }
    ~FailingSystem() { EXPECT_EQ(open_count_, 0) << "files left open"; }
    const mbr_plot_os *os() const { return &os_; }

    uint64_t call_count = 0;
    uint64_t fail_at = 0; // ordinal, from 1; close and remove are not counted
    int failure = EIO;
    std::string failed;            // the call that failed
    size_t write_bytes = SIZE_MAX; // at most so many a call
    bool interrupt_writes = false;
    bool fail_remove = false;
    bool fail_reads = false;
    int run_status = -1; // not run, but this is what waitpid said

  private:
    static FailingSystem *self(void *context) { return static_cast<FailingSystem *>(context); }
    bool fails(const char *name)
    {
        if (++call_count != fail_at)
            return false;
        failed = name;
        return true;
    }
    static int memory_file(void *context)
    {
        if (self(context)->fails("memory_file"))
            return -self(context)->failure;
        self(context)->open_count_++;
        return mbr_plot_os_default.memory_file(nullptr);
    }
    static int is_replaceable(void *context, const char *path)
    {
        return self(context)->fails("is_replaceable")
            ? -self(context)->failure
            : mbr_plot_os_default.is_replaceable(nullptr, path);
    }
    static int create(void *context, const char *path)
    {
        if (self(context)->fails("create"))
            return -self(context)->failure;
        int file = mbr_plot_os_default.create(nullptr, path);
        self(context)->open_count_ += file >= 0 ? 1 : 0;
        return file;
    }
    static int64_t write(void *context, int file, const void *from, size_t bytes)
    {
        if (self(context)->fails("write"))
            return -self(context)->failure;
        if (self(context)->interrupt_writes && self(context)->call_count % 2 == 0)
            return -EINTR;
        return mbr_plot_os_default.write(
            nullptr, file, from, std::min(bytes, self(context)->write_bytes));
    }
    static int64_t size(void *context, int file)
    {
        return self(context)->fails("size") ? -self(context)->failure
                                            : mbr_plot_os_default.size(nullptr, file);
    }
    static int64_t read(void *context, int file, void *to, size_t bytes, uint64_t offset)
    {
        if (self(context)->fails("read") || self(context)->fail_reads)
            return -self(context)->failure;
        return mbr_plot_os_default.read(nullptr, file, to, bytes, offset);
    }
    static int rewind(void *context, int file)
    {
        return self(context)->fails("rewind") ? -self(context)->failure
                                              : mbr_plot_os_default.rewind(nullptr, file);
    }
    static int run(void *context, const char *const *arguments, int input, int output, int errors,
        int *out_status)
    {
        if (self(context)->fails("run"))
            return -self(context)->failure;
        if (self(context)->run_status >= 0) {
            *out_status = self(context)->run_status;
            return 0;
        }
        return mbr_plot_os_default.run(nullptr, arguments, input, output, errors, out_status);
    }
    static int rename(void *context, const char *from, const char *to)
    {
        return self(context)->fails("rename") ? -self(context)->failure
                                              : mbr_plot_os_default.rename(nullptr, from, to);
    }
    static int remove(void *context, const char *path)
    {
        int removed = mbr_plot_os_default.remove(nullptr, path);
        return self(context)->fail_remove ? -EIO : removed;
    }
    static void close(void *context, int file)
    {
        self(context)->open_count_--;
        mbr_plot_os_default.close(nullptr, file);
    }

    mbr_plot_os os_;
    int open_count_ = 0;
};

class Plot : public testing::Test
{
  protected:
    void SetUp() override
    {
        std::string pattern = testing::TempDir() + "/plot-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        path_ = getenv("PATH") == nullptr ? "" : getenv("PATH");
        series_ = {{"owned", owned_points, 3}, {"mapped", mapped_points, 2}};
    }
    void TearDown() override
    {
        setenv("PATH", path_.c_str(), 1);
        for (const std::string &name : names_in(folder_)) {
            std::string path = folder_ + "/" + name;
            unlink(path.c_str());
            rmdir(path.c_str());
        }
        EXPECT_EQ(rmdir(folder_.c_str()), 0);
    }

    mbr_plot_status plot(const std::string &name, const mbr_plot_os *os = nullptr)
    {
        picture_ = folder_ + "/" + name;
        mbr_plot plot = {picture_.c_str(), title_.c_str(), series_.data(),
            static_cast<uint32_t>(series_.size())};
        memset(&error_, 0x5a, sizeof error_);
        mbr_plot_status status = mbr_plot_write(&plot, os, &error_);
        EXPECT_EQ(error_.status, status);
        EXPECT_LT(strnlen(error_.text, sizeof error_.text), sizeof error_.text);
        EXPECT_EQ(std::string(error_.text).empty(), status == MBR_PLOT_OK) << error_.text;
        EXPECT_EQ(strchr(error_.text, '\n'), nullptr) << error_.text;
        return status;
    }

    // The refusal leaves what was there and says all of `words`.
    void expect_refused(const std::string &name, mbr_plot_status status,
        std::initializer_list<const char *> words, const mbr_plot_os *os = nullptr)
    {
        std::set<std::string> before = names_in(folder_);
        EXPECT_EQ(plot(name, os), status) << error_.text;
        EXPECT_EQ(names_in(folder_), before);
        for (const char *word : words)
            EXPECT_NE(strstr(error_.text, word), nullptr) << error_.text;
    }

    // A program called gnuplot, first on PATH, that does `lines`. TearDown's folder must stay
    // clean, so it is put in its own.
    void pretend(const std::string &lines)
    {
        std::string pattern = testing::TempDir() + "/path-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        std::string program = pattern + "/gnuplot";
        std::ofstream(program) << "#!/bin/sh\n" << lines << "\n";
        ASSERT_EQ(chmod(program.c_str(), 0755), 0);
        setenv("PATH", (pattern + ":" + path_).c_str(), 1);
    }

    std::string folder_;
    std::string path_;
    std::string picture_;
    std::string title_ = "Bytes over time";
    std::vector<mbr_plot_series> series_;
    mbr_plot_error error_;
};

TEST_F(Plot, Svg_IsWholeAndHasTitlesUnitsAndBothSeries)
{
    ASSERT_EQ(plot("a.svg"), MBR_PLOT_OK) << error_.text;
    std::string svg = content_of(picture_);
    EXPECT_EQ(svg.rfind("<?xml", 0), 0u);
    EXPECT_NE(svg.find("</svg>"), std::string::npos);
    for (const char *text : {"Bytes over time", "owned", "mapped", "seconds", "MiB"})
        EXPECT_NE(svg.find(text), std::string::npos) << text;
    EXPECT_NE(svg.find("gnuplot_plot_2"), std::string::npos);
    EXPECT_EQ(svg.find("gnuplot_plot_3"), std::string::npos);
    EXPECT_EQ(names_in(folder_), std::set<std::string>{"a.svg"});
}

TEST_F(Plot, Axis_UnitAndTicks_ArePowersOfTwo)
{
    struct {
        uint64_t bytes;
        const char *unit;
        const char *tick; // the first one above 0
        const char *absent;
    } rows[] = {{9, "bytes", "2", "1"}, {1000, "bytes", "128", "100"}, {8192, "KiB", "1", "1024"},
        {UINT64_C(1) << 30, "MiB", "128", "100"}, {UINT64_C(10) << 30, "GiB", "2", "1"},
        {UINT64_MAX, "PiB", "2048", "1024"}};
    for (const auto &row : rows) {
        const mbr_plot_point points[] = {{0, 0}, {1000000000, row.bytes}};
        series_ = {{"s", points, 2}};
        ASSERT_EQ(plot("a.svg"), MBR_PLOT_OK) << error_.text;
        std::string svg = content_of(picture_);
        auto text = [](const char *word) { return "<text>" + std::string(word) + "</text>"; };
        auto tick = [](const char *word) { return "<text> " + std::string(word) + "</text>"; };
        EXPECT_NE(svg.find(text(row.unit)), std::string::npos) << row.unit;
        EXPECT_NE(svg.find(tick(row.tick)), std::string::npos) << row.tick << svg;
        size_t x_axis = svg.find(tick("0"));
        ASSERT_NE(x_axis, std::string::npos);
        // The y axis is written first, up to the x axis' own zero.
        size_t y_end = svg.find(tick("0"), x_axis + 1);
        EXPECT_EQ(svg.substr(0, y_end).find(tick(row.absent)), std::string::npos) << row.absent;
    }
}

TEST_F(Plot, Png_IsWhole)
{
    ASSERT_EQ(plot("a.png"), MBR_PLOT_OK) << error_.text;
    std::string png = content_of(picture_);
    EXPECT_EQ(png.rfind("\x89PNG\r\n\x1a\n", 0), 0u);
    EXPECT_EQ(names_in(folder_), std::set<std::string>{"a.png"});
}

TEST_F(Plot, Mode_FollowsTheUmask)
{
    mode_t before = umask(027);
    ASSERT_EQ(plot("a.svg"), MBR_PLOT_OK) << error_.text;
    umask(before);
    struct stat about;
    ASSERT_EQ(stat(picture_.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0640u);
}

TEST_F(Plot, ExistingPicture_IsReplaced)
{
    std::ofstream(folder_ + "/a.svg") << "old";
    ASSERT_EQ(plot("a.svg"), MBR_PLOT_OK) << error_.text;
    EXPECT_EQ(content_of(picture_).rfind("<?xml", 0), 0u);
}

TEST_F(Plot, Titles_ThatLookLikeCommands_AreShownAsTheyAre)
{
    title_ = "it's 100 % <b>_^{x}</b> `touch evil`\n!touch evil2\nEND";
    series_[0].title = "a'; system('touch evil3') #\\n";
    ASSERT_EQ(plot("a.svg"), MBR_PLOT_OK) << error_.text;
    std::string svg = content_of(picture_);
    EXPECT_NE(
        svg.find("it's 100 % &lt;b>_^{x}&lt;/b> `touch evil` !touch evil2 END"), std::string::npos)
        << svg;
    EXPECT_NE(svg.find("a'; system('touch evil3') #\\n"), std::string::npos);
    EXPECT_EQ(names_in(folder_), std::set<std::string>{"a.svg"});
    for (const char *name : {"evil", "evil2", "evil3"})
        EXPECT_NE(access(name, F_OK), 0) << name;
}

TEST_F(Plot, Title_Long_IsCutBetweenCharacters)
{
    title_ = std::string(199, 'x') + "\xc3\xa4" + std::string(5000, 'y');
    ASSERT_EQ(plot("a.svg"), MBR_PLOT_OK) << error_.text;
    std::string svg = content_of(picture_);
    EXPECT_NE(svg.find("x\xc3\xa4<"), std::string::npos);
}

TEST_F(Plot, Series_OnePointOrNoneOrAllZero_AreDrawn)
{
    const mbr_plot_point zero[] = {{0, 0}};
    series_ = {{"none", nullptr, 0}, {"zero", zero, 1}};
    ASSERT_EQ(plot("a.svg"), MBR_PLOT_OK) << error_.text;
    std::string svg = content_of(picture_);
    EXPECT_NE(svg.find("zero"), std::string::npos);
    EXPECT_EQ(svg.find("none</text>"), std::string::npos);
}

TEST_F(Plot, Series_Many_AndLargest_AreDrawn)
{
    std::vector<mbr_plot_point> points;
    for (uint64_t i = 0; i < 20000; i++)
        points.push_back({i * 1000000, i % 2 == 0 ? UINT64_MAX : i});
    points.push_back({UINT64_MAX, 1});
    series_ = std::vector<mbr_plot_series>(
        MBR_PLOT_MAX_SERIES_COUNT, {"s", points.data(), points.size()});
    ASSERT_EQ(plot("a.svg"), MBR_PLOT_OK) << error_.text;
    EXPECT_NE(content_of(picture_).find("gnuplot_plot_16"), std::string::npos);
}

TEST_F(Plot, NoPoint_IsRefused)
{
    series_ = {{"none", nullptr, 0}};
    expect_refused("a.svg", MBR_PLOT_NO_DATA, {"a.svg: ", "no point"});
    series_ = {};
    expect_refused("a.svg", MBR_PLOT_NO_DATA, {"no point"});
}

TEST_F(Plot, MoreThanTheLimits_IsRefused)
{
    series_ = std::vector<mbr_plot_series>(MBR_PLOT_MAX_SERIES_COUNT + 1, {"s", owned_points, 3});
    expect_refused("a.svg", MBR_PLOT_OVER_LIMIT, {"17 series", "MBR_PLOT_MAX_SERIES_COUNT"});
    std::vector<mbr_plot_point> points(MBR_PLOT_MAX_POINTS_COUNT);
    series_ = {{"a", points.data(), points.size()}, {"b", points.data(), 1}};
    expect_refused("a.svg", MBR_PLOT_OVER_LIMIT, {"1048576 points", "MBR_PLOT_MAX_POINTS_COUNT"});
}

TEST_F(Plot, Ending_OfAnotherKind_IsRefused)
{
    for (const char *name : {"a.gif", "a", "a.svg.gz", "svg", "a.SVG", ".png ", "a.pngx"})
        expect_refused(name, MBR_PLOT_UNKNOWN_ENDING, {".svg or .png"});
    mbr_plot only_ending = {".svg", "t", series_.data(), 2};
    EXPECT_EQ(mbr_plot_write(&only_ending, nullptr, nullptr), MBR_PLOT_UNKNOWN_ENDING);
}

TEST_F(Plot, Gnuplot_NotOnPath_IsSaidWithWhatToInstall)
{
    setenv("PATH", folder_.c_str(), 1);
    expect_refused("a.svg", MBR_PLOT_NO_GNUPLOT, {"gnuplot is not on PATH", "gnuplot-nox"});
}

TEST_F(Plot, Gnuplot_EndsWithAnError_ItsLastLineIsShown)
{
    pretend(
        "cat >/dev/null; echo half a picture; echo first >&2; printf '  \\033[1mbad line 3\\n\\n' "
        ">&2; exit 3");
    expect_refused("a.svg", MBR_PLOT_GNUPLOT_FAILED, {"ended with 3", "?[1mbad line 3"});
    pretend("exit 1"); // reads nothing of the script
    expect_refused("a.svg", MBR_PLOT_GNUPLOT_FAILED, {"ended with 1: no message"});
}

TEST_F(Plot, Gnuplot_IsKilled_SignalIsShown)
{
    pretend("echo half; kill -9 $$");
    expect_refused("a.svg", MBR_PLOT_GNUPLOT_FAILED, {"signal 9"});
}

TEST_F(Plot, Gnuplot_ComplainsAtLength_DoesNotBlock)
{
    pretend("head -c 3000000 /dev/zero | tr '\\0' 'x' >&2; exit 2");
    expect_refused("a.svg", MBR_PLOT_GNUPLOT_FAILED, {"ended with 2", "xxxx"});
}

TEST_F(Plot, Gnuplot_WritesLessThanAPicture_IsRefused)
{
    for (const char *lines : {"exit 0", "echo '<svg>'", "echo '</svg> and more'", "printf svg"}) {
        pretend(lines);
        expect_refused("a.svg", MBR_PLOT_GNUPLOT_FAILED, {"no whole picture", "disk full"});
        expect_refused("a.png", MBR_PLOT_GNUPLOT_FAILED, {"no whole picture"});
    }
}

TEST_F(Plot, Gnuplot_ReadsNoStartUpFileOfTheUser)
{
    std::ofstream(folder_ + "/.gnuplot") << "exit status 9\n";
    setenv("HOME", folder_.c_str(), 1);
    EXPECT_EQ(plot("a.svg"), MBR_PLOT_OK) << error_.text;
}

TEST_F(Plot, Folder_Absent_IsSaid)
{
    expect_refused("no/a.svg", MBR_PLOT_CANNOT_WRITE, {"cannot be written", strerror(ENOENT)});
}

TEST_F(Plot, Name_IsThatOfAFolder_IsSaid)
{
    ASSERT_EQ(mkdir((folder_ + "/a.svg").c_str(), 0755), 0);
    expect_refused("a.svg", MBR_PLOT_CANNOT_WRITE, {"cannot be written", strerror(EISDIR)});
}

TEST_F(Plot, Name_IsThatOfAPipe_IsLeftAlone)
{
    ASSERT_EQ(mkfifo((folder_ + "/a.svg").c_str(), 0600), 0);
    expect_refused("a.svg", MBR_PLOT_CANNOT_WRITE, {"a pipe", "another name would work"});
    struct stat about;
    ASSERT_EQ(stat((folder_ + "/a.svg").c_str(), &about), 0);
    EXPECT_TRUE(S_ISFIFO(about.st_mode));
}

TEST_F(Plot, Name_IsALinkToItself_IsSaid)
{
    ASSERT_EQ(symlink("a.svg", (folder_ + "/a.svg").c_str()), 0);
    expect_refused("a.svg", MBR_PLOT_CANNOT_WRITE, {"cannot be written", strerror(ELOOP)});
}

TEST_F(Plot, Probe_AnswersLikeTheWriteAndLeavesNothing)
{
    ASSERT_EQ(mkdir((folder_ + "/folder.svg").c_str(), 0755), 0);
    ASSERT_EQ(mkfifo((folder_ + "/pipe.png").c_str(), 0600), 0);
    std::ofstream(folder_ + "/old.svg") << "old";
    std::set<std::string> before = names_in(folder_);
    for (const char *name :
        {"new.svg", "new.png", "old.svg", "folder.svg", "pipe.png", "a.gif", "", "no/a.svg"}) {
        std::string path = folder_ + "/" + name;
        mbr_plot_error error;
        mbr_plot_status probed = mbr_plot_probe(path.c_str(), nullptr, &error);
        EXPECT_EQ(error.status, probed);
        EXPECT_EQ(names_in(folder_), before) << name;
        EXPECT_EQ(content_of(folder_ + "/old.svg"), "old");
        mbr_plot no_data = {path.c_str(), "t", nullptr, 0};
        mbr_plot_status written = mbr_plot_write(&no_data, nullptr, nullptr);
        if (std::string(name) == "no/a.svg") // the folder is asked when there is a picture
            written = MBR_PLOT_CANNOT_WRITE;
        EXPECT_EQ(probed, written == MBR_PLOT_NO_DATA ? MBR_PLOT_OK : written) << name;
    }
}

TEST_F(Plot, Probe_EachCallFails_IsSaidAndLeavesNothing)
{
    std::string path = folder_ + "/a.svg";
    for (uint64_t ordinal : {1, 2}) {
        FailingSystem system;
        system.fail_at = ordinal;
        mbr_plot_error error;
        EXPECT_EQ(mbr_plot_probe(path.c_str(), system.os(), &error), MBR_PLOT_CANNOT_WRITE);
        EXPECT_NE(strstr(error.text, strerror(EIO)), nullptr) << error.text;
        EXPECT_EQ(names_in(folder_), std::set<std::string>{});
    }
    FailingSystem system;
    system.fail_remove = true;
    EXPECT_EQ(mbr_plot_probe(path.c_str(), system.os(), nullptr), MBR_PLOT_CANNOT_WRITE);
}

TEST_F(Plot, Path_TooLong_IsSaid)
{
    expect_refused(std::string(MBR_PLOT_MAX_PATH_BYTES, 'd') + ".svg", MBR_PLOT_CANNOT_WRITE,
        {strerror(ENAMETOOLONG)});
    expect_refused(std::string(300, 'd') + ".svg", MBR_PLOT_CANNOT_WRITE, {strerror(ENAMETOOLONG)});
}

TEST_F(Plot, TemporaryName_IsTaken_AnotherIsUsed)
{
    std::string taken = "a.svg." + std::to_string(getpid()) + "-0.part";
    std::ofstream(folder_ + "/" + taken) << "somebody's";
    ASSERT_EQ(plot("a.svg"), MBR_PLOT_OK) << error_.text;
    EXPECT_EQ(content_of(folder_ + "/" + taken), "somebody's");
    for (int i = 0; i < 64; i++)
        std::ofstream(
            folder_ + "/b.svg." + std::to_string(getpid()) + "-" + std::to_string(i) + ".part");
    expect_refused("b.svg", MBR_PLOT_CANNOT_WRITE, {strerror(EEXIST)});
}

TEST_F(Plot, System_EachCallFails_OldPictureStaysAndNothingElse)
{
    FailingSystem whole;
    ASSERT_EQ(plot("a.svg", whole.os()), MBR_PLOT_OK) << error_.text;
    EXPECT_GE(whole.call_count, 8u);
    std::ofstream(folder_ + "/a.svg") << "old";
    std::set<std::string> failed;
    for (uint64_t ordinal = 1; ordinal <= whole.call_count; ordinal++) {
        FailingSystem system;
        system.fail_at = ordinal;
        EXPECT_NE(plot("a.svg", system.os()), MBR_PLOT_OK) << system.failed;
        bool is_of_disk =
            std::set<std::string>{"is_replaceable", "create", "size", "read", "rename"}.count(
                system.failed) != 0;
        EXPECT_EQ(error_.status, is_of_disk ? MBR_PLOT_CANNOT_WRITE : MBR_PLOT_SYSTEM)
            << system.failed;
        EXPECT_NE(strstr(error_.text, strerror(EIO)), nullptr) << error_.text;
        EXPECT_EQ(names_in(folder_), std::set<std::string>{"a.svg"}) << system.failed;
        EXPECT_EQ(content_of(folder_ + "/a.svg"), "old") << system.failed;
        failed.insert(system.failed);
    }
    EXPECT_EQ(failed,
        (std::set<std::string>{"is_replaceable", "memory_file", "create", "write", "size", "read",
            "rewind", "run", "rename"}));
}

TEST_F(Plot, System_ShortAndInterruptedWrites_GiveTheSamePicture)
{
    ASSERT_EQ(plot("a.svg"), MBR_PLOT_OK) << error_.text;
    FailingSystem system;
    system.write_bytes = 7;
    system.interrupt_writes = true;
    ASSERT_EQ(plot("b.svg", system.os()), MBR_PLOT_OK) << error_.text;
    EXPECT_EQ(content_of(folder_ + "/a.svg"), content_of(folder_ + "/b.svg"));
    system.write_bytes = 0;
    system.interrupt_writes = false;
    expect_refused("b.svg", MBR_PLOT_SYSTEM, {strerror(EIO)}, system.os());
}

TEST_F(Plot, System_UndoFails_FirstFaultIsTheOneSaid)
{
    FailingSystem system;
    system.fail_remove = true;
    system.fail_reads = true;
    system.run_status = 5 << 8;
    expect_refused("a.svg", MBR_PLOT_GNUPLOT_FAILED, {"ended with 5: no message"}, system.os());
}

// A process whose standard files are closed gets its own files in their place; the child's must not
// be mixed up.
TEST_F(Plot, StandardFilesClosed_PictureIsTheSame)
{
    ASSERT_EQ(plot("a.svg"), MBR_PLOT_OK) << error_.text;
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        close(0);
        close(1);
        close(2);
        std::string path = folder_ + "/b.svg";
        mbr_plot plot = {path.c_str(), title_.c_str(), series_.data(), 2};
        _exit(mbr_plot_write(&plot, nullptr, nullptr) == MBR_PLOT_OK ? 0 : 1);
    }
    int status;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(content_of(folder_ + "/a.svg"), content_of(folder_ + "/b.svg"));
}

} // namespace
