/* Words of pressure, as clients see them: how a claim that was refused asks for bytes, waits for
 * them, and what a holder is asked.
 *
 *   refused --submit--> WAITING --a release, a limit, a gift--> GRANTED --claim--> CLAIMED
 *                          |                                       `--cancel, destroy--> RETURNED
 *                          `--> CANCELLED | TIMED_OUT | STALE | REFUSED
 *
 * A ticket is in exactly one state. While it waits it owns nothing. Its bytes are booked as granted
 * to its holder before anybody is told; whoever claims it has them, and exactly one of claim and
 * return takes place. The other four ends own nothing. */
#ifndef MEMBRANE_PRESSURE_H
#define MEMBRANE_PRESSURE_H

#include "membrane/budget.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MBR_TICKET_WAITING 0
#define MBR_TICKET_GRANTED 1   /* booked to the holder, not claimed yet */
#define MBR_TICKET_CLAIMED 2   /* the holder's own now: to be charged or given back */
#define MBR_TICKET_RETURNED 3  /* granted, and given back unclaimed */
#define MBR_TICKET_CANCELLED 4 /* by its owner, while it waited */
#define MBR_TICKET_TIMED_OUT 5
#define MBR_TICKET_STALE 6   /* its generation was retired while it waited */
#define MBR_TICKET_REFUSED 7 /* the limit was set below its bytes: it can never be granted */
#define MBR_TICKET_STATE_COUNT 8

#define MBR_PRIORITY_COUNT 8 /* priorities are 0 … 7, the higher first */
#define MBR_NO_DEADLINE UINT64_MAX

/* What is asked of a holder. The bytes are wanted of all holders together; `holder_id` is who wants
 * them, 0 when a limit falls. */
typedef struct mbr_pressure {
    uint32_t struct_size;
    uint32_t tier;     /* MBR_TIER_… */
    uint32_t role;     /* MBR_ROLE_… of who wants it; MBR_ROLE_COUNT when a limit falls */
    uint32_t priority; /* 0 … 7 */
    uint64_t holder_id;
    uint64_t bytes;       /* what is missing */
    uint64_t deadline_ns; /* of the governor's clock; MBR_NO_DEADLINE */
    uint64_t generation;  /* of the authority when it was asked */
} mbr_pressure;

/* How a holder answers. Both run with no lock held, on the thread that submits, waits, polls or
 * changes a limit, and those of the role cache also on one that allocates or grows a range; they
 * may grant, charge, refund and release, and submit without asking others. Not called at once for
 * one holder by two threads. */
typedef struct mbr_pressure_callbacks {
    /* How many of its charged bytes the holder could give back now; 0 is an answer. Gives nothing.
     */
    uint64_t (*ask)(void *context, const mbr_pressure *pressure);
    /* Gives back up to `bytes`, or moves them to the payer of a cache, which is asked next. The
     * books say how many that were. */
    void (*give)(void *context, const mbr_pressure *pressure, uint64_t bytes);
    void *context;
} mbr_pressure_callbacks;

/* How a changed limit was taken. */
#define MBR_LIMIT_APPLIED 1 /* in force, and nothing is claimed above it */
#define MBR_LIMIT_DEFERRED                                                                         \
    2                     /* in force; claims are refused until over_bytes have been given back */
#define MBR_LIMIT_STALE 3 /* the limit was set by somebody else, before or since: theirs stands */
#define MBR_LIMIT_CONFLICT                                                                         \
    4 /* another change asks the holders now, or (with RESTORE) they did not                       \
       * give enough: the limit of before stands */

#define MBR_LIMIT_RESTORE 0x1U /* critical: rather the old limit than a deferred one */
#define MBR_ANY_REVISION UINT64_MAX

typedef struct mbr_limit_change {
    uint32_t struct_size;
    uint32_t flags;             /* MBR_LIMIT_RESTORE */
    uint64_t limit_bytes;       /* at most 2^63 - 1; UINT64_MAX: only the measured one */
    uint64_t expected_revision; /* set_revision of the figures; MBR_ANY_REVISION */
} mbr_limit_change;

typedef struct mbr_limit_answer {
    uint32_t struct_size;
    uint32_t kind;        /* MBR_LIMIT_… */
    uint64_t limit_bytes; /* set now */
    uint64_t
        over_bytes; /* claimed above it; of CONFLICT with RESTORE: above the limit that was asked */
    uint64_t revision;    /* set_revision now */
    uint64_t given_bytes; /* of what was claimed above it: what came back meanwhile */
} mbr_limit_answer;

#ifdef __cplusplus
}
#endif

#endif
