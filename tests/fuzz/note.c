/* Fuzz target: a file's bytes through the loader's ELF reader, its note and its judgement. Nothing
 * of the file is mapped or run. The file lies behind the loader's own seam, so that each read is
 * seen: it must stay inside the file and there must be an end to reading, whatever the file claims.
 *
 * The first byte says how the system behaves: short reads, interruptions, a read that fails. */
#include "host/loader/note.h"
#include "abi/base/seam.h"
#include "host/loader/judge.h"
#include "tests/fuzz/input.h"

#include <errno.h>

#define FILE_FD 1000000
#define PATH "/plugins/libmembrane-specimen.so"
/* The readers' own limits, each read once: notes of 64 segments, the dynamic table twice, symbols
 * and their names. */
#define READ_COUNT_MAX 700000

#define IS_SHORT 1       /* every read gives one byte less than asked, if it can */
#define IS_INTERRUPTED 2 /* every second read is interrupted first */
#define IS_CUT 4         /* the file shrinks to half its size after it was asked for */
#define IS_NAMED 8       /* otherwise its name says nothing of the plugin's */

static struct {
    const uint8_t *data;
    size_t bytes;
    unsigned manner;
    uint64_t reads;
    int open_count;
} file;

static char *file_realpath(const char *path, char *resolved)
{
    return strcpy(resolved, path);
}

static int file_open(const char *path, int flags)
{
    (void)path;
    (void)flags;
    file.open_count++;
    return FILE_FD;
}

static int file_fstat(int fd, struct stat *facts)
{
    FUZZ_MUST(fd == FILE_FD, "fstat of %d", fd);
    memset(facts, 0, sizeof *facts);
    facts->st_mode = S_IFREG | 0644;
    facts->st_size = (off_t)file.bytes;
    return 0;
}

static ssize_t file_pread(int fd, void *to, size_t bytes, off_t offset)
{
    FUZZ_MUST(fd == FILE_FD && file.open_count == 1, "a read of %d", fd);
    FUZZ_MUST(offset >= 0 && (size_t)offset <= file.bytes && bytes <= file.bytes - (size_t)offset,
        "%zu bytes at %lld of %zu", bytes, (long long)offset, file.bytes);
    FUZZ_MUST(++file.reads <= READ_COUNT_MAX, "no end of reading");
    if ((file.manner & IS_INTERRUPTED) != 0 && file.reads % 2 == 1) {
        errno = EINTR;
        return -1;
    }
    size_t end = (file.manner & IS_CUT) != 0 ? file.bytes / 2 : file.bytes;
    size_t there = (size_t)offset >= end ? 0 : end - (size_t)offset;
    size_t now = bytes < there ? bytes : there;
    if ((file.manner & IS_SHORT) != 0 && now > 1)
        now--;
    memcpy(to, file.data + offset, now);
    return (ssize_t)now;
}

static int file_close(int fd)
{
    FUZZ_MUST(fd == FILE_FD && file.open_count == 1, "a close of %d", fd);
    file.open_count--;
    return 0;
}

static int file_stat(const char *path, struct stat *facts)
{
    (void)path;
    return file_fstat(FILE_FD, facts);
}

static const mbr_loader_os file_os = {
    .realpath = file_realpath,
    .stat = file_stat,
    .lstat = file_stat,
    .open = file_open,
    .fstat = file_fstat,
    .pread = file_pread,
    .close = file_close,
};

static bool is_text(const char *text, size_t bytes)
{
    return memchr(text, '\0', bytes) != NULL;
}

/* What anybody may rely on once a file was judged to be good. */
static void check_used(const mbr_judged *judged, const mbr_candidate *candidate)
{
    const mbr_note_facts *note = &candidate->note;
    FUZZ_MUST(judged->fd == FILE_FD && file.open_count == 1, "a good file is kept open");
    FUZZ_MUST(note->major == MBR_MAJOR, "major %u", note->major);
    FUZZ_MUST(note->minor_min <= MBR_HOST_MINOR_MAX && note->minor_max >= note->minor_min,
        "minors %u to %u", note->minor_min, note->minor_max);
    FUZZ_MUST(mbr_plugin_name_is_valid(note->name, strlen(note->name)), "name %s", note->name);
    FUZZ_MUST(strcmp(candidate->name, note->name) == 0, "%s, %s", candidate->name, note->name);
    FUZZ_MUST(note->digest == MBR_DIGEST_MINOR_0 || note->minor_max > 0, "digest");
    FUZZ_MUST(candidate->detail[0] == '\0', "%s", candidate->detail);
    FUZZ_MUST(judged->elf.segment_count >= 1 && judged->elf.segment_count <= MBR_ELF_SEGMENTS_MAX,
        "%u segments", judged->elf.segment_count);
}

static void check_candidate(const mbr_candidate *candidate, mbr_status status)
{
    const mbr_note_facts *note = &candidate->note;
    FUZZ_MUST((status == MBR_OK) == (candidate->reason == MBR_REASON_USED), "%d with reason %d",
        status, candidate->reason);
    FUZZ_MUST(candidate->reason < MBR_REASON_COUNT, "reason %d", candidate->reason);
    FUZZ_MUST(is_text(candidate->detail, sizeof candidate->detail), "detail");
    FUZZ_MUST(status == MBR_OK || candidate->detail[0] != '\0', "a refusal without a word");
    FUZZ_MUST(is_text(candidate->name, sizeof candidate->name), "name");
    FUZZ_MUST(is_text(note->name, sizeof note->name), "the note's name");
    FUZZ_MUST(is_text(note->vendor, sizeof note->vendor), "vendor");
    FUZZ_MUST(is_text(note->unique_symbol, sizeof note->unique_symbol), "unique symbol");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static mbr_judged judged;
    static mbr_candidate candidate;
    fuzz_input input = fuzz_input_of(data, bytes);
    file.manner = fuzz_u8(&input);
    file.data = input.data == NULL ? (const uint8_t *)"" : input.data + input.at;
    file.bytes = fuzz_left(&input);
    file.reads = 0;
    file.open_count = 0;
    const char *path = (file.manner & IS_NAMED) != 0 ? PATH : "/plugins/any";
    mbr_status status = mbr_judge_open(&file_os, path, true, &judged, &candidate);
    check_candidate(&candidate, status);
    if (status == MBR_OK)
        check_used(&judged, &candidate);
    mbr_judge_close(&judged);
    FUZZ_MUST(file.open_count == 0, "%d files stayed open", file.open_count);
    return 0;
}
