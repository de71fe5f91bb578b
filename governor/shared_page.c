/* Responsible for the layout of the shared ledger's page: making one, its checksums, and refusing
 * what is none. Never reads or writes a file. */
#include "governor/shared_page.h"

#include "abi/base/checked.h"
#include "abi/base/error.h"

#include <inttypes.h>
#include <string.h>

#define CHECKED_WORD_COUNT (MBR_SHARED_RECORD_BYTES / 8 - 1)
#define HEAD_INDEX UINT64_MAX /* a record that stands at another's place is wrong, too */

#define CHUNK_UNIT_BYTES (UINT64_C(2) << 20)
#define CHUNK_MIN_BYTES (UINT64_C(64) << 20)
#define CHUNK_PERCENT 100
#define SMALL_LIMIT_SHARE 64 /* a limit below this many smallest chunks has smaller ones */

_Static_assert(sizeof(mbr_shared_page) == MBR_SHARED_PAGE_BYTES, "a write stays inside one page");
_Static_assert(sizeof(mbr_shared_head) == MBR_SHARED_RECORD_BYTES, "the checksum is its last word");

uint64_t mbr_shared_chunk_bytes(uint64_t limit_bytes)
{
    bool is_small = limit_bytes < CHUNK_MIN_BYTES * SMALL_LIMIT_SHARE;
    uint64_t share = limit_bytes / (is_small ? SMALL_LIMIT_SHARE : CHUNK_PERCENT);
    uint64_t least = is_small ? CHUNK_UNIT_BYTES : CHUNK_MIN_BYTES;
    uint64_t bytes = mbr_max(share, least);
    return mbr_align_up(bytes, CHUNK_UNIT_BYTES, &bytes) ? bytes : share;
}

/* Tells noise and slips from records; it is no protection against somebody who wants to deceive,
 * who has this user's rights already. */
static uint64_t checksum(const void *words, uint64_t index)
{
    uint64_t sum = MBR_SHARED_MAGIC ^ index, word;
    for (uint32_t i = 0; i < CHECKED_WORD_COUNT; i++) {
        memcpy(&word, (const char *)words + i * sizeof(word), sizeof(word));
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    return sum;
}

void mbr_shared_head_seal(mbr_shared_head *head)
{
    head->check = checksum(head, HEAD_INDEX);
}

void mbr_shared_record_seal(mbr_shared_record *record, uint32_t index)
{
    record->check = checksum(record, index);
}

void mbr_shared_page_init(mbr_shared_page *page, uint64_t limit_bytes)
{
    memset(page, 0, sizeof(*page));
    page->head.magic = MBR_SHARED_MAGIC;
    page->head.version = MBR_SHARED_VERSION;
    page->head.page_bytes = MBR_SHARED_PAGE_BYTES;
    page->head.limit_bytes = limit_bytes;
    mbr_shared_head_seal(&page->head);
    for (uint32_t i = 0; i < MBR_SHARED_MEMBER_LIMIT_COUNT; i++)
        mbr_shared_record_seal(&page->records[i], i);
}

uint64_t mbr_shared_page_leased(const mbr_shared_page *page)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < MBR_SHARED_MEMBER_LIMIT_COUNT; i++)
        sum += page->records[i].leased_bytes;
    return sum;
}

static bool record_is_sound(const mbr_shared_record *record, uint32_t index)
{
    bool used = record->member != 0;
    return record->check == checksum(record, index) && record->reserved == 0 &&
        (used || record->leased_bytes == 0) && record->leased_bytes <= MBR_SHARED_BYTES_LIMIT;
}

static mbr_status check_head(const mbr_shared_head *head, const char *path, mbr_error *error)
{
    if (head->magic != MBR_SHARED_MAGIC)
        return mbr_fail(error, MBR_UNTRUSTED,
            "no shared ledger: it begins with %016" PRIx64 "; use another name, or remove %s",
            head->magic, path);
    if (head->version != MBR_SHARED_VERSION || head->page_bytes != MBR_SHARED_PAGE_BYTES)
        return mbr_fail(error, MBR_VERSION_MISMATCH,
            "a shared ledger of version %u with %u bytes, known here is version %d with %d; let "
            "all members run one version, or use another name than %s",
            head->version, head->page_bytes, MBR_SHARED_VERSION, MBR_SHARED_PAGE_BYTES, path);
    if (head->check != checksum(head, HEAD_INDEX) || head->limit_bytes > MBR_SHARED_BYTES_LIMIT)
        return mbr_fail(error, MBR_UNTRUSTED,
            "a damaged shared ledger: its head makes no sense; end its members and remove %s",
            path);
    return MBR_OK;
}

mbr_status mbr_shared_page_check(
    const mbr_shared_page *page, uint64_t bytes, const char *path, mbr_error *error)
{
    mbr_status status = MBR_OK;
    if (bytes >= sizeof(page->head))
        status = check_head(&page->head, path, error);
    if (status == MBR_OK && bytes != sizeof(*page))
        status = mbr_fail(error, MBR_UNTRUSTED,
            "no shared ledger: it has %" PRIu64
            " bytes instead of %zu; use another name, or end its members and remove %s",
            bytes, sizeof(*page), path);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < MBR_SHARED_MEMBER_LIMIT_COUNT && status == MBR_OK; i++) {
        const mbr_shared_record *record = &page->records[i];
        if (!record_is_sound(record, i) || !mbr_add(sum, record->leased_bytes, &sum) ||
            sum > MBR_SHARED_BYTES_LIMIT)
            status = mbr_fail(error, MBR_UNTRUSTED,
                "a damaged shared ledger: record %u makes no sense; end its members and remove %s",
                i, path);
    }
    return status;
}
