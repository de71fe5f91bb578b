// The lives of model_test.cc on a real mechanism: whatever the fake carries out, the plugin does
// too, with the same figures; each group's bytes are really there, and nobody else's.
//
// MEMBRANE_SEED replays a life, MEMBRANE_OPERATIONS sets how many operations both tests have.
#include "tests/unit/backing/life.h"

#include <cstdio>

namespace membrane
{
namespace
{

constexpr uint64_t kDefaultOperations = 50000;

uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *given = std::getenv(name);
    return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

void live(bool dirty, uint64_t steps)
{
    uint64_t wanted = from_environment("MEMBRANE_OPERATIONS", kDefaultOperations) / 2;
    uint64_t seed = from_environment("MEMBRANE_SEED", 1), operations = 0, calls = 0;
    for (uint64_t i = 0; operations < wanted && !::testing::Test::HasFailure(); i++) {
        SCOPED_TRACE(::testing::Message() << "MEMBRANE_SEED=" << seed + i);
        RealBelow real;
        {
            Life life(seed + i, dirty, &real);
            for (uint64_t k = 0; k < steps && !::testing::Test::HasFailure(); k++)
                life.step();
            life.finish();
            operations += life.operations();
        }
        calls += real.calls();
    }
    EXPECT_GT(calls, wanted) << "each operation makes some";
    std::printf("seed %llu: %llu operations, %llu calls of %s\n",
        static_cast<unsigned long long>(seed), static_cast<unsigned long long>(operations),
        static_cast<unsigned long long>(calls), plugin_under_test().path);
}

TEST(RealModel, RandomWork_WithFaultsThatAreUndone_IsDoneByThePluginAsByTheModel)
{
    live(false, 500);
}

TEST(RealModel, RandomWork_WithFaultsWhoseUndoFails_LosesNoByteOfThePlugin)
{
    live(true, 150);
}

} // namespace
} // namespace membrane
