/* The governor: whether capacity may be taken, and the books. It knows no plugin, no device, no EP;
 * it picks no victim and touches no byte (I13).
 *
 * The life of a byte, always of one holder of one authority:
 *
 *     free --grant--> granted --charge--> charged --refund--> free
 *                        `--grant_return--> free
 *     charged --transfer--> charged of another holder (one payer at any instant, never a refund and
 *     a charge); charged bytes may be marked quarantined or retained and stay charged.
 *
 * Equations, checked by mbr_authority_audit when threads are at rest (I5, I6, I18):
 *     claimed = credit + held for tickets + sum over holders (granted + charged)
 *     claimed <= limit at every grant
 *     granted = sum of grants - sum of grant_return - sum of charges, over a holder's lifetime
 *
 * Hot path: a thread holds credit, bytes claimed from the authority and given to nobody, at most
 * 1/64 of the limit over all threads, none under a limit below 16 MiB. Before a refusal the slow
 * path takes every thread's credit back and checks again, so that the limit is exact to the byte.
 * The end of a thread gives its credit back.
 *
 * Figures read while threads work are sums of cells that are being written: each stays in the
 * bounds that hold at every instant (none below 0, charged and granted never above claimed).
 * Charged bytes are then right within what credit may be, 1/64 of the limit, and of an authority a
 * transfer does not move them at all; the others may mix moments. With threads at rest all are
 * exact, claimed and granted once credit is collected.
 *
 * A peak of charged bytes is exact while one thread books, whatever the amounts, and for any number
 * of threads on an authority whose limit has no credit. With several threads it may be off, either
 * way, by what credit may be; a snapshot never shows a peak below the charged figure beside it.
 *
 * Every call is any-thread and, except create and destroy, allocates nothing. Destroy is the
 * caller's last call for that object. Pointers that are not said to be optional are not NULL. */
#ifndef MEMBRANE_GOVERNOR_H
#define MEMBRANE_GOVERNOR_H

#include "abi/base/seam.h"
#include "governor/shared.h"
#include "membrane/budget.h"
#include "membrane/pressure.h"

#include <stdbool.h>

#define MBR_AUTHORITY_LIMIT_COUNT 64     /* authorities of one governor */
#define MBR_HOLDER_LIMIT_COUNT 1024      /* holders of one authority */
#define MBR_PROBE_INTERVAL_NS 1000000000 /* the measured limit is sampled at most this often */
#define MBR_PRESSED_LIMIT_COUNT 256      /* holders of one authority that can be asked */

typedef struct mbr_governor mbr_governor;
typedef struct mbr_authority mbr_authority;
typedef struct mbr_holder mbr_holder;

/* Measures the free bytes of the pool behind an authority; a seam. Answers false if unknown. */
typedef struct mbr_probe {
    bool (*free_bytes)(void *context, uint64_t *bytes);
    void *context;
} mbr_probe;

/* Free host memory: the least of MemAvailable and every ancestor cgroup's headroom (limit - usage +
 * reclaimable file pages), cgroup v1 and v2. `root` is prefixed to /proc and /sys paths; "" for the
 * real ones. Source of the rule: exhaustion there is SIGKILL, never a status. */
bool mbr_host_free_bytes(const char *root, uint64_t *bytes);
extern const mbr_probe mbr_probe_host_memory;

/* ---- Governor -------------------------------------------------------------------------------- */
typedef struct mbr_governor_options {
    const mbr_heap *heap;   /* NULL: libc */
    const mbr_clock *clock; /* NULL: monotonic */
} mbr_governor_options;

/* `options` NULL: all defaults. MBR_OUT_OF_HOST_MEMORY. */
mbr_status mbr_governor_create(
    const mbr_governor_options *options, mbr_governor **governor, mbr_error *error);
/* MBR_IN_USE with counts while an authority lives. NULL is allowed, here and for each destroy. */
mbr_status mbr_governor_destroy(mbr_governor *governor, mbr_error *error);

/* ---- Authority ------------------------------------------------------------------------------- */
typedef struct mbr_authority_options {
    const char *name;       /* unique in the governor, at most 47 bytes */
    uint32_t tier;          /* MBR_TIER_… */
    uint64_t limit_bytes;   /* at most 2^63 - 1; UINT64_MAX: only the measured one */
    const mbr_probe *probe; /* NULL: nothing is measured and limit_bytes must be finite */
    uint64_t margin_bytes;  /* kept free of what the probe says */
    /* NULL: none. Used by this authority alone, left after its end. What it has leased bounds the
     * limit too: a claim that only the lease refuses leases more, which waits for other processes,
     * so the caller of a grant holds no lock. */
    mbr_shared *shared;
} mbr_authority_options;

