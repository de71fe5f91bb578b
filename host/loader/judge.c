/* Puts the judgements of one file in their order: trusted, ELF, note, what the linker would do.
 * Loads nothing; keeps the file open so that what is mapped later can be compared with it. */
#include "host/loader/judge.h"

#include "host/loader/note.h"
#include "host/loader/reason.h"

#include <string.h>

#define FILE_PREFIX "libmembrane-"
#define FILE_SUFFIX ".so"

bool mbr_name_from_path(const char *path, char name[MBR_NOTE_NAME_BYTES])
{
    const size_t prefix = strlen(FILE_PREFIX), suffix = strlen(FILE_SUFFIX);
    const char *slash = strrchr(path, '/');
    const char *file = slash == NULL ? path : slash + 1;
    size_t length = strlen(file);
    memset(name, 0, MBR_NOTE_NAME_BYTES);
    if (length <= prefix + suffix || memcmp(file, FILE_PREFIX, prefix) != 0 ||
        memcmp(file + length - suffix, FILE_SUFFIX, suffix) != 0)
        return false;
    size_t bytes = length - prefix - suffix;
    if (!mbr_plugin_name_is_valid(file + prefix, bytes))
        return false;
    memcpy(name, file + prefix, bytes);
    return true;
}

static mbr_status judge_contents(mbr_judged *judged, mbr_candidate *candidate)
{
    mbr_elf *elf = &judged->elf;
    mbr_status status =
        mbr_elf_read_head(elf, judged->os, judged->fd, (uint64_t)judged->stat.st_size, candidate);
    if (status == MBR_OK)
        status = mbr_note_judge(elf, candidate);
    if (status == MBR_OK)
        status = mbr_elf_judge(elf, candidate);
    if (status == MBR_OK)
        mbr_elf_find_pins(elf, &candidate->note);
    return status;
}

mbr_status mbr_judge_open(const mbr_loader_os *os, const char *path, bool trusted,
    mbr_judged *judged, mbr_candidate *candidate)
{
    judged->os = os;
    judged->fd = -1;
    *candidate = (mbr_candidate){.reason = MBR_REASON_USED};
    mbr_text_copy(candidate->path, path, sizeof candidate->path);
    mbr_name_from_path(path, candidate->name);
    if (strlen(path) >= sizeof candidate->path)
        return mbr_candidate_refuse(candidate, MBR_REASON_NOT_FOUND,
            "the path is %zu bytes long; up to %zu are used", strlen(path),
            sizeof candidate->path - 1);
    mbr_status status = mbr_trust_open(path, trusted, judged, candidate);
    if (status != MBR_OK)
        return status;
    status = judge_contents(judged, candidate);
    if (status != MBR_OK)
        mbr_judge_close(judged);
    return status;
}

void mbr_judge_close(mbr_judged *judged)
{
    if (judged->fd >= 0)
        judged->os->close(judged->fd);
    judged->fd = -1;
}

bool mbr_judge_has_changed(const mbr_judged *judged)
{
    struct stat now;
    return judged->os->fstat(judged->fd, &now) != 0 || now.st_size != judged->stat.st_size ||
        now.st_mtim.tv_sec != judged->stat.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != judged->stat.st_mtim.tv_nsec;
}

mbr_status mbr_loader_judge(const char *path, bool trusted, mbr_candidate *candidate)
{
    mbr_judged judged;
    mbr_status status = mbr_judge_open(&mbr_loader_os_libc, path, trusted, &judged, candidate);
    mbr_judge_close(&judged);
    return status;
}
