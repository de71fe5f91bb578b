/* Responsible for filling a refusal. Never prints, never allocates, never decides. */
#include "host/holder/geometry/error.h"

#include "abi/base/checked.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The value comes from a user: a line break in it would break the promise of one line. */
void mbr_geometry_copy_printable(char *out, uint64_t room, const char *text, uint64_t length)
{
    uint64_t used = mbr_min(length, room - 1);
    for (uint64_t i = 0; i < used; i++)
        out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    out[used] = '\0';
}

void mbr_geometry_error_clear(mbr_geometry_error *error)
{
    if (error != NULL)
        memset(error, 0, sizeof *error);
}

mbr_geometry_status mbr_geometry_refuse(mbr_geometry_error *error, mbr_geometry_status status,
    const char *key, const char *value, uint64_t would_work, const char *format, ...)
{
    if (error == NULL)
        return status;
    error->status = status;
    error->would_work = would_work;
    mbr_geometry_copy_printable(error->key, sizeof error->key, key, strlen(key));
    mbr_geometry_copy_printable(error->value, sizeof error->value, value, strlen(value));
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return status;
}

const char *mbr_geometry_format_bytes(char *out, uint64_t room, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    uint32_t unit = 0;
    while (bytes != 0 && bytes % 1024 == 0 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, room, "%lu %s", bytes, units[unit]);
    return out;
}
