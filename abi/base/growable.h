/* Growable structs across the boundary (rules 10 to 12): what a request of another size means, and
 * how much of an answer is written. */
#ifndef MEMBRANE_BASE_GROWABLE_H
#define MEMBRANE_BASE_GROWABLE_H

#include "membrane/base.h"

/* Makes *own the caller's request as this side knows it: what the caller does not have counts as
 * zero, what only the caller knows is not read. MBR_INVALID_ARGUMENT: it is NULL, or shorter than
 * `least_bytes`, the end of the last field of its first version; *own is zero then. */
mbr_status mbr_growable_take(void *own, size_t own_bytes, const void *request, size_t least_bytes,
    const char *type, mbr_error *error);

/* `last` is the last field of the struct's first version, and stays it. */
#define MBR_TAKE(own, type, last, request, error)                                                  \
    mbr_growable_take((own), sizeof(type), (request), MBR_END_OF(type, last), #type, (error))
#define MBR_END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/* Copies an answer of `bytes` bytes into the caller's struct, whose struct_size stays. Nothing is
 * written beyond it; fields that only the caller knows become zero. `from` NULL: all fields zero.
 */
void mbr_growable_give(void *to, const void *from, size_t bytes);

/* The half of a flag word that must be known (rule 15). MBR_UNSUPPORTED names the unknown bits. */
#define MBR_FLAGS_CRITICAL 0xFFFFU
mbr_status mbr_flags_check(uint32_t flags, uint32_t known, const char *type, mbr_error *error);

#endif
