/* Assertions hold the programmer of Membrane to account; a peer's bad input is a status code.
 * MBR_ASSERT costs nothing in a release build (NDEBUG); MBR_CHECK stays in every build and guards
 * what would otherwise corrupt the ledger or hand out memory twice. */
#ifndef MEMBRANE_BASE_ASSERT_H
#define MEMBRANE_BASE_ASSERT_H

__attribute__((noreturn)) void mbr_assert_failed(
    const char *expression, const char *file, int line);

#define MBR_CHECK(expression)                                                                      \
    ((expression) ? (void)0 : mbr_assert_failed(#expression, __FILE__, __LINE__))

#ifdef NDEBUG
#define MBR_ASSERT(expression) ((void)sizeof(expression))
#else
#define MBR_ASSERT(expression) MBR_CHECK(expression)
#endif

#endif
