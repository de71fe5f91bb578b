/* Asks the dynamic linker for the segments of the plugin's file. */
#include "tools/check/image.h"

#include <link.h>
#include <string.h>

typedef struct image_question {
    uint64_t entry, first, last; /* addresses, inclusive */
    bool needs_code, is_held;
} image_question;

static bool covers(const struct dl_phdr_info *info, uint64_t first, uint64_t last, bool needs_code)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && first >= start && last - start < segment->p_memsz &&
            (!needs_code || (segment->p_flags & PF_X) != 0))
            return true;
    }
    return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *context)
{
    image_question *question = context;
    (void)size;
    if (!covers(info, question->entry, question->entry, true))
        return 0;
    question->is_held = covers(info, question->first, question->last, question->needs_code);
    return 1;
}

static bool ask(mbr_trial *trial, const void *address, uint64_t bytes, bool needs_code)
{
    image_question question = {.first = (uint64_t)(uintptr_t)address, .needs_code = needs_code};
    uint64_t last;
    memcpy(&question.entry, &trial->entry, sizeof question.entry);
    if (bytes == 0 || __builtin_add_overflow(question.first, bytes - 1, &last))
        return false;
    question.last = last;
    dl_iterate_phdr(visit, &question);
    return question.is_held;
}

bool mbr_image_holds(mbr_trial *trial, const void *address, uint64_t bytes)
{
    return ask(trial, address, bytes, false);
}

bool mbr_image_holds_code(mbr_trial *trial, const void *address)
{
    return ask(trial, address, 1, true);
}

bool mbr_image_holds_text(mbr_trial *trial, const char *address, uint64_t room)
{
    for (uint64_t i = 0; i < room && mbr_image_holds(trial, address + i, 1); i++)
        if (address[i] == '\0')
            return true;
    return false;
}
