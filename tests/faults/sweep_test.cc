// Every call that can fail, failed: once and for good, before and after its effect, in every
// scenario. A first run of each counts its calls; golden.txt says how many there must be at least.
//
//   MEMBRANE_FAULT=scenario:kind:ordinal:before|after:once|for_good[,…]   replays one run
//   MEMBRANE_FAULT_GOLDEN=FILE   appends what was counted, to replace golden.txt
//   MEMBRANE_PAIRS=N             instead, about N pairs of faults over all scenarios
//   (MEMBRANE_SEED)
//   --stride=N                   every Nth fault alone
extern "C" {
#include "tests/faults/world.h"
}

#include <gtest/gtest.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

extern "C" {
struct fault_hooks fault_hooks;
const char *fault_plugin_path = "tests/faults/libmembrane-seams.so";
}

namespace
{

std::vector<const scenario *> AllScenarios()
{
    std::vector<const scenario *> all;
    for (const scenario *table : {alloc_scenarios, range_scenarios, prefix_scenarios, ep_scenarios,
             plugin_scenarios, budget_scenarios, kv_scenarios, paged_scenarios, sleep_scenarios})
        for (; table->name != nullptr; table++)
            all.push_back(table);
    return all;
}

std::string golden_path = "tests/faults/golden.txt";

// Its code stays, so that a run does not load it again, and can be called after its end. Without a
// hello it says no more than what it is, by the hooks.
bool StartPlugin(const char *path)
{
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr)
        return false;
    auto entry = reinterpret_cast<mbr_entry_function>(dlsym(file, MBR_ENTRY_SYMBOL));
    return entry != nullptr && entry(nullptr, nullptr, nullptr) != MBR_OK;
}

