/* What Linux tells in /proc, for plugins whose memory is the machine's. Each
 * function answers 0 or an errno and writes its results on success only. None
 * allocates: on these paths the heap may be the thing that is exhausted. */
#ifndef MEMBRANE_PLUGINS_COMMON_PROC_H
#define MEMBRANE_PLUGINS_COMMON_PROC_H

#include <stdbool.h>
#include <stdint.h>

struct mbr_proc_survey {
    uint64_t start, end, inode; /* asked for */
    uint64_t covered_bytes;     /* of [start, end), by any mapping */
    bool all_reserved;          /* what covers it is private, anonymous and without access
                                 */
    bool all_file;              /* what covers it are shared mappings of the inode */
    uint64_t mapping_count;     /* of the whole process */
    uint64_t mapping_count_limit;
};
int mbr_proc_survey(uint64_t start, uint64_t end, uint64_t inode, struct mbr_proc_survey *survey);

#endif
