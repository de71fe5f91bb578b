// Seams for the tests of EPs: a heap that counts and refuses the Nth allocation, thread starts that
// are refused, a clock that moves when the test says so, and a gate that stalls a stream.
#ifndef MEMBRANE_TESTS_UNIT_EP_SEAMS_H
#define MEMBRANE_TESTS_UNIT_EP_SEAMS_H

extern "C" {
#include "abi/base/seam.h"
#include "host/ep/thread.h"
}

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>

namespace ep_test
{

// A struct of the contract, zero but for its size.
template <typename T> T sized()
{
    T object;
    memset(&object, 0, sizeof object);
    object.struct_size = sizeof object;
    return object;
}

constexpr uint64_t kForever = UINT64_MAX;
constexpr uint64_t kSecond = UINT64_C(1000000000);

inline uint64_t now_ns()
{
    return mbr_clock_now(&mbr_clock_monotonic);
}

// A deadline far enough that only a hang meets it.
inline uint64_t soon()
{
    return now_ns() + 60 * kSecond;
}

// Live blocks are counted; allocation number `fail_at` (from 1) is refused, once or for good.
class Heap
{
  public:
    Heap() : heap_{allocate, release, this} {}
    const mbr_heap *seam() const { return &heap_; }
    std::atomic<int64_t> live{0};
    std::atomic<uint64_t> calls{0};
    std::atomic<uint64_t> fail_at{0};
    std::atomic<bool> fail_after{false}; // every call from fail_at on

  private:
    static void *allocate(void *context, size_t bytes)
    {
        Heap *heap = static_cast<Heap *>(context);
        uint64_t call = ++heap->calls;
        uint64_t fail_at = heap->fail_at;
        if (fail_at != 0 && (call == fail_at || (heap->fail_after && call > fail_at)))
            return nullptr;
        heap->live++;
        return calloc(1, bytes);
    }
    static void release(void *context, void *memory)
    {
        if (memory != nullptr)
            static_cast<Heap *>(context)->live--;
        free(memory);
    }
    mbr_heap heap_;
};

// Thread starts go to the system; number `fail_at` is refused with EAGAIN.
class Threads
{
  public:
    Threads() : threads_{start, this} {}
    const mbr_threads *seam() const { return &threads_; }
    std::atomic<uint64_t> calls{0};
    std::atomic<uint64_t> fail_at{0};

  private:
    static int start(
        void *context, pthread_t *thread, const char *name, void *(*run)(void *), void *argument)
    {
        Threads *self = static_cast<Threads *>(context);
        if (++self->calls == self->fail_at)
            return EAGAIN;
        return mbr_threads_start(&mbr_threads_system, thread, name, run, argument);
    }
    mbr_threads threads_;
};

class Clock
{
  public:
    Clock() : clock_{read, this} {}
    const mbr_clock *seam() const { return &clock_; }
    std::atomic<uint64_t> now{1000};
    std::function<void()> on_read; // set while one thread at most reads

  private:
    static uint64_t read(void *context)
    {
        Clock *clock = static_cast<Clock *>(context);
        if (clock->on_read)
            clock->on_read();
        return clock->now;
    }
    mbr_clock clock_;
};

// A host function of a stream waits in it until the test opens it.
class Gate
{
  public:
    static void pass(void *context) { static_cast<Gate *>(context)->wait(); }
    void wait()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        arrived_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return open_; });
    }
    void await_arrival()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return arrived_; });
    }
    void open()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
    bool arrived_ = false;
};

} // namespace ep_test

#endif
