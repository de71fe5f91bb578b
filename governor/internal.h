/* What the governor's files share and nobody else sees.
 *
 * The one word that decides is `room_bytes` = limit in force - claimed, of each authority: a claim
 * takes from it, a release puts into it, a new limit shifts it. One word, so that a limit and a
 * claim never pass each other: no claim that began under an old limit can end above the new one.
 *
 * Which outsider may touch which field: books.c writes cells, slots and the folded charges;
 * credit.c writes slots[].credit_bytes and room_bytes, which limit.c shifts with the limits that it
 * writes; lease.c writes what the ledger said, refusal.c the rates, ticket.c and change.c what is
 * marked as theirs; all others only read. `lock` is the authority's, `governor->lock` guards the
 * lists. */
#ifndef MEMBRANE_GOVERNOR_INTERNAL_H
#define MEMBRANE_GOVERNOR_INTERNAL_H

#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "abi/base/line.h"
#include "abi/base/lock.h"
#include "abi/base/thread.h"
#include "governor/arbiter.h"
#include "governor/governor.h"
#include "governor/ticket.h"

#include <stdatomic.h>
#include <stddef.h>

#define MBR_NAME_BYTES 48              /* with the terminator */
#define MBR_SLOT_COUNT 64              /* threads of a process with a slot of their own */
#define MBR_SLOT_SHARED MBR_SLOT_COUNT /* the slot of all other threads: atomic adds, no credit */
#define MBR_CREDIT_CLOSED UINT64_MAX   /* a slot without credit; its thread claims directly */
#define MBR_CREDIT_SHARE 64            /* credit over all threads: at most limit / this */
#define MBR_CREDIT_MIN_BYTES 4096      /* a smaller share is none: the exact path is cheaper */
#define MBR_CREDIT_MAX_BYTES 16777216  /* of one thread */
#define MBR_BYTES_LIMIT UINT64_C(0x7fffffffffffffff) /* of a limit and of what is claimed */

/* One thread's part of a total of charged bytes that is not folded into it yet. Its thread writes
 * with plain loads and stores. Equation at rest: charged = folded + sum of pending. */
typedef struct mbr_pending {
    _Atomic uint64_t bytes;         /* signed; its size is at most the slot's credit cap */
    _Atomic uint64_t highest_bytes; /* since the last fold; at least 0 */
} mbr_pending;

/* A total of charged bytes that all threads share, and its highest value. A thread folds its
 * pending part in when that passes what its credit may be, so that a limit without credit has exact
 * peaks; the shared slot folds at once. With one thread the peak is exact, because its pending part
 * keeps its own. */
typedef struct mbr_total {
    _Atomic uint64_t folded_bytes;
    _Atomic uint64_t highest_bytes;
} mbr_total;

/* One thread's place in an authority. credit_bytes is also taken back by others and changes by
 * compare and exchange, or under the lock. */
typedef struct mbr_slot {
    _Alignas(MBR_LINE_BYTES) _Atomic uint64_t credit_bytes; /* or MBR_CREDIT_CLOSED */
    _Atomic uint64_t grant_count;
    mbr_pending charged;
} mbr_slot;

/* One thread's part of one holder's books: differences modulo 2^64, right only when summed over
 * all slots, because a thread may refund what another one charged. Equations of the sums:
 *     granted = granted_total - returned_total - charged_total
 *     charged = charged_total + moved - refunded_total */
typedef struct mbr_cell {
    _Alignas(MBR_LINE_BYTES) mbr_pending charged;
    _Atomic uint64_t mapped;
    _Atomic uint64_t moved;         /* charged otherwise: committed, transferred in less out */
    _Atomic uint64_t granted_total; /* over the lifetime, like the next three */
    _Atomic uint64_t returned_total;
    _Atomic uint64_t charged_total; /* out of grants only */
    _Atomic uint64_t refunded_total;
} mbr_cell;

_Static_assert(sizeof(mbr_cell) == MBR_LINE_BYTES, "a cell is one cache line");

/* Refunded bytes per second, decayed; guarded by the governor's lock. */
typedef struct mbr_rate {
    uint64_t at_ns;
    uint64_t total_bytes;
    double bytes_per_second;
} mbr_rate;

struct mbr_holder {
    /* Read by every call, written at creation only. */
    _Alignas(MBR_LINE_BYTES) mbr_authority *authority;
    uint64_t allowance_bytes;
    uint64_t id;
    void *block;
    mbr_holder *prev, *next; /* in order of creation; governor->lock */
    uint32_t role;
    bool borrows;
    char name[MBR_NAME_BYTES];
    mbr_pressure_callbacks pressed; /* ask NULL: never asked */
    bool being_asked;               /* governor->lock: one thread at a time, and it stays alive */
    _Atomic uint32_t ticket_count;  /* that exist */
    _Atomic uint64_t aside_bytes;   /* of granted: for the holder's next calls */

