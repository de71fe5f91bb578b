/* Opens a candidate without being hurt by what it is (a pipe, a device, a link to nowhere), and
 * asks who could have written it (rule 30). Reads none of its contents. */
#include "host/loader/judge.h"

#include "host/loader/reason.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

_Static_assert(MBR_LOADER_PATH_BYTES >= PATH_MAX, "realpath writes up to PATH_MAX bytes");

#define WRITABLE_BY_OTHERS (S_IWGRP | S_IWOTH)

static mbr_status refuse_unresolved(
    const mbr_loader_os *os, const char *path, int code, mbr_candidate *candidate)
{
    struct stat link;
    if (os->lstat(path, &link) == 0 && S_ISLNK(link.st_mode)) {
        char target[256] = "";
        ssize_t length = os->readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        return mbr_candidate_refuse(candidate, MBR_REASON_NOT_REGULAR,
            "a link to \"%s\", which does not resolve: %s", target, strerror(code));
    }
    return mbr_candidate_refuse(candidate, MBR_REASON_NOT_FOUND, "%s", strerror(code));
}

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a folder";
    case S_IFIFO:
        return "a pipe";
    case S_IFSOCK:
        return "a socket";
    case S_IFCHR:
    case S_IFBLK:
        return "a device";
    default:
        return "no regular file";
    }
}

static mbr_status open_regular(mbr_judged *judged, mbr_candidate *candidate)
{
    /* Asked before the open, because opening a device can already do something. */
    if (judged->os->stat(judged->resolved, &judged->stat) != 0)
        return mbr_candidate_refuse(candidate, MBR_REASON_NOT_FOUND, "%s", strerror(errno));
    if (!S_ISREG(judged->stat.st_mode))
        return mbr_candidate_refuse(candidate, MBR_REASON_NOT_REGULAR,
            "%s; a plugin is a regular file", kind_of(judged->stat.st_mode));
    /* What was regular a moment ago may be a pipe now: never wait for its writer. */
    judged->fd = judged->os->open(
        judged->resolved, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (judged->fd < 0)
        return mbr_candidate_refuse(
            candidate, MBR_REASON_NOT_FOUND, "cannot be opened: %s", strerror(errno));
    if (judged->os->fstat(judged->fd, &judged->stat) != 0 || !S_ISREG(judged->stat.st_mode))
        return mbr_candidate_refuse(candidate, MBR_REASON_NOT_REGULAR,
            "%s; a plugin is a regular file", kind_of(judged->stat.st_mode));
    return MBR_OK;
}

static bool is_own(uid_t owner)
{
    return owner == 0 || owner == geteuid();
}

static mbr_status judge_file(const struct stat *file, mbr_candidate *candidate)
{
    if (!is_own(file->st_uid))
        return mbr_candidate_refuse(candidate, MBR_REASON_UNTRUSTED_FILE,
            "it belongs to user %u, neither root nor you (%u); copy it yourself, or say --trust",
            (unsigned)file->st_uid, (unsigned)geteuid());
    if ((file->st_mode & WRITABLE_BY_OTHERS) != 0)
        return mbr_candidate_refuse(candidate, MBR_REASON_UNTRUSTED_FILE,
            "its mode %04o lets others write to it; chmod go-w it, or say --trust",
            (unsigned)(file->st_mode & 07777));
    return MBR_OK;
}

/* Its own folder is held to the file's rule. A folder above may be writable only with the sticky
 * bit, which keeps others from renaming what is not theirs. */
static mbr_status judge_folder(
    const mbr_loader_os *os, const char *folder, bool is_files_own, mbr_candidate *candidate)
{
    struct stat stats;
    if (os->stat(folder, &stats) != 0)
        return mbr_candidate_refuse(candidate, MBR_REASON_UNTRUSTED_FOLDER,
            "its folder %s cannot be asked: %s", folder, strerror(errno));
    if (is_files_own && !is_own(stats.st_uid))
        return mbr_candidate_refuse(candidate, MBR_REASON_UNTRUSTED_FOLDER,
            "its folder %s belongs to user %u, neither root nor you (%u); copy the file to a "
            "folder "
            "of yours, or say --trust",
            folder, (unsigned)stats.st_uid, (unsigned)geteuid());
    bool is_open = (stats.st_mode & WRITABLE_BY_OTHERS) != 0;
    if (is_open && (is_files_own || (stats.st_mode & S_ISVTX) == 0))
        return mbr_candidate_refuse(candidate, MBR_REASON_UNTRUSTED_FOLDER,
            "mode %04o of the folder %s lets others replace it; chmod go-w the folder, or say "
            "--trust",
            (unsigned)(stats.st_mode & 07777), folder);
    return MBR_OK;
}

static mbr_status judge_folders(const mbr_judged *judged, mbr_candidate *candidate)
{
    char folder[MBR_LOADER_PATH_BYTES];
    strcpy(folder, judged->resolved);
    bool is_files_own = true;
    for (;;) {
        char *slash = strrchr(folder, '/');
        bool is_root = slash == folder;
        slash[is_root ? 1 : 0] = '\0';
        mbr_status status = judge_folder(judged->os, folder, is_files_own, candidate);
        if (status != MBR_OK || is_root)
            return status;
        is_files_own = false;
    }
}

mbr_status mbr_trust_open(
    const char *path, bool trusted, mbr_judged *judged, mbr_candidate *candidate)
{
    judged->fd = -1;
    if (judged->os->realpath(path, judged->resolved) == NULL)
        return refuse_unresolved(judged->os, path, errno, candidate);
    mbr_status status = open_regular(judged, candidate);
    if (status == MBR_OK && !trusted)
        status = judge_file(&judged->stat, candidate);
    if (status == MBR_OK && !trusted)
        status = judge_folders(judged, candidate);
    if (status != MBR_OK)
        mbr_judge_close(judged);
    return status;
}
