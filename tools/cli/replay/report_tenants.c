/* The report of several tenants: as text, as one JSON object, as a picture. Computes nothing but
 * sums. */
#include "tools/cli/args.h"
#include "tools/cli/replay/report.h"
#include "tools/cli/text.h"

#include <stdio.h>
#include <string.h>

#define SIZE_BYTES 32

static const char *size(char text[SIZE_BYTES], uint64_t bytes)
{
    return mbr_args_format_bytes(text, SIZE_BYTES, bytes);
}

static const char *rule(mbr_replay_way way)
{
    return way == MBR_REPLAY_ELASTIC ? "what a tenant leaves of its share is lent, and comes back"
                                     : "each tenant has its share and no more";
}

static uint64_t completed(const mbr_replay_report *report)
{
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < report->tenant_count; i++)
        tokens += report->tenants[i].completed_tokens;
    return tokens;
}

/* ---- Text */

static void print_loads(const mbr_replay_options *options, const mbr_replay_tenants *tenants)
{
    char bytes[SIZE_BYTES], shown[MBR_REPLAY_SHOWN_BYTES];
    printf("%u tenants under %s", tenants->count, size(bytes, tenants->budget_bytes));
    if (options->budget_percent != 0)
        printf(", %llu %% of the sum of their peaks", (unsigned long long)options->budget_percent);
    printf(", plugin %s, %s\n", mbr_text_printable(shown, sizeof shown, options->plugin),
        options->layout);
    for (uint32_t i = 0; i < tenants->count; i++) {
        const mbr_replay_load *load = &tenants->loads[i];
        printf("  %-12s %s (%s), ", load->name,
            mbr_text_printable(shown, sizeof shown, options->tenants[i].trace_path),
            mbr_trace_format_name(load->trace->format));
        printf("model %s, share %llu %%", mbr_text_printable(shown, sizeof shown, load->model),
            (unsigned long long)tenants->share_percents[i]);
        if (tenants->alone_peak_bytes[i] != 0)
            printf(", peak alone %s", size(bytes, tenants->alone_peak_bytes[i]));
        putchar('\n');
    }
}

static void print_service(const mbr_replay_tenants *tenants, const mbr_replay_report *report)
{
    printf("  %-12s %9s %9s %9s %9s %9s %12s\n", "requests", "all", "served", "waited", "refused",
        "preempted", "tokens done");
    for (uint32_t i = 0; i < report->tenant_count; i++) {
        const mbr_replay_tenant_report *own = &report->tenants[i];
        printf("  %-12s %9llu %9llu %9llu %9llu %9llu %12llu\n", tenants->loads[i].name,
            (unsigned long long)own->total, (unsigned long long)own->served,
            (unsigned long long)own->waited, (unsigned long long)own->refused,
            (unsigned long long)own->preempted, (unsigned long long)own->completed_tokens);
    }
    printf("  %-12s %72llu\n", "together", (unsigned long long)completed(report));
    for (uint32_t i = 0; i < report->tenant_count; i++)
        if (report->tenants[i].refusal[0] != '\0')
            printf(
                "  %-12s first refused: %s\n", tenants->loads[i].name, report->tenants[i].refusal);
}

static void print_bytes(const mbr_replay_tenants *tenants, mbr_replay_report *report)
{
    char share[SIZE_BYTES], peak[SIZE_BYTES], borrowed[SIZE_BYTES], given[SIZE_BYTES];
    printf("  %-12s %11s %11s %11s %11s   %s\n", "bytes", "share", "peak", "borrowed", "given back",
        "wait p50, p99 (simulated)");
    for (uint32_t i = 0; i < report->tenant_count; i++) {
        mbr_replay_tenant_report *own = &report->tenants[i];
        mbr_quantile_summary wait;
        mbr_quantiles_summarize(&own->wait_ns, &wait);
        printf("  %-12s %11s %11s %11s %11s   %.2f s, %.2f s\n", tenants->loads[i].name,
            size(share, own->share_bytes), size(peak, own->peak_bytes),
            size(borrowed, own->borrowed_peak_bytes), size(given, own->given_bytes),
            (double)wait.p50 / 1e9, (double)wait.p99 / 1e9);
    }
    printf("  together     peak owned %s of %s\n", size(peak, report->owned.peak),
        size(share, report->limit_bytes));
}

