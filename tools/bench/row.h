/* Rows: what is measured, against what, and how it came out. A group measures the rows that share
 * their rounds; it is the unit that `--only` runs.
 *
 * Every row has two sides, ours and a baseline, measured in turn in the same rounds of one process.
 * What decides is one figure, `value`, in the row's unit: a difference, a time, a rate or a ratio,
 * as the row says; both sides' raw medians are kept beside it. */
#ifndef MEMBRANE_TOOLS_BENCH_ROW_H
#define MEMBRANE_TOOLS_BENCH_ROW_H

#include "membrane/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MBR_BENCH_NAME "membrane bench"
#define MBR_BENCH_TEXT_BYTES 512
#define MBR_BENCH_NOTE_BYTES 256
#define MBR_BENCH_MAX_ROUNDS_COUNT 1000
#define MBR_BENCH_MIN_ROUNDS_COUNT 20
#define MBR_BENCH_QUICK_ROUNDS_COUNT 2
#define MBR_BENCH_MAX_OTHERS_COUNT 3
#define MBR_BENCH_NO_FLOOR (-1.0)
#define MBR_BENCH_UNKNOWN UINT64_MAX /* a count that this row does not take */

typedef struct mbr_bench_options {
    const char *only;   /* a glob over ids; NULL: all */
    const char *plugin; /* a name or a path */
    uint64_t rounds;
    bool trusted, json, list;
    bool device; /* the rows on a GPU, not those that any machine can measure */
    bool quick;  /* a few small rounds: every row runs, no figure means anything */
} mbr_bench_options;

typedef struct mbr_bench_plan {
    const char *id;
    const char *what;
    const char *unit;        /* of value, goal and floor */
    const char *median_unit; /* of both sides */
    const char *against;     /* the baseline; a group may name the one that it found */
    bool higher_is_better;
    double goal, floor; /* floor: MBR_BENCH_NO_FLOOR where there is none */
} mbr_bench_plan;

typedef struct mbr_bench_side {
    double median, p99;
    uint64_t calls;       /* of the plugin's slots for memory, a round; MBR_BENCH_UNKNOWN */
    uint64_t owned_bytes; /* at its peak; MBR_BENCH_UNKNOWN */
} mbr_bench_side;

typedef enum mbr_bench_verdict {
    MBR_BENCH_GOAL = 0,
    MBR_BENCH_FLOOR,
    MBR_BENCH_BELOW,
} mbr_bench_verdict;

/* A further baseline that was measured in the same rounds. */
typedef struct mbr_bench_other {
    const char *name;
    double median, p99;
} mbr_bench_other;

typedef struct mbr_bench_row {
    const mbr_bench_plan *plan;
    const char *against;
    bool has_baseline;
    double value;
    double ratio; /* how many times better ours is than the baseline; 0: it has none */
    uint64_t rounds;
    mbr_bench_side ours, theirs;
    mbr_bench_other others[MBR_BENCH_MAX_OTHERS_COUNT];
    uint32_t other_count;
    mbr_bench_verdict verdict;
    char note[MBR_BENCH_NOTE_BYTES]; /* what explains the figure; "" */
} mbr_bench_row;

/* One run of the command. */
typedef struct mbr_bench {
    const mbr_bench_options *options;
    char text[MBR_BENCH_TEXT_BYTES]; /* why a group failed, or was left out; one line */
    bool left_out;                   /* the group wants what this machine does not have */
} mbr_bench;

typedef struct mbr_bench_group {
    const mbr_bench_plan *plans;
    uint32_t plan_count;
    /* Fills rows[plan_count], whose plan is set. False: bench->text says why. */
    bool (*run)(mbr_bench *bench, mbr_bench_row *rows);
} mbr_bench_group;

extern const mbr_bench_group mbr_bench_slot;       /* H1 */
extern const mbr_bench_group mbr_bench_authority;  /* H2 */
extern const mbr_bench_group mbr_bench_books;      /* H3 */
extern const mbr_bench_group mbr_bench_allocate;   /* H4 */
extern const mbr_bench_group mbr_bench_grow_warm;  /* H5a, b */
extern const mbr_bench_group mbr_bench_grow_cold;  /* H5c */
extern const mbr_bench_group mbr_bench_grow_plain; /* H5d */
extern const mbr_bench_group mbr_bench_commit;     /* H6 */
extern const mbr_bench_group mbr_bench_inside;     /* H7 */
extern const mbr_bench_group mbr_bench_size;       /* H8 */
extern const mbr_bench_group mbr_bench_many;       /* H8c to e */
extern const mbr_bench_group mbr_bench_press;      /* H9 */
extern const mbr_bench_group mbr_bench_replay;     /* H10a */
extern const mbr_bench_group mbr_bench_replay_populated;
extern const mbr_bench_group mbr_bench_defer;     /* D */
extern const mbr_bench_group mbr_bench_find;      /* F1 */
extern const mbr_bench_group mbr_bench_paged;     /* G */
extern const mbr_bench_group mbr_bench_ahead;     /* K */
extern const mbr_bench_group mbr_bench_load;      /* L1 */
extern const mbr_bench_group mbr_bench_residency; /* R */

/* On a GPU. */
extern const mbr_bench_group mbr_bench_device_cold;     /* P1, P4 */
extern const mbr_bench_group mbr_bench_device_warm;     /* P2, P3 */
extern const mbr_bench_group mbr_bench_device_grow;     /* P5, P6 */
extern const mbr_bench_group mbr_bench_device_ahead;    /* P7 */
extern const mbr_bench_group mbr_bench_device_allocate; /* P8 */
extern const mbr_bench_group mbr_bench_device_crowd;    /* P9 */
extern const mbr_bench_group mbr_bench_device_defer;    /* P10, P11 */
extern const mbr_bench_group mbr_bench_device_share;    /* P12, P13 */
extern const mbr_bench_group mbr_bench_device_release;  /* P14 */
extern const mbr_bench_group mbr_bench_device_touch;    /* P17a to c */
extern const mbr_bench_group mbr_bench_device_attend;   /* P17d, e */
extern const mbr_bench_group mbr_bench_device_sleep;    /* P18 */
extern const mbr_bench_group mbr_bench_device_peers;    /* P20: wants two */

/* Keeps the reason of a failure and returns false. */
__attribute__((format(printf, 2, 3))) bool mbr_bench_fail(
    mbr_bench *bench, const char *format, ...);
/* The same where the machine lacks what the group wants: only who named its row is refused. */
__attribute__((format(printf, 2, 3))) bool mbr_bench_leave_out(
    mbr_bench *bench, const char *format, ...);
/* The same for a status and its error. */
bool mbr_bench_fail_status(
    mbr_bench *bench, const char *what, mbr_status status, const mbr_error *error);

/* The verdict of value against goal and floor. */
mbr_bench_verdict mbr_bench_judge(const mbr_bench_plan *plan, double value);

/* print.c */
void mbr_bench_print_human(const mbr_bench_row *rows, uint32_t count);
bool mbr_bench_print_json(const mbr_bench_row *rows, uint32_t count);
void mbr_bench_list_human(const mbr_bench_row *rows, uint32_t count);
bool mbr_bench_list_json(const mbr_bench_row *rows, uint32_t count);

#endif
