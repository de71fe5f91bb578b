/* Responsible for the places of those that are away. Never decides who is served. */
#include "line.h"

uint64_t line_join(line *line)
{
    return ++line->last_number;
}

uint64_t line_keep(line *line, const place *given, uint64_t random)
{
    uint64_t index = given->number % PLACE_LIMIT_COUNT;
    place *kept = &line->places[index];
    if (kept->key != 0)
        return 0;
    *kept = *given;
    kept->key = (random | 1) * PLACE_LIMIT_COUNT + index; /* the random upper bits are never 0 */
    line->work_byte_seconds += kept->work_byte_seconds;
    line->away_count++;
    return kept->key;
}

static void drop(line *line, place *dropped)
{
    line->work_byte_seconds -= dropped->work_byte_seconds;
    line->away_count--;
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

void line_expire(line *line, uint64_t now_ns)
{
    for (uint32_t i = 0; i < PLACE_LIMIT_COUNT; i++) {
        if (line->places[i].key != 0 && line->places[i].expires_ns <= now_ns)
            drop(line, &line->places[i]);
    }
}
