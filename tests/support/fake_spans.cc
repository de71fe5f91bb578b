/* The fakes of fake_spans.h. They decide nothing that an arena should decide: no reuse, no rounding
 * but to the granule, no order but the queue's. */
#include "tests/support/fake_spans.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
#include "abi/base/error.h"
#include "abi/base/lock.h"
}

namespace
{

void Require(bool holds, const char *what)
{
    if (holds)
        return;
    std::fprintf(stderr, "fake_spans: %s\n", what);
    std::abort();
}

uint64_t RoundUp(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

} // namespace

/* ---- The backing */
mbr_backing::mbr_backing(mbr_authority *authority)
{
    mbr_holder_options options = {"spans", MBR_ROLE_CACHE, MBR_NO_ALLOWANCE, false, {}};
    Require(mbr_holder_create(authority, &options, &cache, nullptr) == MBR_OK, "no cache holder");
    port.mechanism.host_accessible = true;
}

mbr_backing::~mbr_backing()
{
    Require(spans_.empty(), "a span was never given back");
    Require(idle_bytes == 0, "idle bytes without a span");
    mbr_backing_evict(this, UINT64_MAX);
    mbr_error error = {};
    error.struct_size = sizeof(error);
    mbr_status status = mbr_holder_destroy(cache, &error);
    if (status != MBR_OK)
        std::fprintf(stderr, "%s\n", error.text);
    Require(status == MBR_OK, "the cache still pays for something");
}

bool mbr_backing::fails()
{
    uint64_t left = fail_at;
    while (left != 0 && !fail_at.compare_exchange_weak(left, left == 1 ? 0 : left - 1))
        ;
    if (left != 1)
        return false;
    if (fail_count > 1) {
        fail_count--;
        fail_at = 1;
    }
    return true;
}

mbr_status mbr_backing::take(mbr_context *context, uint32_t group, uint64_t bytes,
    uint64_t align_bytes, mbr_span *span, mbr_refusal *refusal, mbr_error *error)
{
    mbr_lock_assert_none_held();
    *span = {};
    take_count++;
    if (fails())
        return mbr_fail(error, fail_status, "the test lets this span fail");
    if (bytes > UINT64_MAX / 4)
        return mbr_fail(error, MBR_OVERFLOW, "too many bytes");
    uint64_t usable = lie == Lie::kTooSmall ? granule_bytes : RoundUp(bytes, granule_bytes);
    uint64_t owned = lie == Lie::kOwnsNothing ? 0 : usable + owned_extra_bytes;
    mbr_status status = mbr_context_pin(context, error);
    if (status != MBR_OK)
        return status;
    status = mbr_grant(cache, owned, refusal);
    if (status != MBR_OK) {
        mbr_context_unpin(context);
        return mbr_fail(error, status, "over budget");
    }
    uint64_t mapped = usable + align_bytes + 65536;
    void *mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    Require(mapping != MAP_FAILED, "the test is out of addresses");
    mbr_charge(cache, owned);
    mbr_mapped_add(cache, owned);
    uint64_t address = RoundUp(reinterpret_cast<uint64_t>(mapping), align_bytes);
    if (lie == Lie::kMisaligned)
        address += 4096;
    if (content != MBR_CONTENT_ZERO)
        memset(reinterpret_cast<void *>(address), 0xDD, usable);
    std::lock_guard<std::mutex> guard(mutex_);
    if (lie == Lie::kTaken && !spans_.empty())
        address = spans_.begin()->first;
    else
        spans_[address] = {context, owned, mapped, mapping};
    asked_bytes.push_back(bytes);
    span->address = address;
    span->bytes = usable;
    span->owned_bytes = owned;
    span->content = content;
    span->isolation_group = group;
    span->allocation_id = lie == Lie::kTaken ? reinterpret_cast<uint64_t>(mapping) : 0;
    span->context = context;
    return MBR_OK;
}

void mbr_backing::give(mbr_span *span)
{
    mbr_lock_assert_none_held();
    give_count++;
    Kept kept = {span->context, span->owned_bytes, span->bytes + 65536 * 2,
        reinterpret_cast<void *>(span->allocation_id)};
    if (span->allocation_id == 0) {
        std::lock_guard<std::mutex> guard(mutex_);
        auto found = spans_.find(span->address);
        Require(found != spans_.end(), "a span is given back that is not out");
        Require(found->second.owned_bytes == span->owned_bytes, "a span came back changed");
        kept = found->second;
        spans_.erase(found);
    }
    munmap(kept.mapping, kept.mapped_bytes);
    mbr_mapped_sub(cache, kept.owned_bytes);
    mbr_refund(cache, kept.owned_bytes);
    mbr_context_unpin(kept.context);
    *span = {};
}

uint64_t mbr_backing::span_bytes() const
{
    std::lock_guard<std::mutex> guard(mutex_);
    uint64_t bytes = 0;
    for (auto &[address, kept] : spans_)
        bytes += kept.owned_bytes;
    return bytes;
}

uint64_t mbr_backing::span_count() const
{
    std::lock_guard<std::mutex> guard(mutex_);
    return spans_.size();
}

void mbr_backing::hoard(uint64_t bytes)
{
    Require(mbr_grant(cache, bytes, nullptr) == MBR_OK, "no room to hoard");
    mbr_charge(cache, bytes);
    evictable_bytes += bytes;
}

extern "C" {

mbr_holder *mbr_backing_cache(mbr_backing *backing)
{
    return backing->cache;
}

mbr_port *mbr_backing_port(mbr_backing *backing)
{
    return &backing->port;
}

const mbr_mechanism *mbr_port_mechanism(const mbr_port *port)
{
    return &port->mechanism;
}

mbr_authority *mbr_backing_authority(mbr_backing *backing)
{
    return mbr_holder_authority(backing->cache);
}

/* No cache is asked here: what slabs shed then, the tests over the whole backing see. */
void mbr_backing_add_keeper(mbr_backing *backing, mbr_idle_keeper *)
{
    backing->keepers++;
}

void mbr_backing_remove_keeper(mbr_backing *backing, mbr_idle_keeper *)
{
    Require(backing->keepers-- > 0, "a keeper that was never added");
}

void mbr_backing_count_idle(mbr_backing *backing, int64_t by_bytes)
{
    backing->idle_bytes += by_bytes;
}

void mbr_backing_keep_watermark(mbr_backing *)
{
    mbr_lock_assert_none_held();
}

uint64_t mbr_backing_evict(mbr_backing *backing, uint64_t bytes)
{
    mbr_lock_assert_none_held();
    backing->evict_count++;
    uint64_t gone = backing->evictable_bytes;
    while (!backing->evictable_bytes.compare_exchange_weak(gone, gone - std::min(gone, bytes)))
        ;
    gone = std::min(gone, bytes);
    mbr_refund(backing->cache, gone);
    return gone;
}

mbr_status mbr_backing_take_span(mbr_backing *backing, mbr_context *context, uint64_t,
    uint32_t isolation_group, uint64_t bytes, uint64_t align_bytes, mbr_span *span,
    mbr_refusal *refusal, mbr_error *error)
{
    return backing->take(context, isolation_group, bytes, align_bytes, span, refusal, error);
}

void mbr_backing_give_span(mbr_backing *backing, mbr_span *span)
{
    backing->give(span);
}

} // extern "C"

/* ---- The context */
void mbr_context::move_to(uint32_t to)
{
    state = to;
    serves.is_up = to == MBR_CONTEXT_ACTIVE;
}

void mbr_context::attach(uint64_t stream_id)
{
    std::lock_guard<std::mutex> guard(mutex_);
    attached_.insert(stream_id);
}

void mbr_context::detach(uint64_t stream_id)
{
    std::lock_guard<std::mutex> guard(mutex_);
    attached_.erase(stream_id);
}

void mbr_context::hold(uint64_t stream_id)
{
    std::lock_guard<std::mutex> guard(mutex_);
    held_.insert(stream_id);
}

void mbr_context::finish(uint64_t stream_id)
{
    std::lock_guard<std::mutex> guard(mutex_);
    held_.erase(stream_id);
}

void mbr_context::lose()
{
    std::deque<Entry> entries;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        move_to(MBR_CONTEXT_LOST);
        entries.swap(queue_);
    }
    for (Entry &entry : entries)
        entry.deferred->settle(entry.deferred, MBR_SETTLED_LOST);
}

