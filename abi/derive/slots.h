/* Written by abi/derive/derive.py from the contract headers; do not edit (rule 13).
 * MBR_SLOTS_<TABLE>(X) calls X(table, slot, request type, outcome type, minor, serial object)
 * for each slot; the serial object is "" for [any-thread]. */
#ifndef MEMBRANE_DERIVE_SLOTS_H
#define MEMBRANE_DERIVE_SLOTS_H

#include "membrane/membrane_plugin.h"

/* clang-format off */
#define MBR_SLOTS_ALLOCATOR_VTABLE(X) \
    X(mbr_allocator_vtable, fact, mbr_fact_request, mbr_fact_outcome, 0, "") \
    X(mbr_allocator_vtable, allocate, mbr_allocate_request, mbr_outcome, 0, "") \
    X(mbr_allocator_vtable, release, mbr_release_request, mbr_outcome, 0, "") \
    X(mbr_allocator_vtable, stats, mbr_stats_request, mbr_mechanism_stats, 0, "") \
    X(mbr_allocator_vtable, trim, mbr_trim_request, mbr_outcome, 0, "")

#define MBR_SLOTS_ORDER_VTABLE(X) \
    X(mbr_order_vtable, line_open, mbr_line_open_request, mbr_outcome, 0, "") \
    X(mbr_order_vtable, signal, mbr_line_request, mbr_outcome, 0, "line") \
    X(mbr_order_vtable, reached, mbr_line_request, mbr_outcome, 0, "") \
    X(mbr_order_vtable, wait, mbr_line_wait_request, mbr_outcome, 0, "") \
    X(mbr_order_vtable, stream_wait, mbr_stream_wait_request, mbr_outcome, 0, "") \
    X(mbr_order_vtable, line_close, mbr_line_request, mbr_outcome, 0, "line")

#define MBR_SLOTS_PLUGIN_VTABLE(X) \
    X(mbr_plugin_vtable, mechanisms, mbr_mechanisms_request, mbr_mechanism_description, 0, "") \
    X(mbr_plugin_vtable, open, mbr_open_request, mbr_open_outcome, 0, "") \
    X(mbr_plugin_vtable, capability, mbr_capability_request, mbr_capability_outcome, 0, "") \
    X(mbr_plugin_vtable, close, mbr_close_request, mbr_outcome, 0, "instance") \
    X(mbr_plugin_vtable, report, mbr_report_request, mbr_report, 0, "") \
    X(mbr_plugin_vtable, quiesce, mbr_quiesce_request, mbr_outcome, 0, "instance")

#define MBR_SLOTS_SHARED_VTABLE(X) \
    X(mbr_shared_vtable, map_shared, mbr_map_shared_request, mbr_outcome, 0, "reservation")

#define MBR_SLOTS_TRANSFER_VTABLE(X) \
    X(mbr_transfer_vtable, stream_create, mbr_stream_create_request, mbr_stream_create_outcome, 0, "") \
    X(mbr_transfer_vtable, stream_destroy, mbr_stream_destroy_request, mbr_outcome, 0, "") \
    X(mbr_transfer_vtable, fill, mbr_fill_request, mbr_outcome, 0, "") \
    X(mbr_transfer_vtable, copy, mbr_copy_request, mbr_outcome, 0, "")

#define MBR_SLOTS_VIRTUAL_VTABLE(X) \
    X(mbr_virtual_vtable, reserve, mbr_reserve_request, mbr_outcome, 0, "") \
    X(mbr_virtual_vtable, unreserve, mbr_unreserve_request, mbr_outcome, 0, "reservation") \
    X(mbr_virtual_vtable, extent_create, mbr_extent_create_request, mbr_outcome, 0, "") \
    X(mbr_virtual_vtable, extent_destroy, mbr_extent_destroy_request, mbr_outcome, 0, "extent") \
    X(mbr_virtual_vtable, map, mbr_map_request, mbr_outcome, 0, "reservation") \
    X(mbr_virtual_vtable, protect, mbr_protect_request, mbr_outcome, 0, "reservation") \
    X(mbr_virtual_vtable, unmap, mbr_unmap_request, mbr_outcome, 0, "reservation") \
    X(mbr_virtual_vtable, query, mbr_query_request, mbr_query_outcome, 0, "reservation")

/* The highest minor of these headers, and by minor, from 0: the digests, and the sizes of
 * each vtable, 0 before it existed. For hosts alone: a plugin states its own minor. */
#define MBR_DERIVED_MINOR_MAX 0
#define MBR_DERIVED_DIGESTS MBR_DIGEST_MINOR_0
#define MBR_DERIVED_SIZES_ALLOCATOR_VTABLE MBR_MIN_SIZE_ALLOCATOR_VTABLE_MINOR_0
#define MBR_DERIVED_SIZES_ORDER_VTABLE MBR_MIN_SIZE_ORDER_VTABLE_MINOR_0
#define MBR_DERIVED_SIZES_PLUGIN_VTABLE MBR_MIN_SIZE_PLUGIN_VTABLE_MINOR_0
#define MBR_DERIVED_SIZES_SHARED_VTABLE MBR_MIN_SIZE_SHARED_VTABLE_MINOR_0
#define MBR_DERIVED_SIZES_TRANSFER_VTABLE MBR_MIN_SIZE_TRANSFER_VTABLE_MINOR_0
#define MBR_DERIVED_SIZES_VIRTUAL_VTABLE MBR_MIN_SIZE_VIRTUAL_VTABLE_MINOR_0

/* clang-format on */

#endif
