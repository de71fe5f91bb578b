/* F1, F2: finding the longest known start of a prompt in a prefix registry, for each of its blocks.
 * The registry is as large as an hour of long conversations leaves it: 10^5 blocks of 512 tokens,
 * 23 a prompt, of which the first ones are a few system prompts. Prompts come in random order, so
 * that neither the prompt nor what it is compared with is in a cache, and every block of them is
 * known. In F2 an older prompt goes on otherwise behind each block, by its last token: none is
 * found without a hash, and all of two blocks is compared.
 *
 * The baseline hashes each block of the same prompts and compares it with another copy that lies
 * where it is expected: what the bytes alone cost. */
#include "tools/bench/rounds.h"
#include "tools/bench/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define BLOCK_TOKENS UINT64_C(512)
#define PROMPT_BLOCKS UINT64_C(23)
#define COMMON_BLOCKS UINT64_C(3) /* of a system prompt */
#define SYSTEM_COUNT UINT64_C(8)
#define PROMPT_TOKENS (PROMPT_BLOCKS * BLOCK_TOKENS)
#define PROMPT_BYTES (PROMPT_TOKENS * sizeof(uint32_t))
#define PROMPT_COUNT UINT64_C(5000)
#define FORKED_PROMPT_COUNT UINT64_C(2200) /* with their forks as many blocks */
#define QUICK_PROMPT_COUNT UINT64_C(50)
#define SEED 20261130
#define LIMIT_BYTES (UINT64_C(1) << 30)
/* 64 KiB of tokens: a block is whole extents. */
#define MODEL "layers=1,heads=1,dim=64,bytes=2,planes=1"

typedef struct find_state {
    mbr_bench_world *world;
    mbr_kv *kv;
    mbr_sequence *sequence;
    mbr_registry *registry;
    uint32_t *prompts, *copy, *fork;
    uint64_t *order; /* of the prompts */
    uint64_t prompt_count;
    bool has_forks;
    uint64_t next; /* in the order */
    uint64_t sum;  /* so that nothing is left out */
} find_state;

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* ---- Sides; an operation is a block */
static const uint32_t *next_prompt(find_state *state, uint64_t *index)
{
    *index = state->order[state->next];
    state->next = (state->next + 1) % state->prompt_count;
    return &state->prompts[*index * PROMPT_TOKENS];
}

static bool find_prompts(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    find_state *state = context;
    bool good = true;
    for (uint64_t done = 0; done < count; done += PROMPT_BLOCKS) {
        mbr_registry_match match = {MBR_SIZED(mbr_registry_match)};
        uint64_t index;
        mbr_registry_find(state->registry, 0, next_prompt(state, &index), PROMPT_TOKENS, &match);
        mbr_registry_release(state->registry, match.entry);
        good = good && match.tokens == PROMPT_TOKENS;
    }
    return good;
}

static bool hash_and_compare(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    find_state *state = context;
    const uint64_t bytes = BLOCK_TOKENS * sizeof(uint32_t);
    for (uint64_t done = 0; done < count; done += PROMPT_BLOCKS) {
        uint64_t index, hash = 0;
        const uint32_t *prompt = next_prompt(state, &index);
        const uint32_t *copy = &state->copy[index * PROMPT_TOKENS];
        for (uint64_t i = 0; i < PROMPT_TOKENS; i += BLOCK_TOKENS) {
            hash = XXH3_64bits_withSeed(&prompt[i], bytes, hash);
            state->sum += hash + (memcmp(&prompt[i], &copy[i], bytes) == 0);
        }
    }
    return state->sum != 0;
}

/* ---- What is found */
static bool make_prompts(find_state *state)
{
    uint64_t count = state->prompt_count, seed = SEED;
    state->prompts = malloc(count * PROMPT_BYTES);
    state->copy = malloc(count * PROMPT_BYTES);
    state->fork = malloc(PROMPT_BYTES);
    state->order = malloc(count * sizeof *state->order);
    if (!state->prompts || !state->copy || !state->fork || !state->order)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t *prompt = &state->prompts[i * PROMPT_TOKENS];
        for (uint64_t t = 0; t < PROMPT_TOKENS; t++)
            prompt[t] = (uint32_t)draw(&seed);
        if (i >= SYSTEM_COUNT)
            memcpy(prompt, &state->prompts[i % SYSTEM_COUNT * PROMPT_TOKENS],
                COMMON_BLOCKS * BLOCK_TOKENS * sizeof(uint32_t));
        state->order[i] = i;
    }
    for (uint64_t i = count - 1; i != 0; i--) {
        uint64_t other = draw(&seed) % (i + 1), moved = state->order[i];
        state->order[i] = state->order[other];
        state->order[other] = moved;
    }
    memcpy(state->copy, state->prompts, count * PROMPT_BYTES);
    return true;
}

