/* A judged file, kept open until what was mapped has been compared with it. */
#ifndef MEMBRANE_HOST_LOADER_JUDGE_H
#define MEMBRANE_HOST_LOADER_JUDGE_H

#include "host/loader/elf.h"

#include <sys/stat.h>

typedef struct mbr_judged {
    const mbr_loader_os *os;
    int fd;                               /* -1: none */
    char resolved[MBR_LOADER_PATH_BYTES]; /* absolute, without links: what the linker gets */
    struct stat stat;
    mbr_elf elf;
} mbr_judged;

/* Judges a file by path, and keeps it open on MBR_OK alone. Fills the candidate in either case. */
mbr_status mbr_judge_open(const mbr_loader_os *os, const char *path, bool trusted,
    mbr_judged *judged, mbr_candidate *candidate);
void mbr_judge_close(mbr_judged *judged);

/* Whether the judged file has been written to since. */
bool mbr_judge_has_changed(const mbr_judged *judged);

/* Resolves links, opens a regular file, and asks owner and mode of it and of its folders unless
 * `trusted` (rule 30). Fills fd, resolved and stat; os is given. */
mbr_status mbr_trust_open(
    const char *path, bool trusted, mbr_judged *judged, mbr_candidate *candidate);

/* The name that a file's name gives its plugin, from libmembrane-NAME.so; false for other names. */
bool mbr_name_from_path(const char *path, char name[MBR_NOTE_NAME_BYTES]);

#endif
