/* What the report of one trace and that of several tenants have in common; for the files of this
 * folder alone. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_REPORT_H
#define MEMBRANE_TOOLS_CLI_REPLAY_REPORT_H

#include "tools/cli/replay/tenants.h"

#include <jansson.h>

json_t *replay_json_count(uint64_t value);
json_t *replay_json_text(const char *from);
/* The first two figures of P16 (docs/performance.md), each with its verdict, and how much of the
 * shareable bytes came shared. */
typedef struct replay_ratio {
    const char *name, *what;
    double value, goal, floor;
    bool known, higher_is_better;
    bool judged; /* false: what was given up for room is no loss of the cache's */
} replay_ratio;

#define REPLAY_RATIO_COUNT 3
void replay_ratios(const mbr_replay_report *report, replay_ratio ratios[REPLAY_RATIO_COUNT]);
const char *replay_ratio_verdict(const replay_ratio *ratio);
double replay_mean(const mbr_replay_report *report, const mbr_replay_series *series);

/* What was verified and what is left: "contents", "oracle", "final", "seconds", "audit",
 * "interrupted". */
bool replay_json_set_end(json_t *root, const mbr_replay_report *report);
uint64_t replay_largest_extent_bytes(const mbr_replay_report *report);

/* The same as lines of text. */
void replay_print_end(const mbr_replay_report *report);

#endif
