#include "tests/unit/plugins_gpu/world.h"

#include "plugins/cuda/driver.h"
#include "plugins/hip/driver.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

namespace gpu_test
{

namespace
{

const char *library_name()
{
    const char *told = getenv("MEMBRANE_TEST_DRIVER");
    return told != nullptr ? told : MBR_CUDA_LIBRARY;
}

template <typename Function> void find(Function *function, const char *name)
{
    void *found = driver_function(name);
    EXPECT_NE(found, nullptr) << name;
    memcpy(function, &found, sizeof(found));
}

// A call of the driver's that the two do not share.
template <typename... Arguments> void call(const char *name, Arguments... arguments)
{
    mbr_gpu_result (*function)(Arguments...);
    find(&function, name);
    EXPECT_EQ(function(arguments...), MBR_GPU_SUCCESS) << name;
}

template <typename Table>
const Table *fetch(const mbr_plugin_vtable *plugin, mbr_instance *instance, const char *id)
{
    auto request = sized<mbr_capability_request>();
    auto outcome = sized<mbr_capability_outcome>();
    request.id = id;
    if (plugin->capability(instance, &request, &outcome, nullptr) != MBR_OK)
        return nullptr;
    return reinterpret_cast<const Table *>(outcome.table);
}

} // namespace

bool is_hip()
{
    static const bool it = strstr(library_name(), "hip") != nullptr;
    return it;
}

const char *plugin_path()
{
    return is_hip() ? "plugins/hip/libmembrane-hip.so" : "plugins/cuda/libmembrane-cuda.so";
}

uint32_t stream_kind()
{
    return is_hip() ? MBR_NATIVE_STREAM_HIP : MBR_NATIVE_STREAM_CUDA;
}

const uint64_t G = is_hip() ? UINT64_C(2) << 20 : 65536;
const uint64_t kCapacity = 1024 * G;

void *driver_function(const char *name)
{
    static void *opened = dlopen(library_name(), RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr)
        ADD_FAILURE() << dlerror();
    return opened != nullptr ? dlsym(opened, name) : nullptr;
}

const mbr_gpu_names &name()
{
    static const mbr_gpu_names names = [] {
        mbr_gpu_names made = {};
#define NAME(member, exported, parameters) made.member = #exported;
        if (is_hip()) {
            MBR_HIP_PLAIN_FUNCTIONS(NAME)
            MBR_HIP_VIRTUAL_FUNCTIONS(NAME)
            made.copy_async = "hipMemcpyAsync";
        } else {
            MBR_CUDA_SHARED_FUNCTIONS(NAME)
        }
#undef NAME
        return made;
    }();
    return names;
}

const Driver &driver()
{
    static const Driver found = [] {
        Driver made = {};
#define FIND(member, parameters) find(&made.member, name().member);
        MBR_GPU_CALLS(FIND)
#undef FIND
        find(&made.init, is_hip() ? "hipInit" : "cuInit");
        find(&made.capture_begin, is_hip() ? "hipStreamBeginCapture" : "cuStreamBeginCapture_v2");
        find(&made.capture_end, is_hip() ? "hipStreamEndCapture" : "cuStreamEndCapture");
        find(&made.graph_destroy, is_hip() ? "hipGraphDestroy" : "cuGraphDestroy");
        made.copy_async = nullptr; // HIP's wants a word more
        return made;
    }();
    return found;
}

uint64_t current()
{
    mbr_gpu_device device = 0;
    void *context = nullptr;
    if (is_hip())
        call("hipGetDevice", &device);
    else
        call("cuCtxGetCurrent", &context);
    return is_hip() ? (uint64_t)device : reinterpret_cast<uint64_t>(context);
}

Inside::Inside(int device) : device_(device), before_(current())
{
    void *context = nullptr;
    if (is_hip()) {
        call("hipSetDevice", device);
        return;
    }
    call("cuDevicePrimaryCtxRetain", &context, device);
    call("cuCtxPushCurrent_v2", context);
}

Inside::~Inside()
{
    void *popped;
    if (is_hip()) {
        call("hipSetDevice", (int)before_);
        return;
    }
    call("cuCtxPopCurrent_v2", &popped);
    call("cuDevicePrimaryCtxRelease_v2", device_);
}

const Standin &standin()
{
    static const Standin found = [] {
        Standin made;
        find(&made.options, "standin_options");
        find(&made.restart, "standin_restart");
        find(&made.step, "standin_step");
        find(&made.plan_fault, "standin_plan_fault");
        find(&made.forget_faults, "standin_forget_faults");
        find(&made.lose, "standin_lose");
        find(&made.hang_event, "standin_hang_event");
        find(&made.release_events, "standin_release_events");
        find(&made.hide, "standin_hide");
        find(&made.read_ledger, "standin_read_ledger");
        find(&made.calls, "standin_calls");
        find(&made.assert_clean, "standin_assert_clean");
        find(&made.peek, "standin_peek");
        find(&made.poke, "standin_poke");
        return made;
    }();
    return found;
}

void restart(bool is_manual)
{
    Knobs options;
    standin().options(&options);
    options.device_count = 2;
    options.capacity_bytes = kCapacity;
    options.granule_min_bytes = options.granule_recommended_bytes = G;
    if (is_hip())
        options.content = STANDIN_ZEROS; // 2 MiB of poison for each would be most of the time
    options.mode = is_manual ? STANDIN_MANUAL : STANDIN_THREADED;
    standin().restart(&options);
    EXPECT_EQ(driver().init(0), MBR_GPU_SUCCESS); /* which the plugin does once a process */
}

standin_ledger ledger()
{
    standin_ledger read;
    standin().read_ledger(&read);
    return read;
}

const mbr_plugin_vtable *plugin()
{
    static const mbr_plugin_vtable *loaded = host_test::plugin_from_file(plugin_path());
    return loaded;
}

const mbr_plugin_vtable *fresh_plugin()
{
    static int count = 0;
    const char *folder = getenv("TEST_TMPDIR");
    std::string path =
        std::string(folder ? folder : "/tmp") + "/fresh" + std::to_string(++count) + ".so";
    std::ofstream(path, std::ios::binary) << std::ifstream(plugin_path(), std::ios::binary).rdbuf();
    return host_test::plugin_from_file(path.c_str());
}

mbr_status describe(const mbr_plugin_vtable *plugin, uint32_t index,
    mbr_mechanism_description *description, mbr_error *error)
{
    auto request = sized<mbr_mechanisms_request>();
    request.index = index;
    *description = sized<mbr_mechanism_description>();
    *error = sized<mbr_error>();
    return plugin->mechanisms(nullptr, &request, description, error);
}

Told ask(const Knobs &options)
{
    mbr_mechanism_description description;
    mbr_error error;
    standin().restart(&options);
    mbr_status status = describe(fresh_plugin(), 0, &description, &error);
    return {status, error.text};
}

Knobs usual()
{
    Knobs options;
    standin().options(&options);
    return options;
}

uint64_t now_ns()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void give_up(const Device &device)
{
    static std::vector<mbr_instance *> *given_up = new std::vector<mbr_instance *>;
    given_up->push_back(device.instance);
}

// ---- One mechanism --------------------------------------------------------------------------

mbr_status Device::try_open(const char *name, mbr_native context, Device *device, mbr_error *error,
    const host_test::Options &options, const mbr_plugin_vtable *opener)
{
    if (opener == nullptr)
        opener = gpu_test::plugin();
    std::vector<mbr_option> list;
    for (const auto &[key, value] : options)
        list.push_back({key.c_str(), value.c_str()});
    auto request = sized<mbr_open_request>();
    request.mechanism = name;
    request.option_count = (uint32_t)list.size();
    request.options = list.data();
    request.native_context = context;
    request.log = [](void *, uint32_t, const char *, uint64_t) {};
    auto outcome = sized<mbr_open_outcome>();
    *error = sized<mbr_error>();
    mbr_status status = opener->open(nullptr, &request, &outcome, error);
    EXPECT_EQ(status == MBR_OK, outcome.instance != nullptr);
    if (status != MBR_OK)
        return status;
    mbr_instance *instance = outcome.instance;
    bool has_virtual = fetch<mbr_virtual_vtable>(opener, instance, MBR_ID_VIRTUAL) != nullptr;
    static_cast<Mechanism &>(*device) = Mechanism(opener, instance, has_virtual);
    device->order = fetch<mbr_order_vtable>(opener, instance, MBR_ID_ORDER);
    device->transfer = fetch<mbr_transfer_vtable>(opener, instance, MBR_ID_TRANSFER);
    return MBR_OK;
}

Device::Device(const char *name, mbr_native context)
{
    mbr_error error;
    EXPECT_EQ(try_open(name, context, this, &error), MBR_OK) << error.text;
}

Result Device::protect_all(
    uint64_t reservation, uint64_t offset, uint64_t bytes, const std::vector<mbr_access> &list)
{
    auto request = sized<mbr_protect_request>();
    request.access_count = (uint32_t)list.size();
    request.access = list.data();
    request.reservation_id = reservation;
    request.offset_bytes = offset;
    request.bytes = bytes;
    return host_test::call(virtual_->protect, instance, request);
}

Result Device::share_with(
    uint64_t reservation, uint64_t offset, uint64_t extent, const std::vector<mbr_access> &list)
{
    auto request = sized<mbr_map_shared_request>();
    request.access_count = (uint32_t)list.size();
    request.access = list.data();
    request.reservation_id = reservation;
    request.offset_bytes = offset;
    request.extent_id = extent;
    return host_test::call(shared->map_shared, instance, request);
}

Result Device::line_open(uint64_t id, mbr_native stream)
{
    auto request = sized<mbr_line_open_request>();
    request.line_id = id;
    request.stream = stream;
    return host_test::call(order->line_open, instance, request);
}

static mbr_line_request line_request(uint64_t id)
{
    auto request = sized<mbr_line_request>();
    request.line_id = id;
    return request;
}

Result Device::signal(uint64_t id)
{
    return host_test::call(order->signal, instance, line_request(id));
}

Result Device::reached(uint64_t id)
{
    return host_test::call(order->reached, instance, line_request(id));
}

Result Device::line_close(uint64_t id)
{
    return host_test::call(order->line_close, instance, line_request(id));
}

Result Device::wait(uint64_t id, uint64_t value, uint64_t deadline_ns)
{
    auto request = sized<mbr_line_wait_request>();
    request.line_id = id;
    request.value = value;
    request.deadline_ns = deadline_ns;
    return host_test::call(order->wait, instance, request);
}

Result Device::stream_wait(uint64_t id, uint64_t value, mbr_native stream)
{
    auto request = sized<mbr_stream_wait_request>();
    request.line_id = id;
    request.value = value;
    request.stream = stream;
    return host_test::call(order->stream_wait, instance, request);
}

mbr_status Device::stream_create(mbr_native *stream)
{
    auto request = sized<mbr_stream_create_request>();
    auto outcome = sized<mbr_stream_create_outcome>();
    mbr_status status = transfer->stream_create(instance, &request, &outcome, nullptr);
    *stream = outcome.stream;
    return status;
}

Result Device::stream_destroy(mbr_native stream)
{
    auto request = sized<mbr_stream_destroy_request>();
    request.stream = stream;
    return host_test::call(transfer->stream_destroy, instance, request);
}

Result Device::fill(mbr_native stream, uint64_t address, uint64_t bytes, uint32_t pattern)
{
    auto request = sized<mbr_fill_request>();
    request.pattern = pattern;
    request.stream = stream;
    request.address = address;
    request.bytes = bytes;
    return host_test::call(transfer->fill, instance, request);
}

Result Device::copy(mbr_native stream, uint64_t to, uint64_t from, uint64_t bytes)
{
    auto request = sized<mbr_copy_request>();
    request.stream = stream;
    request.to_address = to;
    request.from_address = from;
    request.bytes = bytes;
    return host_test::call(transfer->copy, instance, request);
}

Result Device::quiesce(uint64_t deadline_ns)
{
    auto request = sized<mbr_quiesce_request>();
    request.deadline_ns = deadline_ns;
    return host_test::call(plugin->quiesce, instance, request);
}

} // namespace gpu_test
