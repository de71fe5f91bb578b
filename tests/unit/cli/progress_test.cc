// The progress line on a pseudo terminal, whose other end the test reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <fcntl.h>
#include <stdlib.h>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>

extern "C" {
#include "tools/cli/progress.h"
}

namespace
{

const std::string xterm_clear = "\x1b[K";

class Terminal
{
  public:
    explicit Terminal(unsigned short columns)
    {
        main_ = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        EXPECT_GE(main_, 0);
        EXPECT_EQ(grantpt(main_), 0);
        EXPECT_EQ(unlockpt(main_), 0);
        char name[64];
        EXPECT_EQ(ptsname_r(main_, name, sizeof name), 0);
        file_ = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
        EXPECT_GE(file_, 0);
        resize(columns);
    }
    ~Terminal()
    {
        hang_up();
        close(file_);
    }
    void resize(unsigned short columns)
    {
        struct winsize size = {24, columns, 0, 0};
        EXPECT_EQ(ioctl(main_, TIOCSWINSZ, &size), 0);
    }
    void hang_up()
    {
        if (main_ >= 0)
            close(main_);
        main_ = -1;
    }
    int file() const { return file_; }

    // What was written since the last call.
    std::string taken()
    {
        std::string all;
        char buffer[4096];
        ssize_t got;
        while ((got = read(main_, buffer, sizeof buffer)) > 0)
            all.append(buffer, static_cast<size_t>(got));
        return all;
    }

  private:
    int main_ = -1;
    int file_ = -1;
};

struct TestClock {
    uint64_t now_ns = 5;
    mbr_clock clock = {read, this};
    static uint64_t read(void *context) { return static_cast<TestClock *>(context)->now_ns; }
};

class Progress : public testing::Test
{
  protected:
    void start(int file, const char *term, uint64_t total = 400)
    {
        mbr_progress_options options = {file, term, "replay", "requests", total, &clock_.clock};
        mbr_progress_init(&progress_, &options);
    }
    void update(uint64_t done, const char *note = nullptr)
    {
        clock_.now_ns += MBR_PROGRESS_MIN_GAP_NS;
        mbr_progress_update(&progress_, done, note);
    }

