/* The shared ledger: one page by which the processes on one device divide one limit. Each member, a
 * process, leases chunks of it and serves its own claims from what it has leased; only the lease is
 * shared, so no claim under it touches the page. Knows no authority.
 *
 * The page is a file FOLDER/membrane-UID-NAME of one page, mode 0600. Its only truth is what each
 * member's record says it has leased: the sum is always computed, never stored.
 *
 *     sum over members (leased) <= limit   at every lease; over = sum - limit after the limit fell,
 *                                          or after bytes that a device gave already
 *
 * All changes are made under an open-file-description lock on the head. Each change is one write of
 * one record, so a member that is killed at any point leaves a page that the next one understands
 * (docs/shared-ledger.md lists the points). A member holds a lock on a byte of its record while it
 * lives. It is gone when that byte is free and either the driver's free figure has risen by what it
 * had, or MBR_SHARED_GONE_NS have passed; then its chunks go back.
 *
 * The calls of one member are made one at a time; the authority sees to that. No call is made with
 * another lock held: each waits for other processes. In a forked child every call is refused with
 * MBR_STALE. A child that was forked and lives on without exec keeps its parent's life byte: the
 * parent's chunks are then withheld until the child ends too, never granted twice. */
#ifndef MEMBRANE_GOVERNOR_SHARED_H
#define MEMBRANE_GOVERNOR_SHARED_H

#include "abi/base/seam.h"
#include "governor/shared_os.h"
#include "membrane/base.h"

#include <stdbool.h>
#include <stdint.h>

#define MBR_SHARED_FOLDER "/dev/shm"
#define MBR_SHARED_MEMBER_LIMIT_COUNT 63
#define MBR_SHARED_GONE_NS UINT64_C(1000000000)

typedef struct mbr_shared mbr_shared;

/* Which ledger, and the seams. */
typedef struct mbr_shared_place {
    const char *name;        /* 1 to 47 of A-Z a-z 0-9 . _ -, the first one no dot */
    const char *folder;      /* NULL: MBR_SHARED_FOLDER */
    const mbr_shared_os *os; /* NULL: the system */
    const mbr_clock *clock;  /* NULL: monotonic, which all processes of a machine share */
} mbr_shared_place;

/* What stood in the page at the end of a call. */
typedef struct mbr_shared_view {
    uint64_t limit_bytes;
    uint64_t leased_bytes; /* sum over all members */
    uint64_t own_bytes;    /* leased by this member */
    uint64_t chunk_bytes;
    uint64_t wanted_bytes; /* what other living members were refused lately and is not free, and
                            * what is leased above the limit */
} mbr_shared_view;

/* The larger of 64 MiB and 1 % of the limit; of a limit below 4 GiB a 64th, so that several members
 * find some. A multiple of 2 MiB. */
uint64_t mbr_shared_chunk_bytes(uint64_t limit_bytes);

/* Joins the ledger. Where no member lives, `limit_bytes` becomes its limit; else the limit stays.
 * MBR_UNSUPPORTED: the folder is missing, full, read-only or closed to this user: the caller goes
 * on without a ledger and says so. Every other failure means that a ledger may be there and is not
 * to be passed by: MBR_INVALID_ARGUMENT (name, folder, or a limit above 2^63 - 1), MBR_UNTRUSTED
 * (owner, mode, or what is in the file), MBR_VERSION_MISMATCH, MBR_OUT_OF_DESCRIPTORS (members),
 * MBR_OUT_OF_HOST_MEMORY, MBR_SYSTEM. */
mbr_status mbr_shared_join(const mbr_shared_place *place, const mbr_heap *heap,
    uint64_t limit_bytes, mbr_shared **shared, mbr_error *error);
/* Gives back what is leased; the last member removes the file. NULL is allowed. */
void mbr_shared_leave(mbr_shared *shared);

/* Each call below fills *view, all zero on failure but MBR_OVER_BUDGET. Their failures:
 * MBR_UNTRUSTED, MBR_VERSION_MISMATCH, MBR_SYSTEM, MBR_UNSUPPORTED (no lock or no space is to be
 * had), MBR_STALE (a forked child, or a file that was removed) and MBR_NOT_READY (one that was
 * emptied), each with a record of this member's that is unchanged by them. `claimed_bytes` is only
 * told to others. */

/* Leases at least `bytes`, in whole chunks as far as they are there. MBR_OVER_BUDGET: nothing was
 * leased, and others can see what was wanted. */
mbr_status mbr_shared_lease(mbr_shared *shared, uint64_t bytes, uint64_t claimed_bytes,
    mbr_shared_view *view, mbr_error *error);
/* Leases bytes that a device gave already, past the limit if need be. */
mbr_status mbr_shared_lease_past_limit(mbr_shared *shared, uint64_t bytes, uint64_t claimed_bytes,
    mbr_shared_view *view, mbr_error *error);
/* Gives back bytes that are leased and not claimed. */
mbr_status mbr_shared_return(mbr_shared *shared, uint64_t bytes, uint64_t claimed_bytes,
    mbr_shared_view *view, mbr_error *error);
/* Looks after members that are gone. `free_bytes` was measured just now, or is MBR_UNKNOWN_BYTES.
 * What this member wanted is forgotten at the second look after its refusal. */
mbr_status mbr_shared_look(mbr_shared *shared, uint64_t free_bytes, uint64_t claimed_bytes,
    mbr_shared_view *view, mbr_error *error);

/* Reads and checks the page and this member's record; *leased_bytes is what stands there. */
mbr_status mbr_shared_audit(mbr_shared *shared, uint64_t *leased_bytes, mbr_error *error);

/* ---- From outside, without being a member */
typedef struct mbr_shared_line {
    uint64_t member; /* a number that is never used again in this ledger */
    uint64_t leased_bytes;
    uint64_t claimed_bytes; /* as it said when it changed its record last */
    uint64_t wanted_bytes;  /* of its last refusal; 0: none lately */
    uint32_t pid;           /* in the member's own namespace */
    bool lives;
} mbr_shared_line;

typedef struct mbr_shared_figures {
    uint64_t limit_bytes;
    uint64_t leased_bytes;
    uint64_t chunk_bytes;
    uint64_t revision; /* rises with each change of the limit */
    uint32_t member_count;
    uint32_t uid; /* who created it */
    mbr_shared_line members[MBR_SHARED_MEMBER_LIMIT_COUNT];
} mbr_shared_figures;

/* MBR_UNKNOWN_OBJECT: no such ledger; else as of joining. Changes nothing. */
mbr_status mbr_shared_read(
    const mbr_shared_place *place, mbr_shared_figures *figures, mbr_error *error);
/* Sets the limit: *over_bytes is what is leased above it, and nobody leases until that is 0.
 * Revokes nothing. MBR_UNTRUSTED also where the ledger was not created by this user. */
mbr_status mbr_shared_set_limit(
    const mbr_shared_place *place, uint64_t limit_bytes, uint64_t *over_bytes, mbr_error *error);

#endif
