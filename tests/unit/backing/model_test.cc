// Everything that a backing does, at random, against a second opinion on who pays what. One life in
// two also has faults of the kind whose undo fails: then the oracles of the world alone decide.
//
// MEMBRANE_SEED replays a life, MEMBRANE_OPERATIONS sets how many operations both tests have.
#include "tests/unit/backing/life.h"

#include <cstdio>

namespace membrane
{
namespace
{

constexpr uint64_t kDefaultOperations = 210000;

uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *given = std::getenv(name);
    return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

/* So many sevenths of the operations, in lives of so many steps. */
void live(bool dirty, uint64_t sevenths, uint64_t steps)
{
    uint64_t wanted = from_environment("MEMBRANE_OPERATIONS", kDefaultOperations) * sevenths / 7;
    uint64_t seed = from_environment("MEMBRANE_SEED", 1), operations = 0, rejoined = 0;
    for (uint64_t i = 0; operations < wanted && !::testing::Test::HasFailure(); i++) {
        Life life(seed + i, dirty);
        SCOPED_TRACE(::testing::Message() << "MEMBRANE_SEED=" << seed + i);
        for (uint64_t k = 0; k < steps && !::testing::Test::HasFailure(); k++) {
            life.step();
            if (::testing::Test::HasFailure())
                std::fprintf(stderr, "failed at step %llu, operation %llu\n",
                    static_cast<unsigned long long>(k),
                    static_cast<unsigned long long>(life.what()));
        }
        life.finish();
        operations += life.operations();
        rejoined += life.stayed();
    }
    EXPECT_GT(rejoined, wanted / 200);
    std::printf("seed %llu: %llu operations\n", static_cast<unsigned long long>(seed),
        static_cast<unsigned long long>(operations));
}

TEST(BackingModel, RandomWork_WithFaultsThatAreUndone_PaysAsTheModelSays)
{
    live(false, 5, 500);
}

TEST(BackingModel, RandomWork_WithFaultsWhoseUndoFails_LosesNoByte)
{
    live(true, 2, 150);
}

} // namespace
} // namespace membrane
