/* The known name that a user probably meant. */
#ifndef MEMBRANE_HOLDER_GEOMETRY_NEAREST_H
#define MEMBRANE_HOLDER_GEOMETRY_NEAREST_H

#include <stdint.h>

/* Longer names are compared by their first characters only. */
#define MBR_NEAREST_NAME_MAX 64

/* Index of the name nearest to `text` by edits (insert, delete, replace, swap of neighbours),
 * without regard to case, among `count` names that `name_at(context, index)` gives. Returns
 * `count` when none is nearer than half the length of the longer one. The first of equals wins. */
uint64_t mbr_nearest_name(const char *text, uint64_t count,
    const char *(*name_at)(const void *context, uint64_t index), const void *context);

#endif
