/* Fills in mbr_error. Responsible for the bounds: never a byte past the owner's struct_size, never
 * an unterminated text, never half a character. Decides nothing about which status is right. */
#include "abi/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint64_t mbr_utf8_whole_bytes(const char *text, uint64_t bytes)
{
    uint64_t start = bytes;
    while (start > 0 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0)
        return 0;
    unsigned char lead = (unsigned char)text[start - 1];
    uint64_t wanted = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    return bytes - (start - 1) >= wanted ? bytes : start - 1;
}

void mbr_text_one_line(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7F)
            *text = ' ';
}

static void write_text(mbr_error *own, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void write_text(mbr_error *own, const char *format, va_list arguments)
{
    int length = vsnprintf(own->text, sizeof own->text, format, arguments);
    if ((size_t)length >= sizeof own->text)
        own->text[mbr_utf8_whole_bytes(own->text, sizeof own->text - 1)] = '\0';
    mbr_text_one_line(own->text);
}

void mbr_error_copy(mbr_error *to, const mbr_error *from)
{
    if (to == NULL || to->struct_size <= sizeof to->struct_size)
        return;
    uint32_t stated = to->struct_size;
    size_t bytes = stated < sizeof *to ? stated : sizeof *to;
    memcpy((char *)to + sizeof stated, (const char *)from + sizeof stated, bytes - sizeof stated);
    if (bytes > offsetof(mbr_error, text) && bytes < sizeof *to) {
        size_t room = bytes - offsetof(mbr_error, text);
        to->text[mbr_utf8_whole_bytes(from->text, strnlen(from->text, room - 1))] = '\0';
    }
}

mbr_status mbr_fail(mbr_error *error, mbr_status status, const char *format, ...)
{
    mbr_error own = {MBR_SIZED(mbr_error), .status = status};
    va_list arguments;
    va_start(arguments, format);
    write_text(&own, format, arguments);
    va_end(arguments);
    mbr_error_copy(error, &own);
    return status;
}

mbr_status mbr_fail_argument(
    mbr_error *error, mbr_status status, uint32_t argument_index, const char *format, ...)
{
    mbr_error own = {MBR_SIZED(mbr_error), .status = status, .argument_index = argument_index};
    va_list arguments;
    va_start(arguments, format);
    write_text(&own, format, arguments);
    va_end(arguments);
    mbr_error_copy(error, &own);
    return status;
}

mbr_status mbr_fail_native(
    mbr_error *error, mbr_status status, uint32_t domain, int64_t code, const char *format, ...)
{
    mbr_error own = {
        MBR_SIZED(mbr_error), .status = status, .native_domain = domain, .native_code = code};
    va_list arguments;
    va_start(arguments, format);
    write_text(&own, format, arguments);
    va_end(arguments);
    mbr_error_copy(error, &own);
    return status;
}

mbr_status mbr_fail_bytes(mbr_error *error, mbr_status status, uint64_t asked_bytes,
    uint64_t free_bytes, const char *format, ...)
{
    mbr_error own = {MBR_SIZED(mbr_error), .status = status, .asked_bytes = asked_bytes,
        .free_bytes = free_bytes};
    va_list arguments;
    va_start(arguments, format);
    write_text(&own, format, arguments);
    va_end(arguments);
    mbr_error_copy(error, &own);
    return status;
}
