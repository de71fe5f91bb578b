/* Responsible for taking turns, for time, and for medians. Knows nothing of what is measured. */
#include "tools/bench/rounds.h"

#include "tools/bench/crew.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUND_NS 600000.0
#define WARM_UP_ROUNDS 2
#define GROWTH_LIMIT UINT64_C(1000)
#define COUNT_LIMIT (UINT64_C(1) << 24)
#define ATTEMPTS_A_ROUND 6 /* of several threads, for one in which nobody took a core away */

static double read_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

double mbr_bench_own_ns(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

double mbr_bench_wall_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

static double now_ns(const mbr_contestant *one)
{
    return one->by_wall ? mbr_bench_wall_ns() : mbr_bench_own_ns();
}

/* ---- One round */
static bool run_once(mbr_contestant *one, mbr_crew *crew, double *ns, bool *disturbed)
{
    *disturbed = false;
    if (one->before != NULL && !one->before(one->context))
        return false;
    bool done;
    if (one->thread_count > 1) {
        done = mbr_crew_run(crew, one->work, one->context, one->count, ns, disturbed);
    } else {
        if (one->apart_ns != NULL)
            *one->apart_ns = 0;
        double begin = now_ns(one);
        done = one->work(one->context, 0, one->count);
        *ns = now_ns(one) - begin;
        if (one->apart_ns != NULL)
            *ns -= *one->apart_ns;
    }
    return done && (one->after == NULL || one->after(one->context));
}

static bool run_undisturbed(mbr_contestant *one, mbr_crew *crew, uint32_t attempts, double *ns)
{
    bool disturbed;
    if (!run_once(one, crew, ns, &disturbed))
        return false;
    for (uint32_t i = 1; disturbed && one->thread_count > 1 && i < attempts; i++) {
        double again;
        if (!run_once(one, crew, &again, &disturbed))
            return false;
        if (!disturbed || again < *ns)
            *ns = again;
    }
    one->disturbed_count += disturbed;
    return true;
}

/* As many operations as fill a round, on this machine, now. */
static bool calibrate(mbr_contestant *one, mbr_crew *crew)
{
    uint64_t step = one->step_count == 0 ? 1 : one->step_count;
    one->count = one->fixed_count != 0 ? one->fixed_count : step;
    double ns;
    bool disturbed;
    if (one->fixed_count == 0 && !run_once(one, crew, &ns, &disturbed))
        return false; /* what happens the first time only must not be taken for an operation */
    for (;;) {
        if (!run_once(one, crew, &ns, &disturbed))
            return false;
        if (one->fixed_count != 0 || ns >= ROUND_NS / 2 || one->count >= COUNT_LIMIT)
            return true;
        double wanted = ns <= 0 ? (double)GROWTH_LIMIT : ROUND_NS / ns;
        uint64_t factor = wanted < 2 ? 2 : wanted > 1000 ? GROWTH_LIMIT : (uint64_t)wanted;
        one->count = (one->count * factor + step - 1) / step * step;
    }
}

/* ---- Medians */
static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double mbr_bench_rank(double *samples, uint64_t count, double share)
{
    qsort(samples, count, sizeof *samples, compare);
    return samples[(uint64_t)ceil((double)count * share) - 1];
}

static double median_of(double *samples, uint64_t count)
{
    qsort(samples, count, sizeof *samples, compare);
    uint64_t middle = count / 2;
    return count % 2 != 0 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
}

static double operations_of(const mbr_contestant *one)
{
    return (double)(one->count * (one->thread_count > 1 ? one->thread_count : 1));
}

/* Before the samples are sorted. */
static void take_rival(mbr_contestant *one, const double *samples, const double *rivals,
    uint64_t rounds, double *ratios)
{
    for (uint64_t i = 0; i < rounds; i++)
        ratios[i] = (rivals[i] / operations_of(one->rival)) / (samples[i] / operations_of(one));
    one->rival_ratio = median_of(ratios, rounds);
}

static void summarize(mbr_contestant *one, double *samples, uint64_t rounds)
{
    double operations = operations_of(one);
    one->median_ns = median_of(samples, rounds) / operations;
    one->p99_ns = mbr_bench_rank(samples, rounds, 0.99) / operations;
    one->min_ns = samples[0] / operations;
}

/* Nobody always comes after the same one: what one leaves behind, such as memory that a driver
 * still clears, meets all alike. */
static void shuffle(uint32_t *order, uint32_t count, uint64_t *dice)
{
    for (uint32_t left = count; left > 1; left--) {
        *dice = *dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t chosen = (uint32_t)((*dice >> 33) % left);
        uint32_t last = order[left - 1];
        order[left - 1] = order[chosen];
        order[chosen] = last;
    }
}

static bool take_turns(
    mbr_contestant *contestants, uint32_t count, uint64_t rounds, mbr_crew *crew, double *samples)
{
    uint32_t attempts = rounds < MBR_BENCH_MIN_ROUNDS_COUNT ? 1 : ATTEMPTS_A_ROUND;
    for (uint32_t i = 0; i < count; i++) {
        contestants[i].disturbed_count = 0;
        if (!calibrate(&contestants[i], crew))
            return false;
    }
    uint32_t order[MBR_BENCH_MAX_CONTESTANTS_COUNT];
    uint64_t dice = 1;
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint64_t round = 0; round < rounds + WARM_UP_ROUNDS; round++) {
        shuffle(order, count, &dice);
        for (uint32_t turn = 0; turn < count; turn++) {
            uint32_t i = order[turn];
            double ns;
            if (round == WARM_UP_ROUNDS)
                contestants[i].disturbed_count = 0;
            if (!run_undisturbed(&contestants[i], crew, attempts, &ns))
                return false;
            if (round >= WARM_UP_ROUNDS)
                samples[i * rounds + round - WARM_UP_ROUNDS] = ns;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        if (contestants[i].rival != NULL)
            take_rival(&contestants[i], &samples[i * rounds],
                &samples[(uint64_t)(contestants[i].rival - contestants) * rounds], rounds,
                &samples[count * rounds]);
    for (uint32_t i = 0; i < count; i++)
        summarize(&contestants[i], &samples[i * rounds], rounds);
    return true;
}

bool mbr_bench_rounds(
    mbr_bench *bench, mbr_contestant *contestants, uint32_t count, uint64_t rounds)
{
    uint32_t thread_count = 1;
    for (uint32_t i = 0; i < count; i++)
        if (contestants[i].thread_count > thread_count)
            thread_count = contestants[i].thread_count;
    double *samples = calloc((count + 1) * rounds, sizeof *samples); /* and ratios */
    if (samples == NULL)
        return mbr_bench_fail(bench, "no memory for the samples of %u contestants", count);
    mbr_crew *crew = NULL;
    bool done = true;
    if (thread_count > 1 && (crew = mbr_crew_create(thread_count)) == NULL)
        done = mbr_bench_fail(bench, "%u threads cannot be started", thread_count);
    if (done && !take_turns(contestants, count, rounds, crew, samples))
        done = false; /* the group knows why */
    mbr_crew_destroy(crew);
    free(samples);
    return done;
}

/* ---- Turns */
bool mbr_bench_turns(
    mbr_bench *bench, const mbr_bench_turn sides[2], void *context, mbr_bench_row *row)
{
    static double medians[2][MBR_BENCH_MAX_ROUNDS_COUNT], p99s[2][MBR_BENCH_MAX_ROUNDS_COUNT];
    uint64_t rounds = bench->options->rounds;
    for (uint64_t round = 0; round <= rounds; round++)
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t side = (uint32_t)((round + i) % 2);
            uint64_t at = round == 0 ? 0 : round - 1; /* the first one warms up */
            if (!sides[side](context, &medians[side][at], &p99s[side][at]))
                return false;
        }
    bool is_single = memcmp(medians[0], p99s[0], rounds * sizeof medians[0][0]) == 0;
    row->ours.median = mbr_bench_rank(medians[0], rounds, 0.5);
    row->ours.p99 = mbr_bench_rank(p99s[0], rounds, is_single ? 0.99 : 0.5);
    row->theirs.median = mbr_bench_rank(medians[1], rounds, 0.5);
    row->theirs.p99 = mbr_bench_rank(p99s[1], rounds, is_single ? 0.99 : 0.5);
    row->has_baseline = true;
    return true;
}

/* ---- Rows */
void mbr_bench_take_side(mbr_bench_side *side, const mbr_contestant *contestant, double scale)
{
    side->median = contestant->median_ns / scale;
    side->p99 = contestant->p99_ns / scale;
}

static void take_sides(
    mbr_bench_row *row, const mbr_contestant *ours, const mbr_contestant *theirs, double scale)
{
    mbr_bench_take_side(&row->ours, ours, scale);
    mbr_bench_take_side(&row->theirs, theirs, scale);
    row->has_baseline = true;
    row->ratio = theirs->median_ns / ours->median_ns;
}

void mbr_bench_take_difference(
    mbr_bench_row *row, const mbr_contestant *ours, const mbr_contestant *theirs)
{
    take_sides(row, ours, theirs, 1);
    row->value = ours->median_ns - theirs->median_ns;
}

void mbr_bench_take_time(
    mbr_bench_row *row, const mbr_contestant *ours, const mbr_contestant *theirs)
{
    take_sides(row, ours, theirs, 1);
    row->value = ours->median_ns;
}

void mbr_bench_take_ratio(
    mbr_bench_row *row, const mbr_contestant *ours, const mbr_contestant *theirs, double scale)
{
    take_sides(row, ours, theirs, scale);
    row->value = row->ratio;
}

void mbr_bench_take_round_ratio(
    mbr_bench_row *row, const mbr_contestant *ours, const mbr_contestant *theirs, double scale)
{
    take_sides(row, ours, theirs, scale);
    row->value = row->ratio = ours->rival_ratio;
}

void mbr_bench_take_scaling(mbr_bench_row *row, const mbr_contestant *one,
    const mbr_contestant *two, const mbr_contestant *their_one, const mbr_contestant *their_two)
{
    take_sides(row, two, their_two, 1);
    row->value = one->median_ns / two->median_ns;
    row->ratio = row->value / (their_one->median_ns / their_two->median_ns);
}
