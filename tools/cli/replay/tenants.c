/* The command with --tenant: reads the traces, measures the peaks if the budget is a part of them,
 * runs the arms one after another and compares them. Serves no request itself. */
#include "tools/cli/replay/tenants.h"

#include "abi/base/checked.h"
#include "tools/cli/args.h"

#include <stdio.h>
#include <stdlib.h>

const char *mbr_replay_way_name(mbr_replay_way way)
{
    static const char *const names[MBR_REPLAY_WAY_COUNT] = {"alone", "elastic", "static"};
    return names[way];
}

/* ---- Traces and shares */

static void destroy_traces(mbr_replay_tenants *tenants)
{
    for (uint32_t i = 0; i < tenants->count; i++)
        mbr_trace_destroy((mbr_trace *)tenants->loads[i].trace);
}

static int load_traces(const mbr_replay_options *options, mbr_replay_tenants *tenants)
{
    for (; tenants->count < options->tenant_count; tenants->count++) {
        const mbr_replay_tenant_options *asked = &options->tenants[tenants->count];
        mbr_trace *trace;
        mbr_trace_error error;
        mbr_trace_options trace_options = {.path = asked->trace_path,
            .format = options->format,
            .max_requests = options->max_requests};
        if (mbr_trace_load(&trace_options, &trace, &error) != MBR_TRACE_OK)
            return mbr_args_refuse(MBR_REPLAY_NAME, "tenant '%s': %s", asked->name, error.text);
        tenants->loads[tenants->count] = (mbr_replay_load){asked->name,
            asked->model != NULL ? asked->model : options->model, trace, MBR_NO_ALLOWANCE};
    }
    return MBR_EXIT_OK;
}

/* The shares together are at most the budget: what rounding leaves is nobody's. */
static void share_out(const mbr_replay_options *options, mbr_replay_tenants *tenants)
{
    uint64_t left_percent = 100, without_count = 0;
    for (uint32_t i = 0; i < tenants->count; i++) {
        left_percent -= options->tenants[i].share_percent;
        without_count += options->tenants[i].share_percent == 0;
    }
    for (uint32_t i = 0; i < tenants->count; i++) {
        uint64_t percent = options->tenants[i].share_percent;
        if (percent == 0)
            percent = left_percent / without_count;
        tenants->share_percents[i] = percent;
        tenants->loads[i].share_bytes = tenants->budget_bytes / 100 * percent;
    }
}

/* ---- Runs */

/* One run, said in one line if it fails. The report is the caller's to finish in any case. */
static int run(const mbr_replay_options *options, mbr_replay_way way, const mbr_replay_load *loads,
    uint32_t count, mbr_replay_report *report)
{
    char text[MBR_REPLAY_TEXT_BYTES];
    int code = mbr_replay_run(options, way, loads, count, report, text);
    if (code == MBR_EXIT_USAGE)
        return mbr_args_fail(MBR_REPLAY_NAME, "%s", text);
    if (code == MBR_EXIT_REFUSED)
        return mbr_args_refuse(MBR_REPLAY_NAME, "%s", text);
    return mbr_replay_judge_end(report);
}

/* Alone and without a budget nobody waits, unless the machine's memory is the bound. */
static int measure_peak(
    const mbr_replay_options *options, const mbr_replay_load *load, uint64_t *peak_bytes)
{
    mbr_replay_options alone = *options;
    mbr_replay_report report;
    alone.budget_bytes = UINT64_MAX;
    alone.plot_path = NULL;
    int code = run(&alone, MBR_REPLAY_ALONE, load, 1, &report);
    *peak_bytes = report.tenants[0].peak_bytes;
    if (code == MBR_EXIT_OK && report.interrupted) {
        mbr_args_refuse(MBR_REPLAY_NAME,
            "interrupted while the peak of tenant '%s' was measured; nothing to report",
            load->name);
        code = MBR_REPLAY_EXIT_INTERRUPTED;
    } else if (code == MBR_EXIT_OK && report.tenants[0].waited != 0)
        code = mbr_args_refuse(MBR_REPLAY_NAME,
            "tenant '%s' alone outgrows the free memory of %llu bytes, so its peak is unknown; a "
            "smaller model, or --budget=BYTES, would work",
            load->name, (unsigned long long)report.limit_bytes);
    mbr_replay_report_finish(&report);
    return code;
}

