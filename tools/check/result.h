/* What is known of a check after it ran, and of the whole run. */
#ifndef MEMBRANE_TOOLS_CHECK_RESULT_H
#define MEMBRANE_TOOLS_CHECK_RESULT_H

#include "tools/check/check.h"
#include "tools/check/page.h"

#define MBR_RESULT_OUTPUT_BYTES 1024

/* Lies in memory that the warden of the check shares with the tool. */
typedef struct mbr_result {
    const mbr_check *check;
    mbr_verdict verdict;
    mbr_verdict first_verdict; /* FLAKY and WAIVED: what it was before */
    mbr_skip skip;
    uint32_t slot;           /* mbr_slot, MBR_SLOT_COUNT: none */
    uint32_t phase;          /* mbr_phase */
    int signal;              /* CRASH */
    int exit_code;           /* ABORT */
    uint32_t leftover_count; /* processes that the child left behind */
    uint32_t offered;        /* MBR_NEEDS_… of the mechanism */
    uint64_t seed;
    uint64_t wall_ns;
    bool has_run;
    bool file_changed; /* the plugin's file is not what it was before the check */
    char mechanism[64];
    char plugin_name[64];
    char expected[MBR_PAGE_TEXT_BYTES];
    char observed[MBR_PAGE_TEXT_BYTES];
    char figures[MBR_PAGE_TEXT_BYTES];
    char output[MBR_RESULT_OUTPUT_BYTES]; /* the first bytes of stdout and stderr, printable */
    uint64_t output_bytes;                /* all of them */
} mbr_result;

typedef struct mbr_run {
    const char *path;    /* as given */
    char sha256[65];     /* of the file; "" if it could not be read */
    const char *refusal; /* why the file is no plugin; NULL: it may be one */
    uint32_t level;
    uint64_t seed;
    uint32_t device_index; /* of the mechanism */
    uint64_t wall_ns;
    bool is_partial; /* --only or --skip left checks out */
    mbr_result *results;
    uint32_t count;
    uint32_t totals[MBR_VERDICT_COUNT];
    uint32_t undeclared_skip_count;
    bool is_conformant;
    int exit_code;
} mbr_run;

/* Exit codes. */
#define MBR_CHECK_EXIT_CONFORMANT 0
#define MBR_CHECK_EXIT_FINDINGS 1
#define MBR_CHECK_EXIT_USAGE 2
#define MBR_CHECK_EXIT_NOT_A_PLUGIN 3
#define MBR_CHECK_EXIT_INCOMPLETE 4
#define MBR_CHECK_EXIT_TOOL 5

/* Counts the results and sets totals, is_conformant and exit_code. */
void mbr_run_judge(mbr_run *run);

/* Why the command line's mechanism cannot be judged; NULL: it can. */
const char *mbr_run_no_mechanism(const mbr_run *run);

/* The command that runs this check alone with its seed. */
void mbr_result_repro(const mbr_run *run, const mbr_result *result, char *text, uint64_t room);

/* One line: what happened, with signal, slot and phase; "" for a plain pass. */
void mbr_result_text(const mbr_result *result, char *text, uint64_t room);

#endif