void mbr_replay_tenants_print_human(const mbr_replay_options *options, mbr_replay_tenants *tenants)
{
    print_loads(options, tenants);
    for (uint32_t i = 0; i < tenants->arm_count; i++) {
        mbr_replay_arm *arm = &tenants->arms[i];
        printf("\n%s: %s%s\n", mbr_replay_way_name(arm->way), rule(arm->way),
            arm->report.interrupted ? " (interrupted)" : "");
        print_service(tenants, &arm->report);
        print_bytes(tenants, &arm->report);
        replay_print_end(&arm->report);
    }
    if (tenants->ratios.known)
        printf("\nelastic against static: %.3f x the tokens done; the worse tenant, %s, %.3f x\n",
            tenants->ratios.total, tenants->loads[tenants->ratios.worst_index].name,
            tenants->ratios.worst);
}

/* ---- JSON */

static json_t *load_object(
    const mbr_replay_options *options, const mbr_replay_tenants *tenants, uint32_t index)
{
    const mbr_replay_load *load = &tenants->loads[index];
    return json_pack("{s:s, s:{s:o, s:s, s:o}, s:o, s:o, s:o}", "name", load->name, "trace", "path",
        replay_json_text(options->tenants[index].trace_path), "format",
        mbr_trace_format_name(load->trace->format), "requests",
        replay_json_count(load->trace->request_count), "model", replay_json_text(load->model),
        "share_percent", replay_json_count(tenants->share_percents[index]), "alone_peak_bytes",
        tenants->alone_peak_bytes[index] == 0
            ? json_null()
            : replay_json_count(tenants->alone_peak_bytes[index]));
}

static json_t *served_object(const char *name, mbr_replay_tenant_report *own)
{
    mbr_quantile_summary wait;
    mbr_quantiles_summarize(&own->wait_ns, &wait);
    json_t *object = json_pack("{s:s, s:{s:o, s:o, s:o, s:o, s:o}, s:o, s:{s:o, s:o, s:o, s:o}, "
                               "s:{s:o, s:o, s:o}, s:{s:o, s:o}}",
        "name", name, "requests", "total", replay_json_count(own->total), "served",
        replay_json_count(own->served), "waited", replay_json_count(own->waited), "refused",
        replay_json_count(own->refused), "preempted", replay_json_count(own->preempted),
        "completed_tokens", replay_json_count(own->completed_tokens), "bytes", "share",
        replay_json_count(own->share_bytes), "peak", replay_json_count(own->peak_bytes), "borrowed",
        replay_json_count(own->borrowed_peak_bytes), "given", replay_json_count(own->given_bytes),
        "prefix", "attached_requests", replay_json_count(own->prefix_requests), "created",
        replay_json_count(own->created_prefixes), "evicted",
        replay_json_count(own->evicted_prefixes), "wait_ns", "p50", replay_json_count(wait.p50),
        "p99", replay_json_count(wait.p99));
    if (object != NULL && own->refusal[0] != '\0')
        json_object_set_new(object, "first_refusal", replay_json_text(own->refusal));
    return object;
}

