/* What every fuzz target is made of: a reader over the input's bytes, and a way to end the run
 * where an invariant does not hold. An input that is used up answers 0 for ever, and 0 always means
 * the honest answer: so the empty input is a peer that keeps the contract, and a seed adds lies. */
#ifndef MEMBRANE_TESTS_FUZZ_INPUT_H
#define MEMBRANE_TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_INPUT_BYTES_MAX 16384 /* longer inputs are cut: more of the same finds nothing */

/* What each file of a target defines; libFuzzer's interface. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Ends the process: the runner then names the input. Assertions of the build do not matter here. */
#define FUZZ_MUST(condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

typedef struct fuzz_input {
    const uint8_t *data;
    size_t bytes, at;
} fuzz_input;

static inline fuzz_input fuzz_input_of(const uint8_t *data, size_t bytes)
{
    return (fuzz_input){data, bytes < FUZZ_INPUT_BYTES_MAX ? bytes : FUZZ_INPUT_BYTES_MAX, 0};
}

static inline size_t fuzz_left(const fuzz_input *input)
{
    return input->bytes - input->at;
}

/* `count` bytes, the missing ones 0. */
static inline void fuzz_take(fuzz_input *input, void *to, size_t count)
{
    size_t now = count < fuzz_left(input) ? count : fuzz_left(input);
    memset(to, 0, count);
    if (now != 0)
        memcpy(to, input->data + input->at, now);
    input->at += now;
}

static inline uint8_t fuzz_u8(fuzz_input *input)
{
    uint8_t value;
    fuzz_take(input, &value, sizeof value);
    return value;
}

static inline uint16_t fuzz_u16(fuzz_input *input)
{
    uint16_t value;
    fuzz_take(input, &value, sizeof value);
    return value;
}

static inline uint32_t fuzz_u32(fuzz_input *input)
{
    uint32_t value;
    fuzz_take(input, &value, sizeof value);
    return value;
}

static inline uint64_t fuzz_u64(fuzz_input *input)
{
    uint64_t value;
    fuzz_take(input, &value, sizeof value);
    return value;
}

#endif
