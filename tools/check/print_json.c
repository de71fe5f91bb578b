/* The report as one JSON object. */
#include "tools/check/print.h"
#include "tools/check/slot.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

static json_t *finding_json(const mbr_run *run, const mbr_result *result)
{
    char text[MBR_PAGE_TEXT_BYTES + 128], repro[MBR_PAGE_PATH_BYTES + 128];
    mbr_result_text(result, text, sizeof text);
    mbr_result_repro(run, result, repro, sizeof repro);
    return json_pack("{s:s,s:s,s:i,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:s}", "id", result->check->id,
        "verdict", mbr_verdict_word(result->verdict), "level", (int)result->check->level, "title",
        result->check->title, "rules", result->check->rules, "slot", mbr_slot_name(result->slot),
        "phase", mbr_phase_word(result->phase), "expected",
        result->expected[0] != '\0' ? result->expected : result->check->title, "observed", text,
        "repro", repro, "wall_ms", (json_int_t)(result->wall_ns / 1000000), "output",
        result->output);
}

static json_t *skip_json(const mbr_result *result)
{
    return json_pack("{s:s,s:s,s:b,s:s}", "id", result->check->id, "reason",
        mbr_skip_word(result->skip), "declared", mbr_skip_is_declared(result->skip), "text",
        result->observed);
}

static json_t *totals_json(const mbr_run *run)
{
    json_t *totals = json_pack("{s:i}", "checks", (int)run->count);
    for (int verdict = MBR_VERDICT_PASS; verdict < MBR_VERDICT_COUNT; verdict++) {
        char key[16] = "";
        const char *word = mbr_verdict_word((mbr_verdict)verdict);
        for (uint32_t i = 0; word[i] != '\0' && i < sizeof key - 1; i++)
            key[i] = (char)tolower((unsigned char)word[i]);
        json_object_set_new(totals, key, json_integer(run->totals[verdict]));
    }
    return totals;
}

/* The results that `wanted` chooses, as `make` writes them. */
static json_t *skips_json(const mbr_run *run)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < run->count; i++)
        if (run->results[i].verdict == MBR_VERDICT_SKIP)
            json_array_append_new(list, skip_json(&run->results[i]));
    return list;
}

static json_t *results_json(const mbr_run *run, bool findings)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < run->count; i++) {
        mbr_verdict verdict = run->results[i].verdict;
        bool is_noted = verdict == MBR_VERDICT_WARN || verdict == MBR_VERDICT_WAIVED ||
            verdict == MBR_VERDICT_RESOURCE || verdict == MBR_VERDICT_TOOL;
        if (findings ? mbr_verdict_is_finding(verdict) : is_noted)
            json_array_append_new(list, finding_json(run, &run->results[i]));
    }
    return list;
}

static json_t *figures_json(const mbr_run *run)
{
    json_t *object = json_object();
    for (uint32_t i = 0; i < run->count; i++)
        if (run->results[i].figures[0] != '\0')
            json_object_set_new(
                object, run->results[i].check->id, json_string(run->results[i].figures));
    return object;
}

static json_t *capabilities_json(const mbr_run *run)
{
    char text[128], *rest = text, *name;
    json_t *list = json_array();
    mbr_run_capabilities(run, text, sizeof text);
    while ((name = strsep(&rest, ",")) != NULL)
        if (*name != '\0')
            json_array_append_new(list, json_string(name + strspn(name, " ")));
    return list;
}

bool mbr_print_json(const mbr_run *run, FILE *to)
{
    json_t *root = json_pack("{s:s,s:s,s:i,s:b,s:b,s:i,s:s,s:o,s:I,s:I,s:o,s:o,s:o,s:o,s:o}",
        "plugin", run->path, "sha256", run->sha256, "level", (int)run->level, "conformant",
        run->is_conformant, "partial", run->is_partial, "exit_code", run->exit_code, "mechanism",
        mbr_run_mechanism(run), "capabilities", capabilities_json(run), "seed",
        (json_int_t)run->seed, "wall_ms", (json_int_t)(run->wall_ns / 1000000), "totals",
        totals_json(run), "findings", results_json(run, true), "notes", results_json(run, false),
        "skips", skips_json(run), "figures", figures_json(run));
    if (root != NULL && run->refusal != NULL)
        json_object_set_new(root, "refusal", json_string(run->refusal));
    bool is_written =
        root != NULL && json_dumpf(root, to, JSON_INDENT(2)) == 0 && fputc('\n', to) != EOF;
    json_decref(root);
    return is_written;
}
