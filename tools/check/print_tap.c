/* The report in TAP version 14. */
#include "tools/check/print.h"
#include "tools/check/slot.h"

/* '#' begins a directive and '\' escapes; both are escaped. */
static void print_escaped(const char *text, FILE *to)
{
    for (; *text != '\0'; text++) {
        if (*text == '#' || *text == '\\')
            fputc('\\', to);
        fputc(*text, to);
    }
}

/* A YAML string in single quotes, where only the quote is doubled. */
static void print_quoted(const char *key, const char *text, FILE *to)
{
    fprintf(to, "  %s: '", key);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputc('\'', to);
        fputc(*text, to);
    }
    fputs("'\n", to);
}

static void print_details(const mbr_run *run, const mbr_result *result, FILE *to)
{
    char text[MBR_PAGE_TEXT_BYTES + 128], repro[MBR_PAGE_PATH_BYTES + 128];
    mbr_result_text(result, text, sizeof text);
    mbr_result_repro(run, result, repro, sizeof repro);
    fputs("  ---\n", to);
    print_quoted("verdict", mbr_verdict_word(result->verdict), to);
    print_quoted("slot", mbr_slot_name(result->slot), to);
    print_quoted(
        "expected", result->expected[0] != '\0' ? result->expected : result->check->title, to);
    print_quoted("observed", text, to);
    print_quoted("rules", result->check->rules, to);
    print_quoted("again", repro, to);
    fputs("  ...\n", to);
}

bool mbr_print_tap(const mbr_run *run, FILE *to)
{
    fprintf(to, "TAP version 14\n1..%u%s%s\n", run->count, run->count == 0 ? " # SKIP " : "",
        run->count == 0 ? (run->refusal != NULL ? run->refusal : "nothing was chosen") : "");
    for (uint32_t i = 0; i < run->count; i++) {
        const mbr_result *result = &run->results[i];
        bool is_skip = result->verdict == MBR_VERDICT_SKIP;
        bool is_waived = result->verdict == MBR_VERDICT_WAIVED;
        bool is_good = result->verdict == MBR_VERDICT_PASS || result->verdict == MBR_VERDICT_WARN ||
            (is_skip && mbr_skip_is_declared(result->skip));
        fprintf(to, "%sok %u - %s ", is_good ? "" : "not ", i + 1, result->check->id);
        print_escaped(result->check->title, to);
        if (is_skip) {
            fprintf(to, " # SKIP %s: ", mbr_skip_word(result->skip));
            print_escaped(result->observed, to);
        }
        if (is_waived) /* TAP's word for a failure that is accepted */
            fputs(" # TO"
                  "DO waived",
                to);
        fputc('\n', to);
        if (!is_good && !is_skip)
            print_details(run, result, to);
    }
    return ferror(to) == 0;
}
