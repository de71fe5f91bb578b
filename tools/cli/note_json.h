/* A candidate as a JSON object, for the commands that print one. */
#ifndef MEMBRANE_TOOLS_CLI_NOTE_JSON_H
#define MEMBRANE_TOOLS_CLI_NOTE_JSON_H

#include "host/loader/loader.h"

#include <jansson.h>

/* path, name, reason, detail, and the note where one was read. NULL when memory is exhausted. */
json_t *mbr_candidate_json(const mbr_candidate *candidate);

/* A JSON string of a foreign text; NULL when memory is exhausted. */
json_t *mbr_text_json(const char *text);

/* What pins the code, or "". */
const char *mbr_pin_text(const mbr_note_facts *note);

#endif
