/* Rounds: contestants take turns in one process, so that whatever the machine does meanwhile hits
 * all of them alike. */
#ifndef MEMBRANE_TOOLS_BENCH_ROUNDS_H
#define MEMBRANE_TOOLS_BENCH_ROUNDS_H

#include "tools/bench/row.h"

#define MBR_BENCH_MAX_CONTESTANTS_COUNT 8

/* Work of one thread: `count` operations of contestant->context. False: the run fails. */
typedef struct mbr_contestant {
    const char *name;
    void *context;
    bool (*work)(void *context, uint32_t thread, uint64_t count);
    bool (*before)(void *context); /* not timed; NULL: nothing */
    bool (*after)(void *context);  /* the same */
    uint64_t step_count;           /* operations are a multiple of it; 0: 1 */
    uint64_t fixed_count;          /* operations a round; 0: as many as fill a round */
    uint32_t thread_count; /* 0 and 1: the caller's; more: so many at once, one number a run */
    bool by_wall;          /* one thread's time is the wall's: it waits for a device */
    double *apart_ns;      /* of one thread's round: `work` adds what is not to be counted */
    const struct mbr_contestant *rival; /* of the same rounds; NULL: none */

    /* What came out. */
    uint64_t count;                   /* operations a round, of each thread */
    double median_ns, p99_ns, min_ns; /* an operation; of several threads: of all together */
    uint64_t disturbed_count; /* rounds of several threads in which one of them lost its core */
    double rival_ratio; /* median over the rounds: the rival's time over this one's in the same */
} mbr_contestant;

/* Runs all contestants `rounds` times after a warm-up, each time in another order. One thread's
 * time is its own processor time; several threads' time is the wall's, over rounds in which none
 * lost its core to other programs (as far as such rounds are to be had). False: a contestant
 * failed, or there is no memory. */
bool mbr_bench_rounds(
    mbr_bench *bench, mbr_contestant *contestants, uint32_t count, uint64_t rounds);

/* The calling thread's processor time, by which a round of one thread is measured. */
double mbr_bench_own_ns(void);
double mbr_bench_wall_ns(void);

/* Sorts the samples. The smallest with that share of all at or below it. */
double mbr_bench_rank(double *samples, uint64_t count, double share);

/* A turn of a side that times each of its operations by itself. False: the run fails. */
typedef bool (*mbr_bench_turn)(void *context, double *median_ns, double *p99_ns);
/* Ours and theirs in turn, after one turn each that does not count. Of each the medians over the
 * rounds of its medians and of its p99; of turns of one sample, which say it twice, the p99 over
 * the rounds. Value and ratio are the caller's. */
bool mbr_bench_turns(
    mbr_bench *bench, const mbr_bench_turn sides[2], void *context, mbr_bench_row *row);

void mbr_bench_take_side(mbr_bench_side *side, const mbr_contestant *contestant, double scale);

/* Fills a row whose value is ours minus theirs, in ns an operation. */
void mbr_bench_take_difference(
    mbr_bench_row *row, const mbr_contestant *ours, const mbr_contestant *theirs);
/* Whose value is ours alone, in ns an operation. */
void mbr_bench_take_time(
    mbr_bench_row *row, const mbr_contestant *ours, const mbr_contestant *theirs);
/* Whose value is how many times faster ours is; sides in `scale` ns (1e6: ms). */
void mbr_bench_take_ratio(
    mbr_bench_row *row, const mbr_contestant *ours, const mbr_contestant *theirs, double scale);
/* The same, taken round by round: `theirs` is the rival of `ours`. Slow drift of the machine, which
 * hits both sides of a round alike, does not show in it. */
void mbr_bench_take_round_ratio(
    mbr_bench_row *row, const mbr_contestant *ours, const mbr_contestant *theirs, double scale);
/* Whose value is the throughput of two threads over that of one. */
void mbr_bench_take_scaling(mbr_bench_row *row, const mbr_contestant *one,
    const mbr_contestant *two, const mbr_contestant *their_one, const mbr_contestant *their_two);

#endif
