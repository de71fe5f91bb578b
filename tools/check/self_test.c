/* The harness judged by itself. Loads no plugin. */
#include "tools/check/self_test.h"

#include "tools/check/trial.h"
#include "tools/check/warden.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TIMEOUT_MS 20000    /* nothing here comes near it */
#define HANG_TIMEOUT_MS 500 /* of those that never end */

static void run_pass(mbr_trial *trial)
{
    (void)trial;
}

static void run_fail(mbr_trial *trial)
{
    MBR_EXPECT(trial, trial == NULL, "a finding", "a finding with %d", 7);
}

static void run_need(mbr_trial *trial)
{
    MBR_NEED(trial, trial == NULL, "a step on the way");
}

static void run_crash(mbr_trial *trial)
{
    trial->page->slot = MBR_SLOT_map;
    kill(getpid(), SIGSEGV);
}

static void run_hang(mbr_trial *trial)
{
    trial->page->slot = MBR_SLOT_wait;
    for (;;)
        pause();
}

static void run_spin(mbr_trial *trial)
{
    signal(SIGTERM, SIG_IGN);
    while (trial->page->phase != MBR_PHASE_END)
        continue;
}

static void run_exit(mbr_trial *trial)
{
    (void)trial;
    _exit(0);
}

static void run_abort(mbr_trial *trial)
{
    (void)trial;
    abort();
}

static void run_print(mbr_trial *trial)
{
    (void)trial;
    printf("printed\n");
    fflush(stdout);
}

/* Two of them, one outside of the group. */
static void run_leave(mbr_trial *trial)
{
    (void)trial;
    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            if (i == 1)
                setsid();
            for (;;)
                pause();
        }
}

static void run_scribble(mbr_trial *trial)
{
    memset(trial->page, 0xFF, sizeof *trial->page);
    _exit(0);
}

#define SELF(number, function, flag)                                                               \
    {                                                                                              \
        "SLF-" number, 1, MBR_STAGE_FILE, 0, "", "the harness names it", "", function, flag, 0     \
    }

static const mbr_check checks[] = {
    SELF("001", run_pass, 0),
    SELF("002", run_fail, 0),
    SELF("003", run_need, 0),
    SELF("004", run_crash, 0),
    SELF("005", run_hang, 0),
    SELF("006", run_spin, 0),
    SELF("007", run_exit, 0),
    SELF("008", run_abort, 0),
    SELF("009", run_print, MBR_CHECK_OUTPUT),
    SELF("010", run_print, 0),
    SELF("011", run_leave, MBR_CHECK_LEFTOVERS),
    SELF("012", run_leave, 0),
    SELF("013", run_scribble, 0),
};

const mbr_group mbr_group_self = MBR_GROUP("SLF", "the harness itself", checks);

static const mbr_verdict wanted[] = {
    MBR_VERDICT_PASS,
    MBR_VERDICT_FAIL,
    MBR_VERDICT_SKIP,
    MBR_VERDICT_CRASH,
    MBR_VERDICT_TIMEOUT,
    MBR_VERDICT_TIMEOUT,
    MBR_VERDICT_ABORT,
    MBR_VERDICT_ABORT,
    MBR_VERDICT_FAIL,
    MBR_VERDICT_WARN,
    MBR_VERDICT_FAIL,
    MBR_VERDICT_WARN,
    MBR_VERDICT_ABORT,
};

_Static_assert(sizeof wanted / sizeof wanted[0] == sizeof checks / sizeof checks[0], "one each");

bool mbr_self_test(void)
{
    bool is_good = true;
    for (uint32_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        char text[MBR_PAGE_TEXT_BYTES + 128];
        mbr_result result = {.check = &checks[i]};
        const mbr_warden_orders orders = {"/proc/self/exe", 0,
            wanted[i] == MBR_VERDICT_TIMEOUT ? HANG_TIMEOUT_MS : TIMEOUT_MS, 1};
        mbr_warden_run(&orders, &result);
        mbr_result_text(&result, text, sizeof text);
        bool is_wanted = result.verdict == wanted[i];
        printf("%s  %s  %s%s%s  %s\n", is_wanted ? "ok  " : "BAD ", checks[i].id,
            mbr_verdict_word(result.verdict), is_wanted ? "" : ", wanted ",
            is_wanted ? "" : mbr_verdict_word(wanted[i]), text);
        is_good = is_good && is_wanted;
    }
    return is_good;
}
