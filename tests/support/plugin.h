/* The plugin that a suite runs on. tests/support/plugin.bzl says which, through the environment:
 * the host plugin with the CPU EP where it says nothing, else a device's plugin that brings its own
 * EP. What differs between them a suite asks of the mechanism's facts; what a test does by hand to
 * memory and on streams goes through here. */
#ifndef MEMBRANE_TESTS_SUPPORT_PLUGIN_H
#define MEMBRANE_TESTS_SUPPORT_PLUGIN_H

#include "membrane/cpu.h"

#include <cstdint>
#include <vector>

namespace membrane
{

struct PluginUnderTest {
    const char *path;
    bool brings_ep;
    /* For extents of one page, which keep tests small: a device's stand-in is told it by the
     * suite's knobs instead, and a plugin that would ask for more by MEMBRANE_TEST_GRANULE. */
    std::vector<mbr_option> page_granule;
};

const PluginUnderTest &plugin_under_test();

/* Where this process has what is at an address of the mechanism's: the address itself for the host
 * plugin and for any other that gives memory which the CPU reaches. Access is that of the mapping.
 */
uint8_t *view_of(uint64_t address);

/* Work of the test's own on a stream of the device, behind what is submitted to it. */
void submit_to_device(mbr_native stream, void (*function)(void *argument), void *argument);

} // namespace membrane

#endif