/* Samples the probe once, so the caller holds no lock. MBR_INVALID_ARGUMENT: name, tier, or neither
 * limit nor probe; MBR_OUT_OF_RANGE: the limit; MBR_SYSTEM: only measured, and the probe gave no
 * answer; MBR_ALREADY_EXISTS: the name; MBR_OUT_OF_DESCRIPTORS: too many; MBR_OUT_OF_HOST_MEMORY.
 */
mbr_status mbr_authority_create(mbr_governor *governor, const mbr_authority_options *options,
    mbr_authority **authority, mbr_error *error);
/* MBR_IN_USE with counts while a holder lives. */
mbr_status mbr_authority_destroy(mbr_authority *authority, mbr_error *error);
uint64_t mbr_authority_id(const mbr_authority *authority);

/* Sets the limit. Lowering revokes nothing: new claims are refused until claimed is below it. Ends
 * what note_exhausted began.
 * *over_bytes is what is claimed above the limit in force now. MBR_INVALID_ARGUMENT: UINT64_MAX
 * without a probe; MBR_OUT_OF_RANGE: above 2^63 - 1; both change nothing. */
mbr_status mbr_authority_set_limit(
    mbr_authority *authority, uint64_t limit_bytes, uint64_t *over_bytes, mbr_error *error);

/* Lowers or raises the limit in two phases: new claims pause at the new limit, the holders are
 * asked for what is claimed above it, and then the new limit stands or, with MBR_LIMIT_RESTORE, the
 * old one. Calls the holders' callbacks, so the caller holds no lock. MBR_OK with *answer filled,
 * whatever its kind; MBR_INVALID_ARGUMENT, MBR_OUT_OF_RANGE as of set_limit, MBR_UNSUPPORTED: an
 * unknown flag. */
mbr_status mbr_authority_change_limit(mbr_authority *authority, const mbr_limit_change *change,
    mbr_limit_answer *answer, mbr_error *error);

/* Samples the probe if the last sample is old enough, or at once if `now`. The probe is called with
 * no lock held, so the caller holds none. The measured limit becomes charged + free - margin; a
 * probe that does not answer leaves the last one. Ends what note_exhausted began, also without a
 * probe. What is leased of the shared ledger and idle goes back then: all but one chunk, and all of
 * it if another process was refused. */
void mbr_authority_sample(mbr_authority *authority, bool now);

/* Asks the holders of the role cache, but not `except`, for bytes, which give them only if together
 * they offer that much. Calls out, so the caller holds no lock; 0 inside a holder's callback. How
 * many bytes they gave. */
uint64_t mbr_authority_press_caches(
    mbr_authority *authority, const mbr_holder *except, uint64_t bytes);

/* A driver said out of memory although the books had room: the limit in force falls to what is
 * claimed, until the next sample, which is not due before MBR_PROBE_INTERVAL_NS, or a new limit. */
void mbr_authority_note_exhausted(mbr_authority *authority);

/* A plugin's number was refused or clamped. */
void mbr_authority_note_violation(mbr_authority *authority);

/* Every thread's credit goes back to the pool: figures are then exact for a thread at rest. */
void mbr_authority_collect_credit(mbr_authority *authority);

void mbr_authority_figures_read(mbr_authority *authority, mbr_authority_figures *figures);
/* Fills up to `capacity` lines in order of creation, sets *count to the number of holders. Each
 * line's struct_size is set by the caller; that of the first is the stride. */
void mbr_authority_holders_read(
    mbr_authority *authority, mbr_holder_figures *lines, uint32_t capacity, uint32_t *count);

/* Recomputes every total from its entries. MBR_OK, or MBR_INTERNAL with the first equation that
 * does not hold and both its sides in the text. Call it with threads at rest. */
mbr_status mbr_authority_audit(mbr_authority *authority, mbr_error *error);

/* ---- Holder ---------------------------------------------------------------------------------- */
typedef struct mbr_holder_options {
    const char *name;         /* at most 47 bytes */
    uint32_t role;            /* MBR_ROLE_… */
    uint64_t allowance_bytes; /* MBR_NO_ALLOWANCE: bounded by the authority alone */
    /* With an allowance: it is a share that others do not press, not a bound. What is leased past
     * it is borrowed, first of what other holders leave of their allowances, then of what no
     * allowance covers, and is asked back first. */
    bool borrows;
    mbr_pressure_callbacks pressed; /* both NULL: it is never asked */
} mbr_holder_options;

/* MBR_INVALID_ARGUMENT: name, role, one callback without the other, or borrowing without an
 * allowance; MBR_OUT_OF_DESCRIPTORS: too many, or too many that are asked; MBR_OUT_OF_HOST_MEMORY.
 */
mbr_status mbr_holder_create(mbr_authority *authority, const mbr_holder_options *options,
    mbr_holder **holder, mbr_error *error);
/* MBR_IN_USE with figures while anything is granted, charged or mapped, or a ticket of it exists.
 * Waits until no callback of the holder runs; MBR_BUSY from inside one. */
