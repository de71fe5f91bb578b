/* libmembrane-seams.so: a plugin's mechanism with the engine before every slot and, by below.h, at
 * every call that it makes itself. With `virtual` = 0 it offers allocations alone; with `dies` = 1
 * a lost device takes its memory along. One more set of books is kept from the slots' outcomes. */
#include "abi/base/error.h"
#include "plugins/common/answer.h"
#include "tests/faults/below.h"
#include "tests/faults/line.h"
#include "tests/faults/rules.h"

#include <stdlib.h>
#include <string.h>

MBR_PLUGIN_NOTE("seams", "membrane tests", MBR_NOTE_UNLOADABLE);

#define OPTION_LIMIT_COUNT 8
#define SHELL_COUNT 16

static struct fault_hooks *hooks;

/* What the host gets as its instance. */
struct shell {
    bool is_used, is_closed;
    bool is_plain; /* without virtual memory */
    bool dies;
    mbr_instance *real;
    void *below;
    struct fault_device device; /* of lines that are moved by hand */
};
static struct shell shells[SHELL_COUNT];

static struct shell *shell_of(mbr_instance *instance)
{
    return (struct shell *)(void *)instance;
}

/* ---- What a fault answers -------------------------------------------------------------------- */

static mbr_status refuse(int kind, void *outcome, uint32_t bytes, mbr_error *error)
{
    static const char nothing[sizeof(mbr_mechanism_description)];
    mbr_answer_write(outcome, nothing, bytes);
    return mbr_fail(error, fault_rules[kind].status, "planned fault, before the effect");
}

static bool is_given_up(int kind)
{
    return kind == FAULT_SLOT(mbr_virtual_vtable, reserve) ||
        kind == FAULT_SLOT(mbr_virtual_vtable, unreserve) ||
        kind == FAULT_SLOT(mbr_virtual_vtable, extent_destroy) ||
        kind == FAULT_SLOT(mbr_virtual_vtable, unmap) ||
        kind == FAULT_SLOT(mbr_allocator_vtable, release) ||
        kind == FAULT_SLOT(mbr_order_vtable, line_open) ||
        kind == FAULT_SLOT(mbr_order_vtable, line_close) ||
        kind == FAULT_SLOT(mbr_transfer_vtable, stream_destroy) ||
        kind == FAULT_SLOT(mbr_plugin_vtable, close);
}

/* Addresses that nobody knows of stay out: another object must not be given them. So an end that is
 * in doubt did not take place there. */
static bool keeps_addresses(int kind)
{
    return kind == FAULT_SLOT(mbr_virtual_vtable, unreserve) ||
        kind == FAULT_SLOT(mbr_allocator_vtable, release);
}

/* It was done, and the answer is a failure: what was made is left, what was ended is in doubt. */
static mbr_status refuse_after(int kind, mbr_outcome *outcome, mbr_error *error)
{
    mbr_outcome told = {.state = MBR_STATE_PARTIAL,
        .address = outcome->address,
        .newly_mapped_bytes = outcome->newly_mapped_bytes,
        .newly_owned_bytes = outcome->newly_owned_bytes,
        .residual_mapped_bytes = outcome->newly_mapped_bytes,
        .residual_owned_bytes = outcome->newly_owned_bytes};
    if (is_given_up(kind))
        told = (mbr_outcome){.state = MBR_STATE_QUARANTINED};
    mbr_answer_write(outcome, &told, sizeof told);
    return mbr_fail(error, fault_rules[kind].status, "planned fault, after the effect");
}

/* Full-size outcomes: the host's port gives no others. */
static void book(const mbr_outcome *outcome)
{
    hooks->owned_bytes += outcome->newly_owned_bytes - outcome->released_bytes;
    hooks->mapped_bytes += outcome->newly_mapped_bytes - outcome->unmapped_bytes;
}

/* Else they are the plugin's own. */
static bool has_lines_by_hand(void)
{
    return fault_below.order == &fault_order;
}

static mbr_instance *of_lines(struct shell *shell)
{
    return has_lines_by_hand() ? (mbr_instance *)(void *)&shell->device : shell->real;
}

/* ---- The real slots -------------------------------------------------------------------------- */

static void purge_shell(struct shell *shell)
{
    fault_below.purge(shell->below);
    shell->is_used = false;
    hooks->instance_count--;
}

static mbr_status real_mechanisms(mbr_instance *none, const mbr_mechanisms_request *request,
    mbr_mechanism_description *outcome, mbr_error *error)
{
    return fault_below.plugin->mechanisms(none, request, outcome, error);
}

/* Options of this plugin are taken out of the list. */
static void take_options(
    struct shell *shell, const mbr_open_request *request, mbr_option *rest, uint32_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < request->option_count && i < OPTION_LIMIT_COUNT; i++) {
        if (strcmp(request->options[i].key, "virtual") == 0)
            shell->is_plain = request->options[i].value[0] == '0';
        else if (strcmp(request->options[i].key, "dies") == 0)
            shell->dies = request->options[i].value[0] == '1';
        else
            rest[(*count)++] = request->options[i];
    }
}