    _Alignas(MBR_LINE_BYTES) mbr_total charged;
    _Atomic uint64_t leased_bytes; /* granted + charged; kept for a holder with an allowance only */
    _Atomic uint64_t quarantined_bytes;
    _Atomic uint64_t retained_bytes;
    mbr_rate release;

    mbr_cell cells[MBR_SLOT_COUNT + 1];
};

struct mbr_authority {
    /* Read by every call, written at creation and with the limit only. */
    _Alignas(MBR_LINE_BYTES) mbr_governor *governor;
    _Atomic uint64_t credit_cap_bytes; /* of one slot */
    _Atomic uint64_t limit_bytes;      /* in force; written under `lock` */

    /* Shared by the threads that go past their credit. */
    _Alignas(MBR_LINE_BYTES) _Atomic int64_t room_bytes; /* limit - claimed; negative: over */
    mbr_total charged;

    _Alignas(MBR_LINE_BYTES) mbr_lock lock;
    uint64_t set_limit_bytes;       /* lock; UINT64_MAX: none */
    uint64_t measured_limit_bytes;  /* lock; UINT64_MAX: none */
    uint64_t exhausted_limit_bytes; /* lock; UINT64_MAX: none */
    uint64_t leased_limit_bytes;    /* lock; of the shared ledger; UINT64_MAX: none */
    uint64_t ledger_limit_bytes;    /* lock; of all members, as of then; UINT64_MAX: unknown */
    uint64_t wanted_bytes;          /* lock; by other members, as of then */
    uint64_t leasable_bytes;        /* lock; what the ledger had free when it was asked last */
    uint64_t device_free_bytes;     /* lock; MBR_UNKNOWN_BYTES: never measured */
    uint64_t exhaustion_count;      /* lock */
    uint64_t revision;              /* lock */
    _Atomic uint64_t sampled_at_ns;
    _Atomic uint64_t withheld_bytes; /* quarantined or retained, of all holders */
    _Atomic uint64_t refusal_count;
    _Atomic uint64_t violation_count;

    /* ticket.c's; under `lock` unless they are atomic */
    mbr_ticket *waiting, *due; /* in the arbiter's order; whose owners are to be told */
    _Atomic uint32_t waiting_count;
    _Atomic uint32_t due_count;
    uint64_t held_bytes;    /* claimed by nobody: kept for a ticket */
    uint64_t lacking_bytes; /* of the first that waits for bytes alone; while somebody waits */
    uint64_t ticket_number;
    _Atomic uint64_t generation;
    mbr_arbiter_ticket view[MBR_TICKET_LIMIT_COUNT];

    bool limit_is_changing; /* lock; change.c's */
    uint64_t set_revision;  /* lock */

    mbr_holder *holders; /* governor->lock, like the next four */
    uint32_t holder_count;
    uint32_t pressed_count;          /* holders that can be asked */
    uint64_t retired_refunded_bytes; /* of holders that are gone */
    mbr_rate release;
    mbr_authority *prev, *next;                 /* governor->lock */
    mbr_authority *process_prev, *process_next; /* the lock of credit.c */
    uint64_t id;
    void *block;
    mbr_probe probe; /* free_bytes NULL: none */
    uint64_t margin_bytes;
    mbr_shared *shared; /* NULL: none; called under `lease_lock`, never under `lock` */
    mbr_lock lease_lock;
    uint32_t tier;
    char name[MBR_NAME_BYTES];

    mbr_slot slots[MBR_SLOT_COUNT + 1];
};

struct mbr_governor {
    mbr_heap heap;
    mbr_clock clock;
    mbr_lock lock;       /* the lists of authorities and holders, and the rates of release */
    mbr_condition asked; /* a holder is not being asked any more */
    mbr_authority *authorities;
    uint32_t authority_count;
    uint64_t last_id; /* of authorities and holders; never used again */
};

/* ---- governor.c: what the creating functions share */
bool mbr_governor_name_fits(const char *name);

/* ---- credit.c: the slots of threads, and every movement between credit and room */
/* The slot of this thread plus one; 0 before the thread's first call. */
extern MBR_THREAD_HOT uint32_t mbr_thread_slot_plus_one;
/* Gives this thread a slot; the shared one if all are taken or the thread's end cannot be seen. */
uint32_t mbr_slot_assign(void);
/* Slots below this index may have been used; the shared one counts extra. */
uint32_t mbr_slot_used_count(void);

static inline uint32_t mbr_slot_of_thread(void)
{
    uint32_t plus_one = mbr_thread_slot_plus_one;
    return plus_one != 0 ? plus_one - 1 : mbr_slot_assign();
}

