/* Reads the file with libelf. Judges nothing. */
#include "tools/check/elf_file.h"

#include <fcntl.h>
#include <string.h>

#define SYMBOLS_MAX 65536

const unsigned char *mbr_elf_file_at(const mbr_elf_file *file, uint64_t address, uint64_t count)
{
    for (uint32_t i = 0; i < file->segment_count; i++) {
        const GElf_Phdr *segment = &file->segments[i];
        if (segment->p_type != PT_LOAD || address < segment->p_vaddr ||
            address - segment->p_vaddr > segment->p_filesz ||
            count > segment->p_filesz - (address - segment->p_vaddr))
            continue;
        uint64_t offset = segment->p_offset + (address - segment->p_vaddr);
        if (offset <= file->byte_count && count <= file->byte_count - offset)
            return file->bytes + offset;
    }
    return NULL;
}

bool mbr_elf_file_dynamic(const mbr_elf_file *file, int64_t tag, uint64_t *value)
{
    for (uint32_t i = 0; i < file->dynamic_count; i++)
        if (file->dynamic[i].d_tag == tag) {
            *value = file->dynamic[i].d_un.d_val;
            return true;
        }
    return false;
}

const char *mbr_elf_file_string(const mbr_elf_file *file, uint64_t offset)
{
    if (offset >= file->strings_bytes)
        return NULL;
    uint64_t room = file->strings_bytes - offset;
    const unsigned char *text = mbr_elf_file_at(file, file->strings_address + offset, room);
    return text != NULL && memchr(text, '\0', room) != NULL ? (const char *)text : NULL;
}

bool mbr_elf_file_symbol(const mbr_elf_file *file, uint64_t index, Elf64_Sym *symbol)
{
    const unsigned char *at = index >= file->symbol_count
        ? NULL
        : mbr_elf_file_at(file, file->symbols_address + index * sizeof *symbol, sizeof *symbol);
    if (at != NULL)
        memcpy(symbol, at, sizeof *symbol);
    return at != NULL;
}

static bool word_at(const mbr_elf_file *file, uint64_t address, uint32_t *word)
{
    const unsigned char *at = mbr_elf_file_at(file, address, sizeof *word);
    if (at != NULL)
        memcpy(word, at, sizeof *word);
    return at != NULL;
}

/* Nothing states how many symbols there are: the hash tables' last chain does. */
static uint64_t count_by_gnu_hash(const mbr_elf_file *file, uint64_t table)
{
    uint32_t buckets, first, bloom, word, last = 0;
    if (!word_at(file, table, &buckets) || !word_at(file, table + 4, &first) ||
        !word_at(file, table + 8, &bloom) || buckets > SYMBOLS_MAX || bloom > SYMBOLS_MAX)
        return 0;
    uint64_t bucket_table = table + 16 + bloom * UINT64_C(8);
    for (uint32_t i = 0; i < buckets; i++)
        if (word_at(file, bucket_table + i * UINT64_C(4), &word) && word > last)
            last = word;
    if (last < first)
        return first <= SYMBOLS_MAX ? first : 0; /* none exported: what it says is all there is */
    uint64_t chains = bucket_table + buckets * UINT64_C(4);
    while (last < SYMBOLS_MAX && word_at(file, chains + (last - first) * UINT64_C(4), &word)) {
        last++;
        if ((word & 1) != 0)
            return last;
    }
    return 0;
}

static void read_symbols(mbr_elf_file *file)
{
    uint64_t table;
    uint32_t chains;
    mbr_elf_file_dynamic(file, DT_STRTAB, &file->strings_address);
    mbr_elf_file_dynamic(file, DT_STRSZ, &file->strings_bytes);
    mbr_elf_file_dynamic(file, DT_SYMTAB, &file->symbols_address);
    if (mbr_elf_file_dynamic(file, DT_GNU_HASH, &table))
        file->symbol_count = count_by_gnu_hash(file, table);
    else if (mbr_elf_file_dynamic(file, DT_HASH, &table) && word_at(file, table + 4, &chains) &&
        chains <= SYMBOLS_MAX)
        file->symbol_count = chains;
}

