/* Faults of streams, fills and copies (group TRF). */
#include "tests/badplugins/bad.h"
#include "tests/badplugins/good_order.h"

#include <string.h>
#include <sys/eventfd.h>

#define FILL(name)                                                                                 \
    static mbr_status name(mbr_instance *instance, const mbr_fill_request *request,                \
        mbr_outcome *outcome, mbr_error *error)
#define COPY(name)                                                                                 \
    static mbr_status name(mbr_instance *instance, const mbr_copy_request *request,                \
        mbr_outcome *outcome, mbr_error *error)
#define DESTROY(name)                                                                              \
    static mbr_status name(mbr_instance *instance, const mbr_stream_destroy_request *request,      \
        mbr_outcome *outcome, mbr_error *error)
#define CREATE(name)                                                                               \
    static mbr_status name(mbr_instance *instance, const mbr_stream_create_request *request,       \
        mbr_stream_create_outcome *outcome, mbr_error *error)
#define GOOD(slot) bad_good->transfer.slot(instance, request, outcome, error)

#define PAGE_BYTES UINT64_C(4096)

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static mbr_status say_ok(mbr_outcome *outcome)
{
    *outcome = (mbr_outcome){.struct_size = outcome->struct_size, .state = MBR_STATE_DONE};
    return MBR_OK;
}

/* ---- What a fill or copy leaves -------------------------------------------------------------- */

static mbr_status fill_other(mbr_instance *instance, const mbr_fill_request *request,
    uint64_t bytes, mbr_outcome *outcome, mbr_error *error)
{
    mbr_fill_request other = *request;
    other.bytes = bytes;
    return bad_good->transfer.fill(instance, &other, outcome, error);
}

static mbr_status copy_other(mbr_instance *instance, const mbr_copy_request *request,
    uint64_t bytes, mbr_outcome *outcome, mbr_error *error)
{
    mbr_copy_request other = *request;
    other.bytes = bytes;
    return bad_good->transfer.copy(instance, &other, outcome, error);
}

FILL(fill_writes_first_page_only)
{
    bool is_two = request->bytes == 2 * PAGE_BYTES;
    return fill_other(instance, request, is_two ? PAGE_BYTES : request->bytes, outcome, error);
}

FILL(fill_rounds_up_to_words)
{
    bool is_odd = request->bytes % 8 != 0 && request->bytes < UINT64_MAX / 2;
    uint64_t bytes = is_odd ? (request->bytes + 7) / 8 * 8 : request->bytes;
    return fill_other(instance, request, bytes, outcome, error);
}

COPY(copy_drops_odd_end)
{
    bool is_odd = request->bytes > 8 && request->bytes % 8 != 0 &&
        request->bytes < (UINT64_C(1) << 20) && request->bytes != 3000;
    uint64_t bytes = is_odd ? request->bytes / 8 * 8 : request->bytes;
    return copy_other(instance, request, bytes, outcome, error);
}

/* The third copy of a process: in TRF-003 the one to host memory, which no granule aligns. */
COPY(copy_to_host_is_noop)
{
    static uint64_t call_count;
    if (++call_count == 3 && request->bytes == 2 * PAGE_BYTES &&
        request->to_address % PAGE_BYTES != 0)
        return say_ok(outcome);
    return GOOD(copy);
}

COPY(copy_rounds_source_down)
{
    mbr_copy_request other = *request;
    if (request->bytes == 2 * PAGE_BYTES && request->from_address % 16 < 8)
        other.from_address = request->from_address / 8 * 8;
    return bad_good->transfer.copy(instance, &other, outcome, error);
}

FILL(fill_writes_words)
{
    mbr_status status = GOOD(fill);
    if (status != MBR_OK || request->pattern <= 0xFF || request->bytes != PAGE_BYTES)
        return status;
    mbr_fill_request other = *request;
    other.address++;
    other.bytes = 1;
    other.pattern = request->pattern >> 8;
    return bad_good->transfer.fill(instance, &other, outcome, error);
}

COPY(length_in_24_bits)
{
    bool is_large = request->bytes >> 24 != 0 && request->bytes >> 32 == 0;
    uint64_t bytes = is_large ? request->bytes & 0xFFFFFF : request->bytes;
    return copy_other(instance, request, bytes, outcome, error);
}

/* Cut where the extent of the target's beginning may end. */
COPY(copy_ends_at_seam)
{
    uint64_t room = 65536 - request->to_address % 65536;
    bool is_over = request->bytes == 3000 && room < 3000;
    return copy_other(instance, request, is_over ? room : request->bytes, outcome, error);
}

/* ---- Order ----------------------------------------------------------------------------------- */

