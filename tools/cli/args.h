/* What every command shares: exit codes, one-line errors, sizes and counts, and one way to run
 * argp.
 *
 * Every error is one line on stderr: which command, which option, which value, what would work. */
#ifndef MEMBRANE_TOOLS_CLI_ARGS_H
#define MEMBRANE_TOOLS_CLI_ARGS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MBR_EXIT_OK = 0,
    MBR_EXIT_REFUSED = 1, /* understood, and the answer is no */
    MBR_EXIT_USAGE = 2,   /* not understood */
};

/* No size or count above it: JSON's integers end here. */
#define MBR_ARGS_MAX ((uint64_t)INT64_MAX)

typedef enum mbr_args_status {
    MBR_ARGS_OK = 0,
    MBR_ARGS_EMPTY,
    MBR_ARGS_NEGATIVE,
    MBR_ARGS_NOT_A_NUMBER,
    MBR_ARGS_NOT_WHOLE,    /* a decimal point; the next smaller unit would work */
    MBR_ARGS_UNKNOWN_UNIT, /* text behind the digits that is no unit */
    MBR_ARGS_TOO_LARGE,    /* above MBR_ARGS_MAX */
    MBR_ARGS_STATUS_COUNT,
} mbr_args_status;

/* A size: digits, then nothing, B, KiB, MiB, GiB or TiB (powers of 1024), or KB, MB, GB, TB (powers
 * of 1000), in any case, after at most one blank. *bytes is 0 unless the answer is OK. */
mbr_args_status mbr_args_parse_size(const char *text, uint64_t *bytes);

/* A count: digits alone. *count is 0 unless the answer is OK. */
mbr_args_status mbr_args_parse_count(const char *text, uint64_t *count);

/* What is wrong, for a message: "is empty", "is negative" ... */
const char *mbr_args_status_text(mbr_args_status status);

/* Writes `bytes` rounded to one decimal, in the unit that keeps it below 1024, and returns out. */
const char *mbr_args_format_bytes(char *out, size_t room, uint64_t bytes);

/* Prints "NAME: message" on one line of stderr (what is not printable becomes '?'), and returns
 * MBR_EXIT_USAGE or MBR_EXIT_REFUSED. `name` is "membrane share" and the like. */
__attribute__((format(printf, 2, 3))) int mbr_args_fail(const char *name, const char *format, ...);
__attribute__((format(printf, 2, 3))) int mbr_args_refuse(
    const char *name, const char *format, ...);

/* Runs argp over argv (argc >= 1; argv[0] is the command's name and ignored). True: go on. False:
 * *exit_code is the command's answer, after --help or an error that was printed. The parser gets
 * `input` as state->input. `argp` has no children and no options --help and -h of its own; up to 30
 * options.
 *
 * A parser reports a bad value with the functions below and returns their answer. */
bool mbr_args_run(
    const char *name, const struct argp *argp, int argc, char **argv, void *input, int *exit_code);

/* Print one line and return the error that ends mbr_args_run. */
__attribute__((format(printf, 2, 3))) error_t mbr_args_bad(
    const struct argp_state *state, const char *format, ...);

/* Read the value of option `option` ("--granule"), within [lowest, highest]. */
error_t mbr_args_size_option(const struct argp_state *state, const char *option, const char *text,
    uint64_t lowest, uint64_t *bytes);
error_t mbr_args_count_option(const struct argp_state *state, const char *option, const char *text,
    uint64_t lowest, uint64_t highest, uint64_t *count);

/* Index of `text` in names[count], or an error that lists them. */
error_t mbr_args_choice_option(const struct argp_state *state, const char *option, const char *text,
    const char *const *names, uint64_t count, uint64_t *index);

/* The nearest of `names`, or NULL. */
const char *mbr_args_nearest(const char *text, const char *const *names, uint64_t count);

#endif
