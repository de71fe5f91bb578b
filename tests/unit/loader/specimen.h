/* What the specimen exports beside its entry: counts of what the host called. */
#ifndef MEMBRANE_TESTS_UNIT_LOADER_SPECIMEN_H
#define MEMBRANE_TESTS_UNIT_LOADER_SPECIMEN_H

#include "membrane/membrane_plugin.h"

typedef struct specimen_counts {
    uint64_t entries, opens, closes, quiesces, reports;
    uint64_t live; /* instances */
    uint64_t last_deadline_ns;
    uint64_t last_minor;
} specimen_counts;

#endif
