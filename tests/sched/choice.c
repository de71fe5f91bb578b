/* Responsible for every choice of a schedule, out of a seed or a path. Never switches a fiber and
 * knows nothing of what they do. */
#include "tests/sched/choice.h"

uint64_t sched_random_next(sched_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t sched_random_below(sched_random *random, uint64_t bound)
{
    return sched_random_next(random) % bound;
}

void sched_choice_begin_random(sched_choice *choice, uint64_t seed, int depth)
{
    choice->random.state = seed;
    choice->depth = depth;
    choice->stores_wait = sched_random_below(&choice->random, 2) == 0;
    for (int i = 0; i < SCHED_FIBER_LIMIT; i++) {
        int at = (int)sched_random_below(&choice->random, (uint64_t)i + 1);
        choice->priority[i] = choice->priority[at];
        choice->priority[at] = i;
    }
    for (int i = 0; i + 1 < depth; i++)
        choice->change_at[i] = sched_random_below(&choice->random, choice->steps_expected + 1);
}

static int highest(const sched_choice *choice, uint32_t candidates, int fiber_count)
{
    int best = -1;
    for (int i = 0; i < fiber_count; i++) {
        if ((candidates >> i & 1) != 0 &&
            (best < 0 || choice->priority[i] > choice->priority[best]))
            best = i;
    }
    return best;
}

static int next_in_turn(int current, uint32_t candidates, int fiber_count)
{
    int next = current;
    do
        next = (next + 1) % fiber_count;
    while ((candidates >> next & 1) == 0);
    return next;
}

static int make_random(
    sched_choice *choice, uint64_t step, int current, uint32_t candidates, int fiber_count)
{
    if (choice->depth == 0)
        return next_in_turn(current, candidates, fiber_count);
    for (int i = 0; i + 1 < choice->depth; i++) {
        if (choice->change_at[i] == step && current >= 0)
            choice->priority[current] = -1 - i;
    }
    return highest(choice, candidates, fiber_count);
}

/* ---- Exhaustive. The first option is the one without a preemption. */
void sched_choice_begin_path(sched_choice *choice)
{
    choice->replayed = 0;
    choice->preemptions = 0;
}

bool sched_choice_next_path(sched_choice *choice)
{
    while (choice->path_length > 0) {
        int last = choice->path_length - 1;
        if (++choice->path[last] < choice->options[last])
            return true;
        choice->path_length--;
    }
    return false;
}

static int option_of_path(sched_choice *choice, int option_count)
{
    if (option_count == 1 || choice->replayed == SCHED_PATH_LIMIT)
        return 0;
    bool known = choice->replayed < choice->path_length;
    int before = known ? choice->options[choice->replayed] : 0;
    if (before != 0 && before != option_count)
        choice->differs = true; /* the scenario depends on more than the schedule */
    if (!known) {
        choice->path[choice->path_length] = 0;
        choice->options[choice->path_length++] = (uint8_t)option_count;
    }
    return choice->path[choice->replayed++];
}

static int make_exhaustive(sched_choice *choice, int current, uint32_t candidates, int fiber_count)
{
    int options[SCHED_FIBER_LIMIT], count = 0;
    bool may_stay = current >= 0 && (candidates >> current & 1) != 0;
    if (may_stay)
        options[count++] = current;
    for (int i = 0; i < fiber_count; i++) {
        bool may_go = !may_stay || choice->preemptions < choice->preemption_limit;
        if (i != current && (candidates >> i & 1) != 0 && may_go)
            options[count++] = i;
    }
    int chosen = options[option_of_path(choice, count)];
    choice->preemptions += may_stay && chosen != current;
    return chosen;
}

int sched_choice_make(
    sched_choice *choice, uint64_t step, int current, uint32_t candidates, int fiber_count)
{
    return choice->exhaustive ? make_exhaustive(choice, current, candidates, fiber_count)
                              : make_random(choice, step, current, candidates, fiber_count);
}

static uint64_t at_random_step(sched_choice *choice, uint64_t step, uint64_t one_in)
{
    if (choice->exhaustive || sched_random_below(&choice->random, one_in) != 0)
        return SCHED_NEVER;
    return step + sched_random_below(&choice->random, choice->steps_expected + 1);
}

uint64_t sched_choice_fires_at(sched_choice *choice, uint64_t step)
{
    return at_random_step(choice, step, 2);
}

uint64_t sched_choice_wakes_at(sched_choice *choice, uint64_t step)
{
    return at_random_step(choice, step, 16);
}

bool sched_choice_store_lands(sched_choice *choice)
{
    return choice->exhaustive || !choice->stores_wait ||
        sched_random_below(&choice->random, 8) == 0;
}
