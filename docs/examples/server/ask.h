/* What a client asks for, out of JSON or out of the query. */
#ifndef MEMBRANE_EXAMPLES_SERVER_ASK_H
#define MEMBRANE_EXAMPLES_SERVER_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROBLEM_BYTES 160

typedef struct ask {
    uint64_t prompt_tokens, output_tokens;
} ask;

/* {"prompt_tokens": N, "output_tokens": N}, nothing else. False: *problem says what is wrong, or
 * is empty where there was no heap to read it. */
bool ask_from_json(const char *text, size_t bytes, ask *asked, char problem[PROBLEM_BYTES]);
/* The same of two texts, NULL where one is absent. */
bool ask_from_query(
    const char *prompt, const char *output, ask *asked, char problem[PROBLEM_BYTES]);
/* A key as it is shown: 16 hexadecimal digits. 0: none. */
uint64_t ask_key(const char *text);

#endif