    TestClock clock_;
    mbr_progress progress_;
};

TEST_F(Progress, Terminal_LineHasBarShareCountAndNote)
{
    Terminal terminal(80);
    start(terminal.file(), "xterm");
    EXPECT_EQ(terminal.taken(), "");
    update(0);
    EXPECT_EQ(terminal.taken(),
        "\rreplay [>                       ]   0 %  0 of 400 requests" + xterm_clear);
    update(188, "612 MiB owned");
    EXPECT_EQ(terminal.taken(),
        "\rreplay [===========>            ]  47 %  188 of 400 requests, 612 MiB owned" +
            xterm_clear);
    update(400, "");
    EXPECT_EQ(terminal.taken(),
        "\rreplay [========================] 100 %  400 of 400 requests" + xterm_clear);
    mbr_progress_finish(&progress_);
    EXPECT_EQ(terminal.taken(), "\r" + xterm_clear);
    update(400);
    mbr_progress_finish(&progress_);
    EXPECT_EQ(terminal.taken(), "");
}

TEST_F(Progress, Terminal_MoreThanTheTotal_IsOneHundredPercent)
{
    Terminal terminal(80);
    start(terminal.file(), "xterm");
    update(UINT64_MAX);
    EXPECT_NE(terminal.taken().find("] 100 %  18446744073709551615 of 400"), std::string::npos);
}

TEST_F(Progress, Terminal_NoTotal_HasNoBar)
{
    Terminal terminal(80);
    start(terminal.file(), "xterm", 0);
    update(7, "x");
    EXPECT_EQ(terminal.taken(), "\rreplay 7 requests, x" + xterm_clear);
}

TEST_F(Progress, Terminal_UpdatesOftenerThanTheGap_AreDrawnTenTimesASecond)
{
    Terminal terminal(80);
    start(terminal.file(), "xterm");
    std::string all;
    for (int millisecond = 0; millisecond < 1000; millisecond++) {
        clock_.now_ns += 1000000;
        mbr_progress_update(&progress_, 1, nullptr);
        all += terminal.taken();
    }
    EXPECT_EQ(std::count(all.begin(), all.end(), '\r'), 10);
}

TEST_F(Progress, Terminal_AnyWidth_LineNeverReachesTheLastColumn)
{
    Terminal terminal(80);
    start(terminal.file(), "xterm");
    for (unsigned short columns = 1; columns <= 300; columns++) {
        terminal.resize(columns);
        update(188, "a note that is longer than most of the terminals that it is shown on, by far");
        std::string drawn = terminal.taken();
        if (columns < 21) {
            EXPECT_EQ(drawn, "") << columns;
            continue;
        }
        ASSERT_GT(drawn.size(), xterm_clear.size() + 1) << columns;
        EXPECT_EQ(drawn.front(), '\r');
        EXPECT_EQ(drawn.substr(drawn.size() - xterm_clear.size()), xterm_clear);
        EXPECT_LE(drawn.size() - 1 - xterm_clear.size(), columns - 1u) << drawn;
    }
}

TEST_F(Progress, Terminal_WidthUnknown_TheDescriptionsIsUsed)
{
    Terminal terminal(0);
    start(terminal.file(), "xterm");
    update(188, std::string(200, 'n').c_str());
    EXPECT_EQ(terminal.taken().size(), 1 + 79 + xterm_clear.size());
}

TEST_F(Progress, Terminal_PaddingOfTheDescription_IsLeftOut)
{
    Terminal terminal(80);
    start(terminal.file(), "vt100"); // clears a line with \E[K$<3>
    update(0);
    std::string drawn = terminal.taken();
    EXPECT_EQ(drawn.find('$'), std::string::npos) << drawn;
    EXPECT_EQ(drawn.substr(drawn.size() - 3), xterm_clear);
}

TEST_F(Progress, Terminal_NoteWithControlBytes_IsHarmless)
{
    Terminal terminal(120);
    start(terminal.file(), "xterm");
    update(1, "a\x1b[2J\nb\xc3\xa4");
    std::string drawn = terminal.taken();
    EXPECT_NE(drawn.find("a?[2J?b??"), std::string::npos) << drawn;
}

TEST_F(Progress, Terminal_Gone_TurnsTheDisplayOff)
{
    Terminal terminal(80);
    start(terminal.file(), "xterm");
    EXPECT_TRUE(progress_.is_on);
    terminal.hang_up();
    update(1);
    EXPECT_FALSE(progress_.is_on);
    update(2);
    mbr_progress_finish(&progress_);
}

TEST_F(Progress, Terminal_TypeThatCannotClear_DrawsNothing)
{
    Terminal terminal(80);
    for (const char *term : {"dumb", "", "no-such-terminal", static_cast<const char *>(nullptr)}) {
        start(terminal.file(), term);
        update(1, "note");
        mbr_progress_finish(&progress_);
        EXPECT_EQ(terminal.taken(), "") << (term == nullptr ? "NULL" : term);
    }
}

TEST_F(Progress, Pipe_GetsNothing)
{
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    start(ends[1], "xterm");
    update(1, "note");
    mbr_progress_finish(&progress_);
    char byte;
    EXPECT_EQ(read(ends[0], &byte, 1), -1);
    close(ends[0]);
    close(ends[1]);
}

TEST_F(Progress, File_GetsNothing)
{
    std::string path = testing::TempDir() + "/progress.txt";
    int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    ASSERT_GE(file, 0);
    start(file, "xterm");
    update(1, "note");
    mbr_progress_finish(&progress_);
    EXPECT_EQ(lseek(file, 0, SEEK_END), 0);
    close(file);
    unlink(path.c_str());
}

TEST_F(Progress, NoClockGiven_UsesTheMonotonicOne)
{
    Terminal terminal(80);
    mbr_progress_options options = {terminal.file(), "xterm", "replay", "requests", 4, nullptr};
    mbr_progress_init(&progress_, &options);
    mbr_progress_update(&progress_, 1, nullptr);
    EXPECT_NE(terminal.taken(), "");
}

} // namespace
