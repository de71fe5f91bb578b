/* The report as text for people, and the picture. */
#include "tools/cli/args.h"
#include "tools/cli/replay/report.h"
#include "tools/cli/text.h"

#include <stdio.h>

#define SIZE_BYTES 32

static const char *size(char text[SIZE_BYTES], double bytes)
{
    return mbr_args_format_bytes(text, SIZE_BYTES, bytes > 0 ? (uint64_t)bytes : 0);
}

static void print_series(
    const char *name, const mbr_replay_report *report, const mbr_replay_series *series)
{
    char peak[SIZE_BYTES], middle[SIZE_BYTES];
    printf("  %-8s %12s %12s\n", name, size(peak, (double)series->peak),
        size(middle, replay_mean(report, series)));
}

static void print_requests(const mbr_replay_tenant_report *report)
{
    printf("requests   %llu in all: %llu served, %llu waited, %llu refused, %llu preempted\n",
        (unsigned long long)report->total, (unsigned long long)report->served,
        (unsigned long long)report->waited, (unsigned long long)report->refused,
        (unsigned long long)report->preempted);
    if (report->refusal[0] != '\0')
        printf("           first refused: %s\n", report->refusal);
    if (report->prefix_requests != 0) {
        char bytes[SIZE_BYTES];
        printf(
            "prefixes   %llu requests came with one: %llu tokens, %s mapped and not stored again\n",
            (unsigned long long)report->prefix_requests, (unsigned long long)report->prefix_tokens,
            size(bytes, (double)report->prefix_bytes));
    }
    if (report->reuse.exact_bytes != 0) {
        char exact[SIZE_BYTES], whole[SIZE_BYTES], shared[SIZE_BYTES];
        printf("reuse      %s of prompts had been there before, %s of it in whole extents, %s came "
               "shared\n",
            size(exact, (double)report->reuse.exact_bytes),
            size(whole, (double)report->reuse.whole_bytes),
            size(shared, (double)report->reuse.shared_bytes));
    }
    if (report->note[0] != '\0')
        printf("note       %s\n", report->note);
}

static void print_bytes(const mbr_replay_report *report)
{
    char limit[SIZE_BYTES];
    const mbr_replay_series *live_series = &report->tenants[0].live;
    double live = replay_mean(report, live_series);
    printf("\nbytes (measured)   peak         mean   limit %s\n",
        size(limit, (double)report->limit_bytes));
    print_series("live", report, live_series);
    print_series("mapped", report, &report->mapped);
    print_series("owned", report, &report->owned);
    if (report->ahead_peak_bytes != 0)
        printf("  %-8s %12s\n", "ahead", size(limit, (double)report->ahead_peak_bytes));
    if (live > 0)
        printf("  waste    %.1f %% of live, on average (what the cache keeps for reuse included)\n",
            100 * (replay_mean(report, &report->owned) / live - 1));
}

static void print_ratios(const mbr_replay_report *report)
{
    replay_ratio ratios[REPLAY_RATIO_COUNT];
    replay_ratios(report, ratios);
    printf("\nagainst its goals\n");
    for (size_t i = 0; i < REPLAY_RATIO_COUNT; i++)
        if (ratios[i].known)
            printf("  %-46s %6.3f  goal %.2f, floor %.2f: %s\n", ratios[i].what, ratios[i].value,
                ratios[i].goal, ratios[i].floor, replay_ratio_verdict(&ratios[i]));
}

static void print_growth(mbr_replay_report *report)
{
    mbr_quantile_summary summary;
    mbr_quantiles_summarize(&report->growth_ns, &summary);
    printf("\ngrowth (measured)  %llu tokens needed memory: p50 %.1f us, p99 %.1f us, p99.9 %.1f "
           "us%s\n",
        (unsigned long long)summary.count, (double)summary.p50 / 1e3, (double)summary.p99 / 1e3,
        (double)summary.p999 / 1e3, summary.is_sampled ? " (of a sample)" : "");
    printf("                   %llu tokens fitted into what was committed\n",
        (unsigned long long)report->quiet_appends);
    printf(
        "                   %llu of %llu growths, first prompts included, called no plugin: what "
        "they needed stood there\n",
        (unsigned long long)report->adopted_count, (unsigned long long)report->growth_count);
    if (report->call_seconds > 0)
        printf("calls (measured)   %llu that change the ledger, %.0f a second, with %llu calls of "
               "the plugin\n",
            (unsigned long long)report->ledger_calls,
            (double)report->ledger_calls / report->call_seconds,
            (unsigned long long)report->plugin_calls);
}

