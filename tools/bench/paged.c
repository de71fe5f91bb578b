/* G: a paged store, whose forks copy a page when they write to it, against the kernel, which copies
 * for private mappings of a memory file.
 *
 *   G1   a fork that writes one token and ends: behind a shared page that is half full, or inside a
 *        full one; once with all rows read in between, as a step of decoding does
 *   G2   tokens appended to a sequence that nobody shares: the call alone, and with rows written
 *
 *   G3   a sequence that is preempted and restored, against moving its bytes by hand
 *
 * The kernel's fork is one mapping of all of the parent's rows: it pays for a page when it is
 * touched first, and its copies appear in nobody's books (docs/paged.md). */
#include "tools/bench/rounds.h"
#include "tools/bench/world.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define LIMIT_BYTES (UINT64_C(4) << 30)
#define PAGE_TOKENS 16
#define PARENT_PAGES 32 /* full ones; half a page of tokens stands behind them */
#define APPENDED_TOKENS 512
#define OS_PAGE_BYTES 4096
#define LONG_PAGES 2048
#define KIB_TOKEN "layers=1,heads=4,dim=64,bytes=2,planes=2"
#define ROW_COUNT 10

typedef struct paged_state {
    mbr_bench_world *world;
    mbr_paged *store;
    mbr_paged_sequence parent;
    mbr_paged_sequence own; /* G2, G3 */
    uint64_t token_bytes, parent_tokens;
    bool overwrites, reads; /* what a fork does */
    int file;               /* the parent's rows, frozen */
    char *rows;             /* of it */
    char *mapped;           /* G2, G3 */
    uint64_t seen;          /* what was read, so that it is */
} paged_state;

static uint64_t room_bytes(const paged_state *state)
{
    return (state->parent_tokens + APPENDED_TOKENS) * state->token_bytes;
}

/* A line of each of the system's pages: what makes them be there, without the time of the memory.
 */
static void look(paged_state *state, const char *from, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += OS_PAGE_BYTES)
        state->seen += (unsigned char)from[at];
}

/* ---- Ours */
static char *locate(paged_state *state, mbr_paged_sequence sequence, uint64_t token, uint64_t *rows)
{
    uint64_t address = 0;
    mbr_paged_locate(state->store, sequence, token, &address, rows, &state->world->error);
    return (char *)address;
}

static bool write_token(paged_state *state, mbr_paged_sequence sequence, uint64_t token)
{
    char *row = locate(state, sequence, token, NULL);
    if (row != NULL)
        memset(row, (int)token, state->token_bytes);
    return row != NULL;
}

static bool look_at_all(paged_state *state, mbr_paged_sequence sequence)
{
    uint64_t rows = 1;
    for (uint64_t token = 0; token < state->parent_tokens && rows != 0; token += rows) {
        const char *from = locate(state, sequence, token, &rows);
        look(state, from, rows * state->token_bytes);
    }
    return rows != 0;
}

static bool live_as_fork(paged_state *state)
{
    mbr_paged_sequence fork;
    mbr_error *error = &state->world->error;
    if (mbr_paged_fork(state->store, state->parent, &fork, error) != MBR_OK)
        return false;
    uint64_t token = state->overwrites ? PAGE_TOKENS + 1 : state->parent_tokens;
    mbr_status status = state->overwrites
        ? mbr_paged_prepare(state->store, fork, token, 1, NULL, error)
        : mbr_paged_append(state->store, fork, 1, NULL, error);
    bool done = status == MBR_OK && write_token(state, fork, token) &&
        (!state->reads || look_at_all(state, fork));
    return mbr_paged_end(state->store, fork, error) == MBR_OK && done;
}

static bool fork_ours(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    bool done = true;
    for (uint64_t i = 0; i < count && done; i++)
        done = live_as_fork(context);
    return done;
}

static bool append_alone(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    paged_state *state = context;
    mbr_status failed = MBR_OK;
    for (uint64_t i = 0; i < count; i++)
        failed |= mbr_paged_append(state->store, state->own, 1, NULL, &state->world->error);
    return failed == MBR_OK;
}

static bool append_and_write(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    paged_state *state = context;
    bool done = true;
    for (uint64_t i = 0; i < count && done; i++)
        done =
            mbr_paged_append(state->store, state->own, 1, NULL, &state->world->error) == MBR_OK &&
            write_token(state, state->own, i);
    return done;
}

