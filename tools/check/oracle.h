/* What the system says this process holds: the third source for every count of bytes. Only for
 * memory that the kernel counts for the process, host memory. */
#ifndef MEMBRANE_TOOLS_CHECK_ORACLE_H
#define MEMBRANE_TOOLS_CHECK_ORACLE_H

#include "tools/check/trial.h"

typedef struct mbr_oracle {
    uint64_t anonymous_bytes; /* Pss of private memory, the tool's own heap included */
    uint64_t file_bytes;      /* blocks of memory files that a descriptor or a mapping holds */
    uint64_t owned_bytes;     /* both */
    uint64_t mapping_count;
    uint64_t descriptor_count;
    uint64_t thread_count;
} mbr_oracle;

/* Pages of the tool's own and of the plugin's tables that a difference of two readings may hold. */
#define MBR_ORACLE_SLACK_BYTES (UINT64_C(1) << 20)

/* Reads it now; the check gives up (TOOL) where the system does not tell. */
void mbr_oracle_read(mbr_trial *trial, mbr_oracle *oracle);

/* Bytes of addresses that the process has in use, as RLIMIT_AS counts them. */
uint64_t mbr_oracle_address_bytes(mbr_trial *trial);

/* Whether a range of memory that was written to stands on pages above the smallest. */
typedef enum mbr_huge {
    MBR_HUGE_NOWHERE,
    MBR_HUGE_SOMEWHERE,
    MBR_HUGE_UNKNOWN, /* it may, and nowhere does now: the system has none to give to anybody */
} mbr_huge;

mbr_huge mbr_oracle_huge(mbr_trial *trial, uint64_t address, uint64_t bytes);

/* Both at once: where a leak would show. */
typedef struct mbr_footing {
    mbr_oracle oracle;
    uint64_t address_bytes;
} mbr_footing;

mbr_footing mbr_footing_read(mbr_trial *trial);

/* Whether `bytes` is the growth from `before` to `after`, give or take the slack. */
bool mbr_oracle_grew_by(const mbr_oracle *before, const mbr_oracle *after, int64_t bytes);

#endif
