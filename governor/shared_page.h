/* The layout of the shared ledger's page and what makes one acceptable. Whoever reads it holds the
 * ledger's lock. */
#ifndef MEMBRANE_GOVERNOR_SHARED_PAGE_H
#define MEMBRANE_GOVERNOR_SHARED_PAGE_H

#include "governor/shared.h"

#define MBR_SHARED_MAGIC UINT64_C(0x524744454c52424d) /* "MBRLEDGR" */
#define MBR_SHARED_VERSION 1
#define MBR_SHARED_RECORD_BYTES 64
#define MBR_SHARED_PAGE_BYTES 4096
#define MBR_SHARED_BYTES_LIMIT UINT64_C(0x7fffffffffffffff) /* of a limit and of each lease */

/* Head and records end with a checksum over the words before it. */
typedef struct mbr_shared_head {
    uint64_t magic;
    uint32_t version;
    uint32_t page_bytes;
    uint64_t limit_bytes;
    uint64_t revision;
    uint64_t last_member; /* the number that was given last */
    uint64_t reserved[2];
    uint64_t check;
} mbr_shared_head;

typedef struct mbr_shared_record {
    uint64_t member; /* 0: free, and then everything but the checksum is 0 */
    uint32_t pid;
    uint32_t reserved;
    uint64_t leased_bytes; /* the one truth */
    uint64_t wanted_bytes;
    uint64_t claimed_bytes;
    uint64_t gone_since_ns;   /* when somebody first saw its life byte free; 0: not seen */
    uint64_t gone_free_bytes; /* the driver's free figure then; MBR_UNKNOWN_BYTES: not measured */
    uint64_t check;
} mbr_shared_record;

typedef struct mbr_shared_page {
    mbr_shared_head head;
    mbr_shared_record records[MBR_SHARED_MEMBER_LIMIT_COUNT];
} mbr_shared_page;

/* A new ledger's page, and one of a changed head or record; both with their checksums. */
void mbr_shared_page_init(mbr_shared_page *page, uint64_t limit_bytes);
void mbr_shared_head_seal(mbr_shared_head *head);
void mbr_shared_record_seal(mbr_shared_record *record, uint32_t index);

/* Whether the `bytes` bytes that were read are a ledger's page of this version and every record and
 * their sum make sense. MBR_VERSION_MISMATCH or MBR_UNTRUSTED, in one line that names `path`. */
mbr_status mbr_shared_page_check(
    const mbr_shared_page *page, uint64_t bytes, const char *path, mbr_error *error);

/* Of a page that was checked: no sum wraps. */
uint64_t mbr_shared_page_leased(const mbr_shared_page *page);

#endif
