/* Admission: whom to let in, so that all who are in can finish. A member says the most it will ever
 * lease; it is let in, and may grow, only while some order exists in which every member gets the
 * most it said, finishes, and gives all back (I16). With one kind of resource that order, if any,
 * is by what each still lacks, the least first. Books nothing: a grant decides over bytes as ever.
 *
 * Every call is any-thread. */
#ifndef MEMBRANE_GOVERNOR_ADMISSION_H
#define MEMBRANE_GOVERNOR_ADMISSION_H

#include "governor/governor.h"

#define MBR_MEMBER_LIMIT_COUNT 4096 /* of one admission */

typedef struct mbr_admission mbr_admission;
typedef struct mbr_member {
    uint64_t number; /* 0: none; never used again */
} mbr_member;

/* What a member has and the most it will have. */
typedef struct mbr_member_need {
    uint64_t has_bytes, most_bytes;
    uint64_t number; /* the caller's own */
} mbr_member_need;

/* Whether all can finish, one after another, with `free_bytes` that none of them has. Pure; sorts
 * the needs. */
bool mbr_all_can_finish(uint64_t free_bytes, mbr_member_need *needs, uint32_t count);

/* For the members of one authority. What others of the authority have charged is not theirs to use:
 * the capacity is the limit in force, with what a shared ledger had free when it was asked last,
 * less what other holders have, but for what caches have charged and could give; at most the
 * allowance of `holder`, unless it borrows; and less what of `holder` is quarantined or retained,
 * which nobody can use. `holder` pays for all members. */
mbr_status mbr_admission_create(mbr_holder *holder, mbr_admission **admission, mbr_error *error);
/* MBR_IN_USE while there are members. NULL is allowed. */
mbr_status mbr_admission_destroy(mbr_admission *admission, mbr_error *error);

/* MBR_OVER_BUDGET fills *refusal (may be NULL): CAPACITY or ALLOWANCE, it could not finish if it
 * were alone; LIMIT, not beside those that are in, and when to come again; MBR_BUSY: as many are in
 * as can; MBR_INVALID_ARGUMENT: most_bytes 0. */
mbr_status mbr_admit(mbr_admission *admission, uint64_t most_bytes, mbr_member *member,
    mbr_refusal *refusal, mbr_error *error);
/* Before a member leases `bytes` more. MBR_OK: done; all can still finish. MBR_BUSY: it waits until
 * others have finished, and *refusal (may be NULL) says how much would do and when to come again;
 * MBR_OUT_OF_RANGE: past the most it said; MBR_UNKNOWN_OBJECT: no such member. */
mbr_status mbr_member_grow(mbr_admission *admission, mbr_member member, uint64_t bytes,
    mbr_refusal *refusal, mbr_error *error);
/* It gave bytes back, or did not use them. False: it is not in. */
bool mbr_member_shrink(mbr_admission *admission, mbr_member member, uint64_t bytes);
/* Out, with all it had. False: it was not in. */
bool mbr_member_leave(mbr_admission *admission, mbr_member member);
uint32_t mbr_admission_count(mbr_admission *admission);

#endif
