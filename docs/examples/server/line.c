/* Responsible for the places of those that are away. Never decides who is served. */
#include "line.h"

#include <stddef.h>
#include <utlist.h>

uint64_t line_join(line *line)
{
    return ++line->last_number;
}

/* From the end, where nearly all belong. */
static void insert(line *line, place *added)
{
    place *before = line->first == NULL ? NULL : line->first->prev; /* the last */
    while (before != NULL && before->return_ns > added->return_ns)
        before = before == line->first ? NULL : before->prev;
    DL_APPEND_ELEM(line->first, before, added);
}

uint64_t line_keep(line *line, const place *given, uint64_t random)
{
    uint64_t index = given->number % PLACE_LIMIT_COUNT;
    place *kept = &line->places[index];
    if (kept->key != 0)
        return 0;
    *kept = *given;
    kept->key = (random | 1) * PLACE_LIMIT_COUNT + index; /* the random bits are never all 0 */
    line->work_byte_seconds += kept->work_byte_seconds;
    line->away_count++;
    insert(line, kept);
    return kept->key;
}

static void drop(line *line, place *dropped)
{
    line->work_byte_seconds -= dropped->guessed ? 0 : dropped->work_byte_seconds;
    line->away_count--;
    DL_DELETE(line->first, dropped);
    dropped->key = 0;
}

bool line_take(line *line, uint64_t key, place *taken)
{
    place *found = &line->places[key % PLACE_LIMIT_COUNT];
    if (key == 0 || found->key != key)
        return false;
    *taken = *found;
    drop(line, found);
    return true;
}

bool line_guess(
    line *line, double work_byte_seconds, uint64_t from_ns, uint64_t until_ns, place *guessed)
{
    for (place *at = line->first; at != NULL && at->return_ns <= until_ns; at = at->next) {
        if (at->guessed || at->return_ns < from_ns || at->work_byte_seconds != work_byte_seconds)
            continue;
        *guessed = *at;
        at->guessed = true;
        line->work_byte_seconds -= at->work_byte_seconds;
        return true;
    }
    return false;
}

void line_expire(line *line, uint64_t until_ns)
{
    while (line->first != NULL && line->first->return_ns <= until_ns)
        drop(line, line->first);
}
