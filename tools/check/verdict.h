/* What became of a check. */
#ifndef MEMBRANE_TOOLS_CHECK_VERDICT_H
#define MEMBRANE_TOOLS_CHECK_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum mbr_verdict {
    MBR_VERDICT_NONE, /* not told; with a child that ended by itself: it was ended by the plugin */
    MBR_VERDICT_PASS,
    MBR_VERDICT_FAIL,
    MBR_VERDICT_CRASH,    /* a signal; slot */
    MBR_VERDICT_TIMEOUT,  /* slot */
    MBR_VERDICT_ABORT,    /* the child ended before the check did: exit, abort, exception */
    MBR_VERDICT_FLAKY,    /* failed, and passed when it was run again; counts as a failure */
    MBR_VERDICT_WARN,     /* passed, with something that is another check's to fail */
    MBR_VERDICT_SKIP,     /* with a reason of the list below */
    MBR_VERDICT_WAIVED,   /* failed, and the waivers' file says why that is accepted */
    MBR_VERDICT_RESOURCE, /* the system had no room for the check: nothing is known */
    MBR_VERDICT_TOOL,     /* the tool's own failure */
    MBR_VERDICT_COUNT,
} mbr_verdict;

/* The closed list of reasons of a skip. The declared ones follow from what the plugin says of
 * itself; with any other the run is incomplete. */
typedef enum mbr_skip {
    MBR_SKIP_NONE,
    MBR_SKIP_NOT_OFFERED,  /* declared: the capability is absent */
    MBR_SKIP_FACT,         /* declared: a fact or the note says that the rule does not apply */
    MBR_SKIP_BLOCKED,      /* the stage was not reached; another check tells why */
    MBR_SKIP_NEEDS,        /* a step on the way, which another check owns, failed */
    MBR_SKIP_SYSTEM,       /* this system lacks what the check needs */
    MBR_SKIP_NO_MECHANISM, /* --device names one past the last: the command line's mistake */
    MBR_SKIP_COUNT,
} mbr_skip;

const char *mbr_verdict_word(mbr_verdict verdict);
const char *mbr_skip_word(mbr_skip skip);

/* FAIL, CRASH, TIMEOUT, ABORT, FLAKY. */
bool mbr_verdict_is_finding(mbr_verdict verdict);
bool mbr_skip_is_declared(mbr_skip skip);

#endif
