/* Tickets: waiting for bytes that were refused. A ticket belongs to who submitted it, until it is
 * destroyed; the words are in pressure.h, the order in arbiter.h. */
#ifndef MEMBRANE_GOVERNOR_TICKET_H
#define MEMBRANE_GOVERNOR_TICKET_H

#include "governor/governor.h"

#define MBR_PRESS_INTERVAL_NS 10000000 /* a ticket that waits asks the holders again after this */

typedef struct mbr_ticket mbr_ticket;

typedef struct mbr_ticket_options {
    mbr_holder *holder;
    uint64_t bytes;       /* above 0 */
    uint32_t priority;    /* 0 … 7 */
    bool quiet;           /* asks no holder, waits for releases alone */
    uint64_t deadline_ns; /* of the governor's clock; MBR_NO_DEADLINE */
    uint64_t since_ns;    /* from when its age counts, for one who waited before; 0: now */
    /* Optional: told once when the ticket has left WAITING, with no lock held, by a thread that
     * submits, waits, polls or delivers (never inside a booking). May claim, cancel and destroy it.
     */
    void (*settled)(void *context, mbr_ticket *ticket);
    void *context;
} mbr_ticket_options;

/* Grants at once if nobody who waits goes before; else asks the holders, and waits. The caller
 * holds no lock; inside a holder's callback nobody is asked. On MBR_OK the ticket exists, in any
 * state. Otherwise *ticket is NULL: MBR_OVER_BUDGET, it could never be granted (CAPACITY, or
 * ALLOWANCE below its bytes); MBR_BUSY, as many wait as can (QUEUE); both fill *refusal (may be
 * NULL), the second with when to come again; MBR_INVALID_ARGUMENT: bytes or priority;
 * MBR_OUT_OF_HOST_MEMORY. */
mbr_status mbr_ticket_submit(
    const mbr_ticket_options *options, mbr_ticket **ticket, mbr_refusal *refusal, mbr_error *error);

/* The two halves of a submission, for one who has to know the ticket before anybody is told of it:
 * the first asks and tells nobody, and nobody is told before the second. That follows always; it is
 * the caller's last use of a ticket that its `settled` may destroy. */
mbr_status mbr_ticket_prepare(
    const mbr_ticket_options *options, mbr_ticket **ticket, mbr_refusal *refusal, mbr_error *error);
void mbr_ticket_press(mbr_ticket *ticket);

uint64_t mbr_ticket_bytes(const mbr_ticket *ticket);
const char *mbr_ticket_state_name(const mbr_ticket *ticket);

/* MBR_TICKET_…; times it out if that is due. */
uint32_t mbr_ticket_poll(mbr_ticket *ticket);

/* MBR_OK once: the bytes are granted to the holder, who charges or returns them. MBR_NOT_READY: it
 * waits; MBR_TIMED_OUT; MBR_OVER_BUDGET: the limit fell below its bytes; MBR_STALE: its generation
 * was retired, or it was claimed, returned or cancelled. */
mbr_status mbr_ticket_claim(mbr_ticket *ticket);

/* Waits until it has left WAITING, asking the holders again meanwhile, and claims. The caller holds
 * no lock. Never MBR_NOT_READY; MBR_BUSY: inside a holder's callback nobody waits. */
mbr_status mbr_ticket_wait(mbr_ticket *ticket);

/* True: it waited or was granted, and ends without its bytes. False: it had ended, or was claimed.
 */
bool mbr_ticket_cancel(mbr_ticket *ticket);

/* Cancels. When it returns no other thread tells of the ticket or asks for it, nor will; the ticket
 * can still be read. False: this thread is inside its telling or asking. */
bool mbr_ticket_close(mbr_ticket *ticket);

/* Cancels and frees, the owner's last call for it. Waits until no other thread tells of it or asks
 * for it; may be called in its own `settled`, and in a callback of a holder. Of two callbacks that
 * run at once only one may end the other's ticket: else both wait. NULL is allowed. */
void mbr_ticket_destroy(mbr_ticket *ticket);

/* Begins a new generation, for one who changes what the bytes were for. Of the tickets submitted
 * before, those that wait are STALE; those granted can not be claimed any more: the claim returns
 * their bytes. Tells, so the caller holds no lock. */
void mbr_authority_retire_tickets(mbr_authority *authority);

/* Times out what is due, asks again for the one that goes first, tells who is to be told. Calls
 * out, so the caller holds no lock. Cheap when nobody waits. */
void mbr_authority_poll(mbr_authority *authority);
/* Only tells. One load when nobody is to be told. */
void mbr_authority_deliver(mbr_authority *authority);

/* Whether this thread runs inside a callback of a holder. */
bool mbr_is_pressing(void);

/* Claims several authorities' bytes, or none, waiting: tried in ascending order, and whenever one
 * refuses all others are given back while a ticket waits there; its age counts from the call.
 * MBR_OK: all are granted. MBR_TIMED_OUT, MBR_STALE, MBR_BUSY, MBR_OVER_BUDGET: none is;
 * *refused_index says where. MBR_INVALID_ARGUMENT as of mbr_grant_all. The caller holds no lock. */
mbr_status mbr_wait_all(const mbr_claim *claims, uint32_t count, uint32_t priority,
    uint64_t deadline_ns, uint32_t *refused_index, mbr_refusal *refusal, mbr_error *error);

#endif
