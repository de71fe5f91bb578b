/* A line of places. Whoever has to wait has one: who stands in it is here, who is away was told
 * when to come, and keeps the place meanwhile. What is promised to one is ahead of all that come
 * later, so that it is not promised twice; and nothing is kept idle for it.
 *
 * Knows no request, no clock and no lock: the caller has its own. */
#ifndef MEMBRANE_EXAMPLES_SERVER_LINE_H
#define MEMBRANE_EXAMPLES_SERVER_LINE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLACE_LIMIT_COUNT 16384 /* of those that are away; a power of two */

typedef struct place {
    uint64_t key;    /* what its owner shows: random, and the index; 0: free */
    uint64_t number; /* the lower goes first */
    double work_byte_seconds;
    uint64_t due_ns;    /* when its turn is */
    uint64_t return_ns; /* when its owner was told to come: due_ns, rounded up */
    bool guessed;       /* somebody without a key has come in its owner's stead; its work is gone */
    struct place *prev, *next;
} place;

typedef struct line {
    uint64_t last_number;
    double work_byte_seconds; /* of all that stand or are away */
    uint32_t away_count;
    place *first; /* of those that are away, by return_ns */
    place places[PLACE_LIMIT_COUNT];
} line;

/* A number behind all others. */
uint64_t line_join(line *line);
/* Keeps the place of one that goes away; of `given` the number, the work and the times count.
 * `random` makes the key hard to guess. 0: as many are away as can. */
uint64_t line_keep(line *line, const place *given, uint64_t random);
/* The place of this key is its owner's again, and no longer away. False: no such place. */
bool line_take(line *line, uint64_t key, place *taken);
/* For one that shows no key: the place of the first who was told to come between the two times, has
 * as much work, and was not guessed before. Its owner may still come. False: there is none. */
bool line_guess(
    line *line, double work_byte_seconds, uint64_t from_ns, uint64_t until_ns, place *guessed);
/* Drops those whose owners were told to come until then. */
void line_expire(line *line, uint64_t until_ns);

#ifdef __cplusplus
}
#endif

#endif
