/* Responsible for verdicts and for keeping the first reason of a failure. */
#include "abi/base/error.h"
#include "tools/bench/row.h"

#include <stdarg.h>
#include <stdio.h>

bool mbr_bench_fail(mbr_bench *bench, const char *format, ...)
{
    if (bench->text[0] != '\0')
        return false; /* what failed first is what explains the rest */
    va_list list;
    va_start(list, format);
    vsnprintf(bench->text, sizeof bench->text, format, list);
    va_end(list);
    return false;
}

bool mbr_bench_leave_out(mbr_bench *bench, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(bench->text, sizeof bench->text, format, list);
    va_end(list);
    bench->left_out = true;
    return false;
}

bool mbr_bench_fail_status(
    mbr_bench *bench, const char *what, mbr_status status, const mbr_error *error)
{
    if (error->status == status)
        return mbr_bench_fail(bench, "%s: %s", what, error->text);
    return mbr_bench_fail(bench, "%s: status 0x%x", what, (unsigned)status);
}

static bool reaches(const mbr_bench_plan *plan, double value, double bound)
{
    return plan->higher_is_better ? value >= bound : value <= bound;
}

mbr_bench_verdict mbr_bench_judge(const mbr_bench_plan *plan, double value)
{
    if (reaches(plan, value, plan->goal))
        return MBR_BENCH_GOAL;
    bool no_floor = plan->floor < 0;
    return no_floor || reaches(plan, value, plan->floor) ? MBR_BENCH_FLOOR : MBR_BENCH_BELOW;
}
