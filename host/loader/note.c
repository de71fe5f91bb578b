/* Finds the Membrane note in a file that has not been loaded, and judges what it says: well formed,
 * of this major, with a common minor, built against the published headers, named like its file.
 * Trusts no length in it; runs nothing. */
#include "host/loader/note.h"

#include "abi/base/checked.h"
#include "host/loader/reason.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(mbr_note_head) == 72, "frozen: files carry it");
_Static_assert(sizeof(mbr_note_digest) == 8, "frozen: files carry it");

static const uint64_t published_digests[] = {MBR_DERIVED_DIGESTS};
_Static_assert(sizeof published_digests / sizeof *published_digests == MBR_HOST_MINOR_MAX + 1,
    "one digest a minor");

/* Of the note flags' low byte, whose unknown bits refuse the file. */
#define KNOWN_FLAGS (MBR_NOTE_UNLOADABLE | MBR_NOTE_FORK_SAFE)
#define CRITICAL_FLAGS 0xFF

/* The notes of Membrane in one file: a file may serve several majors, with a note for each. */
typedef struct found_notes {
    uint32_t own_count;   /* of this host's major */
    uint32_t other_count; /* of other majors */
    uint32_t other_major; /* the last of them */
    bool is_damaged;
    bool is_unreadable;
    uint64_t address, bytes; /* description of the own one */
} found_notes;

static void take_note(const mbr_elf *elf, uint64_t address, uint64_t bytes, found_notes *found)
{
    uint16_t major;
    if (bytes < sizeof major || !mbr_elf_read_at(elf, address, 0, &major, sizeof major)) {
        found->is_damaged = true;
    } else if (major == MBR_MAJOR) {
        found->own_count++;
        found->address = address;
        found->bytes = bytes;
    } else {
        found->other_count++;
        found->other_major = major;
    }
}

static bool is_ours(
    const mbr_elf *elf, const Elf64_Phdr *segment, uint64_t name, const Elf64_Nhdr *head)
{
    char owner[sizeof MBR_NOTE_OWNER];
    return head->n_type == MBR_NOTE_TYPE && head->n_namesz == sizeof owner &&
        mbr_elf_read_at(elf, segment->p_vaddr, name, owner, sizeof owner) &&
        memcmp(owner, MBR_NOTE_OWNER, sizeof owner) == 0;
}

/* Lengths in a note are 32 bits wide, so that no sum of two of them wraps. */
static uint64_t align_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) / align * align;
}

static void walk_segment(const mbr_elf *elf, const Elf64_Phdr *segment, found_notes *found)
{
    uint64_t align = segment->p_align == 8 ? 8 : 4;
    uint64_t end = mbr_min(segment->p_filesz, MBR_ELF_NOTE_BYTES_MAX);
    for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= end;) {
        Elf64_Nhdr head;
        if (!mbr_elf_read_at(elf, segment->p_vaddr, at, &head, sizeof head)) {
            found->is_unreadable = true;
            return;
        }
        uint64_t name = at + sizeof head;
        uint64_t description = align_up(name + head.n_namesz, align);
        if (description > end || head.n_descsz > end - description) {
            found->is_damaged = true;
            return;
        }
        if (is_ours(elf, segment, name, &head))
            take_note(elf, segment->p_vaddr + description, head.n_descsz, found);
        at = align_up(description + head.n_descsz, align);
    }
}

static mbr_status find_note(const mbr_elf *elf, mbr_candidate *candidate, found_notes *found)
{
    *found = (found_notes){0};
    for (uint32_t i = 0; i < elf->segment_count; i++)
        if (elf->segments[i].p_type == PT_NOTE)
            walk_segment(elf, &elf->segments[i], found);
    if (found->is_unreadable)
        return mbr_candidate_refuse(candidate, MBR_REASON_BAD_NOTE,
            "its note segment is outside of the loaded file or cannot be read; build it again");
    if (found->own_count == 1)
        return MBR_OK;
    if (found->own_count > 1)
        return mbr_candidate_refuse(candidate, MBR_REASON_BAD_NOTE,
            "%u notes of major %u; write MBR_PLUGIN_NOTE once", found->own_count,
            (unsigned)MBR_MAJOR);
    if (found->other_count > 0)
        return mbr_candidate_refuse(candidate, MBR_REASON_OTHER_MAJOR,
            "built for major %u of the contract; this host speaks major %u: get a build for that",
            found->other_major, (unsigned)MBR_MAJOR);
    if (found->is_damaged)
        return mbr_candidate_refuse(candidate, MBR_REASON_BAD_NOTE,
            "its note segment has impossible lengths; build the file again");
    return mbr_candidate_refuse(candidate, MBR_REASON_NO_NOTE,
        "no Membrane note: no plugin. To build one, include membrane/membrane_plugin.h, write "
        "MBR_PLUGIN_NOTE at file scope, define " MBR_ENTRY_SYMBOL
        ", link with -shared; or start from `membrane new-plugin NAME`");
}

static const uint16_t host_minors[] = {MBR_HOST_MINOR_MIN, MBR_HOST_MINOR_MAX};

bool mbr_minor_ranges_meet(uint16_t a_min, uint16_t a_max, uint16_t b_min, uint16_t b_max)
{
    return a_min <= b_max && b_min <= a_max;
}

