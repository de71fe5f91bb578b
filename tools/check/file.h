/* The plugin's file, before anything of it runs. */
#ifndef MEMBRANE_TOOLS_CHECK_FILE_H
#define MEMBRANE_TOOLS_CHECK_FILE_H

#include <stdbool.h>

#define MBR_FILE_PATH_BYTES 4096
#define MBR_FILE_TEXT_BYTES 256

typedef struct mbr_file {
    char path[MBR_FILE_PATH_BYTES]; /* absolute, without links */
    char sha256[65];                /* of a regular file that can be read; else "" */
    char
        refusal[MBR_FILE_TEXT_BYTES]; /* why it can be no plugin of this machine; "" if it may be */
} mbr_file;

/* Looks at the file; false with a refusal. */
bool mbr_file_look(const char *path, mbr_file *file);

#endif
