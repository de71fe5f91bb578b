/* Holds a CPU stream: nothing that is submitted behind it runs before it opens. */
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_GATE_H
#define MEMBRANE_TESTS_UNIT_HOLDER_GATE_H

#include "membrane/cpu.h"

#include <gtest/gtest.h>

#include <future>

namespace membrane
{

class Gate
{
  public:
    Gate(mbr_cpu *cpu, mbr_native stream) : opened_(open_.get_future())
    {
        EXPECT_EQ(MBR_OK,
            mbr_cpu_host_function(
                cpu, stream,
                [](void *context) {
                    auto *gate = static_cast<Gate *>(context);
                    gate->opened_.wait();
                    gate->passed_.set_value();
                },
                this, nullptr));
    }
    ~Gate() { open(); }
    void open()
    {
        if (!is_open_) {
            is_open_ = true;
            open_.set_value();
            passed_.get_future().wait(); /* the worker does not look at it any more */
        }
    }

  private:
    std::promise<void> open_, passed_;
    std::future<void> opened_;
    bool is_open_ = false;
};

} // namespace membrane

#endif
