/* Runs a fuzz target without a fuzzer: every file of its corpus, then a fixed number of mutations
 * of them that one seed decides. Deterministic: the same seed gives the same inputs in every build.
 *
 *   TARGET FOLDER ROUNDS     the corpus and the mutations (MEMBRANE_SEED, MEMBRANE_ROUND replay
 * one) TARGET FILE              one input, as libFuzzer would run it
 *
 * Judges nothing itself: a target that ends the process has found something, and what it was given
 * is then printed. */
#include "tests/fuzz/input.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEED_COUNT_MAX 512
#define PATH_BYTES 1024

typedef struct seed_file {
    char name[256];
    uint8_t *data;
    size_t bytes;
} seed_file;

static struct {
    const char *name; /* of the file, or of the first one that was mixed */
    uint64_t seed, round;
    bool is_mutation;
    const uint8_t *data;
    size_t bytes;
} now; /* what a signal's handler prints */

/* Of sanitizers, where there is one. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static void print_input(void)
{
    if (now.is_mutation)
        fprintf(stderr, "replay: MEMBRANE_SEED=%" PRIu64 " MEMBRANE_ROUND=%" PRIu64 " (%s)\n",
            now.seed, now.round, now.name);
    else
        fprintf(stderr, "replay: the corpus file %s\n", now.name);
    fprintf(stderr, "%zu bytes: ", now.bytes);
    for (size_t i = 0; i < now.bytes && i < 4096; i++)
        fprintf(stderr, "%02x", now.data[i]);
    fputc('\n', stderr);
}

static void end_by_signal(int signal_number)
{
    signal(signal_number, SIG_DFL);
    print_input(); /* the process ends here: what is not safe in a handler cannot do more harm */
    raise(signal_number);
}

static void watch(void)
{
    if (__sanitizer_set_death_callback != NULL)
        __sanitizer_set_death_callback(print_input);
    signal(SIGABRT, end_by_signal);
    if (__sanitizer_set_death_callback == NULL) {
        signal(SIGSEGV, end_by_signal);
        signal(SIGBUS, end_by_signal);
        signal(SIGILL, end_by_signal);
        signal(SIGFPE, end_by_signal);
    }
}

/* A copy of exactly this size on the heap, so that a sanitizer sees a read past its end. */
static void run(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes == 0 ? 1 : bytes);
    FUZZ_MUST(copy != NULL, "no memory");
    if (bytes != 0)
        memcpy(copy, data, bytes);
    now.data = copy;
    now.bytes = bytes;
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

static void read_file(const char *path, seed_file *file)
{
    FILE *stream = fopen(path, "rb");
    FUZZ_MUST(stream != NULL, "%s cannot be opened", path);
    file->data = malloc(FUZZ_INPUT_BYTES_MAX);
    FUZZ_MUST(file->data != NULL, "no memory");
    file->bytes = fread(file->data, 1, FUZZ_INPUT_BYTES_MAX, stream);
    fclose(stream);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const seed_file *)a)->name, ((const seed_file *)b)->name);
}

