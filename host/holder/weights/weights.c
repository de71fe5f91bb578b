/* Weights, their policies and figures. Pages nothing itself. */
#include "host/bind/seams.h"
#include "host/holder/common/payer.h"
#include "host/holder/weights/internal.h"

#define ITEM_LIMIT_COUNT (UINT32_C(1) << 20)

MBR_GIVER_CALLS_DEFINE(mbr_weights, giver_calls);

/* ---- Policies */

/* What is there stays, whatever is wanted; for others' bytes the last one goes. */
static uint32_t stable_victim(
    void *context, const mbr_weight_view *items, uint32_t item_count, uint32_t wanted)
{
    (void)context;
    if (wanted != MBR_WEIGHTS_NONE)
        return MBR_WEIGHTS_NONE;
    for (uint32_t i = item_count; i-- > 0;) {
        if (items[i].is_resident != 0 && items[i].is_busy == 0)
            return i;
    }
    return MBR_WEIGHTS_NONE;
}

static uint32_t lru_victim(
    void *context, const mbr_weight_view *items, uint32_t item_count, uint32_t wanted)
{
    (void)context;
    (void)wanted;
    uint32_t oldest = MBR_WEIGHTS_NONE;
    for (uint32_t i = 0; i < item_count; i++) {
        if (items[i].is_resident != 0 && items[i].is_busy == 0 &&
            (oldest == MBR_WEIGHTS_NONE || items[i].last_use < items[oldest].last_use))
            oldest = i;
    }
    return oldest;
}

static const mbr_weights_policy stable = {MBR_SIZED(mbr_weights_policy), .victim = stable_victim};
static const mbr_weights_policy lru = {MBR_SIZED(mbr_weights_policy), .victim = lru_victim};

const mbr_weights_policy *mbr_weights_policy_stable(void)
{
    return &stable;
}

const mbr_weights_policy *mbr_weights_policy_lru(void)
{
    return &lru;
}

uint32_t mbr_weights_choose_locked(mbr_weights *weights, uint32_t wanted)
{
    uint32_t index = weights->policy.victim(
        weights->policy.context, weights->views, weights->item_count, wanted);
    bool may_go = index < weights->item_count && weights->views[index].is_resident != 0 &&
        weights->views[index].is_busy == 0;
    return may_go ? index : MBR_WEIGHTS_NONE;
}

/* ---- Life */

typedef struct mbr_weights_sizes {
    uint64_t all_bytes, largest_bytes;
} mbr_weights_sizes;

static mbr_status measure(
    const mbr_weights_request *request, mbr_weights_sizes *sizes, mbr_error *error)
{
    *sizes = (mbr_weights_sizes){0};
    if (request->item_count == 0 || request->item_count > ITEM_LIMIT_COUNT)
        return mbr_fail(error, MBR_OUT_OF_RANGE, "%u items; 1 to %u would work",
            request->item_count, ITEM_LIMIT_COUNT);
    if (request->items == NULL)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "items is NULL");
    for (uint32_t i = 0; i < request->item_count; i++) {
        uint64_t bytes = request->items[i].bytes;
        if (bytes == 0)
            return mbr_fail(error, MBR_INVALID_ARGUMENT, "item %u has no bytes", i);
        if (!mbr_add(sizes->all_bytes, bytes, &sizes->all_bytes))
            return mbr_fail(error, MBR_OVERFLOW, "the bytes up to item %u do not fit 64 bits", i);
        sizes->largest_bytes = mbr_max(sizes->largest_bytes, bytes);
    }
    return MBR_OK;
}

static mbr_status take_budget(
    mbr_weights_request *request, const mbr_weights_sizes *sizes, mbr_error *error)
{
    if (request->budget_bytes < sizes->largest_bytes)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "a budget of %llu bytes is below the largest item's %llu",
            (unsigned long long)request->budget_bytes, (unsigned long long)sizes->largest_bytes);
    if (request->passing_bytes == MBR_WEIGHTS_NO_PASSING ||
        (request->passing_bytes == 0 && sizes->all_bytes <= request->budget_bytes))
        request->passing_bytes = 0;
    else if (request->passing_bytes == 0)
        request->passing_bytes = sizes->largest_bytes;
    if (request->passing_bytes > request->budget_bytes)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "%llu bytes for items in passing are above the budget of %llu",
            (unsigned long long)request->passing_bytes, (unsigned long long)request->budget_bytes);
    return MBR_OK;
}

