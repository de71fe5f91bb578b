// The own file of a GPU's plugin over a stand-in for its driver: its mechanisms, one call a slot;
// the driver itself, by hand beside it; and the stand-in's controls. The environment says which
// plugin, as tests/support/plugin.bzl has it: CUDA's where it says nothing.
#ifndef MEMBRANE_TESTS_UNIT_PLUGINS_GPU_WORLD_H
#define MEMBRANE_TESTS_UNIT_PLUGINS_GPU_WORLD_H

#include "plugins/common/gpu.h"
#include "tests/standin/control.h"
#include "tests/unit/plugins_host/mechanism.h"

#include <gtest/gtest.h>

namespace gpu_test
{

using host_test::Mechanism;
using host_test::Result;
using host_test::sized;

using Knobs = struct ::standin_options; // its name is also a function's

bool is_hip();
uint32_t stream_kind();          // MBR_NATIVE_STREAM_… of the driver
extern const uint64_t G;         // the granule that the stand-in is given
extern const uint64_t kCapacity; // of each device

// What the drivers have in common, as a user would call it; copy_async is not. Their own names.
struct Driver : mbr_gpu_calls {
    mbr_gpu_result (*init)(unsigned flags);
    mbr_gpu_result (*capture_begin)(mbr_gpu_stream stream, uint32_t mode);
    mbr_gpu_result (*capture_end)(mbr_gpu_stream stream, void **graph);
    mbr_gpu_result (*graph_destroy)(void *graph);
};
const Driver &driver();
const char *plugin_path();
const mbr_gpu_names &name();
void *driver_function(const char *name);

// The calling thread's current context or device.
uint64_t current();
// The calling thread on a device, as its user: with the primary context current, or the device.
class Inside
{
  public:
    explicit Inside(int device);
    ~Inside();

  private:
    int device_;
    uint64_t before_;
};

// The stand-in's own functions, which its library exports beside the driver's.
struct Standin {
    decltype(&standin_options) options;
    decltype(&standin_restart) restart;
    decltype(&standin_step) step;
    decltype(&standin_plan_fault) plan_fault;
    decltype(&standin_forget_faults) forget_faults;
    decltype(&standin_lose) lose;
    decltype(&standin_hang_event) hang_event;
    decltype(&standin_release_events) release_events;
    decltype(&standin_hide) hide;
    decltype(&standin_read_ledger) read_ledger;
    decltype(&standin_calls) calls;
    decltype(&standin_assert_clean) assert_clean;
    decltype(&standin_peek) peek;
    decltype(&standin_poke) poke;
};
const Standin &standin();

// Two devices of 1024 granules; where `is_manual` work runs when `standin().step` says so.
void restart(bool is_manual = false);
standin_ledger ledger();

// One mechanism, with the slots that the host plugin does not have.
class Device : public Mechanism
{
  public:
    Device() = default;
    explicit Device(const char *name, mbr_native context = {});
    static mbr_status try_open(const char *name, mbr_native context, Device *device,
        mbr_error *error, const host_test::Options &options = {},
        const mbr_plugin_vtable *opener = nullptr); // the plugin

    Result protect_all(
        uint64_t reservation, uint64_t offset, uint64_t bytes, const std::vector<mbr_access> &list);
    Result share_with(uint64_t reservation, uint64_t offset, uint64_t extent,
        const std::vector<mbr_access> &list);
    Result line_open(uint64_t id, mbr_native stream);
    Result signal(uint64_t id);
    Result reached(uint64_t id);
    Result wait(uint64_t id, uint64_t value, uint64_t deadline_ns);
    Result stream_wait(uint64_t id, uint64_t value, mbr_native stream);
    Result line_close(uint64_t id);
    mbr_status stream_create(mbr_native *stream);
    Result stream_destroy(mbr_native stream);
    Result fill(mbr_native stream, uint64_t address, uint64_t bytes, uint32_t pattern);
    Result copy(mbr_native stream, uint64_t to, uint64_t from, uint64_t bytes);
    Result quiesce(uint64_t deadline_ns);

    const mbr_order_vtable *order = nullptr;
    const mbr_transfer_vtable *transfer = nullptr;
};

const mbr_plugin_vtable *plugin();
// The plugin as if its process had just begun: a copy of the file, which knows no driver yet.
const mbr_plugin_vtable *fresh_plugin();
mbr_status describe(const mbr_plugin_vtable *plugin, uint32_t index,
    mbr_mechanism_description *description, mbr_error *error);

// What a plugin in a fresh process says of its first mechanism, over a stand-in like this.
struct Told {
    mbr_status status;
    std::string text;
};
Told ask(const Knobs &options);
Knobs usual(); // as the environment has it

// An instance that cannot be closed, because something of it is withheld or lost.
void give_up(const Device &device);

inline mbr_native native(mbr_gpu_stream stream)
{
    return {stream_kind(), 0, reinterpret_cast<uint64_t>(stream)};
}

uint64_t now_ns();

// A plugin's books are the driver's; nothing is left behind at the end.
class OverStandin : public testing::Test
{
  protected:
    void SetUp() override { restart(); }
    void TearDown() override
    {
        standin().forget_faults();
        standin().assert_clean();
    }
};

} // namespace gpu_test

#endif
