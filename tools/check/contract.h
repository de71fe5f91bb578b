/* The contract's rules as a page: what, why, who checks it, what breaking it leads to, and the
 * checks that fail a plugin for it. docs/contract.md is what this prints. */
#ifndef MEMBRANE_TOOLS_CHECK_CONTRACT_H
#define MEMBRANE_TOOLS_CHECK_CONTRACT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mbr_rule {
    uint32_t number;
    const char *what;
    const char *why;
    const char *keeper; /* who finds a breach besides this tool */
    const char *result; /* of breaking it */
} mbr_rule;

/* In rising order of their numbers. */
extern const mbr_rule mbr_rules[];
extern const uint32_t mbr_rule_count;

/* Whether a check's `rules` name the rule: "C7, C22" names 7 and 22. */
bool mbr_rules_name(const char *rules, uint32_t number);

/* The rule of an id such as "C7", or NULL. */
const mbr_rule *mbr_rule_find(const char *id);

/* Its text and its reason, as docs/contract.md has them. */
void mbr_rule_print(const mbr_rule *rule, FILE *to);

/* The page, as Markdown. False: it cannot be written. */
bool mbr_contract_print(FILE *to);

#endif
