// A CPU EP with counted seams, and its slots called the way that the host calls them.
#ifndef MEMBRANE_TESTS_UNIT_EP_CPU_FIXTURE_H
#define MEMBRANE_TESTS_UNIT_EP_CPU_FIXTURE_H

#include "tests/unit/ep/seams.h"

extern "C" {
#include "host/ep/cpu/seams.h"
}

#include <gtest/gtest.h>

#include <cstring>

namespace ep_test
{

class Cpu
{
  public:
    explicit Cpu(uint32_t streams = 0, uint32_t operations = 0)
    {
        mbr_cpu_options options = sized<mbr_cpu_options>();
        options.stream_limit = streams;
        options.operation_limit = operations;
        mbr_cpu_seams seams = {heap.seam(), threads.seam()};
        EXPECT_EQ(MBR_OK, mbr_cpu_create_with(&options, &seams, &cpu, nullptr));
        order = mbr_cpu_order(cpu);
        transfer = mbr_cpu_transfer(cpu);
        instance = mbr_cpu_instance(cpu);
    }
    ~Cpu()
    {
        mbr_error error = sized<mbr_error>();
        EXPECT_EQ(MBR_OK, mbr_cpu_destroy(cpu, &error)) << error.text;
        EXPECT_EQ(0, heap.live);
    }
    Cpu(const Cpu &) = delete;
    Cpu &operator=(const Cpu &) = delete;

    mbr_native stream()
    {
        mbr_native native;
        EXPECT_EQ(MBR_OK, mbr_cpu_stream_create(cpu, &native, nullptr));
        return native;
    }
    void destroy(mbr_native native)
    {
        EXPECT_EQ(MBR_OK, mbr_cpu_stream_destroy(cpu, native, nullptr));
    }
    void call(mbr_native native, void (*function)(void *), void *context)
    {
        EXPECT_EQ(MBR_OK, mbr_cpu_host_function(cpu, native, function, context, nullptr));
    }
    void synchronize(mbr_native native)
    {
        EXPECT_EQ(MBR_OK, mbr_cpu_synchronize(cpu, native, soon(), nullptr));
    }

    mbr_status line_open(uint64_t id, mbr_native native, mbr_error *error = nullptr)
    {
        mbr_line_open_request request = sized<mbr_line_open_request>();
        request.line_id = id;
        request.stream = native;
        return order->line_open(instance, &request, clear(), error);
    }
    mbr_status signal(uint64_t id, uint64_t *value = nullptr)
    {
        mbr_line_request request = line(id);
        mbr_status status = order->signal(instance, &request, clear(), nullptr);
        if (value != nullptr)
            *value = outcome.value;
        return status;
    }
    uint64_t reached(uint64_t id)
    {
        mbr_line_request request = line(id);
        EXPECT_EQ(MBR_OK, order->reached(instance, &request, clear(), nullptr));
        return outcome.value;
    }
    mbr_status wait(uint64_t id, uint64_t value, uint64_t deadline_ns, mbr_error *error = nullptr)
    {
        mbr_line_wait_request request = sized<mbr_line_wait_request>();
        request.line_id = id;
        request.value = value;
        request.deadline_ns = deadline_ns;
        return order->wait(instance, &request, clear(), error);
    }
    mbr_status stream_wait(uint64_t id, uint64_t value, mbr_native native)
    {
        mbr_stream_wait_request request = sized<mbr_stream_wait_request>();
        request.line_id = id;
        request.value = value;
        request.stream = native;
        return order->stream_wait(instance, &request, clear(), nullptr);
    }
    mbr_status line_close(uint64_t id)
    {
        mbr_line_request request = line(id);
        return order->line_close(instance, &request, clear(), nullptr);
    }

    Heap heap;
    Threads threads;
    mbr_cpu *cpu = nullptr;
    const mbr_order_vtable *order = nullptr;
    const mbr_transfer_vtable *transfer = nullptr;
    mbr_instance *instance = nullptr;
    mbr_outcome outcome = sized<mbr_outcome>(); // of the last slot

  private:
    mbr_line_request line(uint64_t id)
    {
        mbr_line_request request = sized<mbr_line_request>();
        request.line_id = id;
        return request;
    }
    // Filled with what a slot must overwrite.
    mbr_outcome *clear()
    {
        memset(&outcome, 0xee, sizeof outcome);
        outcome.struct_size = sizeof outcome;
        return &outcome;
    }
};

} // namespace ep_test

#endif
