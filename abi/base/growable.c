/* Reads and writes growable structs within the size that their owner stated. Knows no field but
 * that size. */
#include "abi/base/growable.h"

#include "abi/base/checked.h"
#include "abi/base/error.h"

#include <string.h>

#define HEAD_BYTES sizeof(uint32_t) /* struct_size, the first field of all */

static uint32_t stated_bytes(const void *growable)
{
    uint32_t bytes;
    memcpy(&bytes, growable, sizeof(bytes));
    return bytes;
}

mbr_status mbr_growable_take(void *own, size_t own_bytes, const void *request, size_t least_bytes,
    const char *type, mbr_error *error)
{
    memset(own, 0, own_bytes);
    if (request == NULL)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "no %s was given", type);
    uint32_t stated = stated_bytes(request);
    if (stated < least_bytes)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "struct_size %u of %s is below %zu; set it with MBR_SIZED(%s)", stated, type,
            least_bytes, type);
    memcpy(own, request, mbr_min(stated, own_bytes));
    return MBR_OK;
}

void mbr_growable_give(void *to, const void *from, size_t bytes)
{
    uint32_t stated = stated_bytes(to);
    if (stated <= HEAD_BYTES)
        return;
    size_t known = from == NULL ? HEAD_BYTES : (size_t)mbr_min(stated, bytes);
    if (from != NULL)
        memcpy((char *)to + HEAD_BYTES, (const char *)from + HEAD_BYTES, known - HEAD_BYTES);
    memset((char *)to + known, 0, stated - known);
}

mbr_status mbr_flags_check(uint32_t flags, uint32_t known, const char *type, mbr_error *error)
{
    uint32_t unknown = flags & MBR_FLAGS_CRITICAL & ~known;
    if (unknown == 0)
        return MBR_OK;
    return mbr_fail(error, MBR_UNSUPPORTED, "unknown critical flags 0x%x of %s; 0x%x are known",
        unknown, type, known);
}
