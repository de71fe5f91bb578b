/* How a plugin reads a request and writes an answer (rules 2, 7, 12): a request of another size is
 * a prefix, and an answer never passes the size that its owner gave. Every
 * plugin of this tree goes through these functions. */
#ifndef MEMBRANE_PLUGINS_COMMON_ANSWER_H
#define MEMBRANE_PLUGINS_COMMON_ANSWER_H

#include "membrane/plugin.h"

#include <stdbool.h>

/* Copies the part of `request` that both sides know into `copy`; the rest of `copy` is zero.
 * False if `request` is NULL or too short to hold its own size. */
bool mbr_answer_read(void *copy, uint32_t copy_bytes, const void *request);

/* Copies `answer`, without its struct_size, over `outcome` up to the size that its owner set. */
void mbr_answer_write(void *outcome, const void *answer, uint32_t answer_bytes);

/* Begins a slot: false if `request` or `outcome` cannot be used; then *error says which. Otherwise
 * *copy is the request and *outcome says "nothing happened". */
bool mbr_answer_begin(void *copy, uint32_t copy_bytes, const void *request, void *outcome,
    uint32_t outcome_bytes, mbr_error *error);

/* A caller's string for an error's text, which is UTF-8: at most 63 bytes, those outside printable
 * ASCII as '?'; "(NULL)" for NULL. Returns `quoted`. */
const char *mbr_answer_quote(char quoted[64], const char *text);

/* The whole of an entry function (rules 16, 17): answers minor 0 with `plugin`, or refuses with
 * both ranges in the text. */
mbr_status mbr_answer_hello(
    const mbr_plugin_vtable *plugin, const mbr_hello *hello, mbr_reply *reply, mbr_error *error);

#endif
