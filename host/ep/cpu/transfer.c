/* Responsible for the `transfer` capability of the CPU EP: reading requests by the rules of the
 * contract and answering in outcomes. Never keeps state of its own. */
#include "host/ep/cpu/answer.h"
#include "host/ep/cpu/internal.h"

#include <inttypes.h>

static mbr_status stream_create(mbr_instance *instance, const mbr_stream_create_request *request,
    mbr_stream_create_outcome *outcome, mbr_error *error)
{
    if (outcome != NULL)
        mbr_cpu_answer_clear(outcome, outcome->struct_size, sizeof *outcome);
    if (request == NULL || outcome == NULL)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 0, "%s is NULL",
            request == NULL ? "the request" : "the outcome");
    /* A stream that its creator cannot see could never be destroyed. */
    if (!MBR_HAS(mbr_stream_create_outcome, outcome, stream))
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 0,
            "an outcome of %" PRIu32 " bytes has no room for the stream", outcome->struct_size);
    uint32_t flags = MBR_HAS(mbr_stream_create_request, request, flags) ? request->flags : 0;
    if ((flags & MBR_CPU_CRITICAL_FLAGS) != 0)
        return mbr_fail_argument(error, MBR_UNSUPPORTED, 1,
            "flags %#" PRIx32 ": no critical flag is defined for stream_create", flags);
    return mbr_cpu_stream_create(mbr_cpu_of(instance), &outcome->stream, error);
}

static mbr_status stream_destroy(mbr_instance *instance, const mbr_stream_destroy_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = mbr_cpu_answer_begin(request, outcome, error);
    if (status != MBR_OK)
        return status;
    mbr_stream_destroy_request asked = {0};
    MBR_CPU_TAKE(mbr_stream_destroy_request, asked, request, stream);
    status = mbr_cpu_stream_destroy(mbr_cpu_of(instance), asked.stream, error);
    return mbr_cpu_answer_end(outcome, status, 0);
}

static mbr_status fill(
    mbr_instance *instance, const mbr_fill_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = mbr_cpu_answer_begin(request, outcome, error);
    if (status != MBR_OK)
        return status;
    mbr_fill_request asked = {0};
    MBR_CPU_TAKE(mbr_fill_request, asked, request, pattern);
    MBR_CPU_TAKE(mbr_fill_request, asked, request, stream);
    MBR_CPU_TAKE(mbr_fill_request, asked, request, address);
    MBR_CPU_TAKE(mbr_fill_request, asked, request, bytes);
    status = mbr_cpu_submit_fill(mbr_cpu_of(instance), asked.stream, asked.address,
        (uint8_t)(asked.pattern & 0xff), asked.bytes, error);
    return mbr_cpu_answer_end(outcome, status, 0);
}

static mbr_status copy(
    mbr_instance *instance, const mbr_copy_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = mbr_cpu_answer_begin(request, outcome, error);
    if (status != MBR_OK)
        return status;
    mbr_copy_request asked = {0};
    MBR_CPU_TAKE(mbr_copy_request, asked, request, stream);
    MBR_CPU_TAKE(mbr_copy_request, asked, request, to_address);
    MBR_CPU_TAKE(mbr_copy_request, asked, request, from_address);
    MBR_CPU_TAKE(mbr_copy_request, asked, request, bytes);
    status = mbr_cpu_submit_copy(mbr_cpu_of(instance), asked.stream, asked.to_address,
        asked.from_address, asked.bytes, error);
    return mbr_cpu_answer_end(outcome, status, 0);
}

const mbr_transfer_vtable mbr_cpu_transfer_vtable = {
    MBR_SIZED(mbr_transfer_vtable),
    .kind = MBR_KIND_TRANSFER,
    .minor = MBR_MINOR_0,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .fill = fill,
    .copy = copy,
};
