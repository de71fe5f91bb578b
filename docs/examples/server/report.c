/* Responsible for how the figures are written, each once for both formats. */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct figure {
    const char *name;
    const char *type; /* of Prometheus */
    double value;
} figure;

#define FIGURE_COUNT 22

static void collect(const desk_figures *figures, figure out[FIGURE_COUNT])
{
    const mbr_authority_figures *books = &figures->authority;
    const uint64_t *answers = figures->answer_counts;
    const figure all[FIGURE_COUNT] = {
        {"limit_bytes", "gauge", (double)books->limit_bytes},
        {"claimed_bytes", "gauge", (double)books->claimed_bytes},
        {"granted_bytes", "gauge", (double)books->granted_bytes},
        {"charged_bytes", "gauge", (double)books->charged_bytes},
        {"peak_charged_bytes", "gauge", (double)books->peak_charged_bytes},
        {"over_bytes", "gauge", (double)books->over_bytes},
        {"refusals_total", "counter", (double)books->refusal_count},
        {"admitted_bytes", "gauge", (double)figures->admitted_bytes},
        {"committed_bytes", "gauge", (double)figures->committed_bytes},
        {"admitted_byte_seconds_total", "counter", figures->admitted_byte_seconds},
        {"committed_byte_seconds_total", "counter", figures->committed_byte_seconds},
        {"running", "gauge", (double)figures->running_count},
        {"standing", "gauge", (double)figures->standing_count},
        {"away", "gauge", (double)figures->away_count},
        {"served_total", "counter", (double)answers[ANSWER_SERVED]},
        {"come_again_total", "counter", (double)answers[ANSWER_COME_AGAIN]},
        {"never_total", "counter", (double)answers[ANSWER_NEVER]},
        {"no_memory_total", "counter", (double)answers[ANSWER_NO_MEMORY]},
        {"closing_total", "counter", (double)answers[ANSWER_CLOSING]},
        {"returned_total", "counter", (double)figures->returned_count},
        {"returned_served_total", "counter", (double)figures->returned_served_count},
        {"uptime_seconds", "gauge", figures->uptime_seconds},
    };
    for (size_t i = 0; i < FIGURE_COUNT; i++)
        out[i] = all[i];
}

/* What no longer fits is left out; FIGURE_COUNT lines fit. */
static void __attribute__((format(printf, 3, 4)))
add(char *text, size_t *length, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int wrote = vsnprintf(text + *length, REPORT_BYTES - *length, format, arguments);
    va_end(arguments);
    if (wrote > 0 && (size_t)wrote < REPORT_BYTES - *length)
        *length += (size_t)wrote;
}

size_t report_json(const desk_figures *figures, char text[REPORT_BYTES])
{
    figure all[FIGURE_COUNT];
    size_t length = 0;
    collect(figures, all);
    for (size_t i = 0; i < FIGURE_COUNT; i++)
        add(text, &length, "%s\"%s\": %.17g", i == 0 ? "{" : ", ", all[i].name, all[i].value);
    add(text, &length, "}\n");
    return length;
}

size_t report_metrics(const desk_figures *figures, char text[REPORT_BYTES])
{
    figure all[FIGURE_COUNT];
    size_t length = 0;
    collect(figures, all);
    for (size_t i = 0; i < FIGURE_COUNT; i++)
        add(text, &length, "# TYPE membrane_server_%s %s\nmembrane_server_%s %.17g\n", all[i].name,
            all[i].type, all[i].name, all[i].value);
    return length;
}
