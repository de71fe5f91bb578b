/* Reads the waivers' file. A waiver that no check meets is refused, so that the list cannot rot. */
#include "tools/check/waivers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void waive(mbr_run *run, const mbr_check *check, const char *reason)
{
    for (uint32_t i = 0; run != NULL && i < run->count; i++) {
        mbr_result *result = &run->results[i];
        if (result->check != check || !mbr_verdict_is_finding(result->verdict))
            continue;
        result->first_verdict = result->verdict;
        result->verdict = MBR_VERDICT_WAIVED;
        char observed[sizeof result->observed];
        memcpy(observed, result->observed, sizeof observed);
        snprintf(
            result->observed, sizeof result->observed, "waived (%.200s): %.250s", reason, observed);
    }
}

/* Cuts the line in two; false if it has no reason. */
static bool split(char *line, char **id, char **reason)
{
    line[strcspn(line, "\n")] = '\0';
    *id = line + strspn(line, " ");
    char *end = *id + strcspn(*id, " ");
    if (*end != '\0')
        *end++ = '\0';
    *reason = end + strspn(end, " ");
    return **reason != '\0';
}

bool mbr_waivers_apply(const char *path, mbr_run *run, char *text, uint64_t room)
{
    FILE *file = fopen(path, "re");
    char *line = NULL, *id, *reason;
    size_t line_room = 0;
    uint32_t number = 0;
    bool is_good = true;
    if (file == NULL) {
        snprintf(text, room, "%s: %s", path, strerror(errno));
        return false;
    }
    while (is_good && getline(&line, &line_room, file) > 0) {
        number++;
        bool has_reason = split(line, &id, &reason);
        if (*id == '\0' || *id == '#')
            continue;
        const mbr_check *check = mbr_check_find(id);
        is_good = check != NULL && has_reason;
        if (is_good)
            waive(run, check, reason);
        else
            snprintf(text, room, "%s:%u: '%.40s' %s", path, number, id,
                check == NULL ? "is no check; --list lists them" : "has no reason behind it");
    }
    free(line);
    fclose(file);
    return is_good;
}
