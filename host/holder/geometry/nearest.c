/* Responsible for the distance between two short names. Never allocates. */
#include "host/holder/geometry/nearest.h"

#include "abi/base/checked.h"

#include <ctype.h>
#include <string.h>

static int fold(char c)
{
    return tolower((unsigned char)c);
}

static uint64_t clipped_length(const char *text)
{
    return strnlen(text, MBR_NEAREST_NAME_MAX);
}

/* Optimal string alignment over three rows: row[j] is the distance of the prefixes a[0, i) and
 * b[0, j). */
static uint64_t distance(const char *a, const char *b)
{
    uint64_t rows[3][MBR_NEAREST_NAME_MAX + 1];
    uint64_t *before = rows[0], *previous = rows[1], *current = rows[2];
    uint64_t a_length = clipped_length(a), b_length = clipped_length(b);
    for (uint64_t j = 0; j <= b_length; j++)
        before[j] = previous[j] = j;
    for (uint64_t i = 1; i <= a_length; i++) {
        current[0] = i;
        for (uint64_t j = 1; j <= b_length; j++) {
            uint64_t replaced = previous[j - 1] + (fold(a[i - 1]) != fold(b[j - 1]));
            current[j] = mbr_min(replaced, 1 + mbr_min(previous[j], current[j - 1]));
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) &&
                fold(a[i - 2]) == fold(b[j - 1]))
                current[j] = mbr_min(current[j], before[j - 2] + 1);
        }
        uint64_t *oldest = before;
        before = previous;
        previous = current;
        current = oldest;
    }
    return previous[b_length];
}

uint64_t mbr_nearest_name(const char *text, uint64_t count,
    const char *(*name_at)(const void *context, uint64_t index), const void *context)
{
    uint64_t best = count, best_distance = UINT64_MAX;
    for (uint64_t index = 0; index < count; index++) {
        const char *name = name_at(context, index);
        uint64_t edits = distance(text, name);
        uint64_t longer = mbr_max(clipped_length(text), clipped_length(name));
        if (2 * edits < longer && edits < best_distance) {
            best = index;
            best_distance = edits;
        }
    }
    return best;
}
