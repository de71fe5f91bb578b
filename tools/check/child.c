/* Runs one check in this process: limits, stages, the check, the word that it passed. Never judges.
 */
#include "tools/check/child.h"

#include "tools/check/trial.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1 /* its shadow memory needs more than any limit allows */
#else
#define IS_SANITIZED 0
#endif

#define FILES_MAX 4096

static void limit(__rlimit_resource_t resource, rlim_t value)
{
    struct rlimit now;
    if (getrlimit(resource, &now) != 0)
        return;
    if (now.rlim_max != RLIM_INFINITY && now.rlim_max < value)
        value = now.rlim_max;
    now.rlim_cur = value;
    setrlimit(resource, &now);
}

/* Safety of this machine, not rules: a plugin that takes everything gets a refusal here. */
static void set_limits(const mbr_page *page)
{
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_NOFILE, FILES_MAX);
    limit(RLIMIT_CPU, page->timeout_ms / 1000 * 4 + 4);
    limit(RLIMIT_FSIZE, MBR_CHILD_FILE_MAX_BYTES);
    if (!IS_SANITIZED)
        limit(RLIMIT_DATA, MBR_CHILD_DATA_MAX_BYTES);
}

static void begin(mbr_trial *trial, mbr_page *page, void (*end)(mbr_trial *))
{
    memset(trial, 0, sizeof *trial);
    trial->page = page;
    trial->end = end;
    trial->check = mbr_check_find(page->id);
    trial->random_state = page->seed ^ XXH64(page->id, strlen(page->id), 0);
    trial->next_id = 1000;
    page->slot = MBR_SLOT_COUNT;
    page->finding_slot = MBR_SLOT_COUNT;
    if (trial->check == NULL)
        mbr_trial_give_up(trial, MBR_VERDICT_TOOL, "no check is called '%s'", page->id);
}

static void skip_unless_offered(mbr_trial *trial)
{
    static const struct {
        uint32_t bit;
        mbr_skip reason;
        const char *what;
    } needs[] = {
        {MBR_NEEDS_VIRTUAL, MBR_SKIP_NOT_OFFERED, MBR_ID_VIRTUAL},
        {MBR_NEEDS_SHARED, MBR_SKIP_NOT_OFFERED, MBR_ID_SHARED},
        {MBR_NEEDS_ORDER, MBR_SKIP_NOT_OFFERED, MBR_ID_ORDER},
        {MBR_NEEDS_TRANSFER, MBR_SKIP_NOT_OFFERED, MBR_ID_TRANSFER},
        {MBR_NEEDS_HOST_ACCESS, MBR_SKIP_FACT, "MBR_FACT_HOST_ACCESSIBLE is not 1"},
        {MBR_NEEDS_READ_ONLY, MBR_SKIP_FACT, "MBR_FACT_READ_ONLY_ENFORCED is not 1"},
        {MBR_NEEDS_FORK_SAFE, MBR_SKIP_FACT, "MBR_FACT_FORK_SAFE is not 1"},
        {MBR_NEEDS_HOST_ORACLE, MBR_SKIP_FACT, "the domain is not host memory"},
    };
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        if ((trial->check->needs & needs[i].bit) != 0 &&
            (trial->subject.offered & needs[i].bit) == 0)
            mbr_trial_skip(trial, needs[i].reason, "%s", needs[i].what);
}

static void close_subject(mbr_trial *trial)
{
    trial->page->phase = MBR_PHASE_CLOSE;
    mbr_need_ok(trial, mbr_subject_close(trial, &trial->subject), "close");
}

void mbr_child_run(mbr_page *page, void (*end)(mbr_trial *))
{
    static mbr_trial trial;
    begin(&trial, page, end);
    mbr_stage_enter(&trial, trial.check->stage);
    if (trial.check->stage >= MBR_STAGE_OPENED)
        skip_unless_offered(&trial);
    trial.check->run(&trial);
    if ((trial.check->flags & MBR_CHECK_CLOSES) != 0)
        close_subject(&trial);
    page->phase = MBR_PHASE_END;
    mbr_trial_give_up(&trial, MBR_VERDICT_PASS, "%s", "");
}

/* No destructor runs: what a plugin does at exit is a matter of its own checks. */
static void end_process(mbr_trial *trial)
{
    (void)trial;
    _exit(0);
}

void mbr_child_main(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mbr_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, MBR_PAGE_FD, 0);
    if (page == MAP_FAILED)
        _exit(1);
    close(MBR_PAGE_FD);
    set_limits(page);
    mbr_child_run(page, end_process);
}
