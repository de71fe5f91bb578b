/* Rule 26: an exception that a plugin lets out of a slot ends the process where it passes the
 * boundary; it never skips our clean-up on its way to a handler of the client's. Each row is one
 * slot, of a C++ plugin's file or of an EP's own table, in a child process that would catch it. */
#include "tests/unit/backing/world.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <unistd.h>

namespace membrane
{
namespace
{

constexpr char kPlugin[] = "tests/support/libmembrane-throwing.so";
constexpr uint64_t kBytes = UINT64_C(1) << 20;

struct Error : mbr_error {
    Error() : mbr_error{} { struct_size = sizeof(mbr_error); }
};

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != MBR_OK) {                                                                    \
            std::fprintf(stderr, "%s: %s\n", #call, error.text);                                   \
            std::_Exit(4);                                                                         \
        }                                                                                          \
    } while (0)

void use_virtual(mbr_port *port)
{
    Error error;
    mbr_answer first, second, extent, ignored;
    MUST(mbr_port_reserve(port, kBytes, 0, &first, &error));
    MUST(mbr_port_reserve(port, kBytes, 0, &second, &error));
    MUST(mbr_port_extent_create(port, kBytes, kBytes, 0, &extent, &error));
    MUST(mbr_port_map(port, first.id, 0, extent.id, kBytes, &ignored, &error));
    MUST(mbr_port_protect(port, first.id, 0, kBytes, MBR_ACCESS_READ_WRITE, nullptr, &error));
    MUST(mbr_port_map_shared(
        port, second.id, 0, extent.id, kBytes, MBR_ACCESS_READ, &ignored, &error));
    MUST(mbr_port_unmap(port, second.id, 0, kBytes, &ignored, &error));
    MUST(mbr_port_unmap(port, first.id, 0, kBytes, &ignored, &error));
    MUST(mbr_port_extent_destroy(port, extent.id, extent.owned_bytes, &ignored, &error));
    MUST(mbr_port_unreserve(port, first.id, first.address, kBytes, &error));
    MUST(mbr_port_unreserve(port, second.id, second.address, kBytes, &error));
}

/* Calls every slot of a plugin that the host ever calls. */
void use_plugin()
{
    Error error;
    mbr_module_options options = {};
    options.name_or_path = kPlugin;
    options.trusted = true;
    mbr_module *module;
    MUST(mbr_module_open(&options, &module, nullptr, &error));
    mbr_mechanism_options mechanism_options = {};
    mbr_mechanism mechanism;
    MUST(mbr_mechanism_open(module, &mechanism_options, &mechanism, &error));
    mbr_addresses addresses;
    mbr_addresses_init(&addresses);
    mbr_port *port;
    MUST(mbr_port_create(&mechanism, &addresses, &mbr_heap_libc, &port, &error));
    mbr_answer memory, ignored;
    MUST(mbr_port_allocate(port, kBytes, 0, kBytes, 0, &memory, &error));
    MUST(mbr_port_audit(port, &error)); /* report, stats */
    MUST(mbr_port_release(port, memory.id, memory.address, memory.owned_bytes, &ignored, &error));
    use_virtual(port);
    MUST(mbr_port_close(port, &error));
    mbr_module_close(module);
}

/* Calls every slot of an EP's tables that the host ever calls. */
void use_lines(ManualLine *line)
{
    Error error;
    mbr_context_options options = {};
    options.name = "throwing";
    options.order = &line->table;
    options.transfer = &line->transfer;
    options.instance = reinterpret_cast<mbr_instance *>(line);
    options.queue_entries = 16;
    options.heap = &mbr_heap_libc;
    options.clock = &mbr_clock_monotonic;
    mbr_context *context;
    uint64_t stream;
    MUST(mbr_context_create(&options, &context, &error));
    MUST(mbr_context_attach_stream(context, {MBR_NATIVE_STREAM_CPU, 0, 1}, &stream, &error));
    MUST(mbr_context_fill(context, stream, 4096, 0, 4096, &error));
    mbr_context_copy(context, stream, 4096, 8192, 4096, &error); /* refused; called all the same */
    MUST(mbr_context_synchronize(context, stream, UINT64_MAX, &error));
    static mbr_deferred entry;
    entry.settle = [](mbr_deferred *, mbr_settled) {};
    MUST(mbr_context_defer(context, &stream, 1, &entry, &error));
    mbr_context_reap(context, true);
    MUST(mbr_context_detach_stream(context, stream, &error));
    MUST(mbr_context_destroy(context, &error));
}

template <typename Use> void use_and_catch(Use use)
{
    std::set_terminate([] {
        std::fputs("ended at the boundary\n", stderr);
        std::abort();
    });
    try {
        use();
    } catch (const std::exception &) {
        std::_Exit(3); /* it came through */
    }
    std::_Exit(0);
}

TEST(ThrowDeathTest, OutOfASlotOfAPlugin_EndsTheProcessAtTheBoundary)
{
    EXPECT_EXIT(use_and_catch(use_plugin), ::testing::ExitedWithCode(0), "");
    const char *const slots[] = {"entry", "plugin.mechanisms", "plugin.open", "plugin.capability",
        "plugin.close", "plugin.report", "plugin.quiesce", "allocator.fact", "allocator.allocate",
        "allocator.release", "allocator.stats", "virtual.reserve", "virtual.unreserve",
        "virtual.extent_create", "virtual.extent_destroy", "virtual.map", "virtual.protect",
        "virtual.unmap", "shared.map_shared"};
    for (const char *slot : slots) {
        SCOPED_TRACE(slot);
        setenv("MEMBRANE_THROW", slot, 1);
        EXPECT_EXIT(
            use_and_catch(use_plugin), ::testing::KilledBySignal(SIGABRT), "ended at the boundary");
        unsetenv("MEMBRANE_THROW");
    }
}

template <typename Request>
mbr_status throw_out(mbr_instance *, const Request *, mbr_outcome *, mbr_error *)
{
    throw std::runtime_error("out of a line");
}

TEST(ThrowDeathTest, OutOfASlotOfAnEp_EndsTheProcessAtTheBoundary)
{
    ManualLine good;
    EXPECT_EXIT(use_and_catch([&] { use_lines(&good); }), ::testing::ExitedWithCode(0), "");
    const struct {
        const char *slot;
        void (*break_it)(ManualLine *line);
    } rows[] = {
        {"line_open", [](ManualLine *l) { l->table.line_open = throw_out; }},
        {"signal", [](ManualLine *l) { l->table.signal = throw_out; }},
        {"reached", [](ManualLine *l) { l->table.reached = throw_out; }},
        {"wait", [](ManualLine *l) { l->table.wait = throw_out; }},
        {"line_close", [](ManualLine *l) { l->table.line_close = throw_out; }},
        {"fill", [](ManualLine *l) { l->transfer.fill = throw_out; }},
        {"copy", [](ManualLine *l) { l->transfer.copy = throw_out; }},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(row.slot);
        ManualLine line;
        row.break_it(&line);
        EXPECT_EXIT(use_and_catch([&] { use_lines(&line); }), ::testing::KilledBySignal(SIGABRT),
            "ended at the boundary");
    }
}

} // namespace
} // namespace membrane