mbr_status mbr_holder_destroy(mbr_holder *holder, mbr_error *error);
/* From now on it is not asked any more, and no callback of it runs; not from inside one. For one
 * that stays because of what it pays for, when those who would answer go. */
void mbr_holder_stop_asking(mbr_holder *holder);
/* From now on it is asked with these, unless it is asked already. MBR_OUT_OF_DESCRIPTORS: its
 * authority has as many of those as it can. */
mbr_status mbr_holder_start_asking(
    mbr_holder *holder, const mbr_pressure_callbacks *pressed, mbr_error *error);
/* Whether a destroy would be accepted now; its refusal. */
mbr_status mbr_holder_check_idle(const mbr_holder *holder, mbr_error *error);
uint64_t mbr_holder_id(const mbr_holder *holder);
mbr_authority *mbr_holder_authority(const mbr_holder *holder);
void mbr_holder_figures_read(mbr_holder *holder, mbr_holder_figures *figures);
/* What is free for the holder now: by the limits, with what a shared ledger had free when it was
 * asked last, and by its own allowance. Claims nothing, and asks nobody. */
void mbr_holder_read_room(const mbr_holder *holder, uint64_t *authority_bytes, uint64_t *own_bytes);

/* ---- The books
 * ------------------------------------------------------------------------------------ Amounts are
 * exact bytes; 0 is allowed and does nothing. Passing more than the holder has granted or charged
 * is the host's own bug (MBR_CHECK in the audit, not a status): the host clamps a plugin's numbers
 * before it books them. */

/* free -> granted. MBR_OVER_BUDGET changes no byte figure and fills *refusal (may be NULL; not
 * written on MBR_OK). Reasons, the first that applies: CAPACITY above the set limit, ALLOWANCE
 * above what the holder may still lease, SHARED where the limits but for the shared ledger's would
 * have granted it, MEASURED where the set limit alone would have, LIMIT. CAPACITY also above the
 * shared ledger's limit. deferred_bytes is unknown here. A holder with an allowance pays for it
 * with a lock a grant. */
mbr_status mbr_grant(mbr_holder *holder, uint64_t bytes, mbr_refusal *refusal);
/* granted -> free. */
void mbr_grant_return(mbr_holder *holder, uint64_t bytes);
/* granted -> charged. */
void mbr_charge(mbr_holder *holder, uint64_t bytes);
/* charged -> free. */
void mbr_refund(mbr_holder *holder, uint64_t bytes);
/* charged of one holder -> charged of another of the same authority. Never fails; past the
 * receiver's allowance it is oversubscribed. */
void mbr_transfer(mbr_holder *from, mbr_holder *to, uint64_t bytes);
/* The same, but refused with MBR_OVER_BUDGET (MBR_REFUSED_ALLOWANCE) where it would pass the
 * receiver's allowance; a refusal changes no byte figure and is counted. */
mbr_status mbr_try_transfer(mbr_holder *from, mbr_holder *to, uint64_t bytes, mbr_refusal *refusal);
/* Several grants, each of another authority, or none: in ascending order of authorities, tried
 * only. MBR_OVER_BUDGET: *refused_index says which one was refused, and the others were given back.
 * MBR_INVALID_ARGUMENT: two of one authority, or more than MBR_AUTHORITY_LIMIT_COUNT. */
typedef struct mbr_claim {
    mbr_holder *holder;
    uint64_t bytes;
} mbr_claim;

mbr_status mbr_grant_all(
    const mbr_claim *claims, uint32_t count, uint32_t *refused_index, mbr_refusal *refusal);

/* Granted bytes that wait for the holder's next claims, such as those of a claimed ticket: set
 * aside, they stay granted until somebody takes them, at most `most_bytes`, to charge or to return.
 */
void mbr_set_aside(mbr_holder *holder, uint64_t bytes);
uint64_t mbr_take_aside(mbr_holder *holder, uint64_t most_bytes);
bool mbr_has_aside(const mbr_holder *holder);

/* -> charged, without a grant and even past the limit: bytes that the device gave already. What
 * all claims together may not pass is 2^63 - 1: no device gave that, the host checks numbers first.
 */
void mbr_record_committed(mbr_holder *holder, uint64_t bytes);

/* The mapped axis follows map and unmap (I7). */
void mbr_mapped_add(mbr_holder *holder, uint64_t bytes);
void mbr_mapped_sub(mbr_holder *holder, uint64_t bytes);
void mbr_mapped_transfer(mbr_holder *from, mbr_holder *to, uint64_t bytes);

/* Marks of charged bytes; settling only removes the mark, a refund follows where it applies. */
void mbr_quarantine(mbr_holder *holder, uint64_t bytes);
void mbr_quarantine_settle(mbr_holder *holder, uint64_t bytes);
void mbr_retain(mbr_holder *holder, uint64_t bytes);
void mbr_retain_settle(mbr_holder *holder, uint64_t bytes);

#endif
