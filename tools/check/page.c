/* Reads the shared page as what it is: memory that a stranger's code could write. */
#include "tools/check/page.h"

#include "tools/check/slot.h"

#include <string.h>

#define END_TEXT(text) ((text)[sizeof(text) - 1] = '\0')

void mbr_page_read(const mbr_page *shared, mbr_page *copy)
{
    memcpy(copy, shared, sizeof *copy);
    END_TEXT(copy->id);
    END_TEXT(copy->path);
    END_TEXT(copy->mechanism);
    END_TEXT(copy->plugin_name);
    END_TEXT(copy->expected);
    END_TEXT(copy->observed);
    END_TEXT(copy->figures);
    if (copy->verdict >= MBR_VERDICT_COUNT)
        copy->verdict = MBR_VERDICT_NONE;
    if (copy->skip >= MBR_SKIP_COUNT)
        copy->skip = MBR_SKIP_NEEDS;
    if (copy->phase >= MBR_PHASE_COUNT)
        copy->phase = MBR_PHASE_RUN;
    if (copy->slot > MBR_SLOT_COUNT)
        copy->slot = MBR_SLOT_COUNT;
    if (copy->finding_slot > MBR_SLOT_COUNT)
        copy->finding_slot = MBR_SLOT_COUNT;
}

const char *mbr_phase_word(uint32_t phase)
{
    static const char *const words[MBR_PHASE_COUNT] = {
        "start", "load", "entry", "open", "run", "close", "end"};
    return phase < MBR_PHASE_COUNT ? words[phase] : "run";
}
