/* Faults of errors and outcomes (group ERR). Most are in one refusal, of a release of an unknown
 * id. */
#include "tests/badplugins/bad_alc.h"

#include "abi/base/error.h"

#include <stddef.h>
#include <string.h>

/* ---- A refused release ----------------------------------------------------------------------- */

typedef mbr_status (*spoil)(mbr_status status, mbr_outcome *outcome, mbr_error *error);

static mbr_status spoil_text(mbr_status status, mbr_outcome *outcome, mbr_error *error)
{
    (void)outcome;
    if (error != NULL && error->struct_size >= sizeof *error)
        memset(error->text, 'x', sizeof error->text);
    return status;
}

static mbr_status spoil_cut_text(mbr_status status, mbr_outcome *outcome, mbr_error *error)
{
    const uint32_t start = offsetof(mbr_error, text);
    (void)outcome;
    if (error != NULL && error->struct_size > start && error->struct_size < sizeof *error)
        memset(error->text, 'x', error->struct_size - start);
    return status;
}

static mbr_status spoil_error_status(mbr_status status, mbr_outcome *outcome, mbr_error *error)
{
    (void)outcome;
    if (error != NULL && MBR_HAS(mbr_error, error, status))
        error->status = MBR_INTERNAL;
    return status;
}

static mbr_status spoil_asked(mbr_status status, mbr_outcome *outcome, mbr_error *error)
{
    (void)outcome;
    if (error != NULL && MBR_HAS(mbr_error, error, asked_bytes))
        error->asked_bytes = 4096;
    return status;
}

static mbr_status spoil_state(mbr_status status, mbr_outcome *outcome, mbr_error *error)
{
    (void)error;
    outcome->state = MBR_STATE_DONE;
    return status;
}

static const struct {
    const char *fault;
    spoil after;
} spoils[] = {
    {"unterminated_message", spoil_text},
    {"cut_message_unterminated", spoil_cut_text},
    {"other_status_in_error", spoil_error_status},
    {"asked_bytes_of_no_question", spoil_asked},
    {"done_with_failure", spoil_state},
};

static spoil spoil_now;

static mbr_status release_refused(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_give(instance, request, outcome, error);
    return status == MBR_UNKNOWN_OBJECT ? spoil_now(status, outcome, error) : status;
}

/* ---- Calls that are left as they were, or not ------------------------------------------------ */

static mbr_status release_unsaid(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_outcome own = {MBR_SIZED(mbr_outcome)};
    if (bad_is("error_left_on_failure"))
        return bad_give(instance, request, outcome, NULL);
    mbr_status status = bad_give(instance, request, &own, error);
    if (status == MBR_OK)
        *outcome = own;
    return status;
}

static mbr_status release_misnamed(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_give(instance, request, outcome, error);
    if (status != MBR_UNKNOWN_OBJECT || request->address != 0)
        return status;
    return mbr_fail(error, MBR_INVALID_ARGUMENT, "address 0");
}

static mbr_status trim_talks(
    mbr_instance *instance, const mbr_trim_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->allocator.trim(instance, request, outcome, error);
    if (status == MBR_OK)
        mbr_fail(error, MBR_OK, "all is well");
    return status;
}

static mbr_status close_by_errno(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->plugin.close(instance, request, outcome, error);
    return status == MBR_IN_USE ? mbr_fail(error, -16, "EBUSY") : status;
}

static mbr_status stats_reserved(mbr_instance *instance, const mbr_stats_request *request,
    mbr_mechanism_stats *outcome, mbr_error *error)
{
    mbr_status status = bad_good->allocator.stats(instance, request, outcome, error);
    if (status == MBR_OK)
        outcome->reserved_0 = 1;
    return status;
}

/* ---- Refusals of allocate -------------------------------------------------------------------- */

static mbr_status allocate_refused(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    (void)bad_grant(instance, request, outcome, error, &status);
    if (status == MBR_OVER_BUDGET && bad_is("figures_on_failure"))
        outcome->newly_owned_bytes = request->bytes;
    if (status == MBR_OVER_BUDGET && bad_is("free_above_asked") && error != NULL &&
        MBR_HAS(mbr_error, error, free_bytes))
        error->free_bytes = UINT64_MAX;
    if (status == MBR_OVER_BUDGET && bad_is("asked_bytes_unrounded") && error != NULL &&
        MBR_HAS(mbr_error, error, asked_bytes))
        error->asked_bytes = request->bytes;
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED && request->bytes >> 50 != 0 &&
        bad_is("too_large_is_callers_bug"))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "no machine has that much");
    if (status == MBR_OVER_BUDGET && bad_is("wrong_error_class"))
        return mbr_fail(error, MBR_INTERNAL, "over the budget");
    if (status == MBR_INVALID_ARGUMENT && request->bytes == 0 && bad_is("size_zero_misnamed"))
        return mbr_fail(error, MBR_OVERFLOW, "size 0 has no last byte");
    if (status == MBR_UNSUPPORTED && bad_is("flag_misnamed"))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "flags 0x%x", request->flags);
    return status;
}

void bad_install_err(void)
{
    static const char *const allocating[] = {"figures_on_failure", "free_above_asked",
        "asked_bytes_unrounded", "too_large_is_callers_bug", "wrong_error_class",
        "size_zero_misnamed", "flag_misnamed"};
    for (size_t i = 0; i < sizeof spoils / sizeof spoils[0]; i++)
        if (bad_is(spoils[i].fault)) {
            spoil_now = spoils[i].after;
            bad.allocator.release = release_refused;
        }
    for (size_t i = 0; i < sizeof allocating / sizeof allocating[0]; i++)
        if (bad_is(allocating[i]))
            bad.allocator.allocate = allocate_refused;
    if (bad_is("error_left_on_failure") || bad_is("outcome_left_on_failure"))
        bad.allocator.release = release_unsaid;
    if (bad_is("unknown_object_misnamed"))
        bad.allocator.release = release_misnamed;
    if (bad_is("error_written_on_success"))
        bad.allocator.trim = trim_talks;
    if (bad_is("status_of_no_class"))
        bad.plugin.close = close_by_errno;
    if (bad_is("reserved_of_stats_nonzero"))
        bad.allocator.stats = stats_reserved;
}
