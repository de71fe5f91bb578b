// EPs for one schedule: a device that does no work before it is asked for it, contexts over it,
// entries that check when they are settled, and the judgment that all scenarios share: everything
// was settled once, the audit held between any two steps, nothing is left.
#ifndef MEMBRANE_TESTS_SCHED_EP_WORLD_H
#define MEMBRANE_TESTS_SCHED_EP_WORLD_H

#include "tests/sched/heap.h"

extern "C" {
#include "host/ep/audit.h"
#include "host/ep/context.h"
#include "tests/sched/ep_door.h"
#include "tests/sched/journal.h"
#include "tests/sched/shim.h"
}

#include <cinttypes>

namespace sched_test
{

constexpr uint64_t kForever = UINT64_MAX;
constexpr uint64_t kSmall = 4096;
constexpr int kStreams = 2;                            // of an EP, attached from the beginning
constexpr int kLines = 4;                              // open at once
constexpr int kEntries = 72;                           // of a scenario
constexpr uint32_t kFirst = 1, kSecond = 2, kBoth = 3; // sets of streams

// Closed until somebody opens it.
class Gate
{
  public:
    void Open()
    {
        sched_mutex_lock(&mutex_);
        is_open_ = true;
        sched_condition_broadcast(&opened_);
        sched_mutex_unlock(&mutex_);
    }

    void Await()
    {
        sched_mutex_lock(&mutex_);
        while (!is_open_)
            sched_condition_wait(&opened_, &mutex_, nullptr);
        sched_mutex_unlock(&mutex_);
    }

  private:
    bool is_open_ = false;
    sched_mutex mutex_ = {};
    sched_condition opened_ = {};
};

// A native stream: work is submitted to it and done in order.
struct Stream {
    uint64_t id = 0; // for the context
    uint64_t submitted = 0, done = 0;
    uint64_t behind[kStreams] = {}; // work of each stream that later work here waits for
    bool is_gone = false;           // its owner destroyed it
};

// The order table of one EP. It checks what the host promises to a slot.
class Device
{
  public:
    explicit Device(Draw *draw) : draw_(draw) {}

    static const mbr_order_vtable *Order();

    // In the journal. One line of it, of the EP.
    uint64_t number = 0;
    void Journal(const char *word, uint64_t first, uint64_t second = 0) const;

    // From now on what is submitted is done at once, and nothing is refused any more.
    void RunFreely() { runs_freely_ = true; }

    uint64_t Done(const Stream &stream) const
    {
        return runs_freely_ && !is_lost ? stream.submitted : stream.done;
    }

    int OpenLines() const;

    Stream streams[kStreams];
    const mbr_context *context = nullptr; // once it is made
    uint64_t busy_answers = 0;            // of signals: the stream is being captured
    uint64_t calls_to_loss = UINT64_MAX;  // the call after so many finds the device lost
    bool is_lost = false;
    bool is_stalled = false; // who asks is told what is done, and nothing more gets done
    uint64_t refused_opens = 0, refused_stream_waits = 0;

  private:
    static constexpr int kValues = 96; // of a line

    struct Line {
        uint64_t id = 0; // 0: not open
        Stream *stream = nullptr;
        uint64_t value = 0, covers[kValues] = {};
        int callers = 0;
        bool in_serial_slot = false;
    };

    void Lose();
    mbr_status Enter(Line *line, bool is_serial);
    static void Leave(Line *line, bool is_serial);
    Line *Find(uint64_t id);
    uint64_t Reached(const Line &line) const;
    void WaitFor(const Line &line, uint64_t value);

    static mbr_status Open(
        mbr_instance *, const mbr_line_open_request *, mbr_outcome *, mbr_error *);
    static mbr_status Signal(mbr_instance *, const mbr_line_request *, mbr_outcome *, mbr_error *);
    static mbr_status AskReached(
        mbr_instance *, const mbr_line_request *, mbr_outcome *, mbr_error *);
    static mbr_status Wait(
        mbr_instance *, const mbr_line_wait_request *, mbr_outcome *, mbr_error *);
    static mbr_status StreamWait(
        mbr_instance *, const mbr_stream_wait_request *, mbr_outcome *, mbr_error *);
    static mbr_status Close(mbr_instance *, const mbr_line_request *, mbr_outcome *, mbr_error *);

    Draw *draw_;
    Line lines_[kLines];
    bool runs_freely_ = false;
};

// One context over its device.
struct Ep {
    explicit Ep(Draw *draw) : device(draw) {}

    Device device;
    mbr_context *context = nullptr;
    uint64_t accepted_count = 0;
    uint64_t queue_entries = UINT64_MAX; // bound
};

class EpScenario;

struct Entry {
    mbr_deferred deferred; // first: settle gets its address
    EpScenario *scenario;
    Ep *ep;
    uint64_t work[kStreams]; // of each stream: what must be done before
    bool is_in;              // its defer has returned MBR_OK
    uint64_t queued_count, settled_count;
};

// A scenario defers in its bodies; whoever made a context destroys it there, or leaves it to Judge.
class EpScenario : public Scenario
{
  public:
    explicit EpScenario(Draw &draw);

    void Look(uint8_t fiber) override;
    void Judge() override;

  protected:
    // A context with both streams attached.
    void Create(Ep *ep, const mbr_context_options &wanted = {});
    // An entry behind new work on each stream of the set; it is handed back untouched or queued.
    mbr_status Defer(Ep *ep, uint32_t streams, uint64_t bytes = kSmall, mbr_shelf *shelf = nullptr,
        mbr_graphs graphs = {0, 0});
    // The same entry once more: in its own settle, or after Take.
    mbr_status Queue(Entry *entry, uint32_t streams);
    // An entry of the shelf for new work on a stream, or NULL. The new work comes after all that
    // the entry stands behind, and the entry is the caller's.
    Entry *Take(Ep *ep, mbr_shelf *shelf, int stream, bool behind_others);
    // What the settle of an entry does besides, which is no longer the queue's; no lock is held.
    virtual void Settled(Entry *entry) { (void)entry; }

    // How often each entry that is in was queued, and that it was settled as often.
    std::vector<uint64_t> Marked() const;
    void RequireSettled(const std::vector<uint64_t> &marks) const;
    // As mbr_context_…, and in the journal.
    mbr_status Drain(Ep *ep, uint64_t deadline_ns);
    mbr_status Synchronize(Ep *ep, uint64_t stream_id, uint64_t deadline_ns);
    void Lose(Ep *ep);

    // Until so many are settled; only where is_awaited_.
    void AwaitSettled(uint64_t count);
    // Everything is settled and given back.
    void Finish(Ep *ep);
    void Destroy(Ep *ep);

    const mbr_heap *Heap() const { return &seam_; }

    Draw &draw_;
    Ep ep_;
    bool is_awaited_ = false;

  private:
    static void Settle(mbr_deferred *deferred, mbr_settled how);
    void LookAt(const Ep &ep) const;
    void JudgeEntries() const;

    GuardedHeap heap_;
    mbr_heap seam_;
    std::vector<Ep *> eps_;
    Entry entries_[kEntries];
    int entry_count_ = 0;
    uint64_t settled_count_ = 0;
    sched_mutex mutex_ = {};
    sched_condition settled_ = {};
};

} // namespace sched_test

#endif
