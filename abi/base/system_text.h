/* Small text files of Linux: /proc and the files of cgroups. Nothing here allocates: on these paths
 * the heap may be what is exhausted. */
#ifndef MEMBRANE_BASE_SYSTEM_TEXT_H
#define MEMBRANE_BASE_SYSTEM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The file's first capacity - 1 bytes, terminated. 0 or an errno. */
int mbr_system_text_read(const char *path, char *text, size_t capacity);

/* A word of decimal digits, ended by a blank, a line's or the text's end. */
bool mbr_system_text_number(const char *text, uint64_t *number);

/* The number in the row that begins with `key`. */
bool mbr_system_text_row(const char *text, const char *key, uint64_t *number);

/* RAM of the machine, and what of it a new request could get (MemAvailable). Each may be NULL.
 * `root` is put before /proc; "" for the real one. 0, an errno, or ENODATA where a row is missing
 * or no number. Results are written on success only. */
int mbr_system_memory(const char *root, uint64_t *total_bytes, uint64_t *available_bytes);

#endif
