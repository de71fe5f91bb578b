/* Waiting for bytes instead of being refused, and being let in only where all can finish. The words
 * are in pressure.h: what a ticket's states mean, what a holder is asked, how a limit is taken.
 *
 * Any thread, unless a function says otherwise. Whatever asks holders calls their callbacks on the
 * calling thread: the caller holds no lock that a callback takes. */
#ifndef MEMBRANE_TICKET_H
#define MEMBRANE_TICKET_H

#include "membrane/handle.h"
#include "membrane/pressure.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_ticket_request {
    uint32_t struct_size;
    uint32_t flags; /* MBR_TICKET_QUIET */
    uint32_t
        priority; /* 0 … 7, the higher first; a ticket rises by one each 100 ms that it waits */
    uint32_t reserved_0;
    mbr_holder_handle holder;
    uint64_t bytes;      /* above 0 */
    uint64_t timeout_ns; /* from now; MBR_NO_DEADLINE: none */
    /* Optional: called once when the ticket has left WAITING, by a thread that submits, waits or
     * polls, with no lock held. It may claim and end the ticket. */
    void (*settled)(void *context, mbr_ticket_handle ticket);
    void *context;
} mbr_ticket_request;

#define MBR_TICKET_QUIET 0x1U /* critical: asks no holder, waits for releases alone */

/* Grants at once if the bytes are free and nobody goes before; else asks the holders of the
 * authority, and waits. On MBR_OK the ticket is there in any state, until mbr_manager_end_ticket.
 * MBR_OVER_BUDGET: it could never be granted; MBR_BUSY: as many wait as can; both fill *refusal
 * (may be NULL). MBR_INVALID_ARGUMENT, MBR_UNSUPPORTED: the request; MBR_OUT_OF_HOST_MEMORY;
 * MBR_STALE: the holder. */
MBR_API mbr_status mbr_manager_submit_ticket(mbr_manager *manager,
    const mbr_ticket_request *request, mbr_ticket_handle *ticket, mbr_refusal *refusal,
    mbr_error *error);

/* *state is MBR_TICKET_…; times out what is due. */
MBR_API mbr_status mbr_manager_read_ticket(
    mbr_manager *manager, mbr_ticket_handle ticket, uint32_t *state, mbr_error *error);

/* MBR_OK once: the bytes are set aside for the holder, whose next growths of ranges take from them
 * first. MBR_NOT_READY: it waits; MBR_TIMED_OUT; MBR_OVER_BUDGET: the limit fell below its bytes;
 * MBR_STALE: cancelled, retired, claimed before, or no such ticket. */
MBR_API mbr_status mbr_manager_claim_ticket(
    mbr_manager *manager, mbr_ticket_handle ticket, mbr_error *error);

/* Waits until it has left WAITING, and claims it. Never MBR_NOT_READY; MBR_BUSY: inside a holder's
 * callback nobody waits. */
MBR_API mbr_status mbr_manager_wait_ticket(
    mbr_manager *manager, mbr_ticket_handle ticket, mbr_error *error);

/* Ends the handle: a ticket that waits is cancelled, one that is granted and unclaimed gives its
 * bytes back. A thread that waits for it ends with MBR_STALE first. May be called in its own
 * `settled`. Waits while another thread is in that, or asks holders for it: the caller holds no
 * lock that those take, and of two callbacks that run at once only one ends the other's ticket. */
MBR_API mbr_status mbr_manager_end_ticket(
    mbr_manager *manager, mbr_ticket_handle ticket, mbr_error *error);

/* Every ticket of the authority that was submitted before now ends: STALE, or RETURNED at its
 * claim. */
MBR_API mbr_status mbr_manager_retire_tickets(
    mbr_manager *manager, mbr_authority_handle authority, mbr_error *error);

/* What claims set aside for the holder and no growth took: back to all. *bytes may be NULL. */
MBR_API mbr_status mbr_manager_return_aside(
    mbr_manager *manager, mbr_holder_handle holder, uint64_t *bytes, mbr_error *error);

/* ---- Limits */

/* Two phases: claims pause at the new limit, the holders are asked for what is above it, then it
 * stands or, with MBR_LIMIT_RESTORE, the old one. MBR_OK with *answer, whatever its kind. */
MBR_API mbr_status mbr_manager_change_limit(mbr_manager *manager, mbr_authority_handle authority,
    const mbr_limit_change *change, mbr_limit_answer *answer, mbr_error *error);

/* ---- Admission */

/* Members of one holder, each with the most it will ever lease. One is let in, and may grow, only
 * while some order exists in which all get the most they said and finish. Books nothing. */
MBR_API mbr_status mbr_manager_create_admission(mbr_manager *manager, mbr_holder_handle holder,
    mbr_admission_handle *admission, mbr_error *error);
/* MBR_IN_USE while there are members. */
MBR_API mbr_status mbr_manager_destroy_admission(
    mbr_manager *manager, mbr_admission_handle admission, mbr_error *error);

/* *member is 0 but on MBR_OK. MBR_OVER_BUDGET fills *refusal (may be NULL): CAPACITY or ALLOWANCE,
 * it could not finish alone; LIMIT, not beside those that are in: come again after retry_after_ns.
 * MBR_BUSY: 4096 are in. */
MBR_API mbr_status mbr_manager_admit(mbr_manager *manager, mbr_admission_handle admission,
    uint64_t most_bytes, uint64_t *member, mbr_refusal *refusal, mbr_error *error);
/* Before a member leases `bytes` more. MBR_BUSY: not now, others have to finish first, and *refusal
 * (may be NULL) says how much would do and when to come again; MBR_OUT_OF_RANGE: past the most it
 * said; MBR_UNKNOWN_OBJECT: no such member. */
MBR_API mbr_status mbr_manager_grow_member(mbr_manager *manager, mbr_admission_handle admission,
    uint64_t member, uint64_t bytes, mbr_refusal *refusal, mbr_error *error);
/* What a member gave back, or let itself grow by and then did not get. MBR_UNKNOWN_OBJECT: no such
 * member. */
MBR_API mbr_status mbr_manager_shrink_member(mbr_manager *manager, mbr_admission_handle admission,
    uint64_t member, uint64_t bytes, mbr_error *error);
/* Out, with all it had. MBR_UNKNOWN_OBJECT: no such member. */
MBR_API mbr_status mbr_manager_dismiss(
    mbr_manager *manager, mbr_admission_handle admission, uint64_t member, mbr_error *error);

#ifdef __cplusplus
}
#endif

#endif
