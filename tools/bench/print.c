/* Responsible for rows as text and as JSON. Judges nothing. */
#include "tools/bench/row.h"

#include <jansson.h>
#include <stdio.h>

static const char *const verdicts[] = {
    [MBR_BENCH_GOAL] = "goal",
    [MBR_BENCH_FLOOR] = "floor",
    [MBR_BENCH_BELOW] = "below",
};

/* ---- Text */
/* Three figures that mean something, and no exponent. */
static const char *format_number(char out[32], double value)
{
    double size = value < 0 ? -value : value;
    snprintf(out, 32, "%.*f", size < 10 ? 2 : size < 100 ? 1 : 0, value);
    return out;
}

static void print_side(const char *name, const mbr_bench_side *side, const char *unit)
{
    char median[32], p99[32];
    printf("        %-42s median %s %s, p99 %s", name, format_number(median, side->median), unit,
        format_number(p99, side->p99));
    if (side->calls != MBR_BENCH_UNKNOWN)
        printf(", %llu calls", (unsigned long long)side->calls);
    if (side->owned_bytes != MBR_BENCH_UNKNOWN)
        printf(", owned %.0f MiB", (double)side->owned_bytes / 1048576);
    printf("\n");
}

static void print_bounds(const mbr_bench_plan *plan)
{
    char goal[32], floor_text[32];
    const char *sign = plan->higher_is_better ? ">=" : "<=";
    printf("goal %s %s", sign, format_number(goal, plan->goal));
    if (plan->floor >= 0)
        printf(", floor %s", format_number(floor_text, plan->floor));
}

static void print_row(const mbr_bench_row *row)
{
    const mbr_bench_plan *plan = row->plan;
    char value[32], ratio[32];
    printf("%-5s %-5s %s %s  (", plan->id, verdicts[row->verdict], format_number(value, row->value),
        plan->unit);
    print_bounds(plan);
    printf(")  %s\n", plan->what);
    print_side("membrane", &row->ours, plan->median_unit);
    print_side(row->against, &row->theirs, plan->median_unit);
    for (uint32_t i = 0; i < row->other_count; i++) {
        mbr_bench_side other = {
            row->others[i].median, row->others[i].p99, MBR_BENCH_UNKNOWN, MBR_BENCH_UNKNOWN};
        print_side(row->others[i].name, &other, plan->median_unit);
    }
    printf("        ratio %s of %llu rounds", format_number(ratio, row->ratio),
        (unsigned long long)row->rounds);
    printf(row->note[0] != '\0' ? "; %s\n" : "\n", row->note);
}

void mbr_bench_print_human(const mbr_bench_row *rows, uint32_t count)
{
    uint32_t counts[3] = {0};
    for (uint32_t i = 0; i < count; i++) {
        print_row(&rows[i]);
        counts[rows[i].verdict]++;
    }
    printf("%u at goal, %u between floor and goal, %u below\n", counts[MBR_BENCH_GOAL],
        counts[MBR_BENCH_FLOOR], counts[MBR_BENCH_BELOW]);
}

void mbr_bench_list_human(const mbr_bench_row *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        printf("%-5s %s, %s (", rows[i].plan->id, rows[i].plan->what, rows[i].plan->unit);
        print_bounds(rows[i].plan);
        printf("), against %s\n", rows[i].plan->against);
    }
}

/* ---- JSON */
static json_t *count_json(uint64_t count)
{
    return count == MBR_BENCH_UNKNOWN ? json_null() : json_integer((json_int_t)count);
}

static json_t *floor_json(const mbr_bench_plan *plan)
{
    return plan->floor < 0 ? json_null() : json_real(plan->floor);
}

static json_t *others_json(const mbr_bench_row *row)
{
    json_t *others = json_array();
    for (uint32_t i = 0; i < row->other_count; i++)
        json_array_append_new(others,
            json_pack("{s:s, s:f, s:f}", "name", row->others[i].name, "median",
                row->others[i].median, "p99", row->others[i].p99));
    return others;
}

static json_t *row_json(const mbr_bench_row *row)
{
    const mbr_bench_plan *plan = row->plan;
    return json_pack("{s:s, s:s, s:f, s:s, s:s, s:f, s:f, s:o, s:s, s:s, s:s, s:f, s:f, s:f, s:f, "
                     "s:I, s:o, s:o, s:o, s:o, s:o, s:s}",
        "id", plan->id, "what", plan->what, "value", row->value, "unit", plan->unit, "against",
        row->against, "ratio", row->ratio, "goal", plan->goal, "floor", floor_json(plan), "verdict",
        verdicts[row->verdict], "better", plan->higher_is_better ? "higher" : "lower",
        "median_unit", plan->median_unit, "median", row->ours.median, "p99", row->ours.p99,
        "against_median", row->theirs.median, "against_p99", row->theirs.p99, "rounds",
        (json_int_t)row->rounds, "calls", count_json(row->ours.calls), "against_calls",
        count_json(row->theirs.calls), "owned_bytes", count_json(row->ours.owned_bytes),
        "against_owned_bytes", count_json(row->theirs.owned_bytes), "others", others_json(row),
        "note", row->note);
}

static json_t *plan_json(const mbr_bench_row *row)
{
    const mbr_bench_plan *plan = row->plan;
    return json_pack("{s:s, s:s, s:s, s:s, s:f, s:o, s:s}", "id", plan->id, "what", plan->what,
        "unit", plan->unit, "against", plan->against, "goal", plan->goal, "floor", floor_json(plan),
        "better", plan->higher_is_better ? "higher" : "lower");
}

static bool print_array(
    const mbr_bench_row *rows, uint32_t count, json_t *(*make)(const mbr_bench_row *row))
{
    json_t *array = json_array();
    bool good = array != NULL;
    for (uint32_t i = 0; i < count && good; i++)
        good = json_array_append_new(array, make(&rows[i])) == 0;
    good = good && json_dumpf(array, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0;
    if (good)
        printf("\n");
    json_decref(array);
    return good;
}

bool mbr_bench_print_json(const mbr_bench_row *rows, uint32_t count)
{
    return print_array(rows, count, row_json);
}

bool mbr_bench_list_json(const mbr_bench_row *rows, uint32_t count)
{
    return print_array(rows, count, plan_json);
}
