/* The tables that stand in for absent capabilities and slots. */
#ifndef MEMBRANE_HOST_LOADER_STUBS_H
#define MEMBRANE_HOST_LOADER_STUBS_H

#include "membrane/membrane_plugin.h"

extern const mbr_plugin_vtable mbr_stub_mbr_plugin_vtable;
extern const mbr_allocator_vtable mbr_stub_mbr_allocator_vtable;
extern const mbr_virtual_vtable mbr_stub_mbr_virtual_vtable;
extern const mbr_shared_vtable mbr_stub_mbr_shared_vtable;
extern const mbr_order_vtable mbr_stub_mbr_order_vtable;
extern const mbr_transfer_vtable mbr_stub_mbr_transfer_vtable;

#endif
