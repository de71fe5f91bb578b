/* Contents of the subject's memory, by the CPU where it can get there, else by the plugin's own
 * transfer. An access that is refused is an answer and not a crash. One thread at a time. */
#ifndef MEMBRANE_TOOLS_CHECK_MEMORY_H
#define MEMBRANE_TOOLS_CHECK_MEMORY_H

#include "tools/check/trial.h"

typedef enum mbr_memory {
    MBR_MEMORY_OK,
    MBR_MEMORY_OTHER,   /* readable, and something else is there */
    MBR_MEMORY_REFUSED, /* no access to at least one byte */
} mbr_memory;

/* Contents that follow from the seed and tell each 8 bytes from all others. Of more than 1 MiB only
 * every 512th byte's word is written and read. */
mbr_memory mbr_memory_write(mbr_trial *trial, uint64_t address, uint64_t bytes, uint64_t seed);

/* Whether the contents of that seed are there; seed 0: whether every byte is zero. */
mbr_memory mbr_memory_read(mbr_trial *trial, uint64_t address, uint64_t bytes, uint64_t seed);

/* "as written", "other contents", "no access" */
const char *mbr_memory_word(mbr_memory answer);

#endif