static void print_comparison(const mbr_replay_report *report)
{
    char text[SIZE_BYTES];
    printf("\nthe same trace costs at its peak\n");
    printf("  %-28s %12s  computed: %llu tokens for each running request\n",
        "maximum preallocation", size(text, (double)report->max_prealloc_bytes),
        (unsigned long long)report->tenants[0].max_tokens);
    printf("  %-28s %12s  computed: powers of two, old and new during a copy\n", "grow and copy",
        size(text, (double)report->grow_and_copy_bytes));
    printf("  %-28s %12s  computed: no page is shared\n", "pages of 16 tokens",
        size(text, (double)report->paged16_bytes));
    printf("  %-28s %12s  measured\n", "Membrane", size(text, (double)report->owned.peak));
}

void replay_print_end(const mbr_replay_report *report)
{
    char text[SIZE_BYTES];
    printf("contents   %llu marks written, one each %s, %llu read back, all as written\n",
        (unsigned long long)report->touched_count, size(text, (double)report->mark_step_bytes),
        (unsigned long long)report->verified_count);
    if (report->sleep_count != 0)
        printf("weights    slept %llu times and woke %llu times, refused %llu times\n",
            (unsigned long long)report->sleep_count, (unsigned long long)report->wake_count,
            (unsigned long long)report->refused_wake_count);
    if (report->caches.sleep_count + report->caches.refused_count + report->caches.lost_count != 0)
        printf(
            "caches     slept and woke %llu times, %s in all, refused %llu times, begun anew %llu "
            "times\n",
            (unsigned long long)report->caches.sleep_count,
            size(text, (double)report->caches.slept_bytes),
            (unsigned long long)report->caches.refused_count,
            (unsigned long long)report->caches.lost_count);
    if (report->fork_count + report->refused_fork_count != 0)
        printf("forks      %llu, and %llu that there was no room or no whole extent for\n",
            (unsigned long long)report->fork_count, (unsigned long long)report->refused_fork_count);
    if (report->pages.written_count != 0)
        printf("pages      %llu rows written and %llu read back, all as written; %llu forks, %s "
               "copied for writes, %llu rewinds, %llu preemptions, %llu sequences dropped\n",
            (unsigned long long)report->pages.written_count,
            (unsigned long long)report->pages.verified_count,
            (unsigned long long)report->pages.fork_count,
            size(text, (double)report->pages.copied_bytes),
            (unsigned long long)report->pages.rewind_count,
            (unsigned long long)report->pages.preempted_count,
            (unsigned long long)report->pages.dropped_count);
    if (report->oracle_points != 0)
        printf("oracle     at %llu points the books, the plugin%s agree within %s\n",
            (unsigned long long)report->oracle_points,
            report->oracle_known ? ", the file's blocks and Pss" : "",
            size(text, (double)report->oracle_difference_bytes));
    printf("at the end %llu bytes charged, %llu mapped, %llu owned, %llu reservations; audit %s\n",
        (unsigned long long)report->final_charged, (unsigned long long)report->final_mapped,
        (unsigned long long)report->final_owned, (unsigned long long)report->final_reservations,
        report->audit);
    printf(
        "time       %.1f s simulated in %.1f s\n", report->simulated_seconds, report->wall_seconds);
}

void mbr_replay_print_human(
    const mbr_replay_options *options, const mbr_trace *trace, mbr_replay_report *report)
{
    char token[SIZE_BYTES];
    char path[MBR_REPLAY_SHOWN_BYTES], plugin[MBR_REPLAY_SHOWN_BYTES],
        model[MBR_REPLAY_SHOWN_BYTES];
    printf("%s (%s), plugin %s, model %s (%s a token), %s%s\n",
        mbr_text_printable(path, sizeof path, options->trace_path),
        mbr_trace_format_name(trace->format),
        mbr_text_printable(plugin, sizeof plugin, options->plugin),
        mbr_text_printable(model, sizeof model, options->model),
        size(token, (double)report->tenants[0].token_bytes), options->layout,
        report->interrupted ? ", interrupted" : "");
    print_requests(&report->tenants[0]);
    print_bytes(report);
    print_ratios(report);
    print_growth(report);
    print_comparison(report);
    putchar('\n');
    replay_print_end(report);
}

bool mbr_replay_plot(const mbr_replay_options *options, const mbr_replay_report *report,
    char text[MBR_REPLAY_TEXT_BYTES])
{
    const mbr_replay_series *live = &report->tenants[0].live;
    mbr_plot_point limit[] = {
        {0, report->limit_bytes},
        {(uint64_t)(report->simulated_seconds * 1e9), report->limit_bytes},
    };
    mbr_plot_series series[] = {
        {"owned", report->owned.points, report->owned.point_count},
        {"mapped", report->mapped.points, report->mapped.point_count},
        {"live", live->points, live->point_count},
        {"limit", limit, 2},
    };
    mbr_plot plot = {options->plot_path, "bytes of KV caches over simulated time", series,
        sizeof(series) / sizeof(series[0])};
    mbr_plot_error error;
    if (mbr_plot_write(&plot, NULL, &error) == MBR_PLOT_OK)
        return true;
    snprintf(text, MBR_REPLAY_TEXT_BYTES, "%s", error.text);
    return false;
}
