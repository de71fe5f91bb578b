/* Responsible for filling an mbr_error: only fields that its struct_size reaches, on failure only.
 * Never decides a status and never keeps a pointer. */
#include "host/ep/refuse.h"

#include "abi/base/assert.h"

#include <stdarg.h>
#include <stdio.h>

#define SET(error, field, value)                                                                   \
    do {                                                                                           \
        if (MBR_HAS(mbr_error, error, field))                                                      \
            (error)->field = (value);                                                              \
    } while (0)

__attribute__((format(printf, 4, 0))) static mbr_status fill(
    mbr_error *error, mbr_status status, uint32_t argument_index, const char *format, va_list list)
{
    MBR_ASSERT(status != MBR_OK);
    if (error == NULL)
        return status;
    SET(error, status, status);
    SET(error, argument_index, argument_index);
    SET(error, native_domain, MBR_NATIVE_NONE);
    SET(error, native_code, 0);
    SET(error, asked_bytes, 0);
    SET(error, free_bytes, 0);
    if (MBR_HAS(mbr_error, error, text))
        vsnprintf(error->text, sizeof error->text, format, list);
    return status;
}

mbr_status mbr_ep_refuse(
    mbr_error *error, mbr_status status, uint32_t argument_index, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fill(error, status, argument_index, format, list);
    va_end(list);
    return status;
}

mbr_status mbr_ep_refuse_system(
    mbr_error *error, mbr_status status, int errno_value, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fill(error, status, 0, format, list);
    va_end(list);
    if (error != NULL) {
        SET(error, native_domain, MBR_NATIVE_ERRNO);
        SET(error, native_code, errno_value);
    }
    return status;
}
