/* The report for people: what is not a pass, then one line of totals and one of judgement. */
#include "tools/check/print.h"
#include "tools/check/slot.h"

#include <string.h>

const char *mbr_run_mechanism(const mbr_run *run)
{
    for (uint32_t i = 0; i < run->count; i++)
        if (run->results[i].mechanism[0] != '\0')
            return run->results[i].mechanism;
    return "";
}

void mbr_run_capabilities(const mbr_run *run, char *text, uint64_t room)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {{MBR_NEEDS_VIRTUAL, "virtual"}, {MBR_NEEDS_SHARED, "shared"},
        {MBR_NEEDS_ORDER, "order"}, {MBR_NEEDS_TRANSFER, "transfer"}};
    uint32_t offered = 0;
    for (uint32_t i = 0; i < run->count; i++)
        offered |= run->results[i].offered;
    snprintf(text, room, "%s", mbr_run_mechanism(run)[0] == '\0' ? "" : "allocator");
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if ((offered & names[i].bit) != 0) {
            uint64_t used = strlen(text);
            snprintf(text + used, room - used, "%s%s", used == 0 ? "" : ", ", names[i].name);
        }
}

static void print_finding(const mbr_run *run, const mbr_result *result, FILE *to)
{
    char text[MBR_PAGE_TEXT_BYTES + 128], repro[MBR_PAGE_PATH_BYTES + 128];
    mbr_result_text(result, text, sizeof text);
    mbr_result_repro(run, result, repro, sizeof repro);
    fprintf(to, "%-8s %s  %s\n", mbr_verdict_word(result->verdict), result->check->id,
        result->check->title);
    fprintf(to, "         slot      %s\n", mbr_slot_name(result->slot));
    fprintf(to, "         expected  %s\n",
        result->expected[0] != '\0' ? result->expected : result->check->title);
    fprintf(to, "         observed  %s\n", text);
    fprintf(to, "         rules     %s\n", result->check->rules);
    if (result->output[0] != '\0')
        fprintf(to, "         printed   %.200s\n", result->output);
    fprintf(to, "         again     %s\n", repro);
}

static void print_line(const mbr_result *result, FILE *to)
{
    char text[MBR_PAGE_TEXT_BYTES + 128];
    mbr_result_text(result, text, sizeof text);
    fprintf(to, "%-8s %s  %s\n         %s\n", mbr_verdict_word(result->verdict), result->check->id,
        result->check->title, text);
}

static void print_totals(const mbr_run *run, FILE *to)
{
    const char *separator = "";
    for (int verdict = MBR_VERDICT_PASS; verdict < MBR_VERDICT_COUNT; verdict++)
        if (run->totals[verdict] > 0) {
            fprintf(to, "%s%u %s", separator, run->totals[verdict],
                mbr_verdict_word((mbr_verdict)verdict));
            separator = ", ";
        }
    fprintf(to, "%s in %.1f s, seed %lu\n", run->count == 0 ? "no check ran" : "",
        (double)run->wall_ns / 1e9, run->seed);
}

static void print_judgement(const mbr_run *run, FILE *to)
{
    static const char *const words[] = {"everything that was asked for passed", "findings", "",
        "not a loadable plugin", "incomplete: nothing ran, or something that had to did not",
        "the tool itself failed"};
    char capabilities[128];
    mbr_run_capabilities(run, capabilities, sizeof capabilities);
    if (run->is_conformant)
        fprintf(to, "%s: conformant at level %u for %s\n", run->path, run->level, capabilities);
    else
        fprintf(to, "%s: %s%s%s\n", run->path, words[run->exit_code],
            run->refusal == NULL ? "" : ": ", run->refusal == NULL ? "" : run->refusal);
}

bool mbr_print_human(const mbr_run *run, FILE *to)
{
    uint32_t declared_count = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        const mbr_result *result = &run->results[i];
        bool is_declared =
            result->verdict == MBR_VERDICT_SKIP && mbr_skip_is_declared(result->skip);
        declared_count += is_declared;
        if (mbr_verdict_is_finding(result->verdict))
            print_finding(run, result, to);
        else if (result->verdict != MBR_VERDICT_PASS && !is_declared)
            print_line(result, to);
        else if (result->figures[0] != '\0')
            fprintf(to, "%-8s %s  %s\n", "figures", result->check->id, result->figures);
    }
    if (declared_count > 0)
        fprintf(
            to, "%u skipped because the plugin does not offer what they check\n", declared_count);
    print_totals(run, to);
    print_judgement(run, to);
    return ferror(to) == 0;
}