/* From the first, a thread's end gives its credit of this authority back. */
void mbr_credit_register(mbr_authority *authority);
void mbr_credit_unregister(mbr_authority *authority);
uint64_t mbr_credit_cap(uint64_t limit_bytes);
/* The room itself: exact, no lock, shared by all threads. A take answers the room that it saw, the
 * one it was decided by. */
int64_t mbr_room_read(const mbr_authority *authority);
/* All of it, if it is above 0. */
uint64_t mbr_room_take_all(mbr_authority *authority);
bool mbr_room_take(mbr_authority *authority, uint64_t bytes, int64_t *seen_bytes);
void mbr_room_put(mbr_authority *authority, uint64_t bytes);
void mbr_room_take_past_limit(mbr_authority *authority, uint64_t bytes);
/* Claims bytes after the thread's credit did not cover them. False: not from here; the caller
 * decides under the lock. */
bool mbr_credit_claim(mbr_authority *authority, uint32_t slot_index, uint64_t bytes);
/* Releases bytes that do not fit into the thread's credit. */
void mbr_credit_spill(mbr_authority *authority, uint32_t slot_index, uint64_t bytes);
/* Closes every slot: all credit is room again. */
void mbr_credit_collect_locked(mbr_authority *authority) MBR_REQUIRES(&authority->lock);

/* ---- books.c */
/* Books bytes that were claimed for the holder by another thread as granted to it. */
void mbr_book_grant(mbr_holder *holder, uint64_t bytes);

/* ---- ticket.c */
uint32_t mbr_tickets_read_locked(const mbr_authority *authority, uint64_t *bytes)
    MBR_REQUIRES(&authority->lock);
/* Of those that wait and whose deadline is later. */
uint64_t mbr_tickets_bytes_beyond(mbr_authority *authority, uint64_t deadline_ns);
/* Arbitrates: who waits gets what is free. Tells nobody; no callback runs. */
void mbr_tickets_settle(mbr_authority *authority);
void mbr_tickets_settle_locked(mbr_authority *authority) MBR_REQUIRES(&authority->lock);

/* What was released may be somebody's who waits. The order of this load behind the release and of
 * the count's rise before the first look at the room, both sequentially consistent, is what makes
 * that no ticket sleeps over free bytes. */
static inline void mbr_tickets_wake(mbr_authority *authority)
{
    if (__builtin_expect(atomic_load(&authority->waiting_count) != 0, 0))
        mbr_tickets_settle(authority);
}

/* ---- pressure.c */
#define MBR_PRESS_ROUND_LIMIT_COUNT 4 /* of asking, in one go: a holder may give byte by byte */
/* Asks the holders, or with `own_only` the one who wants the bytes alone, for what is missing and
 * has them give it, if together they offer enough. Calls out. The bytes by which their leases fell.
 */
uint64_t mbr_press(mbr_authority *authority, const mbr_pressure *pressure, bool own_only);
/* What has to come back before a holder of the authority can have `bytes`, of which `held_bytes`
 * are free and kept for it; 0: nothing that could come back would do. *own_only: its own bytes
 * alone count. */
uint64_t mbr_press_bytes_locked(const mbr_authority *authority, const mbr_holder *holder,
    uint64_t bytes, uint64_t held_bytes, bool *own_only) MBR_REQUIRES(&authority->lock);

/* ---- limit.c */
uint64_t mbr_claimed_locked(const mbr_authority *authority) MBR_REQUIRES(&authority->lock);
/* The least of the limits, with the leased one and without it. */
uint64_t mbr_limit_least_locked(const mbr_authority *authority) MBR_REQUIRES(&authority->lock);
uint64_t mbr_limit_unleased_locked(const mbr_authority *authority) MBR_REQUIRES(&authority->lock);
/* No release changes that more can never be had: the set limit, and the shared ledger's. */
uint64_t mbr_limit_for_ever_locked(const mbr_authority *authority) MBR_REQUIRES(&authority->lock);
/* The least comes into force; a new one is a revision. */
void mbr_limit_apply_locked(mbr_authority *authority) MBR_REQUIRES(&authority->lock);
mbr_status mbr_limit_check(const mbr_authority *authority, uint64_t limit_bytes, mbr_error *error);
void mbr_limit_set_locked(mbr_authority *authority, uint64_t limit_bytes)
    MBR_REQUIRES(&authority->lock);
/* Another lease comes into force, which is no revision: it follows the claims. The caller settles
 * the tickets. */
void mbr_limit_set_leased_locked(mbr_authority *authority, uint64_t leased_bytes)
    MBR_REQUIRES(&authority->lock);

