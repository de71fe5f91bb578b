/* Responsible for reading what strangers send. Takes nothing that it does not know. */
#include "ask.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMPT "prompt_tokens"
#define OUTPUT "output_tokens"

static bool is_count(long long value, const char *name, uint64_t *count, char *problem)
{
    if (value < 1) {
        snprintf(problem, PROBLEM_BYTES, "%s is %lld; it must be at least 1", name, value);
        return false;
    }
    *count = (uint64_t)value;
    return true;
}

static bool take_member(const json_t *object, const char *name, uint64_t *count, char *problem)
{
    const json_t *value = json_object_get(object, name);
    if (json_is_integer(value))
        return is_count(json_integer_value(value), name, count, problem);
    snprintf(problem, PROBLEM_BYTES, "%s is %s; give a whole number", name,
        value == NULL ? "absent" : "no whole number");
    return false;
}

bool ask_from_json(const char *text, size_t bytes, ask *asked, char problem[PROBLEM_BYTES])
{
    json_error_t error;
    errno = 0;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    bool good = false;
    if (root == NULL && errno == ENOMEM) /* jansson says that a token is invalid */
        problem[0] = '\0';
    else if (root == NULL)
        snprintf(problem, PROBLEM_BYTES, "the body is no JSON: %.80s at byte %d", error.text,
            error.position);
    else if (!json_is_object(root))
        snprintf(problem, PROBLEM_BYTES,
            "the body is no object; send {\"" PROMPT "\": 128, \"" OUTPUT "\": 64}");
    else
        good = take_member(root, PROMPT, &asked->prompt_tokens, problem) &&
            take_member(root, OUTPUT, &asked->output_tokens, problem);
    if (good && json_object_size(root) != 2) {
        snprintf(problem, PROBLEM_BYTES, "only " PROMPT " and " OUTPUT " are known");
        good = false;
    }
    json_decref(root);
    return good;
}

static bool take_text(const char *text, const char *name, uint64_t *count, char *problem)
{
    size_t digits = text != NULL ? strspn(text, "0123456789") : 0;
    if (digits == 0 || digits > 18 || text[digits] != '\0') {
        snprintf(problem, PROBLEM_BYTES, "%s is %s; give a whole number", name,
            text == NULL ? "absent" : "no whole number");
        return false;
    }
    return is_count(strtoll(text, NULL, 10), name, count, problem);
}

bool ask_from_query(const char *prompt, const char *output, ask *asked, char problem[PROBLEM_BYTES])
{
    return take_text(prompt, PROMPT, &asked->prompt_tokens, problem) &&
        take_text(output, OUTPUT, &asked->output_tokens, problem);
}

uint64_t ask_key(const char *text)
{
    bool is_key = text != NULL && strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
    return is_key ? strtoull(text, NULL, 16) : 0;
}