static void read_dynamic(mbr_elf_file *file, const GElf_Phdr *segment)
{
    Elf_Data *data =
        elf_getdata_rawchunk(file->elf, (int64_t)segment->p_offset, segment->p_filesz, ELF_T_DYN);
    if (data == NULL)
        return;
    while (file->dynamic_count < MBR_ELF_DYNAMIC_MAX) {
        GElf_Dyn *entry = &file->dynamic[file->dynamic_count];
        if (gelf_getdyn(data, (int)file->dynamic_count, entry) == NULL || entry->d_tag == DT_NULL)
            return;
        file->dynamic_count++;
    }
}

static void read_notes(mbr_elf_file *file, const GElf_Phdr *segment)
{
    Elf_Data *data = elf_getdata_rawchunk(file->elf, (int64_t)segment->p_offset, segment->p_filesz,
        segment->p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
    GElf_Nhdr head;
    size_t at = 0, owner, description;
    if (data == NULL)
        return;
    while ((at = gelf_getnote(data, at, &head, &owner, &description)) > 0) {
        const unsigned char *bytes = data->d_buf;
        if (head.n_type != MBR_NOTE_TYPE || head.n_namesz != sizeof MBR_NOTE_OWNER ||
            memcmp(bytes + owner, MBR_NOTE_OWNER, sizeof MBR_NOTE_OWNER) != 0 ||
            file->note_count == MBR_ELF_NOTES_MAX)
            continue;
        file->notes[file->note_count].bytes = bytes + description;
        file->notes[file->note_count++].byte_count = head.n_descsz;
    }
}

void mbr_elf_file_read_any(mbr_trial *trial, mbr_elf_file *file)
{
    size_t count = 0, byte_count = 0;
    memset(file, 0, sizeof *file);
    elf_version(EV_CURRENT);
    int fd = open(trial->page->path, O_RDONLY | O_CLOEXEC);
    file->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    MBR_NEED(trial, file->elf != NULL && elf_kind(file->elf) == ELF_K_ELF,
        "libelf cannot read it: %s", elf_errmsg(-1));
    file->bytes = (const unsigned char *)elf_rawfile(file->elf, &byte_count);
    file->byte_count = byte_count;
    MBR_NEED(trial, elf_getphdrnum(file->elf, &count) == 0 && count <= MBR_ELF_SEGMENTS_MAX,
        "%zu program headers", count);
    for (; file->segment_count < count; file->segment_count++)
        MBR_NEED(trial,
            gelf_getphdr(
                file->elf, (int)file->segment_count, &file->segments[file->segment_count]) != NULL,
            "program header %u: %s", file->segment_count, elf_errmsg(-1));
    for (uint32_t i = 0; i < file->segment_count; i++) {
        if (file->segments[i].p_type == PT_DYNAMIC)
            read_dynamic(file, &file->segments[i]);
        if (file->segments[i].p_type == PT_NOTE)
            read_notes(file, &file->segments[i]);
    }
    read_symbols(file);
}

void mbr_elf_file_read(mbr_trial *trial, mbr_elf_file *file)
{
    mbr_elf_file_read_any(trial, file);
    MBR_NEED(trial, mbr_elf_file_is_whole(file), "no dynamic table with symbols and names");
}

bool mbr_elf_file_is_whole(const mbr_elf_file *file)
{
    return file->dynamic_count > 0 && file->symbol_count > 0 && file->strings_bytes > 0 &&
        mbr_elf_file_string(file, 0) != NULL;
}

mbr_note_head mbr_elf_file_note(mbr_trial *trial, const mbr_elf_file *file)
{
    mbr_note_head head = {0};
    MBR_NEED(trial, file->note_count > 0 && file->notes[0].byte_count >= sizeof head, "%u notes",
        file->note_count);
    memcpy(&head, file->notes[0].bytes, sizeof head);
    return head;
}

bool mbr_elf_note_has_name(const mbr_note_head *head)
{
    uint64_t length = strnlen(head->name, sizeof head->name);
    if (length == 0 || length == sizeof head->name)
        return false;
    return strspn(head->name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}
