/* Breaks one equation of a context's books on purpose, and mends it again: the audit is tested too.
 * For tests alone. */
#ifndef MEMBRANE_TESTS_UNIT_EP_TAMPER_H
#define MEMBRANE_TESTS_UNIT_EP_TAMPER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mbr_context;

/* The number of faults. Each needs an entry in an open epoch, one signalled epoch that waits and
 * one that could not be signalled. */
uint32_t tamper_count(void);
/* Adds `by` to the figure of the fault; the same with -by mends it. */
void tamper(struct mbr_context *context, uint32_t fault, int64_t by);

/* What C++ cannot read: captures that begin or are open, whether one closes a gate of the context,
 * and whether a flag is up. */
struct mbr_fork_flag;
uint32_t peek_captures(const struct mbr_context *context);
bool peek_gated(const struct mbr_context *context);
bool peek_flag(const struct mbr_fork_flag *flag);

#ifdef __cplusplus
}
#endif

#endif
