/* Responsible for the shared ledger's file: its path, who may have made it, its locks, whole reads
 * and writes of one record. Never decides over bytes.
 *
 * The outside facts: locks of open file descriptions (fcntl(2), F_OFD_SETLK) end with the last
 * descriptor of the description, so with the process, and do not exclude threads of one process. A
 * write of up to a page that lies in one page of the page cache is not cut by SIGKILL: the kernel
 * looks for fatal signals between pages only. */
#include "governor/shared_file.h"

#include "abi/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How often a file that its last member removed meanwhile is opened anew. */
#define REOPEN_LIMIT_COUNT 1000
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

static uint64_t record_offset(uint32_t index)
{
    return offsetof(mbr_shared_page, records) + (uint64_t)index * sizeof(mbr_shared_record);
}

/* ---- Opening */
static mbr_status make_path(mbr_shared_file *file, const mbr_shared_place *place, mbr_error *error)
{
    const char *name = place->name, *folder = place->folder;
    size_t length = name == NULL ? 0 : strnlen(name, MBR_SHARED_NAME_BYTES);
    if (length == 0 || length == MBR_SHARED_NAME_BYTES || name[0] == '.' ||
        strspn(name, NAME_CHARACTERS) != length)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "a shared ledger's name has 1 to %d letters, digits, '.', '_' or '-' and begins with "
            "no '.'",
            MBR_SHARED_NAME_BYTES - 1);
    int written = snprintf(file->path, sizeof(file->path), "%s/membrane-%u-%s",
        folder == NULL ? MBR_SHARED_FOLDER : folder, (unsigned)geteuid(), name);
    if (written < 0 || (size_t)written >= sizeof(file->path))
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the folder of shared ledger '%s' has a path above %d bytes", name,
            MBR_SHARED_PATH_BYTES - 1);
    return MBR_OK;
}

static mbr_status fail_system(
    const mbr_shared_file *file, mbr_status status, int code, const char *what, mbr_error *error)
{
    return mbr_fail_native(error, status, MBR_NATIVE_ERRNO, -code, "shared ledger: %s: %s: %s",
        what, strerror(-code), file->path);
}

/* The folder offers no ledger to anybody like us, so nobody like us has one there. */
static bool means_none(int code)
{
    return code == -ENOSPC || code == -EDQUOT || code == -EROFS || code == -ENOENT ||
        code == -ENOTDIR || code == -EACCES || code == -EPERM || code == -ENOLCK ||
        code == -ENOSYS || code == -EOPNOTSUPP;
}

static mbr_status fail_open(mbr_shared_file *file, int code, mbr_error *error)
{
    struct stat status;
    bool exists = file->os.find(file->os.context, file->path, &status) == 0;
    if (code == -ENOENT && file->access != MBR_SHARED_CREATE)
        return mbr_fail(error, MBR_UNKNOWN_OBJECT,
            "no such shared ledger; it is there while a process is its member: %s", file->path);
    if (exists && (code == -ELOOP || code == -EACCES || code == -EPERM || code == -EISDIR))
        return fail_system(file, MBR_UNTRUSTED, code, "not a file of this user's own", error);
    if (means_none(code))
        return fail_system(file, MBR_UNSUPPORTED, code, "the folder takes none", error);
    return fail_system(file, MBR_SYSTEM, code, "cannot be opened", error);
}

static mbr_status open_once(mbr_shared_file *file, mbr_error *error)
{
    static const int accesses[] = {O_RDONLY, O_RDWR, O_RDWR | O_CREAT};
    int flags = accesses[file->access] | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
    file->descriptor = file->os.open(file->os.context, file->path, flags, S_IRUSR | S_IWUSR);
    return file->descriptor < 0 ? fail_open(file, file->descriptor, error) : MBR_OK;
}

void mbr_shared_file_close(mbr_shared_file *file)
{
    file->os.close(file->os.context, file->descriptor);
}