static size_t read_folder(const char *folder, seed_file *files)
{
    size_t count = 0;
    char path[PATH_BYTES];
    DIR *open_folder = opendir(folder);
    FUZZ_MUST(open_folder != NULL, "the corpus %s cannot be opened", folder);
    for (const struct dirent *entry; (entry = readdir(open_folder)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        FUZZ_MUST(count < SEED_COUNT_MAX, "more than %d files in %s", SEED_COUNT_MAX, folder);
        snprintf(files[count].name, sizeof files->name, "%s", entry->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        read_file(path, &files[count++]);
    }
    closedir(open_folder);
    FUZZ_MUST(count > 0, "the corpus %s is empty", folder);
    qsort(files, count, sizeof *files, compare_names); /* a folder has no order of its own */
    return count;
}

/* ---- Mutations ------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t value = (*state += UINT64_C(0x9E3779B97F4A7C15)); /* splitmix64 */
    value = (value ^ (value >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94D049BB133111EB);
    return value ^ (value >> 31);
}

static uint64_t interesting(uint64_t *random)
{
    static const uint64_t values[] = {0, 1, 2, 3, 7, 8, 16, 64, 127, 128, 255, 256, 4095, 4096,
        32767, 65535, 65536, INT32_MAX, UINT32_MAX, UINT64_C(1) << 47, INT64_MAX, UINT64_C(1) << 63,
        UINT64_MAX - 10, UINT64_MAX - 1, UINT64_MAX};
    return values[next_random(random) % (sizeof values / sizeof *values)];
}

static void overwrite(uint8_t *data, size_t bytes, uint64_t *random)
{
    static const size_t widths[] = {1, 2, 4, 8};
    size_t width = widths[next_random(random) % 4];
    uint64_t value = next_random(random) % 4 == 0 ? next_random(random) : interesting(random);
    if (bytes < width)
        return;
    size_t at = next_random(random) % (bytes - width + 1);
    if (next_random(random) % 2 == 0)
        at -= at % width; /* most fields are aligned */
    memcpy(data + at, &value, width);
}

/* One edit; returns the new length. */
static size_t edit(uint8_t *data, size_t bytes, uint64_t *random, const seed_file *other)
{
    uint64_t kind = next_random(random) % 8;
    size_t at = bytes == 0 ? 0 : next_random(random) % bytes;
    size_t count = 1 + next_random(random) % 16;
    if (kind == 0 && bytes > 0) {
        data[at] = (uint8_t)(data[at] ^ (1U << (next_random(random) % 8)));
    } else if (kind == 1 && bytes > count + at) { /* takes out */
        memmove(data + at, data + at + count, bytes - at - count);
        return bytes - count;
    } else if (kind == 2 && bytes + count <= FUZZ_INPUT_BYTES_MAX) { /* puts in */
        memmove(data + at + count, data + at, bytes - at);
        for (size_t i = 0; i < count; i++)
            data[at + i] = (uint8_t)next_random(random);
        return bytes + count;
    } else if (kind == 3 && other->bytes > 0) { /* goes on with the tail of another one */
        size_t from = next_random(random) % other->bytes;
        size_t room = FUZZ_INPUT_BYTES_MAX - at;
        size_t tail = other->bytes - from < room ? other->bytes - from : room;
        memcpy(data + at, other->data + from, tail);
        return at + tail;
    } else if (kind == 4 && bytes > 0) {
        return next_random(random) % 8 == 0 ? at : bytes; /* cut short */
    } else {
        overwrite(data, bytes, random);
    }
    return bytes;
}

/* Rounds do not depend on each other, so that one of them can be replayed alone. */
static void run_mutation(const seed_file *files, size_t count, uint64_t seed, uint64_t round)
{
    static uint8_t data[FUZZ_INPUT_BYTES_MAX];
    uint64_t random = seed * UINT64_C(1000003) + round;
    const seed_file *file = &files[next_random(&random) % count];
    size_t bytes = file->bytes;
    memcpy(data, file->data, bytes);
    for (uint64_t edits = 1 + next_random(&random) % 8; edits > 0; edits--)
        bytes = edit(data, bytes, &random, &files[next_random(&random) % count]);
    now.name = file->name;
    now.round = round;
    now.seed = seed;
    now.is_mutation = true;
    run(data, bytes);
}

static uint64_t number_of(const char *text, uint64_t otherwise)
{
    return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 10);
}

static void run_all(const char *folder, uint64_t rounds)
{
    static seed_file files[SEED_COUNT_MAX];
    size_t count = read_folder(folder, files);
    uint64_t seed = number_of(getenv("MEMBRANE_SEED"), 20240229), done = 0;
    const char *one = getenv("MEMBRANE_ROUND");
    run(NULL, 0); /* a peer that keeps the contract */
    for (size_t i = 0; i < count; i++) {
        now.name = files[i].name;
        run(files[i].data, files[i].bytes);
    }
    if (one != NULL)
        run_mutation(files, count, seed, number_of(one, 0));
    for (; one == NULL && done < rounds; done++)
        run_mutation(files, count, seed, done);
    printf("MEMBRANE_SEED=%" PRIu64 ": %zu files of the corpus and %" PRIu64 " mutations\n", seed,
        count, done);
    for (size_t i = 0; i < count; i++)
        free(files[i].data);
}

int main(int argument_count, char **arguments)
{
    struct stat facts;
    now.name = "(the empty input)";
    watch();
    if (argument_count < 2 || stat(arguments[1], &facts) != 0) {
        fprintf(stderr, "usage: %s FOLDER ROUNDS | FILE\n", arguments[0]);
        return 2;
    }
    if (S_ISDIR(facts.st_mode)) {
        run_all(arguments[1], number_of(argument_count > 2 ? arguments[2] : NULL, 0));
    } else {
        seed_file file = {0};
        now.name = arguments[1];
        read_file(arguments[1], &file);
        run(file.data, file.bytes);
        free(file.data);
    }
    return 0;
}