static bool rewind_own(void *context)
{
    paged_state *state = context;
    return mbr_paged_rewind(state->store, state->own, 0, &state->world->error) == MBR_OK;
}

static bool preempt_and_restore(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    paged_state *state = context;
    mbr_error *error = &state->world->error;
    bool done = true;
    for (uint64_t i = 0; i < count && done; i++)
        done = mbr_paged_preempt(state->store, state->own, NULL, error) == MBR_OK &&
            mbr_paged_restore(state->store, state->own, NULL, error) == MBR_OK;
    return done;
}

/* ---- The kernel's */
static bool live_as_mapping(paged_state *state)
{
    uint64_t bytes = room_bytes(state);
    char *fork = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, state->file, 0);
    if (fork == MAP_FAILED)
        return false;
    uint64_t token = state->overwrites ? PAGE_TOKENS + 1 : state->parent_tokens;
    memset(fork + token * state->token_bytes, (int)token, state->token_bytes);
    if (state->reads)
        look(state, fork, state->parent_tokens * state->token_bytes);
    return munmap(fork, bytes) == 0;
}

static bool fork_theirs(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    bool done = true;
    for (uint64_t i = 0; i < count && done; i++)
        done = live_as_mapping(context);
    return done;
}

static bool map_anew(void *context)
{
    paged_state *state = context;
    state->mapped =
        mmap(NULL, room_bytes(state), PROT_READ | PROT_WRITE, MAP_PRIVATE, state->file, 0);
    return state->mapped != MAP_FAILED;
}

static bool unmap(void *context)
{
    paged_state *state = context;
    return munmap(state->mapped, room_bytes(state)) == 0;
}

static bool write_mapped(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    paged_state *state = context;
    for (uint64_t i = 0; i < count; i++)
        memset(state->mapped + i * state->token_bytes, (int)i, state->token_bytes);
    return true;
}

static __attribute__((noinline)) mbr_status nothing(void *store, mbr_paged_sequence sequence,
    uint64_t tokens, mbr_refusal *refusal, mbr_error *error)
{
    __asm__ volatile(""
                     :
                     : "r"(store), "r"(sequence.value), "r"(tokens), "r"(refusal), "r"(error)
                     : "memory");
    return MBR_OK;
}

static bool call_nothing(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    paged_state *state = context;
    mbr_status failed = MBR_OK;
    for (uint64_t i = 0; i < count; i++)
        failed |= nothing(state->store, state->own, i, NULL, &state->world->error);
    return failed == MBR_OK;
}

static uint64_t moved_bytes(const paged_state *state)
{
    return APPENDED_TOKENS * state->token_bytes;
}

static char *take_pages(uint64_t bytes)
{
    return mmap(
        NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
}

/* What moves goes to memory that is taken for it, and comes back to memory that is taken anew. */
static bool move_there_and_back(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    paged_state *state = context;
    for (uint64_t i = 0; i < 2 * count; i++) {
        char *to = take_pages(moved_bytes(state));
        if (to == MAP_FAILED)
            return false;
        memcpy(to, state->mapped, moved_bytes(state));
        munmap(state->mapped, moved_bytes(state));
        state->mapped = to;
    }
    return true;
}

/* ---- Opening */
static bool open_store(paged_state *state, const char *model)
{
    mbr_bench_world *world = state->world;
    mbr_paged_request request = {MBR_SIZED(mbr_paged_request), .binding = world->binding,
        .holder = world->holder, .saved_binding = world->binding, .saved_holder = world->holder,
        .geometry = model, .page_tokens = PAGE_TOKENS, .max_pages = 2 * LONG_PAGES,
        .max_tokens = 2 * LONG_PAGES * PAGE_TOKENS, .keep_bytes = UINT64_MAX};
    mbr_paged_figures figures = {MBR_SIZED(mbr_paged_figures)};
    if (mbr_paged_create(world->manager, &request, &state->store, &world->error) != MBR_OK ||
        mbr_paged_read(state->store, &figures, &world->error) != MBR_OK)
        return false;
    state->token_bytes = figures.token_bytes;
    return true;
}

static bool open_parent(paged_state *state)
{
    mbr_error *error = &state->world->error;
    bool done = mbr_paged_begin(state->store, &state->parent, error) == MBR_OK &&
        mbr_paged_begin(state->store, &state->own, error) == MBR_OK &&
        mbr_paged_append(state->store, state->parent, state->parent_tokens, NULL, error) == MBR_OK;
    for (uint64_t token = 0; token < state->parent_tokens && done; token++)
        done = write_token(state, state->parent, token);
    return done;
}

/* The file has the parent's rows and room behind them; its pages are all there. */
static bool open_file(mbr_bench *bench, paged_state *state)
{
    uint64_t bytes = room_bytes(state);
    state->file = memfd_create("membrane-bench", MFD_CLOEXEC);
    if (state->file < 0 || ftruncate(state->file, (off_t)bytes) != 0)
        return mbr_bench_fail(bench, "no memory file for the baseline");
    char *rows = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, state->file, 0);
    if (rows == MAP_FAILED)
        return mbr_bench_fail(bench, "no addresses for the baseline");
    state->rows = rows;
    memset(rows, 1, bytes);
    return true;
}

