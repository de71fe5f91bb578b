/* The report as one JSON object. */
#include "tools/cli/replay/replay.h"
#include "tools/cli/text.h"

#include <jansson.h>
#include <stdio.h>

static json_t *count(uint64_t value)
{
    return json_integer((json_int_t)(value > INT64_MAX ? INT64_MAX : value));
}

/* JSON has no place for a byte that is no part of UTF-8, and a path may have one. */
static json_t *text(const char *from)
{
    char shown[MBR_REPLAY_SHOWN_BYTES];
    return json_string(mbr_text_printable(shown, sizeof shown, from));
}

static double mean(const mbr_replay_report *report, const mbr_replay_series *series)
{
    return report->simulated_seconds > 0 ? series->integral / report->simulated_seconds : 0;
}

static json_t *series_object(const mbr_replay_report *report, const mbr_replay_series *series)
{
    return json_pack(
        "{s:o, s:o}", "peak", count(series->peak), "mean", count((uint64_t)mean(report, series)));
}

static json_t *bytes_object(const mbr_replay_report *report)
{
    double live = mean(report, &report->live);
    return json_pack("{s:o, s:o, s:o, s:f}", "live", series_object(report, &report->live), "mapped",
        series_object(report, &report->mapped), "owned", series_object(report, &report->owned),
        "waste", live > 0 ? mean(report, &report->owned) / live - 1 : 0.0);
}

static json_t *growth_object(mbr_replay_report *report)
{
    mbr_quantile_summary summary;
    mbr_quantiles_summarize(&report->growth_ns, &summary);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b}", "count", count(summary.count), "p50",
        count(summary.p50), "p99", count(summary.p99), "p999", count(summary.p999), "max",
        count(summary.maximum), "is_sampled", summary.is_sampled);
}

static json_t *compare_object(const mbr_replay_report *report)
{
    return json_pack("{s:s, s:{s:o}, s:{s:o}, s:{s:o}}", "method",
        "computed from the run's own arrivals and ends", "max_prealloc", "peak_owned",
        count(report->max_prealloc_bytes), "grow_and_copy", "peak_owned",
        count(report->grow_and_copy_bytes), "paged16", "peak_owned", count(report->paged16_bytes));
}

static double ops_per_second(const mbr_replay_report *report)
{
    return report->call_seconds > 0 ? (double)report->ledger_calls / report->call_seconds : 0;
}

bool mbr_replay_print_json(
    const mbr_replay_options *options, const mbr_trace *trace, mbr_replay_report *report)
{
    json_t *root = json_pack("{s:{s:o, s:s, s:o}, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "trace",
        "path", text(options->trace_path), "format", mbr_trace_format_name(trace->format),
        "requests", count(trace->request_count), "plugin", text(options->plugin), "model",
        text(options->model), "layout", options->layout, "limit_bytes", count(report->limit_bytes),
        "max_tokens", count(report->max_tokens), "token_bytes", count(report->token_bytes),
        "granule_bytes", count(report->granule_bytes));
    if (root == NULL)
        return false;
    int bad = 0;
    bad |= json_object_set_new(root, "requests",
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "total", count(report->total), "served",
            count(report->served), "waited", count(report->waited), "refused",
            count(report->refused), "preempted", count(report->preempted)));
    bad |= json_object_set_new(root, "bytes", bytes_object(report));
    bad |= json_object_set_new(root, "growth_ns", growth_object(report));
    bad |= json_object_set_new(root, "ops_per_s", count((uint64_t)ops_per_second(report)));
    bad |= json_object_set_new(root, "calls",
        json_pack("{s:o, s:o, s:o, s:f}", "ledger", count(report->ledger_calls), "inside_committed",
            count(report->quiet_appends), "plugin", count(report->plugin_calls), "ledger_seconds",
            report->call_seconds));
    bad |= json_object_set_new(root, "prefix",
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "attached_requests", count(report->prefix_requests),
            "shared_tokens", count(report->prefix_tokens), "shared_bytes",
            count(report->prefix_bytes), "created", count(report->created_prefixes), "evicted",
            count(report->evicted_prefixes)));
    bad |= json_object_set_new(root, "compare", compare_object(report));
    bad |= json_object_set_new(root, "contents",
        json_pack("{s:o, s:o}", "written_granules", count(report->touched_count),
            "verified_granules", count(report->verified_count)));
    bad |= json_object_set_new(root, "oracle",
        json_pack("{s:o, s:o, s:o, s:b}", "points", count(report->oracle_points),
            "max_difference_bytes", count(report->oracle_difference_bytes), "extent_bytes",
            count(report->largest_extent_bytes), "system_asked", report->oracle_known));
    bad |= json_object_set_new(root, "final",
        json_pack("{s:o, s:o, s:o, s:o}", "charged_bytes", count(report->final_charged),
            "mapped_bytes", count(report->final_mapped), "owned_bytes", count(report->final_owned),
            "reservations", count(report->final_reservations)));
    bad |= json_object_set_new(root, "seconds",
        json_pack(
            "{s:f, s:f}", "simulated", report->simulated_seconds, "wall", report->wall_seconds));
    bad |= json_object_set_new(root, "audit", text(report->audit));
    bad |= json_object_set_new(root, "interrupted", json_boolean(report->interrupted));
    if (report->note[0] != '\0')
        bad |= json_object_set_new(root, "note", text(report->note));
    if (report->refusal[0] != '\0')
        bad |= json_object_set_new(root, "first_refusal", text(report->refusal));
    bool printed = bad == 0 && json_dumpf(root, stdout, JSON_INDENT(2)) == 0;
    putchar('\n');
    json_decref(root);
    return printed;
}
