/* State bundles: one allocation each, with the buffers at fixed offsets, so that a copy of a bundle
 * is one copy and its end one free. Knows nothing of what the buffers mean, and waits for nothing.
 *
 *     charged_bytes = sum over bundles of what each is charged; the saved ones likewise
 *
 * What a refused call cannot free, because the release queue is full, is owed: a later call, or the
 * end of the states, frees it. */
#include "membrane/state.h"
#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "abi/base/lock.h"
#include "host/bind/seams.h"
#include "host/holder/common/payer.h"
#include "membrane/ep.h"
#include "membrane/manager.h"
#include "membrane/memory.h"

#include <utlist.h>

#define BUFFER_ALIGN_BYTES 256
#define BUFFER_LIMIT_COUNT 4096

/* A bundle or a saved one: both are one piece of memory. */
typedef struct mbr_bundle {
    mbr_states *states;
    mbr_allocation_handle allocation;
    uint64_t address;
    uint64_t charged_bytes;
    bool is_saved;
    struct mbr_bundle *next, *prev; /* among those that are owed */
} mbr_bundle;

struct mbr_state {
    mbr_bundle bundle;
};

struct mbr_saved_state {
    mbr_bundle bundle;
};

struct mbr_states {
    mbr_manager *manager;
    mbr_heap heap;
    mbr_binding_handle bindings[2]; /* of bundles, of saved ones; and so the next three */
    mbr_holder_handle holders[2];
    uint64_t counts[2];
    uint64_t charged_bytes[2];
    uint64_t bundle_bytes;
    mbr_lock lock; /* counts, charges, owed */
    mbr_bundle *owed;
    uint32_t buffer_count;
    struct {
        uint64_t offset, bytes;
    } buffers[];
};

/* ---- Shape */

static mbr_status lay_out(mbr_states *states, const mbr_states_request *request, mbr_error *error)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < request->buffer_count; i++) {
        uint64_t bytes = request->buffer_bytes[i];
        if (bytes == 0)
            return mbr_fail(error, MBR_INVALID_ARGUMENT, "buffer %u has no bytes", i);
        states->buffers[i].offset = end;
        states->buffers[i].bytes = bytes;
        if (!mbr_add(end, bytes, &end) || !mbr_align_up(end, BUFFER_ALIGN_BYTES, &end))
            return mbr_fail(error, MBR_OVERFLOW, "the bytes up to buffer %u do not fit 64 bits", i);
    }
    states->bundle_bytes = end;
    states->buffer_count = request->buffer_count;
    return MBR_OK;
}

static mbr_status check_request(
    mbr_manager *manager, const mbr_states_request *request, mbr_error *error)
{
    if (request->buffer_count == 0 || request->buffer_count > BUFFER_LIMIT_COUNT)
        return mbr_fail(error, MBR_OUT_OF_RANGE, "%u buffers; 1 to %u would work",
            request->buffer_count, BUFFER_LIMIT_COUNT);
    if (request->buffer_bytes == NULL)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "buffer_bytes is NULL");
    mbr_status status = mbr_check_payer(manager, request->binding, request->holder, error);
    if (status == MBR_OK && request->save_binding.value != 0)
        status = mbr_check_payer(manager, request->save_binding, request->save_holder, error);
    return status;
}

mbr_status mbr_states_create(
    mbr_manager *manager, const mbr_states_request *request, mbr_states **states, mbr_error *error)
{
    *states = NULL;
    mbr_states_request own;
    const mbr_heap *heap = mbr_manager_heap(manager);
    mbr_status status = MBR_TAKE(&own, mbr_states_request, save_holder, request, error);
    if (status == MBR_OK)
        status = check_request(manager, &own, error);
    if (status != MBR_OK)
        return status;
    mbr_states *made =
        mbr_heap_allocate(heap, sizeof(*made) + own.buffer_count * sizeof(made->buffers[0]));
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for the shape of states");
    status = lay_out(made, &own, error);
    if (status != MBR_OK) {
        mbr_heap_release(heap, made);
        return status;
    }
    made->manager = manager;
    made->heap = *heap;
    made->bindings[0] = own.binding;
    made->bindings[1] = own.save_binding;
    made->holders[0] = own.holder;
    made->holders[1] = own.save_holder;
    mbr_lock_init(&made->lock, MBR_RANK_CLIENT);
    *states = made;
    return MBR_OK;
}

