// Many schedules of one scenario, in a process of their own, so that whatever a schedule breaks
// ends with it: the first failure ends the search and comes back as a report.
//
// MEMBRANE_SCHEDULES sets how many random schedules a scenario has, and how many an exhaustive
// search has at most. MEMBRANE_SCHEDULE replays one: the number or the path that a failure prints.
#ifndef MEMBRANE_TESTS_SCHED_EXPLORE_H
#define MEMBRANE_TESTS_SCHED_EXPLORE_H

#include "tests/sched/engine.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sched_test
{

// What a scenario draws for one schedule; equal for equal schedules.
class Draw
{
  public:
    explicit Draw(uint64_t seed) : random_{seed ^ UINT64_C(0x5ced5ced)} {}

    uint64_t From(uint64_t least, uint64_t most)
    {
        return least + sched_random_below(&random_, most - least + 1);
    }

    bool Coin() { return From(0, 1) == 1; }

  private:
    sched_random random_;
};

// The world of one schedule: made before its bodies start, judged when they have ended.
class Scenario
{
  public:
    virtual ~Scenario() = default;
    virtual std::vector<std::function<void()>> Bodies() = 0;
    // Between any two steps; `fiber` made the last one. Only reads.
    virtual void Look(uint8_t fiber) { (void)fiber; }
    // Whether waits end by signals alone, so that a signal that is missed is a failure.
    virtual bool WaitsStay() const { return false; }
    virtual void Judge() = 0;
};

using MakeScenario = std::function<std::unique_ptr<Scenario>(Draw &)>;

template <typename S> MakeScenario Make()
{
    return [](Draw &draw) { return std::make_unique<S>(draw); };
}

// Run once before all schedules, each fiber one step in turn: what only a process's first use does
// is then done. The world has it.
MakeScenario FirstUse();

// A failed check ends the schedule and the search.
#define SCHED_REQUIRE(condition, ...)                                                              \
    do {                                                                                           \
        if (!(condition))                                                                          \
            sched_test::FailCheck(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                \
    } while (0)

[[noreturn]] void FailCheck(const char *file, int line, const char *condition, const char *format,
    ...) __attribute__((format(printf, 4, 5)));

struct Outcome {
    bool failed = false;
    uint64_t schedules = 0, different = 0;
    std::string text; // why, how to replay, and the last steps
};

Outcome ExploreRandom(const MakeScenario &make, sched_fault fault = SCHED_NO_FAULT);
// Every schedule with at most `preemptions` switches away from a fiber that could go on.
Outcome ExploreAll(const MakeScenario &make, int preemptions, sched_fault fault = SCHED_NO_FAULT);

// As a test: nothing fails. In a program whose product lacks a step, the contrary.
void ExpectHolds(const Outcome &outcome);
// The same of an exhaustive search, which had at least so many schedules: one that has become
// smaller is seen here, and whoever took a step out of the product or the scenario says the new
// number.
void ExpectHoldsInAll(const Outcome &outcome, uint64_t schedules);
void ExpectFaults();
// As a test of the test: a fault is seen.
void ExpectCaught(const Outcome &outcome);

} // namespace sched_test

#endif
