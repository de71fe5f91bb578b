/* libmembrane-bad.so: the entry, and the tables that faults are put into. */
#include "tests/badplugins/bad.h"

#include "plugins/common/answer.h"
#include "plugins/host/core.h"
#include "tests/badplugins/good_order.h"

#include <pthread.h>
#include <string.h>

#define BAD_NAME "bad"

MBR_PLUGIN_NOTE(BAD_NAME, "membrane tests", MBR_NOTE_UNLOADABLE);

/* Each is one of the names that the linker chooses from (bad_plugin.bzl): twice the same where
 * there is one fault, "none" where there is none. */
extern const char bad_fault[], bad_second_fault[];

struct bad_tables bad;
static struct bad_tables good;
const struct bad_tables *bad_good = &good;

bool bad_is(const char *fault)
{
    return strcmp(bad_fault, fault) == 0 || strcmp(bad_second_fault, fault) == 0;
}

bool bad_is_any(const char *const *faults)
{
    for (; *faults != NULL; faults++)
        if (bad_is(*faults))
            return true;
    return false;
}

bool bad_is_hostile(void)
{
    return strncmp(bad_fault, "hostile_", 8) == 0;
}

static mbr_status find_more(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *answer, mbr_error *error)
{
    (void)instance;
    const struct mbr_answer_table tables[] = {
        {MBR_ID_ORDER, &bad.order},
        {MBR_ID_TRANSFER, &bad.transfer},
    };
    return mbr_answer_capability(tables, 2, request, answer, error);
}

MBR_ANSWER_TELL(static, more_capability, find_more, mbr_capability_request, mbr_capability_outcome)

static mbr_status capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *outcome, mbr_error *error)
{
    /* No error at first: it is written on failure only. */
    mbr_status status = MBR_UNSUPPORTED;
    if (bad.has_order)
        status = more_capability(instance, request, outcome, NULL);
    if (status != MBR_OK)
        status = mbr_host_plugin.capability(instance, request, outcome, error);
    if (status != MBR_OK || !MBR_HAS(mbr_capability_outcome, outcome, table))
        return status;
    const mbr_vtable_head *table = NULL;
    if (outcome->table->kind == MBR_KIND_ALLOCATOR)
        table = (const mbr_vtable_head *)&bad.allocator;
    if (outcome->table->kind == MBR_KIND_VIRTUAL && bad.has_virtual)
        table = (const mbr_vtable_head *)&bad.virtual_;
    if (outcome->table->kind == MBR_KIND_SHARED && bad.has_shared)
        table = (const mbr_vtable_head *)&bad.shared;
    if (outcome->table->kind == MBR_KIND_ORDER || outcome->table->kind == MBR_KIND_TRANSFER)
        table = outcome->table;
    outcome->table = table;
    return table != NULL ? MBR_OK : MBR_UNSUPPORTED;
}

static mbr_status entry(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    return mbr_answer_hello(&bad.plugin, hello, reply, error);
}

static void install(void)
{
    good = (struct bad_tables){
        .entry = entry,
        .plugin = mbr_host_plugin,
        .allocator = mbr_host_allocator,
        .virtual_ = mbr_host_virtual,
        .shared = mbr_host_shared,
        .order = good_order,
        .transfer = good_transfer,
        .has_virtual = true,
        .has_shared = true,
        .has_order = true,
    };
    good.plugin.name = BAD_NAME;
    good.plugin.capability = capability;
    good.plugin.close = good_close;
    good.plugin.report = good_report;
    good.plugin.quiesce = good_quiesce;
    bad = good;
    bad_install_opn();
    bad_install_alc();
    bad_install_alc_release();
    bad_install_ord();
    bad_install_trf();
    bad_install_thr();
    bad_install_vir();
    bad_install_shr();
    bad_install_err();
    bad_install_unw();
    bad_install_flt();
    bad_install_env();
    bad_install_lif();
    bad_install_log();
    bad_install_prf();
    bad_install_device();
    bad_guard(); /* behind it: what is about tables and not about calls */
    bad_install_hostile();
    bad_install_neg();
    bad_install_vtb();
}

MBR_EXPORT mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    return bad.entry(hello, reply, error);
}
