/* What another thread may do between a holder's look at a stream and what follows from it, at
 * exactly that moment: an EP over the world's CPU, whose wait does it. */
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_MEANWHILE_H
#define MEMBRANE_TESTS_UNIT_HOLDER_MEANWHILE_H

#include "tests/unit/bind/host_world.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
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

/* Another thread's call while this one is inside, which has to wait for it. What is right does so
 * however long; the time is what a call that does not wait gets to do its harm. */
template <typename Call> std::future<mbr_status> call_meanwhile(Call call)
{
    auto called = std::async(std::launch::async, call);
    EXPECT_EQ(std::future_status::timeout, called.wait_for(std::chrono::milliseconds(20)))
        << "it did not wait";
    return called;
}

} // namespace membrane

#endif
