/* The command line of membrane-check. */
#ifndef MEMBRANE_TOOLS_CHECK_OPTIONS_H
#define MEMBRANE_TOOLS_CHECK_OPTIONS_H

#include "tools/check/check.h"

#define MBR_PATTERNS_MAX 64

typedef enum mbr_format {
    MBR_FORMAT_HUMAN,
    MBR_FORMAT_TAP,
    MBR_FORMAT_JUNIT,
    MBR_FORMAT_JSON
} mbr_format;

typedef struct mbr_check_options {
    const char *plugin;
    uint32_t level, job_count, timeout_ms, device_index;
    uint64_t seed;
    const char *only[MBR_PATTERNS_MAX], *skip[MBR_PATTERNS_MAX];
    uint32_t only_count, skip_count;
    const char *waivers, *output, *explain;
    const mbr_check *repro; /* --repro's check; its seed is in `seed` */
    mbr_format format;
    bool in_process, list, contract, self_test;
} mbr_check_options;

/* Fills in the options, or prints what is wrong on one line of stderr and answers an exit code. */
bool mbr_check_options_read(mbr_check_options *options, int argc, char **argv, int *exit_code);

/* Whether --level, --only and --skip (or --repro) choose the check. */
bool mbr_check_options_choose(const mbr_check_options *options, const mbr_check *check);

#endif
