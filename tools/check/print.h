/* The four reports. Each writes the whole run; false where the report could not be made or written.
 */
#ifndef MEMBRANE_TOOLS_CHECK_PRINT_H
#define MEMBRANE_TOOLS_CHECK_PRINT_H

#include "tools/check/result.h"

#include <stdio.h>

bool mbr_print_human(const mbr_run *run, FILE *to);
bool mbr_print_tap(const mbr_run *run, FILE *to); /* version 14 */
bool mbr_print_junit(const mbr_run *run, FILE *to);
bool mbr_print_json(const mbr_run *run, FILE *to);

/* "allocator, virtual, shared" of the open mechanism; "" if none was opened. */
void mbr_run_capabilities(const mbr_run *run, char *text, uint64_t room);

/* The mechanism's name, "" if none was opened. */
const char *mbr_run_mechanism(const mbr_run *run);

#endif