static uint64_t last_filled_stream;
FILL(fill_and_remember)
{
    last_filled_stream = request->stream.value;
    return GOOD(fill);
}

/* A small copy behind a fill is made at once: nothing to enqueue, nothing to wait for. */
COPY(copy_overtakes)
{
    uint64_t distance = request->to_address > request->from_address
        ? request->to_address - request->from_address
        : request->from_address - request->to_address;
    if (last_filled_stream != request->stream.value || request->bytes != PAGE_BYTES ||
        request->stream.kind != MBR_NATIVE_STREAM_CPU || distance < PAGE_BYTES)
        return GOOD(copy);
    memcpy(pointer(request->to_address), pointer(request->from_address), request->bytes);
    return say_ok(outcome);
}

DESTROY(destroy_drops_work)
{
    good_stream_drop_work(instance, request->stream);
    return GOOD(stream_destroy);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

FILL(fill_of_nothing_accepted)
{
    return request->bytes == 0 && request->stream.kind == MBR_NATIVE_STREAM_CPU ? say_ok(outcome)
                                                                                : GOOD(fill);
}

FILL(fill_wraps)
{
    bool is_over = request->bytes > UINT64_MAX - request->address;
    return is_over ? say_ok(outcome) : GOOD(fill);
}

COPY(overlap_accepted)
{
    uint64_t distance = request->to_address > request->from_address
        ? request->to_address - request->from_address
        : request->from_address - request->to_address;
    if (request->bytes == PAGE_BYTES && distance < PAGE_BYTES)
        return say_ok(outcome);
    return GOOD(copy);
}

COPY(copy_on_any_kind)
{
    mbr_copy_request other = *request;
    other.stream.kind = MBR_NATIVE_STREAM_CPU;
    return bad_good->transfer.copy(instance, &other, outcome, error);
}

static mbr_native destroyed;
DESTROY(destroyed_twice_accepted)
{
    bool is_again = destroyed.kind != 0 && destroyed.value == request->stream.value &&
        request->stream.kind == MBR_NATIVE_STREAM_CPU;
    mbr_status status = bad_good->transfer.stream_destroy(instance, request, outcome, NULL);
    if (status == MBR_OK)
        destroyed = request->stream;
    else if (is_again)
        return say_ok(outcome);
    else
        return GOOD(stream_destroy);
    return status;
}

CREATE(stream_refused)
{
    (void)instance, (void)request;
    outcome->stream = (mbr_native){0};
    if (error != NULL)
        *error = (mbr_error){.struct_size = error->struct_size,
            .status = MBR_UNSUPPORTED,
            .text = "refused by a fault"};
    return MBR_UNSUPPORTED;
}

CREATE(stream_flags_ignored)
{
    mbr_stream_create_request other = *request;
    other.flags = 0;
    return bad_good->transfer.stream_create(instance, &other, outcome, error);
}

/* ---- Books ----------------------------------------------------------------------------------- */

static mbr_status report_has_one_stream(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    mbr_status status = bad_good->plugin.report(instance, request, outcome, error);
    if (status == MBR_OK && outcome->stream_count > 1)
        outcome->stream_count = 1;
    return status;
}

CREATE(stream_leaves_descriptor)
{
    (void)eventfd(0, EFD_CLOEXEC);
    return GOOD(stream_create);
}

#define PUT_AS(fault, slot, function)                                                              \
    if (bad_is(fault))                                                                             \
    bad.transfer.slot = function
#define PUT(slot, fault) PUT_AS(#fault, slot, fault)

void bad_install_trf(void)
{
    PUT(stream_create, stream_refused);
    PUT(fill, fill_writes_first_page_only);
    PUT(copy, copy_to_host_is_noop);
    PUT(fill, fill_rounds_up_to_words);
    PUT(copy, copy_drops_odd_end);
    PUT(copy, copy_rounds_source_down);
    PUT(fill, fill_writes_words);
    PUT(copy, length_in_24_bits);
    PUT(copy, copy_ends_at_seam);
    PUT_AS("copy_overtakes", fill, fill_and_remember);
    PUT(copy, copy_overtakes);
    PUT(stream_destroy, destroy_drops_work);
    PUT(fill, fill_of_nothing_accepted);
    PUT(fill, fill_wraps);
    PUT(copy, overlap_accepted);
    PUT(copy, copy_on_any_kind);
    PUT(stream_destroy, destroyed_twice_accepted);
    PUT(stream_create, stream_flags_ignored);
    PUT(stream_create, stream_leaves_descriptor);
    if (bad_is("report_has_one_stream"))
        bad.plugin.report = report_has_one_stream;
}