static int find_budget(const mbr_replay_options *options, mbr_replay_tenants *tenants)
{
    uint64_t sum = 0;
    tenants->budget_bytes = options->budget_bytes;
    if (options->budget_percent == 0)
        return MBR_EXIT_OK;
    for (uint32_t i = 0; i < tenants->count; i++) {
        int code = measure_peak(options, &tenants->loads[i], &tenants->alone_peak_bytes[i]);
        if (code != MBR_EXIT_OK)
            return code;
        sum += tenants->alone_peak_bytes[i];
    }
    tenants->budget_bytes = sum / 100 * options->budget_percent;
    return MBR_EXIT_OK;
}

static int run_arms(const mbr_replay_options *options, mbr_replay_tenants *tenants)
{
    mbr_replay_options bounded = *options;
    bounded.budget_bytes = tenants->budget_bytes;
    int code = MBR_EXIT_OK;
    for (int way = MBR_REPLAY_ELASTIC; way < MBR_REPLAY_WAY_COUNT && code == MBR_EXIT_OK; way++) {
        bool is_over = mbr_replay_interrupted != 0 && tenants->arm_count != 0;
        if (!options->arms[way] || is_over)
            continue;
        mbr_replay_arm *arm = &tenants->arms[tenants->arm_count++];
        arm->way = (mbr_replay_way)way;
        code = run(&bounded, arm->way, tenants->loads, tenants->count, &arm->report);
    }
    return code;
}

/* ---- Comparison */

/* Nothing against nothing is as good. */
static double ratio(uint64_t elastic, uint64_t fixed)
{
    if (fixed == 0)
        return elastic == 0 ? 1 : (double)elastic;
    return (double)elastic / (double)fixed;
}

static void compare(mbr_replay_tenants *tenants)
{
    mbr_replay_ratios *ratios = &tenants->ratios;
    if (tenants->arm_count != 2 || mbr_replay_interrupted != 0)
        return;
    uint64_t elastic_total = 0, static_total = 0;
    for (uint32_t i = 0; i < tenants->count; i++) {
        uint64_t elastic = tenants->arms[0].report.tenants[i].completed_tokens;
        uint64_t fixed = tenants->arms[1].report.tenants[i].completed_tokens;
        elastic_total += elastic;
        static_total += fixed;
        if (i == 0 || ratio(elastic, fixed) < ratios->worst) {
            ratios->worst = ratio(elastic, fixed);
            ratios->worst_index = i;
        }
    }
    ratios->total = ratio(elastic_total, static_total);
    ratios->known = true;
}

static int print(const mbr_replay_options *options, mbr_replay_tenants *tenants)
{
    char text[MBR_REPLAY_TEXT_BYTES];
    if (!options->json)
        mbr_replay_tenants_print_human(options, tenants);
    else if (!mbr_replay_tenants_print_json(options, tenants))
        return mbr_args_refuse(MBR_REPLAY_NAME, "the report cannot be written as JSON");
    if (options->plot_path != NULL && !mbr_replay_tenants_plot(options, tenants, text))
        return mbr_args_refuse(MBR_REPLAY_NAME, "%s", text);
    return mbr_replay_interrupted != 0 ? MBR_REPLAY_EXIT_INTERRUPTED : MBR_EXIT_OK;
}

int mbr_replay_run_tenants(const mbr_replay_options *options)
{
    mbr_replay_tenants *tenants = calloc(1, sizeof(*tenants));
    if (tenants == NULL)
        return mbr_args_refuse(MBR_REPLAY_NAME, "out of memory for the report");
    int code = load_traces(options, tenants);
    mbr_replay_catch_interrupt();
    if (code == MBR_EXIT_OK)
        code = find_budget(options, tenants);
    if (code == MBR_EXIT_OK) {
        share_out(options, tenants);
        code = run_arms(options, tenants);
    }
    if (code == MBR_EXIT_OK) {
        compare(tenants);
        code = print(options, tenants);
    }
    for (uint32_t i = 0; i < tenants->arm_count; i++)
        mbr_replay_report_finish(&tenants->arms[i].report);
    destroy_traces(tenants);
    free(tenants);
    return code;
}
