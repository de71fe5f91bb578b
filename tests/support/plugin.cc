/* Reads the environment once and finds the stand-in's controls, in the library that the plugin has
 * opened. Opens no plugin and calls no driver. */
#include "tests/support/plugin.h"

#include "tests/standin/control.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace membrane
{

namespace
{

struct Controls {
    decltype(&standin_view) view;
    decltype(&standin_submit) submit;
};

template <typename Function> void find(void *library, Function *function, const char *name)
{
    void *found = library != nullptr ? dlsym(library, name) : nullptr;
    if (found == nullptr) {
        std::fprintf(stderr, "MEMBRANE_TEST_DRIVER has no %s: %s\n", name, dlerror());
        std::abort();
    }
    std::memcpy(function, &found, sizeof(found));
}

const Controls &controls()
{
    static const Controls found = [] {
        const char *driver = std::getenv("MEMBRANE_TEST_DRIVER");
        void *library = driver != nullptr ? dlopen(driver, RTLD_NOW | RTLD_LOCAL) : nullptr;
        Controls made;
        find(library, &made.view, "standin_view");
        find(library, &made.submit, "standin_submit");
        return made;
    }();
    return found;
}

} // namespace

const PluginUnderTest &plugin_under_test()
{
    static const PluginUnderTest chosen = [] {
        const char *device = std::getenv("MEMBRANE_TEST_PLUGIN");
        const char *granule = std::getenv("MEMBRANE_TEST_GRANULE");
        if (device != nullptr && granule != nullptr)
            return PluginUnderTest{device, true, {{"granule", granule}}};
        if (device != nullptr)
            return PluginUnderTest{device, true, {}};
        return PluginUnderTest{"plugins/host/libmembrane-host.so", false, {{"granule", "4096"}}};
    }();
    return chosen;
}

uint8_t *view_of(uint64_t address)
{
    void *at = plugin_under_test().brings_ep ? controls().view(0, address)
                                             : reinterpret_cast<void *>(address);
    return static_cast<uint8_t *>(at);
}

void submit_to_device(mbr_native stream, void (*function)(void *argument), void *argument)
{
    if (!controls().submit(stream.value, function, argument)) {
        std::fprintf(
            stderr, "there is no stream %llx\n", static_cast<unsigned long long>(stream.value));
        std::abort();
    }
}

} // namespace membrane