uint64_t mbr_context::queued_count() const
{
    std::lock_guard<std::mutex> guard(mutex_);
    return queue_.size();
}

uint64_t mbr_context::queued_bytes() const
{
    std::lock_guard<std::mutex> guard(mutex_);
    uint64_t bytes = 0;
    for (const Entry &entry : queue_)
        bytes += entry.deferred->bytes;
    return bytes;
}

mbr_status mbr_context::defer(
    const uint64_t *stream_ids, uint32_t stream_count, mbr_deferred *entry, mbr_error *error)
{
    mbr_lock_assert_none_held();
    std::lock_guard<std::mutex> guard(mutex_);
    if (state == MBR_CONTEXT_LOST)
        return mbr_fail(error, MBR_DEVICE_LOST, "lost");
    if (defer_status != MBR_OK)
        return mbr_fail(error, defer_status, "the test lets this defer fail");
    if (queue_.size() >= queue_limit_count)
        return mbr_fail(error, MBR_QUEUE_FULL, "full");
    for (uint32_t i = 0; i < stream_count; i++)
        if (attached_.count(stream_ids[i]) == 0)
            return mbr_fail(error, MBR_UNKNOWN_OBJECT, "no such stream");
    queue_.push_back({entry, {stream_ids, stream_ids + stream_count}});
    return MBR_OK;
}

