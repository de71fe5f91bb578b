/* What a check is, and the list of all checks.
 *
 * A check is one row and one function. The function runs in a child process of its own that has
 * brought the plugin to the row's stage; it says what it finds through trial.h. How one is written:
 * docs/check.md. */
#ifndef MEMBRANE_TOOLS_CHECK_CHECK_H
#define MEMBRANE_TOOLS_CHECK_CHECK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mbr_trial mbr_trial;

/* How far the child goes with the plugin before the check runs. What fails on the way is not this
 * check's finding: the check is blocked, and the check that opens the stage tells why. */
typedef enum mbr_stage {
    MBR_STAGE_FILE,    /* nothing is loaded */
    MBR_STAGE_LOADED,  /* dlopen and the entry's address */
    MBR_STAGE_GREETED, /* the entry has answered minor 0 with a table */
    MBR_STAGE_OPENED,  /* one mechanism is open, its capabilities are fetched */
    MBR_STAGE_COUNT,
} mbr_stage;

/* What a plugin must offer for a check to apply; without it the check is skipped by declaration. */
#define MBR_NEEDS_VIRTUAL 1u
#define MBR_NEEDS_SHARED 2u
#define MBR_NEEDS_ORDER 4u
#define MBR_NEEDS_TRANSFER 8u
#define MBR_NEEDS_HOST_ACCESS 16u  /* MBR_FACT_HOST_ACCESSIBLE */
#define MBR_NEEDS_READ_ONLY 32u    /* MBR_FACT_READ_ONLY_ENFORCED */
#define MBR_NEEDS_HOST_ORACLE 128u /* memory that the system's own figures show: host domain */
#define MBR_NEEDS_FORK_SAFE 256u   /* MBR_FACT_FORK_SAFE */

/* Flags of a row. */
#define MBR_CHECK_GATE 1u   /* not passed: the file is no loadable plugin (exit 3) */
#define MBR_CHECK_OPENS 2u  /* does what the next stage does; not passed: later ones are blocked */
#define MBR_CHECK_OUTPUT 4u /* what the child prints is its finding; elsewhere a warning */
#define MBR_CHECK_LEFTOVERS 8u /* processes left behind are its finding; elsewhere a warning */
#define MBR_CHECK_ALONE                                                                            \
    16u                      /* runs with no other check beside it: it measures time or the system \
                              */
#define MBR_CHECK_CLOSES 32u /* the child closes its instance after the check, as a host would */

/* Rules that hold for every call. The drivers look at each of them in every call, and tell it only
 * where the row owns it (`verifies`), so that one fault is one finding. */
#define MBR_BREACH_TAIL 1u          /* wrote past struct_size of outcome or error */
#define MBR_BREACH_SIZE 2u          /* changed the struct_size that the caller had set */
#define MBR_BREACH_ERROR_TOUCHED 4u /* wrote the error with MBR_OK */
#define MBR_BREACH_ERROR_MISSING 8u /* left the error as it was on failure */
#define MBR_BREACH_ERROR_STATUS 16u /* error.status is not the returned status */
#define MBR_BREACH_ERROR_TEXT 32u   /* not terminated, not UTF-8, not one line, or empty */
#define MBR_BREACH_CLASS 64u        /* a status of no known class */
#define MBR_BREACH_PAIR 128u        /* a status and a state that do not go together */
#define MBR_BREACH_STALE 256u     /* outcome not written: the caller's old bytes are still there */
#define MBR_BREACH_FIGURES 512u   /* figures other than 0 with UNCHANGED, or residual with DONE */
#define MBR_BREACH_INPUT 1024u    /* wrote its request (elsewhere than on read-only pages) */
#define MBR_BREACH_RESERVED 2048u /* reserved field of an outcome not 0 */

typedef struct mbr_check {
    const char *id; /* "VIR-014": group and number; never used again for another check */
    uint8_t level;  /* 1 to 5 */
    mbr_stage stage;
    uint32_t needs;    /* MBR_NEEDS_… */
    const char *rules; /* of docs/contract.md, such as "C7, C22" */
    const char *title; /* what is expected, one line, no full stop */
    const char *why;   /* for --explain: the reason, and what breaks in a host otherwise */
    void (*run)(mbr_trial *trial);
    uint32_t flags;    /* MBR_CHECK_… */
    uint32_t verifies; /* MBR_BREACH_… */
} mbr_check;

typedef struct mbr_group {
    const char *name;  /* three letters, the beginning of each id */
    const char *title; /* what it covers */
    const mbr_check *checks;
    uint32_t count;
} mbr_group;

#define MBR_GROUP(group_name, group_title, table)                                                  \
    {                                                                                              \
        (group_name), (group_title), (table), (uint32_t)(sizeof(table) / sizeof((table)[0]))       \
    }

/* In the order in which they run and are listed. A new group file is one row in registry.c. */
extern const mbr_group *const mbr_groups[];
extern const uint32_t mbr_group_count;

/* The check of that id, or NULL. */
const mbr_check *mbr_check_find(const char *id);

/* Calls visit for each check in order until it answers false. */
void mbr_check_each(bool (*visit)(void *context, const mbr_check *check), void *context);

const char *mbr_stage_word(mbr_stage stage);

#endif
