/* A loaded file, inside the loader. */
#ifndef MEMBRANE_HOST_LOADER_MODULE_H
#define MEMBRANE_HOST_LOADER_MODULE_H

#include "host/loader/image.h"
#include "host/loader/trace.h"

#include <stdatomic.h>

#define MBR_PLUGIN_VERSION_BYTES 64

struct mbr_module {
    mbr_heap heap;
    void *handle; /* of dlopen */
    mbr_image image;
    mbr_candidate candidate;
    mbr_plugin_vtable plugin; /* the host's copy; its texts point into this struct */
    char version[MBR_PLUGIN_VERSION_BYTES];
    uint16_t minor;
    mbr_trace_sink trace;
    mbr_fork_guard fork;
    _Atomic uint32_t open_count;   /* mechanisms that are open */
    _Atomic uint32_t leaked_count; /* instances that could not be closed: their code stays (I3) */
};

/* Asks the entry for a minor and takes its plugin table: fills plugin, version and minor. On
 * refusal candidate holds MBR_REASON_NO_COMMON_MINOR, _NEGOTIATION or _BAD_TABLE, and the status is
 * the entry's own if it gave one. */
mbr_status mbr_module_negotiate(mbr_module *module, mbr_entry_function entry);

#endif
