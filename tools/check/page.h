/* The page that a check's child shares with its warden: what to do, how far it came, what it found.
 * The plugin runs in the child and may have scribbled on it, so the parent takes a copy, ends every
 * text and bounds every number before it believes any (mbr_page_read). */
#ifndef MEMBRANE_TOOLS_CHECK_PAGE_H
#define MEMBRANE_TOOLS_CHECK_PAGE_H

#include "tools/check/verdict.h"

#include <stdint.h>

#define MBR_PAGE_FD 3 /* of the child */
#define MBR_PAGE_PATH_BYTES 4096
#define MBR_PAGE_TEXT_BYTES 512

typedef enum mbr_phase {
    MBR_PHASE_START, /* the tool's own code */
    MBR_PHASE_LOAD,
    MBR_PHASE_ENTRY,
    MBR_PHASE_OPEN,
    MBR_PHASE_RUN,
    MBR_PHASE_CLOSE,
    MBR_PHASE_END,
    MBR_PHASE_COUNT,
} mbr_phase;

typedef struct mbr_page {
    /* From the parent. */
    char id[16];
    uint64_t seed;
    uint32_t device_index; /* of the mechanism */
    uint32_t timeout_ms;
    char path[MBR_PAGE_PATH_BYTES];
    /* From the child. */
    uint32_t phase;        /* mbr_phase */
    uint32_t slot;         /* mbr_slot entered last; MBR_SLOT_COUNT: none */
    uint32_t inside_count; /* calls that have not returned */
    uint32_t is_told;      /* a verdict was claimed; the first one counts */
    uint32_t verdict;      /* mbr_verdict */
    uint32_t skip;         /* mbr_skip */
    uint32_t finding_slot;
    uint32_t offered; /* MBR_NEEDS_… bits of the open mechanism */
    char mechanism[64];
    char plugin_name[64];
    char expected[MBR_PAGE_TEXT_BYTES];
    char observed[MBR_PAGE_TEXT_BYTES];
    char figures[MBR_PAGE_TEXT_BYTES]; /* of checks that report numbers; "" for others */
} mbr_page;

/* A copy that can be believed. */
void mbr_page_read(const mbr_page *shared, mbr_page *copy);

const char *mbr_phase_word(uint32_t phase);

#endif