static mbr_status real_open(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    (void)none;
    struct shell *shell = shells;
    while (shell < shells + SHELL_COUNT && shell->is_used)
        shell++;
    if (shell == shells + SHELL_COUNT)
        abort();
    memset(shell, 0, sizeof *shell);
    mbr_option options[OPTION_LIMIT_COUNT];
    mbr_open_request passed = *request;
    passed.options = options;
    take_options(shell, request, options, &passed.option_count);
    mbr_status status = fault_below.open(&passed, outcome, &shell->below, error);
    if (status != MBR_OK)
        return status;
    shell->is_used = true;
    shell->real = outcome->instance;
    outcome->instance = (mbr_instance *)(void *)shell;
    hooks->instance_count++;
    return MBR_OK;
}

static mbr_status real_close(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    struct shell *shell = shell_of(instance);
    if (!shell->is_closed && !(hooks->is_lost && shell->dies)) {
        mbr_status status = fault_below.plugin->close(shell->real, request, outcome, error);
        if (status != MBR_OK)
            return status;
    }
    mbr_answer_write(outcome, &(mbr_outcome){.state = MBR_STATE_DONE}, sizeof *outcome);
    shell->is_closed = true;
    return MBR_OK;
}

static mbr_status real_report(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    struct shell *shell = shell_of(instance);
    if (shell->is_closed || (hooks->has_ended && shell->dies)) {
        mbr_answer_write(outcome, &(mbr_report){0}, sizeof(mbr_report));
        return MBR_OK;
    }
    mbr_status status = fault_below.plugin->report(shell->real, request, outcome, error);
    if (status == MBR_OK && has_lines_by_hand())
        outcome->line_count = fault_device_line_count(&shell->device);
    return status;
}

static mbr_status real_quiesce(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    return fault_below.plugin->quiesce(shell_of(instance)->real, request, outcome, error);
}

static mbr_status real_capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *outcome, mbr_error *error);

static const mbr_plugin_vtable real_plugin = {
    .mechanisms = real_mechanisms,
    .open = real_open,
    .capability = real_capability,
    .close = real_close,
    .report = real_report,
    .quiesce = real_quiesce,
};

/* ---- The slots that the host calls ----------------------------------------------------------- */

#define REAL_mbr_plugin_vtable real_plugin
#define REAL_mbr_allocator_vtable (*fault_below.allocator)
#define REAL_mbr_virtual_vtable (*fault_below.virtual_)
#define REAL_mbr_shared_vtable (*fault_below.shared)
#define REAL_mbr_order_vtable (*fault_below.order)
#define REAL_mbr_transfer_vtable (*fault_below.transfer)
#define TARGET_mbr_plugin_vtable(shell) (mbr_instance *)(void *)(shell)
#define TARGET_mbr_allocator_vtable(shell) (shell)->real
#define TARGET_mbr_virtual_vtable(shell) (shell)->real
#define TARGET_mbr_shared_vtable(shell) (shell)->real
#define TARGET_mbr_order_vtable(shell) of_lines(shell)
#define TARGET_mbr_transfer_vtable(shell) of_lines(shell)
#define AFTER_mbr_outcome(kind, outcome) book_and_judge(kind, verdict, status, outcome, error)
#define AFTER_mbr_mechanism_description(kind, outcome) status
#define AFTER_mbr_open_outcome(kind, outcome) status
#define AFTER_mbr_capability_outcome(kind, outcome) status
#define AFTER_mbr_report(kind, outcome) status
#define AFTER_mbr_fact_outcome(kind, outcome) status
#define AFTER_mbr_mechanism_stats(kind, outcome) status
#define AFTER_mbr_query_outcome(kind, outcome) status
#define AFTER_mbr_stream_create_outcome(kind, outcome) status

static bool is_dead(int kind, const struct shell *shell)
{
    bool is_memory = kind >= FAULT_SLOT(mbr_allocator_vtable, fact) &&
        kind <= FAULT_SLOT(mbr_shared_vtable, map_shared);
    if (!is_memory || !hooks->is_lost || !shell->dies)
        return false;
    hooks->late_calls += kind != FAULT_SLOT(mbr_allocator_vtable, stats);
    return true;
}

static mbr_status book_and_judge(
    int kind, enum fault_verdict verdict, mbr_status status, mbr_outcome *outcome, mbr_error *error)
{
    book(outcome);
    return verdict == FAULT_AFTER && status == MBR_OK ? refuse_after(kind, outcome, error) : status;
}