/* ---- Memory of bundles */

static mbr_status free_memory(const mbr_bundle *bundle, const mbr_stream_handle *streams,
    uint32_t stream_count, mbr_error *error)
{
    mbr_free_request request = {MBR_SIZED(mbr_free_request), .allocation = bundle->allocation,
        .flags = stream_count == 0 ? MBR_FREE_NOW : 0, .streams = streams,
        .stream_count = stream_count};
    return mbr_free(bundle->states->manager, &request, error);
}

static void count(const mbr_bundle *bundle, int64_t by)
{
    mbr_states *states = bundle->states;
    mbr_lock_take(&states->lock);
    states->counts[bundle->is_saved] += (uint64_t)by;
    states->charged_bytes[bundle->is_saved] += (uint64_t)by * bundle->charged_bytes;
    mbr_lock_drop(&states->lock);
}

static mbr_bundle *take_owed(mbr_states *states)
{
    mbr_lock_take(&states->lock);
    mbr_bundle *owed = states->owed;
    if (owed != NULL)
        DL_DELETE(states->owed, owed);
    mbr_lock_drop(&states->lock);
    return owed;
}

static void owe(mbr_bundle *bundle)
{
    mbr_lock_take(&bundle->states->lock);
    DL_APPEND(bundle->states->owed, bundle);
    mbr_lock_drop(&bundle->states->lock);
}

static mbr_status pay_debts(mbr_states *states, mbr_error *error)
{
    mbr_bundle *owed;
    while ((owed = take_owed(states)) != NULL) {
        mbr_status status = free_memory(owed, NULL, 0, error);
        if (status != MBR_OK) {
            owe(owed);
            return status;
        }
        mbr_heap_release(&states->heap, owed);
    }
    return MBR_OK;
}

/* Not counted yet. NULL: *status. */
static mbr_bundle *make_bundle(mbr_states *states, bool is_saved, mbr_stream_handle stream,
    uint32_t flags, mbr_refusal *refusal, mbr_status *status, mbr_error *error)
{
    (void)pay_debts(states, NULL); /* else a later call does */
    mbr_bundle *bundle = mbr_heap_allocate(&states->heap, sizeof(*bundle));
    if (bundle == NULL) {
        *status = mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a state's record");
        return NULL;
    }
    mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .flags = flags,
        .binding = states->bindings[is_saved], .holder = states->holders[is_saved],
        .stream = stream, .bytes = states->bundle_bytes, .align_bytes = BUFFER_ALIGN_BYTES,
        .refusal = refusal};
    mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
    *status = mbr_alloc(states->manager, &request, &result, error);
    if (*status != MBR_OK) {
        mbr_heap_release(&states->heap, bundle);
        return NULL;
    }
    *bundle = (mbr_bundle){.states = states,
        .allocation = result.allocation,
        .address = result.address,
        .charged_bytes = result.charged_bytes,
        .is_saved = is_saved};
    return bundle;
}

static mbr_status copy(
    const mbr_bundle *to, const mbr_bundle *from, mbr_stream_handle stream, mbr_error *error)
{
    const mbr_states *states = to->states;
    return mbr_ep_copy(
        states->manager, stream, to->address, from->address, states->bundle_bytes, error);
}

/* A bundle with the contents of `from`. */
static mbr_bundle *make_copy(const mbr_bundle *from, bool is_saved, mbr_stream_handle stream,
    mbr_refusal *refusal, mbr_status *status, mbr_error *error)
{
    mbr_states *states = from->states;
    mbr_bundle *made = make_bundle(states, is_saved, stream, 0, refusal, status, error);
    if (made == NULL)
        return NULL;
    *status = copy(made, from, stream, error);
    if (*status == MBR_OK) {
        count(made, 1);
        return made;
    }
    if (free_memory(made, NULL, 0, NULL) == MBR_OK) /* nothing was submitted that touches it */
        mbr_heap_release(&states->heap, made);
    else
        owe(made);
    return NULL;
}

static mbr_status end_bundle(
    mbr_bundle *bundle, const mbr_stream_handle *streams, uint32_t stream_count, mbr_error *error)
{
    mbr_states *states = bundle->states;
    mbr_status status = free_memory(bundle, streams, stream_count, error);
    if (status != MBR_OK)
        return status;
    count(bundle, -1);
    mbr_heap_release(&states->heap, bundle);
    return MBR_OK;
}