static mbr_weights *make(mbr_manager *manager, const mbr_weights_request *request)
{
    const mbr_heap *heap = mbr_manager_heap(manager);
    mbr_weights *weights =
        mbr_heap_allocate(heap, sizeof(*weights) + request->item_count * sizeof(weights->items[0]));
    mbr_weight_view *views =
        mbr_heap_allocate(heap, request->item_count * sizeof(weights->views[0]));
    if (weights == NULL || views == NULL) {
        mbr_heap_release(heap, weights);
        mbr_heap_release(heap, views);
        return NULL;
    }
    weights->manager = manager;
    weights->heap = *heap;
    weights->binding = request->binding;
    weights->holder = request->holder;
    weights->policy = *request->policy;
    weights->budget_bytes = request->budget_bytes;
    weights->passing_bytes = request->passing_bytes;
    weights->views = views;
    weights->item_count = request->item_count;
    for (uint32_t i = 0; i < request->item_count; i++) {
        weights->items[i].source_address = request->items[i].source_address;
        views[i].bytes = request->items[i].bytes;
    }
    mbr_lock_init(&weights->lock, MBR_RANK_CLIENT);
    mbr_condition_init(&weights->moved);
    return weights;
}

static void finish(mbr_weights *weights)
{
    mbr_condition_finish(&weights->moved);
    mbr_lock_finish(&weights->lock);
    mbr_heap heap = weights->heap;
    mbr_heap_release(&heap, weights->views);
    mbr_heap_release(&heap, weights);
}

static mbr_status take_policy(
    mbr_weights_request *request, mbr_weights_policy *policy, mbr_error *error)
{
    const mbr_weights_policy *given = request->policy != NULL ? request->policy : &stable;
    request->policy = policy;
    mbr_status status = MBR_TAKE(policy, mbr_weights_policy, context, given, error);
    if (status == MBR_OK && policy->victim == NULL)
        status = mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the policy's victim is NULL; a function, or no policy, would work");
    return status;
}

mbr_status mbr_weights_create(mbr_manager *manager, const mbr_weights_request *request,
    mbr_weights **weights, mbr_error *error)
{
    *weights = NULL;
    mbr_weights_sizes sizes;
    mbr_weights_request own;
    mbr_weights_policy policy;
    mbr_status status = MBR_TAKE(&own, mbr_weights_request, policy, request, error);
    if (status == MBR_OK)
        status = take_policy(&own, &policy, error);
    if (status == MBR_OK)
        status = measure(&own, &sizes, error);
    if (status == MBR_OK)
        status = take_budget(&own, &sizes, error);
    if (status == MBR_OK)
        status = mbr_check_payer(manager, own.binding, own.holder, error);
    if (status != MBR_OK)
        return status;
    mbr_weights *made = make(manager, &own);
    if (made == NULL)
        return mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no host memory for %u items", own.item_count);
    status = mbr_giver_join(manager, own.holder, &giver_calls, made, &made->giver, error);
    if (status == MBR_OK)
        *weights = made;
    else
        finish(made);
    return status;
}

static mbr_status page_all_out(mbr_weights *weights, mbr_error *error)
{
    mbr_status status = MBR_OK;
    mbr_lock_take(&weights->lock);
    for (uint32_t i = 0; i < weights->item_count && status == MBR_OK; i++) {
        mbr_weights_await_move_locked(weights, &weights->items[i]);
        if (weights->items[i].state != MBR_ITEM_OUT)
            status = mbr_weights_page_out_locked(weights, i, false, error);
    }
    mbr_lock_drop(&weights->lock);
    return status;
}

mbr_status mbr_weights_destroy(mbr_weights *weights, mbr_error *error)
{
    mbr_weights_figures figures = {MBR_SIZED(mbr_weights_figures)};
    mbr_weights_read(weights, &figures);
    if (figures.used_count != 0)
        return mbr_fail(
            error, MBR_IN_USE, "%u items are used; end their uses first", figures.used_count);
    mbr_status status = page_all_out(weights, error);
    if (status != MBR_OK)
        return status;
    mbr_giver_leave(&weights->giver);
    finish(weights);
    return MBR_OK;
}

void mbr_weights_read(mbr_weights *weights, mbr_weights_figures *figures)
{
    mbr_lock_take(&weights->lock);
    mbr_weights_figures now = weights->figures;
    mbr_lock_drop(&weights->lock);
    now.item_count = weights->item_count;
    mbr_growable_give(figures, &now, sizeof(now));
}
