/* What the specimen exports beside its entry: counts of what the host called. */
#ifndef MEMBRANE_TESTS_UNIT_LOADER_SPECIMEN_H
#define MEMBRANE_TESTS_UNIT_LOADER_SPECIMEN_H

#include "membrane/membrane_plugin.h"

typedef struct specimen_counts {
    uint64_t entries, opens, closes, quiesces, reports;
    uint64_t live; /* instances */
    uint64_t last_deadline_ns;
    uint64_t last_minor;
} specimen_counts;

/* A third party's capability. */
#define SPECIMEN_ID_COMPRESS "acme.compress"
#define SPECIMEN_KIND_COMPRESS 0xE957 /* what membrane/base.h says of this very id */

typedef struct specimen_compress_vtable {
    uint32_t struct_size;
    uint16_t kind;
    uint16_t minor;
    mbr_status (*compress)(mbr_instance *instance, const mbr_trim_request *request,
        mbr_outcome *outcome, mbr_error *error);
    mbr_status (*expand)(mbr_instance *instance, const mbr_trim_request *request,
        mbr_outcome *outcome, mbr_error *error); /* since minor 1 */
} specimen_compress_vtable;

#endif
