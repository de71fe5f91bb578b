/* The report as JUnit's XML: one test suite a group. */
#include "tools/check/print.h"

#include <string.h>

/* Texts are printable UTF-8 already; XML's own characters are left. */
static void print_xml(const char *text, FILE *to)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '&':
            fputs("&amp;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        default:
            fputc((unsigned char)*text < 0x20 ? '?' : *text, to);
        }
}

static void print_failure(
    const mbr_run *run, const mbr_result *result, const char *element, FILE *to)
{
    char text[MBR_PAGE_TEXT_BYTES + 128], repro[MBR_PAGE_PATH_BYTES + 128];
    mbr_result_text(result, text, sizeof text);
    mbr_result_repro(run, result, repro, sizeof repro);
    fprintf(to, "      <%s type=\"%s\" message=\"", element, mbr_verdict_word(result->verdict));
    print_xml(text, to);
    fputs("\">expected ", to);
    print_xml(result->expected[0] != '\0' ? result->expected : result->check->title, to);
    fprintf(to, "; rules %s; again: ", result->check->rules);
    print_xml(repro, to);
    fprintf(to, "</%s>\n", element);
}

static void print_case(const mbr_run *run, const mbr_result *result, FILE *to)
{
    fprintf(to, "    <testcase classname=\"membrane-check\" name=\"%s ", result->check->id);
    print_xml(result->check->title, to);
    fprintf(to, "\" time=\"%.3f\">\n", (double)result->wall_ns / 1e9);
    if (mbr_verdict_is_finding(result->verdict))
        print_failure(run, result, "failure", to);
    else if (result->verdict == MBR_VERDICT_TOOL || result->verdict == MBR_VERDICT_RESOURCE)
        print_failure(run, result, "error", to);
    else if (result->verdict == MBR_VERDICT_SKIP || result->verdict == MBR_VERDICT_WAIVED) {
        fputs("      <skipped message=\"", to);
        print_xml(result->observed, to);
        fputs("\"/>\n", to);
    }
    fputs("    </testcase>\n", to);
}

static bool is_in(const mbr_result *result, const mbr_group *group)
{
    return strncmp(result->check->id, group->name, strlen(group->name)) == 0;
}

static void print_suite(const mbr_run *run, const mbr_group *group, FILE *to)
{
    uint32_t count = 0, failures = 0, errors = 0, skipped = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        mbr_verdict verdict = run->results[i].verdict;
        if (!is_in(&run->results[i], group))
            continue;
        count++;
        failures += mbr_verdict_is_finding(verdict);
        errors += verdict == MBR_VERDICT_TOOL || verdict == MBR_VERDICT_RESOURCE;
        skipped += verdict == MBR_VERDICT_SKIP || verdict == MBR_VERDICT_WAIVED;
    }
    if (count == 0)
        return;
    fprintf(to,
        "  <testsuite name=\"%s\" tests=\"%u\" failures=\"%u\" errors=\"%u\" skipped=\"%u\">\n",
        group->name, count, failures, errors, skipped);
    for (uint32_t i = 0; i < run->count; i++)
        if (is_in(&run->results[i], group))
            print_case(run, &run->results[i], to);
    fputs("  </testsuite>\n", to);
}

bool mbr_print_junit(const mbr_run *run, FILE *to)
{
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"", to);
    print_xml(run->path, to);
    fputs("\">\n", to);
    for (uint32_t i = 0; i < mbr_group_count; i++)
        print_suite(run, mbr_groups[i], to);
    if (run->refusal != NULL) {
        fputs("  <testsuite name=\"file\" tests=\"1\" failures=\"1\"><testcase "
              "name=\"file\"><failure "
              "message=\"",
            to);
        print_xml(run->refusal, to);
        fputs("\"/></testcase></testsuite>\n", to);
    }
    fputs("</testsuites>\n", to);
    return ferror(to) == 0;
}
