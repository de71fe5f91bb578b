/* The report as one JSON object. */
#include "tools/cli/replay/report.h"
#include "tools/cli/text.h"

#include "abi/base/checked.h"

#include <stdio.h>

json_t *replay_json_count(uint64_t value)
{
    return json_integer((json_int_t)(value > INT64_MAX ? INT64_MAX : value));
}

/* JSON has no place for a byte that is no part of UTF-8, and a path may have one. */
json_t *replay_json_text(const char *from)
{
    char shown[MBR_REPLAY_SHOWN_BYTES];
    return json_string(mbr_text_printable(shown, sizeof shown, from));
}

uint64_t replay_largest_extent_bytes(const mbr_replay_report *report)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < report->tenant_count; i++)
        largest = mbr_max(largest, report->tenants[i].largest_extent_bytes);
    return largest;
}

static json_t *series_object(const mbr_replay_report *report, const mbr_replay_series *series)
{
    return json_pack("{s:o, s:o}", "peak", replay_json_count(series->peak), "mean",
        replay_json_count((uint64_t)replay_mean(report, series)));
}

static json_t *bytes_object(const mbr_replay_report *report)
{
    const mbr_replay_series *live_series = &report->tenants[0].live;
    double live = replay_mean(report, live_series);
    return json_pack("{s:o, s:o, s:o, s:{s:o}, s:f}", "live", series_object(report, live_series),
        "mapped", series_object(report, &report->mapped), "owned",
        series_object(report, &report->owned), "ahead", "peak",
        replay_json_count(report->ahead_peak_bytes), "waste",
        live > 0 ? replay_mean(report, &report->owned) / live - 1 : 0.0);
}

static json_t *ratios_object(const mbr_replay_report *report)
{
    replay_ratio ratios[REPLAY_RATIO_COUNT];
    json_t *root = json_object();
    bool good = root != NULL;
    replay_ratios(report, ratios);
    for (size_t i = 0; i < REPLAY_RATIO_COUNT && good; i++)
        good = json_object_set_new(root, ratios[i].name,
                   json_pack("{s:o, s:f, s:f, s:s}", "value",
                       ratios[i].known ? json_real(ratios[i].value) : json_null(), "goal",
                       ratios[i].goal, "floor", ratios[i].floor, "verdict",
                       replay_ratio_verdict(&ratios[i]))) == 0;
    return root;
}

static json_t *growth_object(mbr_replay_report *report)
{
    mbr_quantile_summary summary;
    mbr_quantiles_summarize(&report->growth_ns, &summary);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b}", "count", replay_json_count(summary.count),
        "p50", replay_json_count(summary.p50), "p99", replay_json_count(summary.p99), "p999",
        replay_json_count(summary.p999), "max", replay_json_count(summary.maximum), "is_sampled",
        summary.is_sampled);
}

static json_t *compare_object(const mbr_replay_report *report)
{
    return json_pack("{s:s, s:{s:o}, s:{s:o}, s:{s:o}}", "method",
        "computed from the run's own arrivals and ends", "max_prealloc", "peak_owned",
        replay_json_count(report->max_prealloc_bytes), "grow_and_copy", "peak_owned",
        replay_json_count(report->grow_and_copy_bytes), "paged16", "peak_owned",
        replay_json_count(report->paged16_bytes));
}

static double ops_per_second(const mbr_replay_report *report)
{
    return report->call_seconds > 0 ? (double)report->ledger_calls / report->call_seconds : 0;
}

static json_t *pages_object(const mbr_replay_pages_report *pages)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "written_rows",
        replay_json_count(pages->written_count), "verified_rows",
        replay_json_count(pages->verified_count), "forks", replay_json_count(pages->fork_count),
        "copied_bytes", replay_json_count(pages->copied_bytes), "rewinds",
        replay_json_count(pages->rewind_count), "preemptions",
        replay_json_count(pages->preempted_count), "dropped",
        replay_json_count(pages->dropped_count));
}

