// Responsible for the device of scenarios, their entries, and what must hold of every context.
// Never decides who does what.
#include "tests/sched/ep_world.h"

#include <algorithm>

namespace sched_test
{

namespace
{

Device *DeviceOf(mbr_instance *instance)
{
    return reinterpret_cast<Device *>(instance);
}

mbr_status Say(mbr_outcome *outcome, uint64_t value = 0)
{
    outcome->state = MBR_STATE_DONE;
    outcome->value = value;
    return MBR_OK;
}

} // namespace

// ---- The device
void Device::Journal(const char *word, uint64_t first, uint64_t second) const
{
    sched_journal_line("%s %" PRIu64 " %" PRIu64 " %" PRIu64, word, number, first, second);
}

const mbr_order_vtable *Device::Order()
{
    static const mbr_order_vtable table = {sizeof(mbr_order_vtable), MBR_KIND_ORDER, 0, Open,
        Signal, AskReached, Wait, StreamWait, Close};
    return &table;
}

int Device::OpenLines() const
{
    int count = 0;
    for (const Line &line : lines_)
        count += line.id != 0;
    return count;
}

Device::Line *Device::Find(uint64_t id)
{
    for (Line &line : lines_)
        if (line.id == id)
            return &line;
    FailCheck(__FILE__, __LINE__, "the line is open", " %" PRIu64, id);
}

// There is no step between the host's last look at the context and this one: a device that is known
// to be lost is called no more. `line` is NULL where there is none yet.
mbr_status Device::Enter(Line *line, bool is_serial)
{
    Journal("calls", line == nullptr ? 0 : line->id);
    sched_context_check_no_lock();
    SCHED_REQUIRE(context == nullptr || sched_context_look(context).state != MBR_CONTEXT_LOST,
        "a slot is called after the loss");
    SCHED_REQUIRE(line == nullptr || !is_serial || !line->in_serial_slot, "two at once");
    if (line != nullptr) {
        line->callers++;
        line->in_serial_slot |= is_serial;
    }
    SCHED_CALLBACK_POINT();
    if (calls_to_loss != UINT64_MAX && calls_to_loss-- == 0)
        Lose();
    if (is_lost)
        Journal("lost", 0);
    return is_lost ? MBR_DEVICE_LOST : MBR_OK;
}

// What was done is done; the rest never is.
void Device::Lose()
{
    for (Stream &stream : streams)
        stream.done = Done(stream);
    is_lost = true;
}

void Device::Leave(Line *line, bool is_serial)
{
    line->callers--;
    if (is_serial)
        line->in_serial_slot = false;
}

uint64_t Device::Reached(const Line &line) const
{
    uint64_t value = line.value;
    while (value != 0 && line.covers[value] > Done(*line.stream))
        value--;
    return value;
}

mbr_status Device::Open(
    mbr_instance *instance, const mbr_line_open_request *request, mbr_outcome *outcome, mbr_error *)
{
    Device *self = DeviceOf(instance);
    mbr_status status = self->Enter(nullptr, false);
    if (status == MBR_OK && self->refused_opens != 0) {
        self->refused_opens--;
        status = MBR_OUT_OF_DESCRIPTORS;
    }
    if (status != MBR_OK)
        return status;
    Line *line = self->Find(0);
    *line = Line();
    line->id = request->line_id;
    line->stream = &self->streams[request->stream.value % kStreams];
    self->Journal("opens", line->id, static_cast<uint64_t>(line->stream - self->streams));
    return Say(outcome);
}

mbr_status Device::Signal(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *)
{
    Device *self = DeviceOf(instance);
    Line *line = self->Find(request->line_id);
    mbr_status status = self->Enter(line, true);
    Leave(line, true);
    if (status != MBR_OK)
        return status;
    SCHED_REQUIRE(!line->stream->is_gone, "a signal on a stream that is gone");
    if (self->busy_answers != 0 && !self->runs_freely_ && self->draw_->Coin()) {
        self->busy_answers--;
        return MBR_BUSY;
    }
    SCHED_REQUIRE(line->value + 1 < kValues, "too many signals: somebody signals without need");
    line->covers[++line->value] = line->stream->submitted;
    self->Journal("signals", line->id, line->value);
    return Say(outcome, line->value);
}

// Work is done when somebody asks, and no more than the answer says.
mbr_status Device::AskReached(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *)
{
    Device *self = DeviceOf(instance);
    Line *line = self->Find(request->line_id);
    mbr_status status = self->Enter(line, false);
    Leave(line, false);
    if (status != MBR_OK)
        return status;
    uint64_t value = self->Reached(*line);
    if (!self->is_stalled)
        value = self->draw_->From(value, line->value);
    line->stream->done = std::max(line->stream->done, line->covers[value]);
    self->Journal("answers", line->id, self->Reached(*line));
    return Say(outcome, self->Reached(*line));
}

// The work that is missing is done now, or not before the deadline.
mbr_status Device::Wait(
    mbr_instance *instance, const mbr_line_wait_request *request, mbr_outcome *outcome, mbr_error *)
{
    Device *self = DeviceOf(instance);
    Line *line = self->Find(request->line_id);
    SCHED_REQUIRE(request->value != 0 && request->value <= line->value);
    mbr_status status = self->Enter(line, false);
    Leave(line, false);
    if (status != MBR_OK)
        return status;
    if (self->Reached(*line) < request->value && request->deadline_ns != kForever &&
        self->draw_->Coin()) {
        if (request->deadline_ns > sched_now_ns())
            sched_pass_time(request->deadline_ns - sched_now_ns());
        return MBR_TIMED_OUT;
    }
    if (self->Reached(*line) < request->value)
        line->stream->done = line->covers[request->value];
    self->Journal("answers", line->id, self->Reached(*line));
    return Say(outcome);
}

mbr_status Device::StreamWait(mbr_instance *instance, const mbr_stream_wait_request *request,
    mbr_outcome *outcome, mbr_error *)
{
    Device *self = DeviceOf(instance);
    Line *line = self->Find(request->line_id);
    SCHED_REQUIRE(request->value != 0 && request->value <= line->value);
    mbr_status status = self->Enter(line, false);
    Leave(line, false);
    if (status == MBR_OK && self->refused_stream_waits != 0) {
        self->refused_stream_waits--;
        status = MBR_BUSY;
    }
    if (status != MBR_OK)
        return status;
    Stream *stream = &self->streams[request->stream.value];
    SCHED_REQUIRE(!stream->is_gone, "a wait on a stream that is gone");
    uint64_t *behind = &stream->behind[line->stream - self->streams];
    *behind = std::max(*behind, line->covers[request->value]);
    sched_journal_line("waits %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, self->number, line->id,
        request->value, request->stream.value);
    return Say(outcome);
}

mbr_status Device::Close(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *)
{
    Device *self = DeviceOf(instance);
    Line *line = self->Find(request->line_id);
    mbr_status status = self->Enter(line, true);
    Leave(line, true);
    if (status != MBR_OK)
        return status;
    SCHED_REQUIRE(line->callers == 0, "a line is closed under a call");
    self->Journal("closes", line->id);
    line->id = 0;
    return Say(outcome);
}

// ---- Entries
namespace
{

// What the owner of a settled entry has in it: nobody may read or write that any more.
const auto kNext = reinterpret_cast<mbr_deferred *>(UINT64_C(0xdead0001dead0001));
constexpr uint64_t kStreamsOfNobody = UINT64_C(0xdead0002dead0002);

} // namespace

mbr_status EpScenario::Queue(Entry *entry, uint32_t streams)
{
    Ep *ep = entry->ep;
    uint64_t ids[kStreams];
    uint32_t count = 0;
    for (int i = 0; i < kStreams; i++) {
        entry->work[i] = 0;
        if ((streams >> i & 1) == 0)
            continue;
        Stream *stream = &ep->device.streams[i];
        entry->work[i] = ++stream->submitted;
        ids[count++] = stream->id;
    }
    entry->deferred.next = kNext;
    entry->is_in = false;
    entry->queued_count++;
    ep->accepted_count++;
    auto number = static_cast<uint64_t>(entry - entries_);
    sched_journal_line("defers %" PRIu64 " %" PRIu64 " %u %" PRIu64 " %" PRIu64, ep->device.number,
        number, streams, entry->deferred.graphs.first, entry->deferred.graphs.last);
    mbr_status status = mbr_context_defer(ep->context, ids, count, &entry->deferred, nullptr);
    ep->device.Journal("deferred", number, status == MBR_OK);
    if (status != MBR_OK) {
        entry->queued_count--;
        ep->accepted_count--;
        SCHED_REQUIRE(entry->settled_count == entry->queued_count, "refused and settled");
        SCHED_REQUIRE(entry->deferred.next == kNext, "refused and touched");
    }
    entry->is_in = status == MBR_OK;
    return status;
}

mbr_status EpScenario::Defer(
    Ep *ep, uint32_t streams, uint64_t bytes, mbr_shelf *shelf, mbr_graphs graphs)
{
    SCHED_REQUIRE(entry_count_ < kEntries);
    Entry *entry = &entries_[entry_count_++];
    *entry = {};
    entry->deferred.bytes = bytes;
    entry->deferred.settle = Settle;
    entry->deferred.shelf = shelf;
    entry->deferred.graphs = graphs;
    entry->scenario = this;
    entry->ep = ep;
    return Queue(entry, streams);
}

Entry *EpScenario::Take(Ep *ep, mbr_shelf *shelf, int stream, bool behind_others)
{
    const Device &device = ep->device;
    auto any = [](const mbr_deferred *, const void *) { return true; };
    auto *entry = reinterpret_cast<Entry *>(mbr_context_reactivate(
        ep->context, shelf, device.streams[stream].id, behind_others, any, nullptr));
    if (entry == nullptr)
        return nullptr;
    device.Journal("takes", static_cast<uint64_t>(entry - entries_), static_cast<uint64_t>(stream));
    SCHED_REQUIRE(entry->settled_count + 1 == entry->queued_count, "taken and settled");
    for (int i = 0; i < kStreams; i++)
        SCHED_REQUIRE(i == stream || entry->work[i] <= device.Done(device.streams[i]) ||
                entry->work[i] <= device.streams[stream].behind[i],
            "new work on stream %d would not wait for stream %d", stream, i);
    entry->queued_count--;
    ep->accepted_count--;
    entry->is_in = false;
    entry->deferred.next = kNext;
    entry->deferred.epoch_streams = kStreamsOfNobody;
    return entry;
}

void EpScenario::Settle(mbr_deferred *deferred, mbr_settled how)
{
    auto *entry = reinterpret_cast<Entry *>(deferred);
    EpScenario *self = entry->scenario;
    const Device &device = entry->ep->device;
    device.Journal("settles", static_cast<uint64_t>(entry - self->entries_), how);
    sched_context_check_no_lock();
    SCHED_CALLBACK_POINT();
    SCHED_REQUIRE(++entry->settled_count <= entry->queued_count, "settled twice");
    for (int i = 0; i < kStreams; i++)
        SCHED_REQUIRE(how == MBR_SETTLED_LOST || device.Done(device.streams[i]) >= entry->work[i],
            "settled before the work of stream %d was done", i);
    SCHED_REQUIRE(how == MBR_SETTLED_RELEASED ||
        sched_context_look(entry->ep->context).state == MBR_CONTEXT_LOST);
    deferred->next = kNext;
    deferred->epoch_streams = kStreamsOfNobody;
    self->settled_count_++;
    const auto number = static_cast<uint64_t>(entry - self->entries_);
    self->Settled(entry);
    device.Journal("settled", number);
    if (!self->is_awaited_)
        return;
    sched_mutex_lock(&self->mutex_);
    sched_condition_broadcast(&self->settled_);
    sched_mutex_unlock(&self->mutex_);
}

// ---- Calls that the journal has
mbr_status EpScenario::Drain(Ep *ep, uint64_t deadline_ns)
{
    ep->device.Journal("drains", 0);
    mbr_status status = mbr_context_drain(ep->context, deadline_ns, nullptr);
    ep->device.Journal("drained", status == MBR_OK);
    return status;
}

mbr_status EpScenario::Synchronize(Ep *ep, uint64_t stream_id, uint64_t deadline_ns)
{
    uint64_t stream = 0;
    while (stream < kStreams && ep->device.streams[stream].id != stream_id)
        stream++;
    ep->device.Journal("synchronizes", stream);
    mbr_status status = mbr_context_synchronize(ep->context, stream_id, deadline_ns, nullptr);
    ep->device.Journal("synchronized", stream, status == MBR_OK);
    return status;
}

void EpScenario::Lose(Ep *ep)
{
    ep->device.Journal("loses", 0);
    mbr_context_lose(ep->context);
    ep->device.Journal("lose", 0);
}

void EpScenario::AwaitSettled(uint64_t count)
{
    sched_mutex_lock(&mutex_);
    while (settled_count_ < count)
        sched_condition_wait(&settled_, &mutex_, nullptr);
    sched_mutex_unlock(&mutex_);
}

std::vector<uint64_t> EpScenario::Marked() const
{
    std::vector<uint64_t> marks;
    for (int i = 0; i < entry_count_; i++)
        marks.push_back(entries_[i].is_in ? entries_[i].queued_count : 0);
    return marks;
}

void EpScenario::RequireSettled(const std::vector<uint64_t> &marks) const
{
    for (size_t i = 0; i < marks.size(); i++)
        SCHED_REQUIRE(entries_[i].settled_count >= marks[i], "entry %zu is still queued", i);
}

// ---- Contexts
EpScenario::EpScenario(Draw &draw) : draw_(draw), ep_(&draw), seam_(heap_.Seam()) {}

void EpScenario::Create(Ep *ep, const mbr_context_options &wanted)
{
    mbr_context_options options = wanted;
    options.name = "ep";
    options.order = Device::Order();
    options.instance = reinterpret_cast<mbr_instance *>(&ep->device);
    options.heap = &seam_;
    options.clock = &sched_clock;
    SCHED_REQUIRE(mbr_context_create(&options, &ep->context, nullptr) == MBR_OK);
    ep->device.context = ep->context;
    ep->device.number = eps_.size() + 1;
    sched_journal_line("ep %" PRIu64, ep->device.number);
    ep->queue_entries = wanted.queue_entries != 0 ? wanted.queue_entries : UINT64_MAX;
    eps_.push_back(ep);
    for (uint64_t i = 0; i < kStreams; i++)
        SCHED_REQUIRE(mbr_context_attach_stream(ep->context, {MBR_NATIVE_STREAM_CPU, 0, i},
                          &ep->device.streams[i].id, nullptr) == MBR_OK);
}

// Between two steps: what a lock hides is whole where the lock is free.
void EpScenario::LookAt(const Ep &ep) const
{
    sched_context_now now = sched_context_look(ep.context);
    SCHED_REQUIRE(now.queued_count <= ep.queue_entries, "%" PRIu64 " entries", now.queued_count);
    SCHED_REQUIRE(now.state != MBR_CONTEXT_TERMINATED ||
            (now.pin_count == 0 && now.queued_count == 0 && (!now.settling || now.is_locked)),
        "terminated with %" PRIu64 " pins and %" PRIu64 " entries", now.pin_count,
        now.queued_count);
    if (now.is_locked)
        return;
    const char *broken = mbr_context_audit(ep.context);
    SCHED_REQUIRE(broken == nullptr, "%s", broken);
}

void EpScenario::Look(uint8_t)
{
    for (const Ep *ep : eps_)
        if (ep->context != nullptr)
            LookAt(*ep);
}

void EpScenario::Finish(Ep *ep)
{
    ep->device.RunFreely();
    mbr_status status = Drain(ep, kForever);
    bool is_lost = sched_context_look(ep->context).state == MBR_CONTEXT_LOST;
    SCHED_REQUIRE(status == MBR_OK || is_lost, "status %d", status);
    if (is_lost)
        Lose(ep); // waits for whoever settles
    mbr_ep_figures figures = {};
    figures.struct_size = sizeof(figures);
    mbr_context_read(ep->context, &figures);
    SCHED_REQUIRE(figures.queued_count == 0 && figures.queued_bytes == 0 && figures.pin_count == 0);
    SCHED_REQUIRE(figures.released_count + figures.lost_count == ep->accepted_count,
        "%" PRIu64 " released, %" PRIu64 " lost of %" PRIu64, figures.released_count,
        figures.lost_count, ep->accepted_count);
    SCHED_REQUIRE(figures.violation_count == 0);
    Destroy(ep);
}

void EpScenario::Destroy(Ep *ep)
{
    mbr_context *context = ep->context;
    bool is_lost = sched_context_look(context).state == MBR_CONTEXT_LOST;
    ep->context = nullptr; // nobody looks at it any more
    mbr_error error = {};
    error.struct_size = sizeof(error);
    SCHED_REQUIRE(mbr_context_destroy(context, &error) == MBR_OK, "%s", error.text);
    ep->device.context = nullptr;
    SCHED_REQUIRE(is_lost || ep->device.is_lost || ep->device.OpenLines() == 0);
}

void EpScenario::JudgeEntries() const
{
    for (int i = 0; i < entry_count_; i++) {
        const Entry &entry = entries_[i];
        SCHED_REQUIRE(entry.settled_count == entry.queued_count,
            "entry %d was settled %" PRIu64 " times of %" PRIu64, i, entry.settled_count,
            entry.queued_count);
        SCHED_REQUIRE(entry.settled_count == 0 ||
                (entry.deferred.next == kNext && entry.deferred.epoch_streams == kStreamsOfNobody),
            "an entry was written after its settle");
    }
}

void EpScenario::Judge()
{
    for (Ep *ep : eps_)
        if (ep->context != nullptr)
            Finish(ep);
    JudgeEntries();
    heap_.Judge();
}

} // namespace sched_test
