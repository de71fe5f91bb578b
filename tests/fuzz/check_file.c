/* Fuzz target: a file's bytes through the conformance tool's own ELF reader, and all that its
 * checks ask of it. That reader maps the file, so it is a real one in memory. The first byte is
 * skipped, so that the corpus of the target `note` fits here too. */
#include "tests/fuzz/input.h"
#include "tools/check/elf_file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <unistd.h>

static jmp_buf ended;

/* A check ends its process; here it ends its round. */
static void end_round(mbr_trial *trial)
{
    (void)trial;
    longjmp(ended, 1);
}

/* Whether [at, at + count) lies in the mapped file. */
static bool is_inside(const mbr_elf_file *file, const void *at, uint64_t count)
{
    uintptr_t start = (uintptr_t)file->bytes, place = (uintptr_t)at;
    return place >= start && place - start <= file->byte_count &&
        count <= file->byte_count - (place - start);
}

/* Every byte that the reader hands out is read once. */
static unsigned touch(const unsigned char *at, uint64_t count)
{
    unsigned sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += at[i];
    return sum;
}

static unsigned ask_string(const mbr_elf_file *file, uint64_t offset)
{
    const char *text = mbr_elf_file_string(file, offset);
    if (text == NULL)
        return 0;
    FUZZ_MUST(is_inside(file, text, strlen(text) + 1), "a string outside of the file");
    return (unsigned)strlen(text);
}

static unsigned ask_everything(mbr_trial *trial, const mbr_elf_file *file)
{
    unsigned sum = mbr_elf_file_is_whole(file);
    for (uint32_t i = 0; i < file->dynamic_count; i++) {
        uint64_t value, tag = (uint64_t)file->dynamic[i].d_tag;
        FUZZ_MUST(mbr_elf_file_dynamic(file, (int64_t)tag, &value), "its own tag");
        sum += ask_string(file, file->dynamic[i].d_un.d_val);
    }
    FUZZ_MUST(
        file->symbol_count <= 65536 * 2, "%llu symbols", (unsigned long long)file->symbol_count);
    for (uint64_t i = 0; i < file->symbol_count; i++) {
        Elf64_Sym symbol;
        if (!mbr_elf_file_symbol(file, i, &symbol))
            break;
        sum += ask_string(file, symbol.st_name);
    }
    for (uint32_t i = 0; i < file->segment_count; i++) {
        const GElf_Phdr *segment = &file->segments[i];
        const unsigned char *at = mbr_elf_file_at(file, segment->p_vaddr, segment->p_filesz);
        if (at == NULL)
            continue;
        FUZZ_MUST(is_inside(file, at, segment->p_filesz), "segment %u outside of the file", i);
        sum += touch(at, segment->p_filesz);
    }
    for (uint32_t i = 0; i < file->note_count; i++)
        sum += touch(file->notes[i].bytes, file->notes[i].byte_count);
    mbr_note_head head = mbr_elf_file_note(trial, file);
    return sum + mbr_elf_note_has_name(&head);
}

static void judge(mbr_trial *trial)
{
    static mbr_elf_file file;
    int lowest = fcntl(0, F_DUPFD, 0); /* where the reader, which keeps its file open, opens it */
    close(lowest);
    memset(&file, 0, sizeof file);
    if (setjmp(ended) == 0) {
        mbr_elf_file_read_any(trial, &file);
        unsigned sum = ask_everything(trial, &file);
        __asm__ volatile("" : : "r"(sum)); /* the reads are not to be optimized away */
    } else {
        FUZZ_MUST(trial->page->verdict == MBR_VERDICT_SKIP, "verdict %u", trial->page->verdict);
    }
    elf_end(file.elf);
    close(lowest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static mbr_page page;
    static mbr_trial trial;
    fuzz_input input = fuzz_input_of(data, bytes);
    fuzz_u8(&input);
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    size_t left = fuzz_left(&input);
    FUZZ_MUST(fd >= 0, "no memory file");
    if (left != 0)
        FUZZ_MUST(write(fd, input.data + input.at, left) == (ssize_t)left, "write");
    memset(&page, 0, sizeof page);
    memset(&trial, 0, sizeof trial);
    snprintf(page.path, sizeof page.path, "/proc/self/fd/%d", fd);
    trial.page = &page;
    trial.end = end_round;
    judge(&trial);
    close(fd);
    return 0;
}
