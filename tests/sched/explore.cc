// Responsible for the search over schedules: the process it runs in, its seeds and paths, its
// counts, and the text of a failure. Never decides what a scenario must keep.
#include "tests/sched/explore.h"

#include "tests/sched/journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unordered_set>

namespace sched_test
{

namespace
{

constexpr uint64_t kDefaultSchedules = 15000;
constexpr uint64_t kTwinSchedules = 20000; // the most, where a fault must be seen
constexpr uint64_t kFirstSeed = 20240229;

bool faults_expected = false;

struct Search {
    const MakeScenario &make;
    sched_fault fault;
    bool exhaustive;
    int preemptions;
    sched_report *report;
    sched_choice choice = {};
    std::unordered_set<uint64_t> hashes = {};
};

uint64_t FromEnvironment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == nullptr ? otherwise : strtoull(text, nullptr, 10);
}

// Where a fault must be seen, whatever the environment asks for.
uint64_t ScheduleCount(const Search &search)
{
    if (faults_expected || search.fault != SCHED_NO_FAULT)
        return search.exhaustive ? UINT64_MAX : kTwinSchedules;
    return FromEnvironment(
        "MEMBRANE_SCHEDULES", search.exhaustive ? UINT64_MAX : kDefaultSchedules);
}

void RunBody(void *context)
{
    (*static_cast<std::function<void()> *>(context))();
}

void LookAt(void *context, uint8_t fiber)
{
    static_cast<Scenario *>(context)->Look(fiber);
}

// The choice has begun already.
void RunOne(Search *search, const MakeScenario &make, uint64_t seed)
{
    search->report->seed = seed;
    const testing::TestInfo *test = testing::UnitTest::GetInstance()->current_test_info();
    sched_journal_begin(test->test_suite_name(), test->name(), seed);
    Draw draw(seed);
    std::unique_ptr<Scenario> scenario = make(draw);
    std::vector<std::function<void()>> work = scenario->Bodies();
    std::vector<sched_body> bodies;
    for (std::function<void()> &body : work)
        bodies.push_back({RunBody, &body});
    sched_rules rules = {LookAt, scenario.get(), scenario->WaitsStay()};
    sched_run(bodies.data(), static_cast<int>(bodies.size()), &rules);
    scenario->Judge();
    scenario.reset();
    sched_journal_line("end");
}

void Count(Search *search)
{
    search->report->schedule_count++;
    if (search->hashes.insert(sched_schedule_hash()).second)
        search->report->different_count++;
}

// Half of the schedules with one change of priority, half with two.
void RunSeed(Search *search, uint64_t seed)
{
    sched_choice_begin_random(&search->choice, seed, 2 + static_cast<int>(seed % 2));
    RunOne(search, search->make, seed);
    Count(search);
}

void RunInTurn(Search *search, const MakeScenario &make)
{
    sched_choice_begin_random(&search->choice, kFirstSeed, 0);
    RunOne(search, make, kFirstSeed);
}

// From now on the same choices lead to the same schedule; and how long one is.
void Rehearse(Search *search)
{
    RunInTurn(search, FirstUse());
    RunInTurn(search, search->make);
    search->choice.steps_expected = search->report->step_count;
}

void RunRandom(Search *search)
{
    const char *replay = getenv("MEMBRANE_SCHEDULE");
    if (replay != nullptr) {
        RunSeed(search, strtoull(replay, nullptr, 10));
        return;
    }
    uint64_t count = ScheduleCount(*search);
    for (uint64_t i = 0; i < count; i++)
        RunSeed(search, kFirstSeed + i);
}

void ReadPath(sched_choice *choice, const char *text)
{
    for (const char *at = text; at != nullptr; at = strchr(at, '.')) {
        at += *at == '.';
        choice->path[choice->path_length] = static_cast<uint8_t>(strtoul(at, nullptr, 10));
        choice->path_length++;
    }
}

void RunAll(Search *search)
{
    const char *replay = getenv("MEMBRANE_SCHEDULE");
    if (replay != nullptr)
        ReadPath(&search->choice, replay);
    uint64_t most = ScheduleCount(*search);
    do {
        sched_choice_begin_path(&search->choice);
        RunOne(search, search->make, kFirstSeed);
        Count(search);
    } while (replay == nullptr && search->report->schedule_count < most &&
        sched_choice_next_path(&search->choice));
}

[[noreturn]] void RunChild(Search *search)
{
    search->choice.preemption_limit = search->preemptions;
    sched_init(search->report, &search->choice, search->fault);
    sched_journal_open(getenv("MEMBRANE_JOURNAL"));
    Rehearse(search);
    search->choice.exhaustive = search->exhaustive;
    if (search->exhaustive)
        RunAll(search);
    else
        RunRandom(search);
    _exit(0);
}

// ---- What a failure says
const char *NameOf(uint8_t kind)
{
    static const char *const names[SCHED_KIND_COUNT] = {
        "load", "store", "change", "fence", "take", "drop", "wait", "signal", "callback"};
    return names[kind];
}

std::string StepsOf(const sched_report &report)
{
    uint64_t first =
        report.step_count > SCHED_STEPS_SHOWN ? report.step_count - SCHED_STEPS_SHOWN : 0;
    std::string text;
    for (uint64_t i = first; i < report.step_count; i++) {
        const sched_step &step = report.steps[i % SCHED_STEPS_SHOWN];
        char line[256];
        snprintf(line, sizeof(line), "%*s%c %-8s %p  %s:%d\n", 2 + 4 * step.fiber, "",
            'A' + step.fiber, NameOf(step.kind), step.object, step.file, step.line);
        text += line;
    }
    return text;
}

std::string Describe(const Search &search, int status)
{
    const sched_report &report = *search.report;
    std::string text = report.failed ? report.text : "the process died";
    if (!report.failed && WIFSIGNALED(status))
        text += std::string(" of signal ") + strsignal(WTERMSIG(status));
    std::string schedule = search.exhaustive ? report.path : std::to_string(report.seed);
    text += "\nafter " + std::to_string(report.schedule_count) +
        " schedules; replay: --test_env=MEMBRANE_SCHEDULE=" + schedule + " --test_filter=" +
        testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() + "." +
        testing::UnitTest::GetInstance()->current_test_info()->name();
    return text + "\nits last steps:\n" + StepsOf(report);
}

Outcome Explore(Search *search)
{
    void *shared = mmap(
        nullptr, sizeof(sched_report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
    search->report = static_cast<sched_report *>(shared);
    fflush(nullptr);
    pid_t child = fork();
    if (child == 0)
        RunChild(search);
    int status = 0;
    while (waitpid(child, &status, 0) != child) {
    }
    Outcome outcome;
    outcome.failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    outcome.schedules = search->report->schedule_count;
    outcome.different = search->report->different_count;
    if (outcome.failed)
        outcome.text = Describe(*search, status);
    munmap(shared, sizeof(sched_report));
    return outcome;
}

} // namespace

void FailCheck(const char *file, int line, const char *condition, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    sched_fail("%s:%d: does not hold: %s%s", file, line, condition, text);
}

Outcome ExploreRandom(const MakeScenario &make, sched_fault fault)
{
    Search search = {make, fault, false, 0, nullptr};
    return Explore(&search);
}

Outcome ExploreAll(const MakeScenario &make, int preemptions, sched_fault fault)
{
    Search search = {make, fault, true, preemptions, nullptr};
    return Explore(&search);
}

void ExpectFaults()
{
    faults_expected = true;
}

void ExpectHolds(const Outcome &outcome)
{
    if (faults_expected) {
        ExpectCaught(outcome);
        return;
    }
    printf("%llu schedules, %llu different\n", static_cast<unsigned long long>(outcome.schedules),
        static_cast<unsigned long long>(outcome.different));
    testing::Test::RecordProperty("schedules", std::to_string(outcome.schedules));
    EXPECT_FALSE(outcome.failed) << outcome.text;
    EXPECT_TRUE(outcome.different > 1 || outcome.schedules <= 1) << "the schedules do not differ";
}

void ExpectHoldsInAll(const Outcome &outcome, uint64_t schedules)
{
    ExpectHolds(outcome);
    if (faults_expected || getenv("MEMBRANE_SCHEDULE") != nullptr)
        return;
    EXPECT_GE(
        outcome.schedules, std::min(schedules, FromEnvironment("MEMBRANE_SCHEDULES", UINT64_MAX)))
        << "the search has become smaller";
}

void ExpectCaught(const Outcome &outcome)
{
    EXPECT_TRUE(outcome.failed) << "nothing was seen in " << outcome.schedules << " schedules, "
                                << outcome.different << " different";
    printf("%s\n", outcome.text.substr(0, outcome.text.find("\nits last steps")).c_str());
}

} // namespace sched_test
