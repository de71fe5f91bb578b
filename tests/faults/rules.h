/* What a slot that fails as planned answers, and whether its failure after the effect is told
 * apart. The plugin answers it, and the sweep expects it. */
#ifndef MEMBRANE_TESTS_FAULTS_RULES_H
#define MEMBRANE_TESTS_FAULTS_RULES_H

#include "tests/faults/fault.h"

struct fault_rule {
    mbr_status status;
    bool has_after; /* it changes something */
};

extern const struct fault_rule fault_rules[FAULT_SLOT_COUNT];

#endif