/* ---- lease.c: what the authority has of the shared ledger; without one nothing happens */
/* After the lease alone refused `bytes`. False: the ledger has no more; *view is what it said. */
bool mbr_lease_more(mbr_authority *authority, uint64_t bytes, mbr_shared_view *view)
    MBR_REQUIRES(&authority->lease_lock);
/* The limit in force, if all were leased that the ledger had free when it was asked last. */
uint64_t mbr_lease_reach_locked(const mbr_authority *authority) MBR_REQUIRES(&authority->lock);
/* The same for one ticket, which cannot hope for what is withheld. */
uint64_t mbr_ticket_reach_locked(const mbr_authority *authority) MBR_REQUIRES(&authority->lock);
/* Leases what the tickets that wait lack, one after another as they are to be served. No lock is
 * held. */
void mbr_lease_for_tickets(mbr_authority *authority);
/* Gives back what is idle, and leases what was recorded past the lease. No lock is held. */
void mbr_lease_settle(mbr_authority *authority, uint64_t free_bytes);
/* If other members were refused: caches give up what is wanted, and that goes back. Calls out. */
void mbr_lease_yield(mbr_authority *authority);
/* Compares the lease with the ledger's page. No lock is held. */
mbr_status mbr_lease_audit(mbr_authority *authority, mbr_error *error);

/* ---- snapshot.c */
/* One holder's cells summed, modulo 2^64. charged is off by no more than the pending parts are
 * while threads write; the others may mix moments. */
typedef struct mbr_sums {
    uint64_t granted, charged, mapped, refunded_total;
    uint64_t highest_charged;  /* since the pending parts were folded last */
    uint64_t lifetime_charged; /* charged, by the other equation */
} mbr_sums;

/* An authority's holders summed, modulo 2^64, and their marks. */
typedef struct mbr_books {
    uint64_t granted, charged, mapped, refunded_total;
    uint64_t cached;                       /* of charged: of holders of the role cache */
    uint64_t stuck;                        /* of cached: withheld, so that no cache gives it */
    uint64_t allowances, unused, borrowed; /* of holders with an allowance; 2^64 - 1: or more */
    uint64_t quarantined;
    uint64_t retained;
    uint32_t holder_count;
} mbr_books;

/* An authority's slots summed, modulo 2^64. charged as in mbr_sums. */
typedef struct mbr_slot_sums {
    uint64_t charged, highest_charged, credit, grant_count;
} mbr_slot_sums;

/* Of what it has charged: quarantined or retained. */
uint64_t mbr_holder_withheld(const mbr_holder *holder);
mbr_sums mbr_sums_read(const mbr_holder *holder);
mbr_slot_sums mbr_slot_sums_read(const mbr_authority *authority);
/* A sum that threads at work may have torn: what looks negative is 0. */
uint64_t mbr_sum_shown(uint64_t sum);
void mbr_books_read_locked(const mbr_authority *authority, mbr_books *books)
    MBR_REQUIRES(&authority->governor->lock);
void mbr_total_raise(mbr_total *total, uint64_t bytes);

/* ---- refusal.c */
/* What the holder may still lease, and what of that within its allowance; 0 of none. */
uint64_t mbr_lease_left(const mbr_holder *holder, uint64_t *own_bytes);
/* What a holder that borrows has leased past its allowance. */
uint64_t mbr_borrowed(const mbr_holder *holder);
/* The refusals of tickets: MBR_OVER_BUDGET for what no release can change, else MBR_OK; and that
 * too many wait. `refusal` may be NULL. */
mbr_status mbr_refuse_for_ever(mbr_holder *holder, uint64_t bytes, mbr_refusal *refusal);
void mbr_refuse_queue(mbr_holder *holder, uint64_t bytes, mbr_refusal *refusal);
/* And of an admission: not now; of a member's growth, of which `available_bytes` would do. */
void mbr_refuse_now(mbr_holder *holder, uint64_t bytes, mbr_refusal *refusal);
void mbr_refuse_growth(
    mbr_holder *holder, uint64_t bytes, uint64_t available_bytes, mbr_refusal *refusal);
/* What was refunded until now goes into the rates of release. */
void mbr_release_rates_note(mbr_authority *authority);
/* The last word, under the lock and with all credit taken back: claims the bytes, or counts the
 * refusal and fills *refusal (may be NULL). A holder with an allowance always claims here. */
mbr_status mbr_claim_or_refuse(mbr_holder *holder, uint64_t bytes, mbr_refusal *refusal);
/* The same for bytes that are claimed already and only change their payer: the holder's allowance
 * decides alone. */
mbr_status mbr_lease_or_refuse(mbr_holder *holder, uint64_t bytes, mbr_refusal *refusal);

#endif
