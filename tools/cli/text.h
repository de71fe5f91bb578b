/* Texts from strangers (paths, names, notes of files) on their way to a terminal or into JSON. */
#ifndef MEMBRANE_TOOLS_CLI_TEXT_H
#define MEMBRANE_TOOLS_CLI_TEXT_H

#include <stddef.h>

/* Copies a text, with a '?' in the place of each control character and of each byte that is no part
 * of valid UTF-8; cut between characters where it does not fit. Returns `to`. `room` is above 0. */
char *mbr_text_printable(char *to, size_t room, const char *from);

#endif