static json_t *arm_object(const mbr_replay_tenants *tenants, mbr_replay_arm *arm)
{
    mbr_replay_report *report = &arm->report;
    json_t *object = json_pack("{s:s, s:[], s:o, s:o, s:o}", "arm", mbr_replay_way_name(arm->way),
        "tenants", "completed_tokens", replay_json_count(completed(report)), "limit_bytes",
        replay_json_count(report->limit_bytes), "peak_owned_bytes",
        replay_json_count(report->owned.peak));
    if (object == NULL)
        return NULL;
    json_t *lines = json_object_get(object, "tenants");
    bool good = replay_json_set_end(object, report);
    for (uint32_t i = 0; i < report->tenant_count && good; i++)
        good = json_array_append_new(
                   lines, served_object(tenants->loads[i].name, &report->tenants[i])) == 0;
    if (good)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *ratios_object(const mbr_replay_tenants *tenants)
{
    const mbr_replay_ratios *ratios = &tenants->ratios;
    if (!ratios->known)
        return json_null();
    return json_pack("{s:f, s:f, s:s}", "completed_tokens", ratios->total, "worse_tenant",
        ratios->worst, "worse_tenant_name", tenants->loads[ratios->worst_index].name);
}

bool mbr_replay_tenants_print_json(const mbr_replay_options *options, mbr_replay_tenants *tenants)
{
    json_t *root = json_pack("{s:o, s:s, s:o, s:o, s:[], s:[], s:o}", "plugin",
        replay_json_text(options->plugin), "layout", options->layout, "budget_bytes",
        replay_json_count(tenants->budget_bytes), "budget_percent_of_peaks",
        options->budget_percent == 0 ? json_null() : replay_json_count(options->budget_percent),
        "tenants", "arms", "elastic_against_static", ratios_object(tenants));
    if (root == NULL)
        return false;
    bool good = true;
    for (uint32_t i = 0; i < tenants->count && good; i++)
        good = json_array_append_new(
                   json_object_get(root, "tenants"), load_object(options, tenants, i)) == 0;
    for (uint32_t i = 0; i < tenants->arm_count && good; i++)
        good = json_array_append_new(
                   json_object_get(root, "arms"), arm_object(tenants, &tenants->arms[i])) == 0;
    good = good && json_dumpf(root, stdout, JSON_INDENT(2)) == 0;
    putchar('\n');
    json_decref(root);
    return good;
}

/* ---- Picture */

#define SERIES_LIMIT_COUNT (2 * MBR_REPLAY_TENANT_LIMIT_COUNT + 1)
#define TITLE_BYTES 64

_Static_assert(SERIES_LIMIT_COUNT <= MBR_PLOT_MAX_SERIES_COUNT, "every tenant has its series");
_Static_assert(SERIES_LIMIT_COUNT *MBR_REPLAY_POINT_LIMIT_COUNT <= MBR_PLOT_MAX_POINTS_COUNT,
    "all series together fit into one picture");

bool mbr_replay_tenants_plot(const mbr_replay_options *options, const mbr_replay_tenants *tenants,
    char text[MBR_REPLAY_TEXT_BYTES])
{
    mbr_plot_series series[SERIES_LIMIT_COUNT];
    char titles[SERIES_LIMIT_COUNT][TITLE_BYTES];
    uint32_t count = 0;
    double end_s = 0;
    for (uint32_t a = 0; a < tenants->arm_count; a++) {
        const mbr_replay_report *report = &tenants->arms[a].report;
        end_s = report->simulated_seconds > end_s ? report->simulated_seconds : end_s;
        for (uint32_t i = 0; i < report->tenant_count; i++, count++) {
            const mbr_replay_series *owned = &report->tenants[i].owned;
            snprintf(titles[count], TITLE_BYTES, "%s, %s", tenants->loads[i].name,
                mbr_replay_way_name(tenants->arms[a].way));
            series[count] = (mbr_plot_series){titles[count], owned->points, owned->point_count};
        }
    }
    mbr_plot_point limit[] = {
        {0, tenants->budget_bytes},
        {(uint64_t)(end_s * 1e9), tenants->budget_bytes},
    };
    series[count++] = (mbr_plot_series){"budget", limit, 2};
    mbr_plot plot = {options->plot_path, "bytes of each tenant over simulated time", series, count};
    mbr_plot_error error;
    if (mbr_plot_write(&plot, NULL, &error) == MBR_PLOT_OK)
        return true;
    snprintf(text, MBR_REPLAY_TEXT_BYTES, "%s", error.text);
    return false;
}
