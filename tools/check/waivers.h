/* Findings that are accepted, with the reason why. */
#ifndef MEMBRANE_TOOLS_CHECK_WAIVERS_H
#define MEMBRANE_TOOLS_CHECK_WAIVERS_H

#include "tools/check/result.h"

/* Reads lines `ID reason` ('#' begins a comment) and turns findings of those checks into WAIVED.
 * False with what is wrong in `text`: a line without a reason, an id that is no check's. */
bool mbr_waivers_apply(const char *path, mbr_run *run, char *text, uint64_t room);

#endif
