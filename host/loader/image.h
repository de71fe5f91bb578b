/* What the dynamic linker mapped, compared with what was judged (rules 30 and 31). */
#ifndef MEMBRANE_HOST_LOADER_IMAGE_H
#define MEMBRANE_HOST_LOADER_IMAGE_H

#include "host/loader/judge.h"

/* One mapped object. */
typedef struct mbr_image {
    const void *link_map; /* the linker's own record, compared by identity */
    uintptr_t base;       /* what its addresses are relative to */
    const void *dynamic;  /* its dynamic table */
    const Elf64_Phdr *segments;
    uint32_t segment_count;
} mbr_image;

/* Finds the object of a handle of dlopen. */
void mbr_image_find(void *handle, mbr_image *image);

/* Whether the object is the judged file: by device and inode of the mapping; where an overlay file
 * system makes those differ, by the path's identity and all constant bytes in memory. */
bool mbr_image_is_file(const mbr_image *image, const mbr_judged *judged);

/* Whether code, constants and notes in memory (a build id included) equal those of the file. */
bool mbr_image_has_code_of(const mbr_image *image, const mbr_elf *elf);

/* Whether [address, address + bytes) lies in one readable segment of the object. */
bool mbr_image_holds(const mbr_image *image, const void *address, uint64_t bytes);

/* Whether a text of the object ends within `bytes`, the ending included. */
bool mbr_image_holds_text(const mbr_image *image, const char *text, uint64_t bytes);

/* The linker's record of the object that a symbol's address belongs to, and its file's name. */
const void *mbr_image_of_address(const void *address, const char **file);

#endif
