// Everything that a backing does, at random, against a second opinion on who pays what. One life in
// two also has faults of the kind whose undo fails: then the oracles of the world alone decide.
#include "tests/unit/backing/life.h"

#include <cstdio>

namespace membrane
{
namespace
{

uint64_t seed_of_run()
{
    const char *given = std::getenv("MEMBRANE_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

void live(bool dirty, uint64_t lives, uint64_t steps)
{
    uint64_t seed = seed_of_run(), operations = 0;
    for (uint64_t i = 0; i < lives && !::testing::Test::HasFailure(); i++) {
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
    }
    std::printf("seed %llu: %llu operations\n", static_cast<unsigned long long>(seed),
        static_cast<unsigned long long>(operations));
}

TEST(BackingModel, RandomWork_WithFaultsThatAreUndone_PaysAsTheModelSays)
{
    live(false, 300, 500);
}

TEST(BackingModel, RandomWork_WithFaultsWhoseUndoFails_LosesNoByte)
{
    live(true, 400, 150);
}

} // namespace
} // namespace membrane
