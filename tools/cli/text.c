/* Makes foreign texts safe to print. Never changes a text that is printable already. */
#include "tools/cli/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Bytes of the valid UTF-8 character at `text`, or 0. */
static size_t character_bytes(const unsigned char *text)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t lowest;
    } forms[] = {{0x80, 0x00, 0}, {0xE0, 0xC0, 0x80}, {0xF0, 0xE0, 0x800}, {0xF8, 0xF0, 0x10000}};
    for (size_t bytes = 1; bytes <= 4; bytes++) {
        if ((text[0] & forms[bytes - 1].mask) != forms[bytes - 1].lead)
            continue;
        uint32_t code = text[0] & (uint32_t)(unsigned char)~forms[bytes - 1].mask;
        for (size_t i = 1; i < bytes; i++) {
            if ((text[i] & 0xC0) != 0x80) /* also at the ending */
                return 0;
            code = code << 6 | (text[i] & 0x3Fu);
        }
        bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
        return code >= forms[bytes - 1].lowest && code <= 0x10FFFF && !is_surrogate ? bytes : 0;
    }
    return 0;
}

char *mbr_text_printable(char *to, size_t room, const char *from)
{
    size_t used = 0;
    while (*from != '\0') {
        size_t bytes = character_bytes((const unsigned char *)from);
        bool is_control = bytes == 1 && ((unsigned char)*from < ' ' || *from == 0x7F);
        /* U+0080 to U+009F are control characters of terminals too. */
        is_control = is_control ||
            (bytes == 2 && (unsigned char)from[0] == 0xC2 && (unsigned char)from[1] < 0xA0);
        size_t written = bytes == 0 || is_control ? 1 : bytes;
        if (used + written >= room)
            break;
        if (bytes == 0 || is_control)
            to[used] = '?';
        else
            memcpy(to + used, from, bytes);
        used += written;
        from += bytes == 0 ? 1 : bytes;
    }
    to[used] = '\0';
    return to;
}
