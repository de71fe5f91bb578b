/* The Membrane note of a file, and the range of minors that this host speaks. */
#ifndef MEMBRANE_HOST_LOADER_NOTE_H
#define MEMBRANE_HOST_LOADER_NOTE_H

#include "abi/derive/slots.h"
#include "host/loader/elf.h"

/* The host's range: every minor that the headers define. */
#define MBR_HOST_MINOR_MIN MBR_MINOR_0
#define MBR_HOST_MINOR_MAX MBR_DERIVED_MINOR_MAX

/* Finds and judges the note; fills candidate->note. Reasons: MBR_REASON_NO_NOTE, _BAD_NOTE,
 * _OTHER_MAJOR, _NO_COMMON_MINOR, _DIGEST, _NAME_MISMATCH (where candidate->name says what the file
 * is called; otherwise the note names it). */
mbr_status mbr_note_judge(const mbr_elf *elf, mbr_candidate *candidate);

bool mbr_minor_ranges_meet(uint16_t a_min, uint16_t a_max, uint16_t b_min, uint16_t b_max);

/* 1 to 31 of [a-z0-9-]. */
bool mbr_plugin_name_is_valid(const char *name, size_t bytes);

#endif
