/* A holder that is asked for bytes gives those of quiet streams, and a stream is quiet that answers
 * in time: on a loaded machine an idle one may not. So tests ask again. */
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_SOON_H
#define MEMBRANE_TESTS_UNIT_HOLDER_SOON_H

#include <cstdint>

namespace membrane
{

constexpr int kSoonTries = 1000;

/* What it could give, once that is `expected`. */
template <typename Ask> uint64_t soon(uint64_t expected, Ask ask)
{
    uint64_t bytes = ask();
    for (int tries = 0; tries < kSoonTries && bytes != expected; tries++)
        bytes = ask();
    return bytes;
}

/* What it gives in all, until that is `expected` or more. */
template <typename Give> uint64_t given_soon(uint64_t expected, Give give)
{
    uint64_t bytes = give(expected);
    for (int tries = 0; tries < kSoonTries && bytes < expected; tries++)
        bytes += give(expected - bytes);
    return bytes;
}

} // namespace membrane

#endif