// A folder that the loader trusts; the runfiles' is not ours to judge.
bool CopyPlugin()
{
    const char *temporary = std::getenv("TEST_TMPDIR");
    if (temporary == nullptr)
        return false;
    std::filesystem::path folder = std::filesystem::path(temporary) / "plugins";
    std::filesystem::create_directory(folder);
    std::filesystem::permissions(folder, std::filesystem::perms(0755));
    std::filesystem::path copy = folder / "libmembrane-seams.so";
    std::filesystem::copy_file(
        fault_plugin_path, copy, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::permissions(copy, std::filesystem::perms(0644));
    return StartPlugin(copy.c_str());
}

struct Counts {
    std::map<std::string, uint64_t> calls; // by kind
    std::vector<fault_plan> faults;        // each is made once, and for good
    uint64_t points = 0;
};

size_t stride = 1;

std::string Describe(const scenario &one, const std::vector<fault_plan> &plans)
{
    std::string text;
    for (const fault_plan &plan : plans)
        text += (text.empty() ? "" : ",") + std::string(one.name) + ":" +
            fault_kind_name(plan.kind) + ":" + std::to_string(plan.ordinal) +
            (plan.after ? ":after" : ":before") + (plan.for_good ? ":for_good" : ":once");
    return text;
}

// The whole scenario with these faults. The text says what was wrong; "": nothing.
std::string Play(const scenario &one, const std::vector<fault_plan> &plans)
{
    static struct world world;
    jmp_buf failed;
    std::memset(&world, 0, sizeof(world));
    world.failed = &failed;
    world.error.struct_size = sizeof(world.error);
    fault_hooks.owned_bytes = fault_hooks.mapped_bytes = fault_hooks.late_calls = 0;
    fault_hooks.is_lost = fault_hooks.has_ended = false;
    fault_seams_begin();
    fault_begin(plans.data(), static_cast<uint32_t>(plans.size()));
    if (setjmp(failed) == 0) {
        if (!one.setup.counts_setup)
            fault_pause();
        if (!one.setup.is_bare)
            world_build(&world, &one.setup);
        if (!one.setup.counts_setup)
            fault_resume();
        world.setup = &one.setup;
        one.run(&world);
        world_end(&world);
    }
    if (fault_hooks.purge != nullptr)
        fault_hooks.purge();
    return world.failure;
}

Counts Discover(const scenario &one, std::string *failure)
{
    Counts counts;
    *failure = Play(one, {});
    for (int kind = 0; kind < FAULT_KIND_COUNT; kind++) {
        uint64_t calls = fault_call_count(kind);
        if (calls != 0)
            counts.calls[fault_kind_name(kind)] = calls;
        counts.points += calls;
        for (uint64_t ordinal = 1; ordinal <= calls; ordinal++) {
            counts.faults.push_back({kind, ordinal, false, false});
            if (fault_has_after(kind, ordinal))
                counts.faults.push_back({kind, ordinal, true, false});
        }
    }
    return counts;
}

// ---- Golden counts

using Golden = std::map<std::string, std::map<std::string, uint64_t>>; // scenario, kind

const Golden &ReadGolden()
{
    static const Golden golden = [] {
        Golden read;
        std::ifstream file(golden_path);
        std::string line;
        while (std::getline(file, line)) {
            std::istringstream words(line);
            std::string name, kind;
            uint64_t count;
            words >> name;
            while (words >> kind >> count)
                read[name][kind] = count;
        }
        return read;
    }();
    return golden;
}

void WriteGolden(const scenario &one, const Counts &counts)
{
    const char *path = std::getenv("MEMBRANE_FAULT_GOLDEN");
    if (path == nullptr)
        return;
    std::ofstream file(path, std::ios::app);
    file << one.name;
    file << " faults " << counts.faults.size();
    for (const auto &[kind, count] : counts.calls)
        file << " " << kind << " " << count;
    file << "\n";
}

// A call point that is not met any more is a fault that is not tried any more.
void ExpectGolden(const scenario &one, const Counts &counts)
{
    auto wanted = ReadGolden().find(one.name);
    ASSERT_NE(wanted, ReadGolden().end()) << "golden.txt has no line for " << one.name;
    for (const auto &[kind, count] : wanted->second) {
        if (kind == "faults") {
            EXPECT_GE(counts.faults.size(), count) << "faults of " << one.name;
            continue;
        }
        auto found = counts.calls.find(kind);
        EXPECT_GE(found == counts.calls.end() ? 0 : found->second, count)
            << kind
            << " is called less often than golden.txt says; if that is meant, write it anew: "
            << "tests/faults/golden.sh";
    }
}

// ---- One fault

// Whether every run has this call. A call beyond those may be due to where the system put memory: a
// further leaf of the address map, where a span lies across two.
bool IsInEachRun(const scenario &one, const fault_plan &plan)
{
    auto named = ReadGolden().find(one.name);
    if (named == ReadGolden().end())
        return true;
    auto counted = named->second.find(fault_kind_name(plan.kind));
    return counted == named->second.end() || plan.ordinal <= counted->second;
}

// Of this plugin.
std::string Target()
{
    const char *target = std::getenv("TEST_TARGET");
    return target != nullptr ? target : "//tests/faults:sweep_test";
}

bool Expect(const scenario &one, const std::vector<fault_plan> &plans)
{
    std::string failure = Play(one, plans);
    if (plans.size() == 1 && failure.empty() && fault_met_count() == 0 &&
        IsInEachRun(one, plans[0]))
        failure = "the fault was not met";
    if (failure.empty())
        return true;
    ADD_FAILURE() << failure << "\nreplay: bazel test " << Target()
                  << " --test_output=all --test_env=MEMBRANE_FAULT=" << Describe(one, plans);
    return false;
}

// ---- The sweep

class Sweep : public testing::TestWithParam<const scenario *>
{
};

// Faults of this scenario that the environment names; none: all.
std::vector<fault_plan> Replayed(const scenario &one)
{
    std::vector<fault_plan> plans;
    const char *named = std::getenv("MEMBRANE_FAULT");
    std::istringstream list(named == nullptr ? "" : named);
    std::string text;
    while (std::getline(list, text, ',')) {
        std::replace(text.begin(), text.end(), ':', ' ');
        std::istringstream words(text);
        std::string name, kind, when, how;
        fault_plan plan = {};
        words >> name >> kind >> plan.ordinal >> when >> how;
        plan.kind = fault_kind_find(kind.c_str());
        plan.after = when == "after";
        plan.for_good = how == "for_good";
        if (name == one.name && plan.kind >= 0)
            plans.push_back(plan);
    }
    return plans;
}

void PlayAll(const scenario &one, const Counts &counts)
{
    int failures = 0;
    uint64_t tried = 0;
    for (size_t i = 0; i < counts.faults.size() && failures < 8; i += stride) {
        fault_plan plan = counts.faults[i];
        for (bool for_good : {false, true}) {
            plan.for_good = for_good;
            failures += !Expect(one, {plan});
        }
        tried++;
    }
    std::cout << one.name << ": " << counts.points << " call points, " << tried << " faults\n";
}

void PlayPairs(const scenario &one, const Counts &counts, uint64_t pairs)
{
    const char *given = std::getenv("MEMBRANE_SEED");
    uint64_t seed = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
    std::mt19937_64 random(seed ^ std::hash<std::string>()(one.name));
    uint64_t met = 0;
    int failures = 0;
    for (uint64_t i = 0; i < pairs && failures < 8; i++) {
        std::vector<fault_plan> plans;
        for (int k = 0; k < 2; k++) {
            plans.push_back(counts.faults[random() % counts.faults.size()]);
            plans.back().for_good = random() % 4 == 0;
        }
        failures += !Expect(one, plans);
        met += fault_plan_met(0) != nullptr && fault_plan_met(1) != nullptr;
    }
    std::cout << one.name << ": " << met << " pairs met\n";
}

bool IsOfAnotherMemory(const scenario &one)
{
    return (one.setup.is_of_host && fault_hooks.tier != MBR_TIER_HOST) ||
        (one.setup.outlives && fault_hooks.first_kind == FAULT_HIP_FIRST);
}

TEST_P(Sweep, EveryFault_IsRefusedAsDocumentedAndThenItWorks)
{
    const scenario &one = *GetParam();
    if (IsOfAnotherMemory(one))
        GTEST_SKIP()
            << "it is about memory that the processor reaches, or that outlives a lost device";
    std::string failure;
    Counts counts = Discover(one, &failure);
    ASSERT_EQ(failure, "") << one.name << " without a fault";
    WriteGolden(one, counts);
    std::vector<fault_plan> replayed = Replayed(one);
    const char *pairs = std::getenv("MEMBRANE_PAIRS");
    if (std::getenv("MEMBRANE_FAULT") != nullptr) {
        EXPECT_TRUE(replayed.empty() || Expect(one, replayed));
    } else if (pairs != nullptr) {
        PlayPairs(one, counts, std::strtoull(pairs, nullptr, 10) / AllScenarios().size() + 1);
    } else {
        ExpectGolden(one, counts);
        PlayAll(one, counts);
    }
}

const std::set<std::string> kNotReached = {
    // The host never calls these slots.
    "allocator.trim", "virtual.query",
    // These look at what another failure has left, so that only pairs of faults meet them.
    "os.file_owned", "os.inspect", "loader.readlink", "cuMemGetAccess", "cuMemGetAddressRange_v2",
    "cuGetErrorName", "cuGetErrorString", "hipMemGetAddressRange",
    // A plugin asks once a process.
    "cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGetAttribute", "cuDeviceGetName",
    "cuDeviceGetUuid_v2", "cuDeviceGetPCIBusId", "cuDeviceTotalMem_v2", "hipInit",
    "hipRuntimeGetVersion", "hipGetDeviceCount", "hipDeviceGetAttribute", "hipDeviceGetName",
    "hipDeviceGetUuid", "hipDeviceGetPCIBusId", "hipDeviceTotalMem",
    // Of other mechanisms, other devices than the current one, and a context that the client names:
    // tests/unit/plugins_gpu.
    "cuMemHostAlloc", "cuMemFreeHost", "cuMemAllocManaged", "cuCtxGetDevice", "hipHostMalloc",
    "hipHostFree", "hipMallocManaged", "hipSetDevice"};

bool IsOfAnotherPlugin(int kind)
{
    bool is_below = kind >= FAULT_SLOT_COUNT && kind < FAULT_PLUGIN_HEAP;
    return is_below && (kind < fault_hooks.first_kind || kind > fault_hooks.last_kind);
}

TEST(SweepGolden, AllScenarios_ReachEveryKindOfCallAndAreEnough)
{
    std::map<std::string, uint64_t> reached;
    uint64_t faults = 0;
    size_t scenarios = 0;
    for (const scenario *one : AllScenarios()) {
        if (IsOfAnotherMemory(*one))
            continue;
        scenarios++;
        auto line = ReadGolden().find(one->name);
        ASSERT_NE(line, ReadGolden().end()) << one->name;
        for (const auto &[kind, count] : line->second)
            (kind == "faults" ? faults : reached[kind]) += count;
    }
    EXPECT_EQ(ReadGolden().size(), scenarios) << "a scenario is gone, its line is not";
    EXPECT_GE(scenarios, 40u);
    EXPECT_GE(faults, 20000u);
    for (int kind = 0; kind < FAULT_KIND_COUNT; kind++)
        EXPECT_EQ(reached[fault_kind_name(kind)] == 0,
            IsOfAnotherPlugin(kind) || kNotReached.count(fault_kind_name(kind)) != 0)
            << fault_kind_name(kind);
    std::cout << scenarios << " scenarios, " << faults << " faults\n";
}

INSTANTIATE_TEST_SUITE_P(Faults, Sweep, testing::ValuesIn(AllScenarios()),
    [](const auto &info) { return std::string(info.param->name); });

} // namespace

int main(int argc, char **argv)
{
    char place[32];
    std::snprintf(place, sizeof(place), "%" PRIxPTR, reinterpret_cast<uintptr_t>(&fault_hooks));
    setenv(FAULT_HOOKS_VARIABLE, place, 1);
    fault_hooks.meet = fault_meet;
    fault_hooks.heap = &fault_plugin_heap;
    testing::InitGoogleTest(&argc, argv);
    for (int i = 1; i < argc; i++) {
        std::sscanf(argv[i], "--stride=%zu", &stride);
        if (std::strncmp(argv[i], "--plugin=", 9) == 0)
            fault_plugin_path = argv[i] + 9;
        if (std::strncmp(argv[i], "--golden=", 9) == 0)
            golden_path = argv[i] + 9;
    }
    if (!StartPlugin(fault_plugin_path) || !CopyPlugin())
        return 1;
    return RUN_ALL_TESTS();
}
