/* What another thread may do between a holder's look at a stream and what follows from it, at
 * exactly that moment: an EP over the world's CPU, whose wait does it. */
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_MEANWHILE_H
#define MEMBRANE_TESTS_UNIT_HOLDER_MEANWHILE_H

#include "tests/unit/bind/host_world.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace membrane
{

class Meanwhile
{
  public:
    explicit Meanwhile(HostWorld &world) : world_(world)
    {
        order() = *mbr_cpu_order(world.cpu);
        mbr_order_vtable table = order();
        table.wait = wait;
        auto request = world.ep_request("meanwhile");
        request.order = &table;
        EXPECT_EQ(MBR_OK, mbr_ep_create(world.manager, &request, &ep_, &world.error));
        stream = attach();
        auto bind = world.bind_request();
        bind.ep = ep_;
        EXPECT_EQ(MBR_OK, mbr_manager_bind(world.manager, &bind, &binding, &world.error));
    }
    ~Meanwhile()
    {
        EXPECT_FALSE(act()) << "nobody waited";
        EXPECT_EQ(MBR_OK, mbr_ep_drain(world_.manager, ep_, kNever, &world_.error));
        EXPECT_EQ(MBR_OK, mbr_manager_unbind(world_.manager, binding, &world_.error))
            << world_.error.text;
        for (const auto &[native, attached] : streams)
            EXPECT_EQ(MBR_OK, mbr_ep_detach_stream(world_.manager, attached, &world_.error));
        EXPECT_EQ(MBR_OK, mbr_ep_destroy(world_.manager, ep_, kNever, &world_.error));
        for (const auto &[native, attached] : streams)
            world_.end_stream(native);
        is_patient() = false;
    }

    mbr_stream_handle stream = {0};
    mbr_binding_handle binding = {0};
    std::vector<std::pair<mbr_native, mbr_stream_handle>>
        streams; /* of its EP; the first is `stream` */

    mbr_stream_handle attach()
    {
        streams.emplace_back(world_.make_stream(), mbr_stream_handle{0});
        auto &[native, attached] = streams.back();
        EXPECT_EQ(
            MBR_OK, mbr_ep_attach_stream(world_.manager, ep_, native, &attached, &world_.error));
        return attached;
    }
    /* Once, in the next wait for the stream, which answers that it is done, however late. */
    void in_next_wait(std::function<void()> action) { act() = std::move(action); }
    /* So does every wait from now on: for a call that waits more than once, and whose answer cannot
     * be asked for again. None of its streams may be stalled. */
    void be_patient() { is_patient() = true; }
    /* How often its streams were waited for. */
    static std::atomic<uint64_t> &waits()
    {
        static std::atomic<uint64_t> count;
        return count;
    }

  private:
    HostWorld &world_;
    mbr_ep_handle ep_ = {0};

    static std::function<void()> &act()
    {
        static std::function<void()> action;
        return action;
    }
    static std::atomic<bool> &is_patient()
    {
        static std::atomic<bool> patient;
        return patient;
    }
    static mbr_order_vtable &order()
    {
        static mbr_order_vtable table;
        return table;
    }
    static mbr_status wait(mbr_instance *instance, const mbr_line_wait_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        mbr_line_wait_request patient = *request;
        waits()++;
        if (act() || is_patient())
            patient.deadline_ns = kNever;
        mbr_status status = order().wait(instance, &patient, outcome, error);
        if (status == MBR_OK && act())
            std::exchange(act(), nullptr)();
        return status;
    }
};

/* Whether a thread of this process sleeps in the kernel, as one does that waits for another. */
inline bool is_asleep(pid_t thread)
{
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;
    std::getline(file, line);
    size_t name_end = line.rfind(')'); /* and a space, and the state */
    return name_end != std::string::npos && line.compare(name_end, 3, ") S") == 0;
}

template <typename Answer> bool is_back(const std::future<Answer> &called)
{
    return called.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/* A call on another thread. Returns once that is back, or waits for somebody. */
template <typename Call> auto call_beside(Call call)
{
    std::promise<pid_t> begun;
    std::future<pid_t> thread_begun = begun.get_future();
    auto called = std::async(
        std::launch::async, [begun = std::move(begun), call = std::move(call)]() mutable {
            begun.set_value(gettid());
            return call();
        });
    pid_t thread = thread_begun.get();
    while (!is_back(called) && !is_asleep(thread))
        std::this_thread::yield();
    return called;
}

/* One that has to wait for this thread, which is inside. */
template <typename Call> std::future<mbr_status> call_meanwhile(Call call)
{
    auto called = call_beside(std::move(call));
    EXPECT_FALSE(is_back(called)) << "it did not wait";
    return called;
}

} // namespace membrane

#endif