bool replay_json_set_end(json_t *root, const mbr_replay_report *report)
{
    int bad = 0;
    bad |= json_object_set_new(root, "contents",
        json_pack("{s:o, s:o, s:o}", "mark_step_bytes", replay_json_count(report->mark_step_bytes),
            "written_marks", replay_json_count(report->touched_count), "verified_marks",
            replay_json_count(report->verified_count)));
    bad |= json_object_set_new(root, "weights",
        json_pack("{s:o, s:o, s:o}", "sleeps", replay_json_count(report->sleep_count), "wakes",
            replay_json_count(report->wake_count), "refused",
            replay_json_count(report->refused_wake_count)));
    bad |= json_object_set_new(root, "caches",
        json_pack("{s:o, s:o, s:o, s:o}", "sleeps", replay_json_count(report->caches.sleep_count),
            "slept_bytes", replay_json_count(report->caches.slept_bytes), "refused",
            replay_json_count(report->caches.refused_count), "lost",
            replay_json_count(report->caches.lost_count)));
    bad |= json_object_set_new(root, "forks",
        json_pack("{s:o, s:o}", "made", replay_json_count(report->fork_count), "refused",
            replay_json_count(report->refused_fork_count)));
    bad |= json_object_set_new(root, "pages", pages_object(&report->pages));
    bad |= json_object_set_new(root, "oracle",
        json_pack("{s:o, s:o, s:o, s:b}", "points", replay_json_count(report->oracle_points),
            "max_difference_bytes", replay_json_count(report->oracle_difference_bytes),
            "extent_bytes", replay_json_count(replay_largest_extent_bytes(report)), "system_asked",
            report->oracle_known));
    bad |= json_object_set_new(root, "final",
        json_pack("{s:o, s:o, s:o, s:o}", "charged_bytes", replay_json_count(report->final_charged),
            "mapped_bytes", replay_json_count(report->final_mapped), "owned_bytes",
            replay_json_count(report->final_owned), "reservations",
            replay_json_count(report->final_reservations)));
    bad |= json_object_set_new(root, "seconds",
        json_pack(
            "{s:f, s:f}", "simulated", report->simulated_seconds, "wall", report->wall_seconds));
    bad |= json_object_set_new(root, "audit", replay_json_text(report->audit));
    bad |= json_object_set_new(root, "interrupted", json_boolean(report->interrupted));
    return bad == 0;
}

bool mbr_replay_print_json(
    const mbr_replay_options *options, const mbr_trace *trace, mbr_replay_report *report)
{
    const mbr_replay_tenant_report *own = &report->tenants[0];
    json_t *root =
        json_pack("{s:{s:o, s:s, s:o}, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "trace", "path",
            replay_json_text(options->trace_path), "format", mbr_trace_format_name(trace->format),
            "requests", replay_json_count(trace->request_count), "plugin",
            replay_json_text(options->plugin), "model", replay_json_text(options->model), "layout",
            options->layout, "limit_bytes", replay_json_count(report->limit_bytes), "max_tokens",
            replay_json_count(own->max_tokens), "token_bytes", replay_json_count(own->token_bytes),
            "granule_bytes", replay_json_count(report->granule_bytes));
    if (root == NULL)
        return false;
    int bad = 0;
    bad |= json_object_set_new(root, "requests",
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "total", replay_json_count(own->total), "served",
            replay_json_count(own->served), "waited", replay_json_count(own->waited), "refused",
            replay_json_count(own->refused), "preempted", replay_json_count(own->preempted)));
    bad |= json_object_set_new(root, "bytes", bytes_object(report));
    bad |= json_object_set_new(root, "growth_ns", growth_object(report));
    bad |=
        json_object_set_new(root, "ops_per_s", replay_json_count((uint64_t)ops_per_second(report)));
    bad |= json_object_set_new(root, "calls",
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:f}", "ledger",
            replay_json_count(report->ledger_calls), "growths",
            replay_json_count(report->growth_count), "growths_adopted",
            replay_json_count(report->adopted_count), "inside_committed",
            replay_json_count(report->quiet_appends), "plugin",
            replay_json_count(report->plugin_calls), "ledger_seconds", report->call_seconds));
    bad |= json_object_set_new(root, "prefix",
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o}}", "attached_requests",
            replay_json_count(own->prefix_requests), "shared_tokens",
            replay_json_count(own->prefix_tokens), "shared_bytes",
            replay_json_count(own->prefix_bytes), "created",
            replay_json_count(own->created_prefixes), "evicted",
            replay_json_count(own->evicted_prefixes), "row_bytes", "shareable_exact",
            replay_json_count(own->reuse.exact_bytes), "shareable_whole",
            replay_json_count(own->reuse.whole_bytes), "shared",
            replay_json_count(own->reuse.shared_bytes)));
    bad |= json_object_set_new(root, "goals", ratios_object(report));
    bad |= json_object_set_new(root, "compare", compare_object(report));
    bad |= !replay_json_set_end(root, report);
    if (own->note[0] != '\0')
        bad |= json_object_set_new(root, "note", replay_json_text(own->note));
    if (own->refusal[0] != '\0')
        bad |= json_object_set_new(root, "first_refusal", replay_json_text(own->refusal));
    bool printed = bad == 0 && json_dumpf(root, stdout, JSON_INDENT(2)) == 0;
    putchar('\n');
    json_decref(root);
    return printed;
}