/* ---- The lock and the page */
static mbr_status lock(mbr_shared_file *file, mbr_error *error)
{
    mbr_shared_lock kind =
        file->access == MBR_SHARED_READ ? MBR_SHARED_LOCK_READ : MBR_SHARED_LOCK_WRITE;
    int code = file->os.lock(file->os.context, file->descriptor, kind, 0, sizeof(mbr_shared_head));
    if (code >= 0)
        return MBR_OK;
    return fail_system(file, means_none(code) ? MBR_UNSUPPORTED : MBR_SYSTEM, code,
        "its lock cannot be taken", error);
}

void mbr_shared_file_end(mbr_shared_file *file)
{
    file->os.lock(
        file->os.context, file->descriptor, MBR_SHARED_UNLOCK, 0, sizeof(mbr_shared_head));
}

static mbr_status check_owner(
    const mbr_shared_file *file, const struct stat *status, mbr_error *error)
{
    if (!S_ISREG(status->st_mode))
        return mbr_fail(error, MBR_UNTRUSTED,
            "no shared ledger, for no regular file; use another name than %s", file->path);
    if (status->st_uid != geteuid())
        return mbr_fail(error, MBR_UNTRUSTED,
            "the shared ledger belongs to user %u and this is user %u; only its creator may use %s",
            (unsigned)status->st_uid, (unsigned)geteuid(), file->path);
    if ((status->st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return mbr_fail(error, MBR_UNTRUSTED,
            "the shared ledger is open to others (mode %03o); 600 would be trusted of %s",
            (unsigned)status->st_mode & 0777, file->path);
    return MBR_OK;
}

static mbr_status read_page(
    mbr_shared_file *file, uint64_t file_bytes, mbr_shared_page *page, mbr_error *error)
{
    memset(page, 0, sizeof(*page));
    int got = file->os.read(file->os.context, file->descriptor, page, sizeof(*page));
    if (got < 0)
        return fail_system(file, MBR_SYSTEM, got, "cannot be read", error);
    return mbr_shared_page_check(
        page, (uint64_t)got < sizeof(*page) ? (uint64_t)got : file_bytes, file->path, error);
}

static mbr_status write_whole(
    mbr_shared_file *file, const void *from, size_t bytes, uint64_t offset, mbr_error *error)
{
    int code = file->os.write(file->os.context, file->descriptor, from, bytes, offset);
    if (code >= 0 && (size_t)code == bytes)
        return MBR_OK;
    code = code < 0 ? code : -ENOSPC;
    return fail_system(
        file, means_none(code) ? MBR_UNSUPPORTED : MBR_SYSTEM, code, "cannot be written", error);
}

mbr_status mbr_shared_file_begin(mbr_shared_file *file, mbr_shared_page *page, mbr_error *error)
{
    struct stat status;
    mbr_status taken = lock(file, error);
    if (taken != MBR_OK)
        return taken;
    int code = file->os.stat(file->os.context, file->descriptor, &status);
    if (code < 0)
        taken = fail_system(file, MBR_SYSTEM, code, "cannot be examined", error);
    else
        taken = check_owner(file, &status, error);
    if (taken == MBR_OK && status.st_nlink == 0)
        taken = mbr_fail(error, MBR_STALE,
            "the shared ledger was removed; end its members, then start them again: %s",
            file->path);
    else if (taken == MBR_OK && status.st_size == 0)
        taken = mbr_fail(error, MBR_NOT_READY,
            "the shared ledger is empty; it is there when a process has joined: %s", file->path);
    else if (taken == MBR_OK)
        taken = read_page(file, (uint64_t)status.st_size, page, error);
    if (taken != MBR_OK)
        mbr_shared_file_end(file);
    return taken;
}

/* The file is new, or whoever made it was killed before it wrote. Another may have come first. */
static mbr_status make_page(
    mbr_shared_file *file, uint64_t limit_bytes, mbr_shared_page *page, mbr_error *error)
{
    struct stat status;
    mbr_status made = lock(file, error);
    if (made != MBR_OK)
        return made;
    int code = file->os.stat(file->os.context, file->descriptor, &status);
    if (code < 0) {
        made = fail_system(file, MBR_SYSTEM, code, "cannot be examined", error);
    } else if (status.st_size == 0 && status.st_nlink != 0) {
        mbr_shared_page_init(page, limit_bytes);
        made = write_whole(file, page, sizeof(*page), 0, error);
        if (made != MBR_OK)
            mbr_shared_file_remove(file);
    }
    mbr_shared_file_end(file);
    return made;
}

mbr_status mbr_shared_file_open(mbr_shared_file *file, const mbr_shared_place *place,
    mbr_shared_access access, uint64_t limit_bytes, mbr_shared_page *page, mbr_error *error)
{
    file->os = place->os != NULL ? *place->os : mbr_shared_os_system;
    file->access = access;
    mbr_status status = make_path(file, place, error);
    for (uint32_t i = 0; status == MBR_OK && i < REOPEN_LIMIT_COUNT; i++) {
        status = open_once(file, error);
        if (status != MBR_OK)
            return status;
        status = mbr_shared_file_begin(file, page, error);
        if (status == MBR_NOT_READY && access == MBR_SHARED_CREATE) {
            status = make_page(file, limit_bytes, page, error);
            if (status == MBR_OK)
                status = mbr_shared_file_begin(file, page, error);
        }
        if (status == MBR_OK)
            return MBR_OK;
        mbr_shared_file_close(file);
        if (status == MBR_STALE)
            status = MBR_OK; /* its last member left; the path leads to another one or to none */
        else if (status == MBR_NOT_READY)
            status = MBR_UNKNOWN_OBJECT;
    }
    if (status != MBR_OK)
        return status;
    return mbr_fail(error, MBR_SYSTEM,
        "the shared ledger was removed each of %d times that it was opened: %s", REOPEN_LIMIT_COUNT,
        file->path);
}

mbr_status mbr_shared_file_store_head(
    mbr_shared_file *file, mbr_shared_page *page, mbr_error *error)
{
    mbr_shared_head_seal(&page->head);
    return write_whole(file, &page->head, sizeof(page->head), 0, error);
}

mbr_status mbr_shared_file_store_record(
    mbr_shared_file *file, mbr_shared_page *page, uint32_t index, mbr_error *error)
{
    mbr_shared_record *record = &page->records[index];
    mbr_shared_record_seal(record, index);
    return write_whole(file, record, sizeof(*record), record_offset(index), error);
}

/* ---- Lives */
mbr_status mbr_shared_file_try_lock_life(
    mbr_shared_file *file, uint32_t index, bool *is_taken, mbr_error *error)
{
    int code = file->os.lock(
        file->os.context, file->descriptor, MBR_SHARED_LOCK_TRY, record_offset(index), 1);
    *is_taken = code >= 0;
    return code >= 0 || code == -EAGAIN
        ? MBR_OK
        : fail_system(file, MBR_SYSTEM, code, "the lock of a member's life cannot be taken", error);
}

void mbr_shared_file_unlock_life(mbr_shared_file *file, uint32_t index)
{
    file->os.lock(file->os.context, file->descriptor, MBR_SHARED_UNLOCK, record_offset(index), 1);
}

bool mbr_shared_file_lives(mbr_shared_file *file, uint32_t index)
{
    return file->os.is_locked(file->os.context, file->descriptor, record_offset(index)) != 0;
}

void mbr_shared_file_remove(mbr_shared_file *file)
{
    struct stat opened, found;
    if (file->os.stat(file->os.context, file->descriptor, &opened) >= 0 &&
        file->os.find(file->os.context, file->path, &found) >= 0 && opened.st_dev == found.st_dev &&
        opened.st_ino == found.st_ino)
        file->os.remove(file->os.context, file->path);
}
