/* Responsible for what the operations of a CPU stream are: their checks at submission and their
 * work on the worker. Never knows a ring or a thread. Addresses are trusted, as a device trusts
 * them: a wrong one ends the process like any wrong pointer. */
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "host/ep/cpu/internal.h"

#include <inttypes.h>
#include <string.h>

void mbr_cpu_operation_run(mbr_cpu_operation *operation)
{
    mbr_lock_assert_none_held();
    switch (operation->kind) {
    case MBR_CPU_COPY:
        memcpy(operation->copy.to, operation->copy.from, (size_t)operation->copy.bytes);
        break;
    case MBR_CPU_FILL:
        memset(operation->fill.at, operation->fill.pattern, (size_t)operation->fill.bytes);
        break;
    case MBR_CPU_CALL:
        operation->call.function(operation->call.context);
        break;
    case MBR_CPU_SIGNAL:
        mbr_cpu_line_reach(operation->point.line, operation->point.value);
        mbr_cpu_line_drop(operation->point.line);
        break;
    case MBR_CPU_WAIT:
        (void)mbr_cpu_line_wait(operation->point.line, operation->point.value, UINT64_MAX);
        mbr_cpu_line_drop(operation->point.line);
        break;
    }
}

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* [address, address + bytes) is a range of at least one byte. */
static mbr_status check_range(
    const char *what, uint64_t address, uint64_t bytes, uint64_t *end, mbr_error *error)
{
    *end = 0;
    if (bytes == 0)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 0, "%s of 0 bytes", what);
    if (address == 0)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 0, "%s has the address 0", what);
    if (!mbr_add(address, bytes, end))
        return mbr_fail_argument(error, MBR_OVERFLOW, 0,
            "%s at %#" PRIx64 " of %" PRIu64 " bytes ends beyond 64 bits", what, address, bytes);
    return MBR_OK;
}

mbr_status mbr_cpu_submit_copy(mbr_cpu *cpu, mbr_native stream, uint64_t to_address,
    uint64_t from_address, uint64_t bytes, mbr_error *error)
{
    uint64_t to_end, from_end;
    mbr_status status = check_range("the target", to_address, bytes, &to_end, error);
    if (status == MBR_OK)
        status = check_range("the source", from_address, bytes, &from_end, error);
    if (status != MBR_OK)
        return status;
    if (to_address < from_end && from_address < to_end)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 0,
            "the ranges of a copy overlap: %#" PRIx64 " and %#" PRIx64 ", %" PRIu64 " bytes",
            to_address, from_address, bytes);
    mbr_cpu_operation operation = {
        .kind = MBR_CPU_COPY, .copy = {pointer(to_address), pointer(from_address), bytes}};
    return mbr_cpu_submit(cpu, stream, &operation, MBR_CPU_ROOM_WAIT, error);
}

mbr_status mbr_cpu_submit_fill(mbr_cpu *cpu, mbr_native stream, uint64_t address, uint8_t value,
    uint64_t bytes, mbr_error *error)
{
    uint64_t end;
    mbr_status status = check_range("a fill", address, bytes, &end, error);
    if (status != MBR_OK)
        return status;
    mbr_cpu_operation operation = {.kind = MBR_CPU_FILL, .fill = {pointer(address), bytes, value}};
    return mbr_cpu_submit(cpu, stream, &operation, MBR_CPU_ROOM_WAIT, error);
}

mbr_status mbr_cpu_copy(mbr_cpu *cpu, mbr_native stream, uint64_t to_address, uint64_t from_address,
    uint64_t bytes, mbr_error *error)
{
    return mbr_cpu_submit_copy(cpu, stream, to_address, from_address, bytes, error);
}

mbr_status mbr_cpu_fill(mbr_cpu *cpu, mbr_native stream, uint64_t address, uint8_t value,
    uint64_t bytes, mbr_error *error)
{
    return mbr_cpu_submit_fill(cpu, stream, address, value, bytes, error);
}

mbr_status mbr_cpu_host_function(mbr_cpu *cpu, mbr_native stream, void (*function)(void *context),
    void *context, mbr_error *error)
{
    if (function == NULL)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 2, "the host function is NULL");
    mbr_cpu_operation operation = {.kind = MBR_CPU_CALL, .call = {function, context}};
    return mbr_cpu_submit(cpu, stream, &operation, MBR_CPU_ROOM_WAIT, error);
}