static bool close_state(paged_state *state)
{
    mbr_error *error = &state->world->error;
    bool done = true;
    if (state->parent.value != 0)
        done = mbr_paged_end(state->store, state->parent, error) == MBR_OK;
    if (state->own.value != 0)
        done = mbr_paged_end(state->store, state->own, error) == MBR_OK && done;
    if (state->store != NULL)
        done = mbr_paged_destroy(state->store, error) == MBR_OK && done;
    if (state->rows != NULL)
        munmap(state->rows, room_bytes(state));
    if (state->file >= 0)
        close(state->file);
    return done;
}

/* ---- Rows */
static uint64_t copied_bytes(paged_state *state)
{
    mbr_paged_figures figures = {MBR_SIZED(mbr_paged_figures)};
    mbr_paged_read(state->store, &figures, &state->world->error);
    return figures.copied_bytes;
}

static uint64_t fault_count(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt;
}

/* What one fork takes on either side, beside the time. */
static bool note_fork(paged_state *state, mbr_bench_row *row)
{
    uint64_t copied = copied_bytes(state);
    if (!live_as_fork(state))
        return false;
    copied = copied_bytes(state) - copied;
    uint64_t faults = fault_count();
    if (!live_as_mapping(state))
        return false;
    snprintf(row->note, sizeof row->note, "%llu KiB copied; the kernel: %llu page faults",
        (unsigned long long)(copied >> 10), (unsigned long long)(fault_count() - faults));
    return true;
}

static bool measure_fork(
    mbr_bench *bench, paged_state *state, bool overwrites, bool reads, mbr_bench_row *row)
{
    state->overwrites = overwrites;
    state->reads = reads;
    mbr_contestant sides[2] = {{.context = state, .work = fork_ours, .rival = &sides[1]},
        {.context = state, .work = fork_theirs}};
    if (!mbr_bench_rounds(bench, sides, 2, bench->options->rounds))
        return false;
    mbr_bench_take_round_ratio(row, &sides[0], &sides[1], 1e3);
    return note_fork(state, row);
}

static bool measure_append(mbr_bench *bench, paged_state *state, mbr_bench_row *rows)
{
    mbr_contestant sides[] = {
        {.context = state,
            .work = append_alone,
            .after = rewind_own,
            .fixed_count = APPENDED_TOKENS},
        {.context = state, .work = call_nothing},
        {.context = state,
            .work = append_and_write,
            .after = rewind_own,
            .fixed_count = APPENDED_TOKENS,
            .rival = &sides[3]},
        {.context = state,
            .work = write_mapped,
            .before = map_anew,
            .after = unmap,
            .fixed_count = APPENDED_TOKENS},
    };
    if (!mbr_bench_rounds(bench, sides, 4, bench->options->rounds))
        return false;
    mbr_bench_take_time(&rows[0], &sides[0], &sides[1]);
    mbr_bench_take_round_ratio(&rows[1], &sides[2], &sides[3], 1);
    return true;
}

