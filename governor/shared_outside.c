/* Responsible for what is done to a shared ledger without being its member: reading its figures and
 * setting its limit. Never leases, never takes a member off. */
#include "governor/shared.h"

#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "governor/shared_file.h"

#include <unistd.h>

static void fill(mbr_shared_file *file, const mbr_shared_page *page, mbr_shared_figures *figures)
{
    figures->limit_bytes = page->head.limit_bytes;
    figures->leased_bytes = mbr_shared_page_leased(page);
    figures->chunk_bytes = mbr_shared_chunk_bytes(page->head.limit_bytes);
    figures->revision = page->head.revision;
    figures->uid = geteuid(); /* the owner was checked */
    for (uint32_t i = 0; i < MBR_SHARED_MEMBER_LIMIT_COUNT; i++) {
        const mbr_shared_record *record = &page->records[i];
        if (record->member == 0)
            continue;
        figures->members[figures->member_count++] = (mbr_shared_line){.member = record->member,
            .leased_bytes = record->leased_bytes,
            .claimed_bytes = record->claimed_bytes,
            .wanted_bytes = record->wanted_bytes,
            .pid = record->pid,
            .lives = mbr_shared_file_lives(file, i)};
    }
}

mbr_status mbr_shared_read(
    const mbr_shared_place *place, mbr_shared_figures *figures, mbr_error *error)
{
    *figures = (mbr_shared_figures){0};
    mbr_shared_file file;
    mbr_shared_page page;
    mbr_status status = mbr_shared_file_open(&file, place, MBR_SHARED_READ, 0, &page, error);
    if (status != MBR_OK)
        return status;
    fill(&file, &page, figures);
    mbr_shared_file_end(&file);
    mbr_shared_file_close(&file);
    return MBR_OK;
}

mbr_status mbr_shared_set_limit(
    const mbr_shared_place *place, uint64_t limit_bytes, uint64_t *over_bytes, mbr_error *error)
{
    *over_bytes = 0;
    if (limit_bytes > MBR_SHARED_BYTES_LIMIT)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "a shared ledger's limit is at most 2^63 - 1 bytes, not %llu",
            (unsigned long long)limit_bytes);
    mbr_shared_file file;
    mbr_shared_page page;
    mbr_status status = mbr_shared_file_open(&file, place, MBR_SHARED_WRITE, 0, &page, error);
    if (status != MBR_OK)
        return status;
    if (page.head.limit_bytes != limit_bytes) {
        page.head.limit_bytes = limit_bytes;
        page.head.revision++;
        status = mbr_shared_file_store_head(&file, &page, error);
    }
    mbr_shared_file_end(&file);
    mbr_shared_file_close(&file);
    uint64_t leased = mbr_shared_page_leased(&page);
    if (status == MBR_OK)
        *over_bytes = leased - mbr_min(leased, limit_bytes);
    return status;
}