mbr_status mbr_states_destroy(mbr_states *states, mbr_error *error)
{
    mbr_states_figures figures = {MBR_SIZED(mbr_states_figures)};
    mbr_states_read(states, &figures);
    if (figures.state_count + figures.saved_count != 0)
        return mbr_fail(error, MBR_IN_USE, "%llu bundles and %llu saved ones live; destroy them",
            (unsigned long long)figures.state_count, (unsigned long long)figures.saved_count);
    mbr_status status = pay_debts(states, error);
    if (status != MBR_OK)
        return status;
    mbr_lock_finish(&states->lock);
    mbr_heap heap = states->heap;
    mbr_heap_release(&heap, states);
    return MBR_OK;
}

/* ---- Bundles */

mbr_status mbr_state_create(mbr_states *states, mbr_stream_handle stream, uint32_t flags,
    mbr_refusal *refusal, mbr_state **state, mbr_error *error)
{
    *state = NULL;
    mbr_status status = mbr_flags_check(flags, MBR_STATE_ZEROED, "mbr_state_create", error);
    if (status != MBR_OK)
        return status;
    mbr_bundle *made = make_bundle(states, false, stream,
        (flags & MBR_STATE_ZEROED) != 0 ? MBR_ALLOC_ZEROED : 0, refusal, &status, error);
    if (made == NULL)
        return status;
    count(made, 1);
    *state = (mbr_state *)made;
    return MBR_OK;
}

mbr_status mbr_state_fork(mbr_state *state, mbr_stream_handle stream, mbr_refusal *refusal,
    mbr_state **fork, mbr_error *error)
{
    mbr_status status;
    *fork = (mbr_state *)make_copy(&state->bundle, false, stream, refusal, &status, error);
    return status;
}

mbr_status mbr_state_destroy(
    mbr_state *state, const mbr_stream_handle *streams, uint32_t stream_count, mbr_error *error)
{
    return end_bundle(&state->bundle, streams, stream_count, error);
}

mbr_status mbr_state_buffer(
    const mbr_state *state, uint32_t index, uint64_t *address, uint64_t *bytes, mbr_error *error)
{
    const mbr_states *states = state->bundle.states;
    *address = *bytes = 0;
    if (index >= states->buffer_count)
        return mbr_fail(error, MBR_OUT_OF_RANGE, "buffer %u of %u", index, states->buffer_count);
    *address = state->bundle.address + states->buffers[index].offset;
    *bytes = states->buffers[index].bytes;
    return MBR_OK;
}

/* ---- Saved ones */

mbr_status mbr_state_save(mbr_state *state, mbr_stream_handle stream, mbr_refusal *refusal,
    mbr_saved_state **saved, mbr_error *error)
{
    mbr_status status;
    *saved = NULL;
    if (state->bundle.states->bindings[1].value == 0)
        return mbr_fail(error, MBR_UNSUPPORTED,
            "the states have no binding to save to; name one in mbr_states_request");
    *saved = (mbr_saved_state *)make_copy(&state->bundle, true, stream, refusal, &status, error);
    return status;
}

mbr_status mbr_state_restore(
    mbr_state *state, const mbr_saved_state *saved, mbr_stream_handle stream, mbr_error *error)
{
    if (saved->bundle.states != state->bundle.states)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the saved state is of other states");
    return copy(&state->bundle, &saved->bundle, stream, error);
}

mbr_status mbr_saved_state_destroy(mbr_saved_state *saved, const mbr_stream_handle *streams,
    uint32_t stream_count, mbr_error *error)
{
    return end_bundle(&saved->bundle, streams, stream_count, error);
}

void mbr_states_read(mbr_states *states, mbr_states_figures *figures)
{
    mbr_states_figures now = {MBR_SIZED(mbr_states_figures)};
    mbr_lock_take(&states->lock);
    now.buffer_count = states->buffer_count;
    now.bundle_bytes = states->bundle_bytes;
    now.state_count = states->counts[0];
    now.saved_count = states->counts[1];
    now.charged_bytes = states->charged_bytes[0];
    now.saved_charged_bytes = states->charged_bytes[1];
    mbr_lock_drop(&states->lock);
    mbr_growable_give(figures, &now, sizeof(now));
}