bool mbr_plugin_name_is_valid(const char *name, size_t bytes)
{
    if (bytes == 0 || bytes >= MBR_NOTE_NAME_BYTES)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        bool is_good = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9') ||
            name[i] == '-';
        if (!is_good)
            return false;
    }
    return true;
}

static bool is_printable(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7F)
            return false;
    return true;
}

/* Well-formedness of the head and the length of what follows it. */
static mbr_status judge_head(const mbr_note_head *head, uint64_t bytes, mbr_candidate *candidate)
{
    uint64_t wanted = sizeof *head + ((uint64_t)head->minor_max + 1) * sizeof(mbr_note_digest);
    if (bytes != wanted)
        return mbr_candidate_refuse(candidate, MBR_REASON_BAD_NOTE,
            "the note is %lu bytes long; with minors up to %u it has %lu", bytes, head->minor_max,
            wanted);
    if (head->minor_min > head->minor_max)
        return mbr_candidate_refuse(candidate, MBR_REASON_BAD_NOTE,
            "the note's minors run from %u down to %u", head->minor_min, head->minor_max);
    uint32_t unknown = head->flags & CRITICAL_FLAGS & ~(uint32_t)KNOWN_FLAGS;
    if (unknown != 0)
        return mbr_candidate_refuse(candidate, MBR_REASON_BAD_NOTE,
            "the note has critical flags 0x%x that this host does not know", unknown);
    size_t name_bytes = strnlen(head->name, sizeof head->name);
    if (!mbr_plugin_name_is_valid(head->name, name_bytes))
        return mbr_candidate_refuse(candidate, MBR_REASON_BAD_NOTE,
            "the note's name \"%.*s\" is not 1 to 31 of [a-z0-9-]", (int)name_bytes, head->name);
    size_t vendor_bytes = strnlen(head->vendor, sizeof head->vendor);
    if (vendor_bytes == sizeof head->vendor || !is_printable(head->vendor, vendor_bytes))
        return mbr_candidate_refuse(candidate, MBR_REASON_BAD_NOTE,
            "the note's vendor is not a terminated printable text of up to 31 bytes");
    return MBR_OK;
}

static mbr_status judge_digest(
    const mbr_elf *elf, uint64_t digests, uint16_t minor, mbr_candidate *candidate)
{
    mbr_note_digest own;
    if (!mbr_elf_read_at(elf, digests, minor * sizeof own, &own, sizeof own))
        return mbr_candidate_refuse(
            candidate, MBR_REASON_NOT_ELF, "cut while it was read; try again");
    candidate->note.digest = (uint64_t)own.high << 32 | own.low;
    if (candidate->note.digest != published_digests[minor])
        return mbr_candidate_refuse(candidate, MBR_REASON_DIGEST,
            "built against headers of minor %u with digest %016lx; the published ones have %016lx: "
            "build it again with unchanged headers",
            minor, candidate->note.digest, published_digests[minor]);
    return MBR_OK;
}

static mbr_status judge_name(mbr_candidate *candidate)
{
    if (candidate->name[0] == '\0') {
        memcpy(candidate->name, candidate->note.name, sizeof candidate->name);
        return MBR_OK;
    }
    if (strcmp(candidate->name, candidate->note.name) == 0)
        return MBR_OK;
    return mbr_candidate_refuse(candidate, MBR_REASON_NAME_MISMATCH,
        "its note says \"%s\"; the file of that plugin is libmembrane-%s.so", candidate->note.name,
        candidate->note.name);
}

mbr_status mbr_note_judge(const mbr_elf *elf, mbr_candidate *candidate)
{
    found_notes found;
    mbr_note_head head;
    mbr_status status = find_note(elf, candidate, &found);
    if (status != MBR_OK)
        return status;
    if (found.bytes < sizeof head || !mbr_elf_read_at(elf, found.address, 0, &head, sizeof head))
        return mbr_candidate_refuse(candidate, MBR_REASON_BAD_NOTE,
            "the note is %lu bytes long, shorter than its head of %zu", found.bytes, sizeof head);
    status = judge_head(&head, found.bytes, candidate);
    if (status != MBR_OK)
        return status;
    mbr_note_facts *facts = &candidate->note;
    facts->major = head.major;
    facts->minor_min = head.minor_min;
    facts->minor_max = head.minor_max;
    facts->flags = head.flags;
    memcpy(facts->name, head.name, sizeof facts->name);
    memcpy(facts->vendor, head.vendor, sizeof facts->vendor);
    if (!mbr_minor_ranges_meet(host_minors[0], host_minors[1], head.minor_min, head.minor_max))
        return mbr_candidate_refuse(candidate, MBR_REASON_NO_COMMON_MINOR,
            "it speaks minors %u to %u, this host %u to %u; one of them must be updated",
            head.minor_min, head.minor_max, (unsigned)MBR_HOST_MINOR_MIN,
            (unsigned)MBR_HOST_MINOR_MAX);
    uint16_t minor = (uint16_t)mbr_min(head.minor_max, MBR_HOST_MINOR_MAX);
    status = judge_digest(elf, found.address + sizeof head, minor, candidate);
    return status == MBR_OK ? judge_name(candidate) : status;
}
