/* The program membrane-check: reads the command line, lets the runner run, prints one report. Never
 * loads a plugin, except with --in-process. */
#include "tools/check/child.h"
#include "tools/check/contract.h"
#include "tools/check/file.h"
#include "tools/check/print.h"
#include "tools/check/runner.h"
#include "tools/check/self_test.h"
#include "tools/check/waivers.h"
#include "tools/cli/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int fail(int code, const char *what, const char *detail)
{
    fprintf(stderr, "membrane-check: %s%s%s\n", what, *detail == '\0' ? "" : ": ", detail);
    return code;
}

static const mbr_group *group_of(const mbr_check *check)
{
    for (uint32_t i = 0; i < mbr_group_count; i++)
        if (strncmp(check->id, mbr_groups[i]->name, strlen(mbr_groups[i]->name)) == 0)
            return mbr_groups[i];
    return NULL;
}

static bool list_one(void *context, const mbr_check *check)
{
    const mbr_check_options *options = context;
    if (options->only_count + options->skip_count == 0 || mbr_check_options_choose(options, check))
        printf("%s  level %u  group %s  rules %s  %s\n", check->id, check->level,
            group_of(check)->name, check->rules, check->title);
    return true;
}

static void explain_check(const mbr_check *check, const mbr_group *group)
{
    printf("%s: %s\n\ngroup    %s, %s\nlevel    %u\nstage    %s\nrules    %s\n\n", check->id,
        check->title, group->name, group->title, check->level, mbr_stage_word(check->stage),
        check->rules);
    for (uint32_t i = 0; i < mbr_rule_count; i++)
        if (mbr_rules_name(check->rules, mbr_rules[i].number))
            mbr_rule_print(&mbr_rules[i], stdout);
    printf("\n%s\n", check->why);
}

/* A check's id, or a rule's as a finding prints it. */
static int explain(const char *id)
{
    const mbr_check *check = mbr_check_find(id);
    const mbr_rule *rule = check == NULL ? mbr_rule_find(id) : NULL;
    const mbr_group *group = check == NULL ? NULL : group_of(check);
    if (group != NULL)
        explain_check(check, group);
    else if (rule != NULL)
        mbr_rule_print(rule, stdout);
    else
        return fail(MBR_CHECK_EXIT_USAGE, "no check or rule of that id; --list lists them", id);
    return MBR_CHECK_EXIT_CONFORMANT;
}

/* ---- In this process ------------------------------------------------------------------------- */

static void end_in_process(mbr_trial *trial)
{
    const mbr_page *page = trial->page;
    fflush(stdout);
    if (page->verdict == MBR_VERDICT_SKIP && page->skip == MBR_SKIP_NO_MECHANISM)
        _exit(fail(MBR_CHECK_EXIT_USAGE, page->observed, ""));
    fprintf(stderr, "%s %s, slot %s\n  expected  %s\n  observed  %s\n",
        mbr_verdict_word(page->verdict), trial->check->id, mbr_slot_name(page->slot),
        page->expected, page->observed);
    _exit(page->verdict == MBR_VERDICT_PASS ? MBR_CHECK_EXIT_CONFORMANT : MBR_CHECK_EXIT_FINDINGS);
}

static void run_in_process(const mbr_check_options *options, const char *path)
{
    static mbr_page page;
    snprintf(page.id, sizeof page.id, "%s", options->repro->id);
    snprintf(page.path, sizeof page.path, "%s", path);
    page.seed = options->seed;
    page.device_index = options->device_index;
    page.timeout_ms = options->timeout_ms;
    mbr_child_run(&page, end_in_process);
}

/* ---- A run ----------------------------------------------------------------------------------- */

static int report(const mbr_check_options *options, const mbr_run *run)
{
    static bool (*const printers[])(const mbr_run *, FILE *) = {
        [MBR_FORMAT_HUMAN] = mbr_print_human,
        [MBR_FORMAT_TAP] = mbr_print_tap,
        [MBR_FORMAT_JUNIT] = mbr_print_junit,
        [MBR_FORMAT_JSON] = mbr_print_json,
    };
    FILE *to = options->output == NULL ? stdout : fopen(options->output, "we");
    if (to == NULL)
        return fail(MBR_CHECK_EXIT_TOOL, options->output, strerror(errno));
    bool is_written = printers[options->format](run, to);
    is_written = fflush(to) == 0 && is_written;
    if (to != stdout)
        is_written = fclose(to) == 0 && is_written;
    if (!is_written)
        return fail(MBR_CHECK_EXIT_TOOL, "the report cannot be written", strerror(errno));
    return run->exit_code;
}

static int run_checks(const mbr_check_options *options)
{
    static mbr_file file;
    static char shown[MBR_FILE_PATH_BYTES];
    char text[256];
    mbr_text_printable(shown, sizeof shown, options->plugin);
    mbr_run run = {
        .path = shown,
        .level = options->level,
        .seed = options->seed,
        .device_index = options->device_index,
        .is_partial = options->only_count + options->skip_count > 0 || options->repro != NULL,
    };
    if (options->waivers != NULL && !mbr_waivers_apply(options->waivers, NULL, text, sizeof text))
        return fail(MBR_CHECK_EXIT_USAGE, text, "");
    if (!mbr_file_look(options->plugin, &file))
        run.refusal = file.refusal;
    memcpy(run.sha256, file.sha256, sizeof run.sha256);
    if (run.refusal == NULL && options->in_process)
        run_in_process(options, file.path);
    if (run.refusal == NULL) {
        if (!mbr_runner_plan(options, &run))
            return fail(MBR_CHECK_EXIT_TOOL, "no memory for the results", strerror(errno));
        mbr_runner_run(options, file.path, &run);
        if (mbr_run_no_mechanism(&run) != NULL)
            return fail(MBR_CHECK_EXIT_USAGE, mbr_run_no_mechanism(&run), "");
    }
    if (options->waivers != NULL && !mbr_waivers_apply(options->waivers, &run, text, sizeof text))
        return fail(MBR_CHECK_EXIT_USAGE, text, "");
    mbr_run_judge(&run);
    return report(options, &run);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], MBR_CHILD_ARGUMENT) == 0)
        mbr_child_main();
    mbr_check_options options;
    int exit_code;
    if (!mbr_check_options_read(&options, argc, argv, &exit_code))
        return exit_code;
    if (options.explain != NULL)
        return explain(options.explain);
    if (options.contract)
        return mbr_contract_print(stdout) ? MBR_CHECK_EXIT_CONFORMANT : MBR_CHECK_EXIT_TOOL;
    if (options.self_test)
        return mbr_self_test() ? MBR_CHECK_EXIT_CONFORMANT : MBR_CHECK_EXIT_TOOL;
    if (options.list) {
        mbr_check_each(list_one, &options);
        return fflush(stdout) == 0 ? MBR_CHECK_EXIT_CONFORMANT : MBR_CHECK_EXIT_TOOL;
    }
    return run_checks(&options);
}
