/* Where the plugin's file lies in this process. */
#ifndef MEMBRANE_TOOLS_CHECK_IMAGE_H
#define MEMBRANE_TOOLS_CHECK_IMAGE_H

#include "tools/check/trial.h"

/* Whether [address, address + bytes) lies in segments of the plugin's own file, code or data. */
bool mbr_image_holds(mbr_trial *trial, const void *address, uint64_t bytes);

/* Whether `address` lies in an executable segment of it. */
bool mbr_image_holds_code(mbr_trial *trial, const void *address);

/* Whether a text at `address` ends within `room` bytes, all of them in the file's segments. */
bool mbr_image_holds_text(mbr_trial *trial, const char *address, uint64_t room);

#endif
