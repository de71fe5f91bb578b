/* The ELF note that every plugin carries (rule 20), so that a file is judged before any of its code
 * runs. Write MBR_PLUGIN_NOTE once, at file scope, in the source that defines the entry. */
#ifndef MEMBRANE_NOTE_H
#define MEMBRANE_NOTE_H

#include "membrane/base.h"
#include "membrane/layout.h"

#define MBR_NOTE_SECTION ".note.membrane"
#define MBR_NOTE_OWNER "Membrane"
#define MBR_NOTE_TYPE 1

#define MBR_NOTE_UNLOADABLE 1 /* code may be unmapped after the last close */
#define MBR_NOTE_FORK_SAFE 2  /* usable in a forked child */

#define MBR_NOTE_NAME_BYTES 32

/* Frozen. A digest is split in two words because a note is aligned to 4 bytes. The file holds one
 * digest for each minor from 0 to minor_max. */
typedef struct mbr_note_digest {
    uint32_t low;
    uint32_t high;
} mbr_note_digest;

typedef struct mbr_note_head {
    uint16_t major;
    uint16_t minor_min;
    uint16_t minor_max;
    uint16_t flags;                   /* MBR_NOTE_…; low byte critical, high byte optional */
    char name[MBR_NOTE_NAME_BYTES];   /* terminated; [a-z0-9-] */
    char vendor[MBR_NOTE_NAME_BYTES]; /* terminated */
} mbr_note_head;

#define MBR_PLUGIN_NOTE(plugin_name, plugin_vendor, plugin_flags)                                  \
    __attribute__((section(MBR_NOTE_SECTION), used, aligned(4))) static const struct {             \
        uint32_t owner_bytes, description_bytes, type;                                             \
        char owner[12];                                                                            \
        mbr_note_head head;                                                                        \
        mbr_note_digest digest[1];                                                                 \
    } mbr_plugin_note = {                                                                          \
        sizeof(MBR_NOTE_OWNER),                                                                    \
        sizeof(mbr_note_head) + sizeof(mbr_note_digest),                                           \
        MBR_NOTE_TYPE,                                                                             \
        MBR_NOTE_OWNER,                                                                            \
        {MBR_MAJOR, MBR_MINOR_0, MBR_MINOR_0, (plugin_flags), plugin_name, plugin_vendor},         \
        {{(uint32_t)MBR_DIGEST_MINOR_0, (uint32_t)(MBR_DIGEST_MINOR_0 >> 32)}},                    \
    }

#endif
