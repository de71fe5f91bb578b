/* Words and figures of the budget, as clients see them. Bytes are on axes that are never mixed:
 * reserved (addresses), mapped (behind addresses now), owned (physical). Charged is not resident.
 *
 * For one authority at rest:   claimed  = sum over holders of (granted + charged) + credit + held
 *                              available = limit - claimed, never below 0
 *                              over      = claimed - limit, never below 0
 */
#ifndef MEMBRANE_BUDGET_H
#define MEMBRANE_BUDGET_H

#include "membrane/allocator.h" /* MBR_UNKNOWN_BYTES */
#include "membrane/base.h"
#include "membrane/plugin.h" /* MBR_TIER_… */

#ifdef __cplusplus
extern "C" {
#endif

/* What a holder's bytes are for. */
#define MBR_ROLE_WEIGHTS 0
#define MBR_ROLE_KV 1
#define MBR_ROLE_WORKSPACE 2
#define MBR_ROLE_ACTIVATION 3
#define MBR_ROLE_PREFIX 4
#define MBR_ROLE_CACHE 5
#define MBR_ROLE_STAGING 6
#define MBR_ROLE_COUNT 7

#define MBR_NO_ALLOWANCE UINT64_MAX /* a holder bounded by its authority alone */

/* Why bytes were refused; filled with MBR_OVER_BUDGET. Unknown figures are MBR_UNKNOWN_BYTES. */
#define MBR_REFUSED_LIMIT 1     /* the authority's limit */
#define MBR_REFUSED_ALLOWANCE 2 /* the holder's own allowance */
#define MBR_REFUSED_CAPACITY 3  /* more than the limit even if nothing else were charged: never */
#define MBR_REFUSED_MEASURED 4  /* the machine's or device's free memory, below the limit */
#define MBR_REFUSED_QUEUE 5     /* too many wait already; nothing is wrong with the bytes */
#define MBR_REFUSED_SHARED 6    /* what other processes have leased of the shared ledger */

typedef struct mbr_refusal {
    uint32_t struct_size;
    uint32_t reason; /* MBR_REFUSED_… */
    uint64_t asked_bytes;
    uint64_t available_bytes; /* what would have been granted */
    uint64_t limit_bytes;
    uint64_t granted_bytes;  /* of the authority */
    uint64_t charged_bytes;  /* of the authority */
    uint64_t cached_bytes;   /* of charged: paid by holders of the role cache */
    uint64_t deferred_bytes; /* queued for release, not yet given back */
    uint64_t quarantined_bytes;
    uint64_t device_free_bytes;   /* as measured last */
    uint64_t retry_after_ns;      /* from the recent rate of release; MBR_UNKNOWN_BYTES: no idea */
    uint64_t shared_limit_bytes;  /* of the shared ledger, asked for this refusal; else unknown */
    uint64_t shared_leased_bytes; /* of it: leased by all its members, this process included */
} mbr_refusal;

/* One holder's line in a snapshot. */
typedef struct mbr_holder_figures {
    uint32_t struct_size;
    uint32_t role;
    uint64_t holder_id;
    char name[48];
    uint64_t allowance_bytes; /* MBR_NO_ALLOWANCE: none */
    uint64_t granted_bytes;
    uint64_t charged_bytes;
    uint64_t mapped_bytes;
    uint64_t oversubscribed_bytes; /* charged past the allowance */
    uint64_t quarantined_bytes;    /* of charged: nobody knows their state */
    uint64_t retained_bytes;       /* of charged: kept because a teardown could not be made safe */
    uint64_t peak_charged_bytes;   /* exact for one thread, else within 1/64 of the limit */
    uint64_t borrowed_bytes;       /* leased past the allowance by a holder that borrows */
} mbr_holder_figures;

/* One authority's figures. */
typedef struct mbr_authority_figures {
    uint32_t struct_size;
    uint32_t tier; /* MBR_TIER_… */
    uint64_t authority_id;
    char name[48];
    uint64_t limit_bytes;     /* in force: the least of the set, measured and leased one */
    uint64_t set_limit_bytes; /* as set; UINT64_MAX: only measured */
    uint64_t claimed_bytes;
    uint64_t granted_bytes; /* credit of threads included */
    uint64_t charged_bytes;
    uint64_t mapped_bytes;
    uint64_t over_bytes;
    uint64_t quarantined_bytes;
    uint64_t retained_bytes;
    uint64_t unattributed_bytes; /* owned by the mechanism, paid by no holder; MBR_UNKNOWN_BYTES */
    uint64_t peak_charged_bytes; /* exact for one thread, else within 1/64 of the limit */
    uint64_t grant_count;
    uint64_t refusal_count;
    uint64_t violation_count; /* numbers of a plugin that were clamped or refused */
    uint64_t revision;        /* rises with each change of the limit */
    uint32_t holder_count;
    uint32_t reserved_0;
    uint64_t waiting_bytes;    /* of tickets */
    uint64_t held_bytes;       /* of claimed: kept for a ticket that others must not overtake */
    uint64_t lent_bytes;       /* of allowances: leased by others that borrow */
    uint64_t unassigned_bytes; /* of the limit: no allowance covers it; 0 where they exceed it */
    uint64_t set_revision;     /* rises each time the limit is set */
    uint32_t waiting_count;    /* tickets */
    uint32_t reserved_1;
    uint64_t leased_bytes; /* of the shared ledger by this process; MBR_UNKNOWN_BYTES: none */
} mbr_authority_figures;

#ifdef __cplusplus
}
#endif

#endif