static bool measure_preempt(mbr_bench *bench, paged_state *state, mbr_bench_row *row)
{
    state->mapped = take_pages(moved_bytes(state));
    if (state->mapped == MAP_FAILED || !append_and_write(state, 0, APPENDED_TOKENS))
        return false;
    mbr_contestant sides[2] = {{.context = state, .work = preempt_and_restore, .rival = &sides[1]},
        {.context = state, .work = move_there_and_back}};
    bool done = mbr_bench_rounds(bench, sides, 2, bench->options->rounds);
    if (done) {
        mbr_bench_take_round_ratio(row, &sides[0], &sides[1], 1e3);
        snprintf(row->note, sizeof row->note, "%.1f GB/s",
            2.0 * (double)moved_bytes(state) / sides[0].median_ns);
    }
    munmap(state->mapped, moved_bytes(state));
    return rewind_own(state) && done;
}

static bool measure_small(mbr_bench *bench, paged_state *state, mbr_bench_row *rows)
{
    return measure_fork(bench, state, false, false, &rows[0]) &&
        measure_fork(bench, state, true, false, &rows[1]) &&
        measure_fork(bench, state, false, true, &rows[2]) &&
        measure_append(bench, state, &rows[7]) && measure_preempt(bench, state, &rows[9]);
}

static bool measure_large(mbr_bench *bench, paged_state *state, mbr_bench_row *rows)
{
    return measure_fork(bench, state, false, false, &rows[3]) &&
        measure_fork(bench, state, true, false, &rows[4]);
}

static bool measure_long(mbr_bench *bench, paged_state *state, mbr_bench_row *rows)
{
    return measure_fork(bench, state, false, false, &rows[5]) &&
        measure_fork(bench, state, false, true, &rows[6]);
}

typedef bool (*measure_rows)(mbr_bench *bench, paged_state *state, mbr_bench_row *rows);

static bool run_model(
    mbr_bench *bench, const char *model, uint64_t tokens, measure_rows measure, mbr_bench_row *rows)
{
    mbr_bench_world world;
    mbr_bench_world_options options = {
        .limit_bytes = LIMIT_BYTES, .keep_bytes = UINT64_MAX, .populate = true};
    if (!mbr_bench_world_open(bench, &options, &world))
        return false;
    paged_state state = {.world = &world, .parent_tokens = tokens, .file = -1};
    bool done = open_store(&state, model) && open_parent(&state) && open_file(bench, &state) &&
        measure(bench, &state, rows);
    if (!done)
        mbr_bench_fail_world(bench, "a paged store", &world);
    done = close_state(&state) && done;
    return mbr_bench_world_close(bench, &world) && done;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    uint64_t half = PAGE_TOKENS / 2, small = PARENT_PAGES * PAGE_TOKENS;
    return run_model(bench, "qwen2.5-0.5b", small + half, measure_small, rows) &&
        run_model(bench, "llama-3-8b", small / 4 + half, measure_large, rows) &&
        run_model(bench, KIB_TOKEN, LONG_PAGES * PAGE_TOKENS + half, measure_long, rows);
}

#define KERNEL "the kernel copies: a private mapping of a memory file"
static const mbr_bench_plan plans[ROW_COUNT] = {
    {"G1a", "fork, append a token behind half a page, end; 12 KiB a token", "x", "us", KERNEL, true,
        4, 1},
    {"G1b", "the same, one token overwritten inside a full page", "x", "us", KERNEL, true, 3, 1},
    {"G1c", "as G1a, with all rows read in between", "x", "us", KERNEL, true, 10, 1},
    {"G1d", "as G1a, 128 KiB a token", "x", "us", KERNEL, true, 2, 1},
    {"G1e", "as G1b, 128 KiB a token", "x", "us", KERNEL, true, 1.2, 1},
    {"G1f", "as G1a behind 32 Ki tokens, 1 KiB a token", "x", "us", KERNEL, true, 1,
        MBR_BENCH_NO_FLOOR},
    {"G1g", "as G1f, with all rows read in between", "x", "us", KERNEL, true, 4, 1},
    {"G2a", "append of a token, the call alone", "ns", "ns", "a call that does nothing", false, 20,
        60},
    {"G2b", "append of a token with its row written, pages used again", "x", "ns", KERNEL, true, 4,
        1},
    {"G3", "preempt and restore 6 MiB", "x", "us", "mmap, memcpy and munmap there and back", true,
        1.2, 0.8},
};

const mbr_bench_group mbr_bench_paged = {plans, ROW_COUNT, run};