#define PASS(table, slot, request_type, outcome_type, minor, serial)                               \
    static mbr_status pass_##table##_##slot(mbr_instance *instance, const request_type *request,   \
        outcome_type *outcome, mbr_error *error)                                                   \
    {                                                                                              \
        const int kind = FAULT_SLOT(table, slot);                                                  \
        struct shell *shell = shell_of(instance);                                                  \
        enum fault_verdict verdict = hooks->meet(kind, fault_rules[kind].has_after);               \
        if (verdict == FAULT_BEFORE)                                                               \
            return refuse(kind, outcome, sizeof *outcome, error);                                  \
        if (is_dead(kind, shell)) {                                                                \
            refuse(kind, outcome, sizeof *outcome, error);                                         \
            return mbr_fail(error, MBR_DEVICE_LOST, "the device is lost");                         \
        }                                                                                          \
        mbr_status status = verdict == FAULT_AFTER && keeps_addresses(kind)                        \
            ? MBR_OK                                                                               \
            : REAL_##table.slot(TARGET_##table(shell), request, outcome, error);                   \
        return AFTER_##outcome_type(kind, outcome);                                                \
    }
FAULT_ALL_SLOTS(PASS)

#define SLOT(table, slot, request_type, outcome_type, minor, serial) .slot = pass_##table##_##slot,
#define TABLE(type, kind_, slots)                                                                  \
    static const type pass_##type = {                                                              \
        MBR_SIZED(type), .kind = kind_, .minor = MBR_MINOR_0, slots(SLOT)};
TABLE(mbr_allocator_vtable, MBR_KIND_ALLOCATOR, MBR_SLOTS_ALLOCATOR_VTABLE)
TABLE(mbr_virtual_vtable, MBR_KIND_VIRTUAL, MBR_SLOTS_VIRTUAL_VTABLE)
TABLE(mbr_shared_vtable, MBR_KIND_SHARED, MBR_SLOTS_SHARED_VTABLE)
TABLE(mbr_order_vtable, MBR_KIND_ORDER, MBR_SLOTS_ORDER_VTABLE)
TABLE(mbr_transfer_vtable, MBR_KIND_TRANSFER, MBR_SLOTS_TRANSFER_VTABLE)

/* Whether memory outlives a lost context is the one fact that is not the host plugin's. */
static mbr_status fact(mbr_instance *instance, const mbr_fact_request *request,
    mbr_fact_outcome *outcome, mbr_error *error)
{
    mbr_status status = pass_mbr_allocator_vtable_fact(instance, request, outcome, error);
    if (status == MBR_OK && request->fact == MBR_FACT_RELEASABLE_AFTER_LOSS &&
        shell_of(instance)->dies)
        outcome->value = 0;
    return status;
}

static mbr_allocator_vtable allocator;

static mbr_status real_capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *outcome, mbr_error *error)
{
    const struct mbr_answer_table tables[] = {
        {MBR_ID_ALLOCATOR, &allocator},
        {MBR_ID_ORDER, &pass_mbr_order_vtable},
        {MBR_ID_TRANSFER, &pass_mbr_transfer_vtable},
        {MBR_ID_VIRTUAL, &pass_mbr_virtual_vtable},
        {MBR_ID_SHARED, &pass_mbr_shared_vtable},
    };
    mbr_capability_outcome answer = {0};
    mbr_status status = mbr_answer_capability(
        tables, shell_of(instance)->is_plain ? 3 : 5, request, &answer, error);
    mbr_answer_write(outcome, &answer, sizeof answer);
    return status;
}

/* ---- What the test calls --------------------------------------------------------------------- */

static void run_streams(void)
{
    fault_below.run();
    for (uint32_t i = 0; i < SHELL_COUNT; i++)
        fault_device_run(&shells[i].device);
}

static void purge(void)
{
    for (uint32_t i = 0; i < SHELL_COUNT; i++)
        if (shells[i].is_used)
            purge_shell(&shells[i]);
    fault_below.purge_rest();
}

/* An instance that is closed for the host is the purge's until then: a second close of one whose
 * first was answered with a failure finds it. */
static mbr_status close_shell(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = pass_mbr_plugin_vtable_close(instance, request, outcome, error);
    if (status == MBR_OK)
        purge_shell(shell_of(instance));
    return status;
}

static mbr_plugin_vtable plugin = {MBR_SIZED(mbr_plugin_vtable), .kind = MBR_KIND_PLUGIN,
    .minor = MBR_MINOR_0, .name = "seams", .version = "1.0", MBR_SLOTS_PLUGIN_VTABLE(SLOT)};

MBR_EXPORT mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    const char *place = getenv(FAULT_HOOKS_VARIABLE);
    if (place == NULL)
        return mbr_fail(error, MBR_NO_DEVICE, "%s is not set", FAULT_HOOKS_VARIABLE);
    hooks = (struct fault_hooks *)(uintptr_t)strtoull(place, NULL, 16);
    fault_below.start(hooks);
    hooks->run_streams = run_streams;
    hooks->purge = purge;
    hooks->left = fault_below.left;
    hooks->stream = fault_below.stream;
    hooks->view = fault_below.view;
    hooks->tier = fault_below.tier;
    hooks->first_kind = fault_below.first_kind;
    hooks->last_kind = fault_below.last_kind;
    allocator = pass_mbr_allocator_vtable;
    allocator.fact = fact;
    plugin.close = close_shell;
    return mbr_answer_hello(&plugin, hello, reply, error);
}
