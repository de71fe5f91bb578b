/* Reads small text files of Linux. Never decides what their figures mean for anybody. */
#include "abi/base/system_text.h"

#include "abi/base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define MEMORY_TEXT_BYTES 512 /* both figures stand in the first three lines of /proc/meminfo */

int mbr_system_text_read(const char *path, char *text, size_t capacity)
{
    text[0] = '\0';
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno;
    size_t length = 0;
    ssize_t got = 1;
    while (got > 0 && length < capacity - 1) {
        got = TEMP_FAILURE_RETRY(read(file, text + length, capacity - 1 - length));
        length += got > 0 ? (size_t)got : 0;
    }
    int code = got < 0 ? errno : 0;
    close(file);
    text[length] = '\0';
    return code;
}

bool mbr_system_text_number(const char *text, uint64_t *number)
{
    uint64_t value = 0;
    const char *digit = text;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        if (!mbr_mul(value, 10, &value) || !mbr_add(value, (uint64_t)(*digit - '0'), &value))
            return false;
    }
    if (digit == text || strchr(" \t\n", *digit) == NULL) /* the text's end is found too */
        return false;
    *number = value;
    return true;
}

bool mbr_system_text_row(const char *text, const char *key, uint64_t *number)
{
    size_t length = strlen(key);
    for (const char *row = text; row != NULL; row = strchr(row, '\n')) {
        row += *row == '\n';
        if (strncmp(row, key, length) == 0)
            return mbr_system_text_number(row + length + strspn(row + length, " \t"), number);
    }
    return false;
}

/* A row of /proc/meminfo in bytes. */
static bool memory_row(const char *text, const char *key, uint64_t *bytes)
{
    uint64_t kib;
    return mbr_system_text_row(text, key, &kib) && mbr_mul(kib, 1024, bytes);
}

int mbr_system_memory(const char *root, uint64_t *total_bytes, uint64_t *available_bytes)
{
    char path[PATH_BYTES], text[MEMORY_TEXT_BYTES];
    int length = snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    if (length < 0 || (size_t)length >= sizeof(path))
        return ENAMETOOLONG;
    int code = mbr_system_text_read(path, text, sizeof(text));
    if (code != 0)
        return code;
    uint64_t total = 0, available = 0;
    if ((total_bytes != NULL && !memory_row(text, "MemTotal:", &total)) ||
        (available_bytes != NULL && !memory_row(text, "MemAvailable:", &available)))
        return ENODATA;
    if (total_bytes != NULL)
        *total_bytes = total;
    if (available_bytes != NULL)
        *available_bytes = available;
    return 0;
}