/* The prefixes are all of one sequence: only their tokens matter here. */
static mbr_status keep_prompt(find_state *state, const uint32_t *prompt, uint64_t token_count)
{
    mbr_kv_prefix *prefix;
    mbr_error *error = &state->world->error;
    mbr_status status = mbr_kv_prefix_create(state->sequence, BLOCK_TOKENS, &prefix, error);
    if (status != MBR_OK)
        return status;
    status = mbr_registry_put(state->registry, 0, prompt, token_count, prefix, error);
    if (status != MBR_OK)
        mbr_kv_prefix_destroy(prefix, NULL);
    return status;
}

/* Before the prompt itself: what goes on otherwise behind each of its blocks stands first there.
 * Those of a system prompt are the same each time. */
static mbr_status keep_forks(find_state *state, const uint32_t *prompt)
{
    mbr_status status = MBR_OK;
    for (uint64_t end = BLOCK_TOKENS; end <= PROMPT_TOKENS && status == MBR_OK;
         end += BLOCK_TOKENS) {
        memcpy(state->fork, prompt, end * sizeof *prompt);
        state->fork[end - 1] ^= 1;
        status = keep_prompt(state, state->fork, end);
        if (status == MBR_ALREADY_EXISTS)
            status = MBR_OK;
    }
    return status;
}

static mbr_status fill_registry(find_state *state)
{
    mbr_error *error = &state->world->error;
    mbr_kv_request kv = {MBR_SIZED(mbr_kv_request), .binding = state->world->binding,
        .holder = state->world->holder, .geometry = MODEL, .layout = "token-major",
        .max_tokens = BLOCK_TOKENS, .extent_bytes = UINT64_C(1) << 16};
    mbr_sequence_request sequence = {MBR_SIZED(mbr_sequence_request), .tokens = BLOCK_TOKENS};
    mbr_status status = mbr_kv_create(state->world->manager, &kv, &state->kv, error);
    if (status == MBR_OK)
        status = mbr_sequence_create(state->kv, &sequence, &state->sequence, error);
    if (status == MBR_OK)
        status = mbr_registry_create(NULL, &state->registry, error);
    for (uint64_t i = 0; i < state->prompt_count && status == MBR_OK; i++) {
        const uint32_t *prompt = &state->prompts[i * PROMPT_TOKENS];
        if (state->has_forks)
            status = keep_forks(state, prompt);
        if (status == MBR_OK)
            status = keep_prompt(state, prompt, PROMPT_TOKENS);
    }
    return status;
}

static void empty(find_state *state)
{
    if (state->registry != NULL)
        mbr_registry_destroy(state->registry, NULL);
    if (state->sequence != NULL)
        mbr_sequence_destroy(state->sequence, NULL, 0, NULL);
    if (state->kv != NULL)
        mbr_kv_destroy(state->kv, NULL);
    free(state->prompts);
    free(state->copy);
    free(state->fork);
    free(state->order);
}

/* ---- The row */
static bool measure(mbr_bench *bench, find_state *state, mbr_bench_row *row)
{
    mbr_contestant sides[] = {
        {.context = state, .work = find_prompts, .step_count = PROMPT_BLOCKS},
        {.context = state, .work = hash_and_compare, .step_count = PROMPT_BLOCKS},
    };
    if (!mbr_bench_rounds(bench, sides, 2, bench->options->rounds))
        return false;
    mbr_bench_take_time(row, &sides[0], &sides[1]);
    mbr_registry_figures figures = {MBR_SIZED(mbr_registry_figures)};
    mbr_registry_read(state->registry, &figures);
    snprintf(row->note, sizeof row->note, "%llu blocks of %llu prompts, %llu MiB of the host's",
        (unsigned long long)figures.block_count, (unsigned long long)figures.entry_count,
        (unsigned long long)(figures.host_bytes >> 20));
    return true;
}

static bool run_row(mbr_bench *bench, bool has_forks, mbr_bench_row *row)
{
    mbr_bench_world world;
    mbr_bench_world_options options = {.limit_bytes = LIMIT_BYTES, .keep_bytes = UINT64_MAX};
    if (!mbr_bench_world_open(bench, &options, &world))
        return false;
    uint64_t count = has_forks ? FORKED_PROMPT_COUNT : PROMPT_COUNT;
    find_state state = {.world = &world,
        .prompt_count = bench->options->quick ? QUICK_PROMPT_COUNT : count,
        .has_forks = has_forks};
    bool done = make_prompts(&state) || mbr_bench_fail(bench, "no memory for the prompts");
    done = done && fill_registry(&state) == MBR_OK && measure(bench, &state, row);
    if (!done)
        mbr_bench_fail_world(bench, "the registry", &world);
    empty(&state);
    return mbr_bench_world_close(bench, &world) && done;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    return run_row(bench, false, &rows[0]) && run_row(bench, true, &rows[1]);
}

static const mbr_bench_plan plans[] = {
    {"F1", "find in a registry of 10^5 blocks, for each block of 512 tokens of a prompt", "ns",
        "ns", "XXH3 and memcmp of the same blocks", false, 1000, 2000},
    {"F2", "the same where others go on otherwise behind each block, by its last token", "ns", "ns",
        "XXH3 and memcmp of the same blocks", false, 1000, 2000},
};

const mbr_bench_group mbr_bench_find = {plans, 2, run};