uint64_t mbr_context::reap()
{
    reap_count++;
    mbr_lock_assert_none_held();
    std::deque<Entry> done;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        auto held = [this](const Entry &entry) {
            return owns_locked(entry.deferred->graphs) ||
                std::any_of(entry.streams.begin(), entry.streams.end(),
                    [this](uint64_t id) { return held_.count(id) != 0; });
        };
        auto middle = std::stable_partition(queue_.begin(), queue_.end(), held);
        done.assign(middle, queue_.end());
        queue_.erase(middle, queue_.end());
    }
    uint64_t bytes = 0;
    for (Entry &entry : done) {
        bytes += entry.deferred->bytes;
        entry.deferred->settle(entry.deferred, MBR_SETTLED_RELEASED);
    }
    return bytes;
}

void mbr_context::begin_capture(uint64_t serial)
{
    std::lock_guard<std::mutex> guard(mutex_);
    capture_ = serial;
    graphs_.insert(serial);
    serves.is_up = false;
}

void mbr_context::end_capture()
{
    std::lock_guard<std::mutex> guard(mutex_);
    capture_ = 0;
    serves.is_up = true;
}

void mbr_context::retire(uint64_t serial)
{
    std::lock_guard<std::mutex> guard(mutex_);
    graphs_.erase(serial);
}

mbr_graphs mbr_context::graphs_now() const
{
    std::lock_guard<std::mutex> guard(mutex_);
    return {capture_, capture_};
}

bool mbr_context::owns_locked(mbr_graphs graphs) const
{
    auto first = graphs_.lower_bound(graphs.first);
    return graphs.first != 0 && first != graphs_.end() && *first <= graphs.last;
}

bool mbr_context::owns(mbr_graphs graphs) const
{
    std::lock_guard<std::mutex> guard(mutex_);
    return owns_locked(graphs);
}

// The newest that waits for the stream alone, else the oldest that waits for others.
mbr_deferred *mbr_context::reactivate(mbr_shelf *shelf, uint64_t stream_id, bool behind_others,
    bool (*fits)(const mbr_deferred *entry, const void *wanted), const void *wanted)
{
    mbr_lock_assert_none_held();
    std::lock_guard<std::mutex> guard(mutex_);
    auto chosen = queue_.end();
    for (auto entry = queue_.begin(); entry != queue_.end(); ++entry) {
        bool alone = std::all_of(entry->streams.begin(), entry->streams.end(),
            [&](uint64_t id) { return id == stream_id || held_.count(id) == 0; });
        bool serves = entry->deferred->shelf == shelf && entry->deferred->graphs.first == 0 &&
            capture_ == 0 && fits(entry->deferred, wanted);
        if (serves && (alone || (behind_others && chosen == queue_.end())))
            chosen = entry;
    }
    if (attached_.count(stream_id) == 0 || state != MBR_CONTEXT_ACTIVE || chosen == queue_.end())
        return nullptr;
    for (uint64_t id : chosen->streams)
        stream_wait_count += id != stream_id && held_.count(id) != 0;
    mbr_deferred *taken = chosen->deferred;
    queue_.erase(chosen);
    reactivated_count++;
    return taken;
}

mbr_status mbr_context::fill(uint64_t stream_id, uint64_t address, uint8_t value, uint64_t bytes)
{
    mbr_lock_assert_none_held();
    if (!can_fill)
        return MBR_UNSUPPORTED;
    std::lock_guard<std::mutex> guard(mutex_);
    if (attached_.count(stream_id) == 0)
        return MBR_UNKNOWN_OBJECT;
    fill_count++;
    memset(reinterpret_cast<void *>(address), value, bytes);
    return MBR_OK;
}

extern "C" {

uint32_t mbr_context_state(const mbr_context *context)
{
    return static_cast<uint32_t>(context->state);
}

const mbr_fork_flag *mbr_context_serves(const mbr_context *context)
{
    return &context->serves;
}

bool mbr_context_has_ended(const mbr_context *context)
{
    return context->ended;
}

mbr_status mbr_context_pin(mbr_context *context, mbr_error *error)
{
    if (context->state != MBR_CONTEXT_ACTIVE)
        return mbr_fail(error, MBR_BUSY, "not active");
    context->pin_count++;
    return MBR_OK;
}

void mbr_context_unpin(mbr_context *context)
{
    Require(context->pin_count-- != 0, "a pin is given back that was never taken");
}

mbr_status mbr_context_defer(mbr_context *context, const uint64_t *stream_ids,
    uint32_t stream_count, mbr_deferred *entry, mbr_error *error)
{
    return context->defer(stream_ids, stream_count, entry, error);
}

mbr_graphs mbr_context_graphs_now(mbr_context *context, uint64_t)
{
    return context->graphs_now();
}

bool mbr_context_owns(mbr_context *context, mbr_graphs graphs)
{
    return context->owns(graphs);
}

uint64_t mbr_context_reap(mbr_context *context, bool)
{
    return context->reap();
}

mbr_deferred *mbr_context_reactivate(mbr_context *context, mbr_shelf *shelf, uint64_t stream_id,
    bool behind_others, bool (*fits)(const mbr_deferred *entry, const void *wanted),
    const void *wanted)
{
    return context->reactivate(shelf, stream_id, behind_others, fits, wanted);
}

mbr_status mbr_context_fill(mbr_context *context, uint64_t stream_id, uint64_t address,
    uint8_t value, uint64_t bytes, mbr_error *error)
{
    mbr_status status = context->fill(stream_id, address, value, bytes);
    return status == MBR_OK ? MBR_OK : mbr_fail(error, status, "the fake cannot fill");
}

void mbr_context_read(mbr_context *context, mbr_ep_figures *figures)
{
    figures->context_state = static_cast<uint32_t>(context->state);
    figures->pin_count = context->pin_count;
    figures->queued_count = context->queued_count();
    figures->queued_bytes = context->queued_bytes();
}

} // extern "C"
