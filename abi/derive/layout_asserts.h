/* Written by abi/derive/derive.py from the contract headers; do not edit (rules 13, 14).
 * Holds the compiler to the layout that the digest was taken of: the size of every struct
 * and the offset and size of every field. */
#ifndef MEMBRANE_DERIVE_LAYOUT_ASSERTS_H
#define MEMBRANE_DERIVE_LAYOUT_ASSERTS_H

#include "membrane/membrane_plugin.h"

#ifdef __cplusplus
#define MBR_LAYOUT_ASSERT(condition, text) static_assert(condition, text)
#else
#define MBR_LAYOUT_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* clang-format off */
#define MBR_LAYOUT_SIZE(type, bytes) \
    MBR_LAYOUT_ASSERT(sizeof(type) == (bytes), "size of " #type)
#define MBR_LAYOUT_FIELD(type, field, offset, bytes) \
    MBR_LAYOUT_ASSERT(offsetof(type, field) == (offset), "offset of " #type "." #field); \
    MBR_LAYOUT_ASSERT(sizeof(((type *)0)->field) == (bytes), "size of " #type "." #field)

MBR_LAYOUT_SIZE(mbr_status, 4);

MBR_LAYOUT_SIZE(mbr_error, 296);
MBR_LAYOUT_FIELD(mbr_error, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_error, status, 4, 4);
MBR_LAYOUT_FIELD(mbr_error, argument_index, 8, 4);
MBR_LAYOUT_FIELD(mbr_error, native_domain, 12, 4);
MBR_LAYOUT_FIELD(mbr_error, native_code, 16, 8);
MBR_LAYOUT_FIELD(mbr_error, asked_bytes, 24, 8);
MBR_LAYOUT_FIELD(mbr_error, free_bytes, 32, 8);
MBR_LAYOUT_FIELD(mbr_error, text, 40, 256);

MBR_LAYOUT_SIZE(mbr_outcome, 80);
MBR_LAYOUT_FIELD(mbr_outcome, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_outcome, state, 4, 4);
MBR_LAYOUT_FIELD(mbr_outcome, content, 8, 4);
MBR_LAYOUT_FIELD(mbr_outcome, granted_flags, 12, 4);
MBR_LAYOUT_FIELD(mbr_outcome, address, 16, 8);
MBR_LAYOUT_FIELD(mbr_outcome, value, 24, 8);
MBR_LAYOUT_FIELD(mbr_outcome, newly_mapped_bytes, 32, 8);
MBR_LAYOUT_FIELD(mbr_outcome, newly_owned_bytes, 40, 8);
MBR_LAYOUT_FIELD(mbr_outcome, unmapped_bytes, 48, 8);
MBR_LAYOUT_FIELD(mbr_outcome, released_bytes, 56, 8);
MBR_LAYOUT_FIELD(mbr_outcome, residual_mapped_bytes, 64, 8);
MBR_LAYOUT_FIELD(mbr_outcome, residual_owned_bytes, 72, 8);

MBR_LAYOUT_SIZE(mbr_native, 16);
MBR_LAYOUT_FIELD(mbr_native, kind, 0, 4);
MBR_LAYOUT_FIELD(mbr_native, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_native, value, 8, 8);

MBR_LAYOUT_SIZE(mbr_access, 8);
MBR_LAYOUT_FIELD(mbr_access, device_index, 0, 4);
MBR_LAYOUT_FIELD(mbr_access, access, 4, 4);

MBR_LAYOUT_SIZE(mbr_option, 16);
MBR_LAYOUT_FIELD(mbr_option, key, 0, 8);
MBR_LAYOUT_FIELD(mbr_option, value, 8, 8);

MBR_LAYOUT_SIZE(mbr_vtable_head, 8);
MBR_LAYOUT_FIELD(mbr_vtable_head, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_vtable_head, kind, 4, 2);
MBR_LAYOUT_FIELD(mbr_vtable_head, minor, 6, 2);

MBR_LAYOUT_SIZE(mbr_fact_request, 8);
MBR_LAYOUT_FIELD(mbr_fact_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_fact_request, fact, 4, 4);

MBR_LAYOUT_SIZE(mbr_fact_outcome, 16);
MBR_LAYOUT_FIELD(mbr_fact_outcome, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_fact_outcome, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_fact_outcome, value, 8, 8);

MBR_LAYOUT_SIZE(mbr_allocate_request, 40);
MBR_LAYOUT_FIELD(mbr_allocate_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_allocate_request, flags, 4, 4);
MBR_LAYOUT_FIELD(mbr_allocate_request, allocation_id, 8, 8);
MBR_LAYOUT_FIELD(mbr_allocate_request, bytes, 16, 8);
MBR_LAYOUT_FIELD(mbr_allocate_request, align_bytes, 24, 8);
MBR_LAYOUT_FIELD(mbr_allocate_request, max_owned_bytes, 32, 8);

MBR_LAYOUT_SIZE(mbr_release_request, 24);
MBR_LAYOUT_FIELD(mbr_release_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_release_request, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_release_request, allocation_id, 8, 8);
MBR_LAYOUT_FIELD(mbr_release_request, address, 16, 8);

MBR_LAYOUT_SIZE(mbr_stats_request, 8);
MBR_LAYOUT_FIELD(mbr_stats_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_stats_request, reserved_0, 4, 4);

MBR_LAYOUT_SIZE(mbr_mechanism_stats, 48);
MBR_LAYOUT_FIELD(mbr_mechanism_stats, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_mechanism_stats, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_mechanism_stats, total_bytes, 8, 8);
MBR_LAYOUT_FIELD(mbr_mechanism_stats, free_bytes, 16, 8);
MBR_LAYOUT_FIELD(mbr_mechanism_stats, owned_bytes, 24, 8);
MBR_LAYOUT_FIELD(mbr_mechanism_stats, mapped_bytes, 32, 8);
MBR_LAYOUT_FIELD(mbr_mechanism_stats, reserved_bytes, 40, 8);

MBR_LAYOUT_SIZE(mbr_trim_request, 16);
MBR_LAYOUT_FIELD(mbr_trim_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_trim_request, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_trim_request, keep_bytes, 8, 8);

MBR_LAYOUT_SIZE(mbr_allocator_vtable, 48);
MBR_LAYOUT_FIELD(mbr_allocator_vtable, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_allocator_vtable, kind, 4, 2);
MBR_LAYOUT_FIELD(mbr_allocator_vtable, minor, 6, 2);
MBR_LAYOUT_FIELD(mbr_allocator_vtable, fact, 8, 8);
MBR_LAYOUT_FIELD(mbr_allocator_vtable, allocate, 16, 8);
MBR_LAYOUT_FIELD(mbr_allocator_vtable, release, 24, 8);
MBR_LAYOUT_FIELD(mbr_allocator_vtable, stats, 32, 8);
MBR_LAYOUT_FIELD(mbr_allocator_vtable, trim, 40, 8);

MBR_LAYOUT_SIZE(mbr_note_digest, 8);
MBR_LAYOUT_FIELD(mbr_note_digest, low, 0, 4);
MBR_LAYOUT_FIELD(mbr_note_digest, high, 4, 4);

MBR_LAYOUT_SIZE(mbr_note_head, 72);
MBR_LAYOUT_FIELD(mbr_note_head, major, 0, 2);
MBR_LAYOUT_FIELD(mbr_note_head, minor_min, 2, 2);
MBR_LAYOUT_FIELD(mbr_note_head, minor_max, 4, 2);
MBR_LAYOUT_FIELD(mbr_note_head, flags, 6, 2);
MBR_LAYOUT_FIELD(mbr_note_head, name, 8, 32);
MBR_LAYOUT_FIELD(mbr_note_head, vendor, 40, 32);

MBR_LAYOUT_SIZE(mbr_line_open_request, 32);
MBR_LAYOUT_FIELD(mbr_line_open_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_line_open_request, flags, 4, 4);
MBR_LAYOUT_FIELD(mbr_line_open_request, line_id, 8, 8);
MBR_LAYOUT_FIELD(mbr_line_open_request, stream, 16, 16);

MBR_LAYOUT_SIZE(mbr_line_request, 16);
MBR_LAYOUT_FIELD(mbr_line_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_line_request, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_line_request, line_id, 8, 8);

MBR_LAYOUT_SIZE(mbr_line_wait_request, 32);
MBR_LAYOUT_FIELD(mbr_line_wait_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_line_wait_request, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_line_wait_request, line_id, 8, 8);
MBR_LAYOUT_FIELD(mbr_line_wait_request, value, 16, 8);
MBR_LAYOUT_FIELD(mbr_line_wait_request, deadline_ns, 24, 8);

MBR_LAYOUT_SIZE(mbr_stream_wait_request, 40);
MBR_LAYOUT_FIELD(mbr_stream_wait_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_stream_wait_request, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_stream_wait_request, line_id, 8, 8);
MBR_LAYOUT_FIELD(mbr_stream_wait_request, value, 16, 8);
MBR_LAYOUT_FIELD(mbr_stream_wait_request, stream, 24, 16);

MBR_LAYOUT_SIZE(mbr_order_vtable, 56);
MBR_LAYOUT_FIELD(mbr_order_vtable, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_order_vtable, kind, 4, 2);
MBR_LAYOUT_FIELD(mbr_order_vtable, minor, 6, 2);
MBR_LAYOUT_FIELD(mbr_order_vtable, line_open, 8, 8);
MBR_LAYOUT_FIELD(mbr_order_vtable, signal, 16, 8);
MBR_LAYOUT_FIELD(mbr_order_vtable, reached, 24, 8);
MBR_LAYOUT_FIELD(mbr_order_vtable, wait, 32, 8);
MBR_LAYOUT_FIELD(mbr_order_vtable, stream_wait, 40, 8);
MBR_LAYOUT_FIELD(mbr_order_vtable, line_close, 48, 8);

MBR_LAYOUT_SIZE(mbr_hello, 8);
MBR_LAYOUT_FIELD(mbr_hello, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_hello, minor_min, 4, 2);
MBR_LAYOUT_FIELD(mbr_hello, minor_max, 6, 2);

MBR_LAYOUT_SIZE(mbr_reply, 24);
MBR_LAYOUT_FIELD(mbr_reply, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_reply, minor, 4, 2);
MBR_LAYOUT_FIELD(mbr_reply, minor_min, 6, 2);
MBR_LAYOUT_FIELD(mbr_reply, minor_max, 8, 2);
MBR_LAYOUT_FIELD(mbr_reply, reserved_0, 10, 2);
MBR_LAYOUT_FIELD(mbr_reply, reserved_1, 12, 4);
MBR_LAYOUT_FIELD(mbr_reply, plugin, 16, 8);

MBR_LAYOUT_SIZE(mbr_mechanisms_request, 8);
MBR_LAYOUT_FIELD(mbr_mechanisms_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_mechanisms_request, index, 4, 4);

MBR_LAYOUT_SIZE(mbr_mechanism_description, 248);
MBR_LAYOUT_FIELD(mbr_mechanism_description, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_mechanism_description, count, 4, 4);
MBR_LAYOUT_FIELD(mbr_mechanism_description, name, 8, 64);
MBR_LAYOUT_FIELD(mbr_mechanism_description, description, 72, 128);
MBR_LAYOUT_FIELD(mbr_mechanism_description, domain, 200, 4);
MBR_LAYOUT_FIELD(mbr_mechanism_description, tier, 204, 4);
MBR_LAYOUT_FIELD(mbr_mechanism_description, device_index, 208, 4);
MBR_LAYOUT_FIELD(mbr_mechanism_description, reserved_0, 212, 4);
MBR_LAYOUT_FIELD(mbr_mechanism_description, uuid, 216, 16);
MBR_LAYOUT_FIELD(mbr_mechanism_description, pci, 232, 16);

MBR_LAYOUT_SIZE(mbr_open_request, 56);
MBR_LAYOUT_FIELD(mbr_open_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_open_request, option_count, 4, 4);
MBR_LAYOUT_FIELD(mbr_open_request, mechanism, 8, 8);
MBR_LAYOUT_FIELD(mbr_open_request, options, 16, 8);
MBR_LAYOUT_FIELD(mbr_open_request, native_context, 24, 16);
MBR_LAYOUT_FIELD(mbr_open_request, log, 40, 8);
MBR_LAYOUT_FIELD(mbr_open_request, log_context, 48, 8);

MBR_LAYOUT_SIZE(mbr_open_outcome, 16);
MBR_LAYOUT_FIELD(mbr_open_outcome, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_open_outcome, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_open_outcome, instance, 8, 8);

MBR_LAYOUT_SIZE(mbr_capability_request, 16);
MBR_LAYOUT_FIELD(mbr_capability_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_capability_request, minor, 4, 4);
MBR_LAYOUT_FIELD(mbr_capability_request, id, 8, 8);

MBR_LAYOUT_SIZE(mbr_capability_outcome, 16);
MBR_LAYOUT_FIELD(mbr_capability_outcome, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_capability_outcome, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_capability_outcome, table, 8, 8);

MBR_LAYOUT_SIZE(mbr_close_request, 8);
MBR_LAYOUT_FIELD(mbr_close_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_close_request, flags, 4, 4);

MBR_LAYOUT_SIZE(mbr_report_request, 8);
MBR_LAYOUT_FIELD(mbr_report_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_report_request, reserved_0, 4, 4);

MBR_LAYOUT_SIZE(mbr_report, 56);
MBR_LAYOUT_FIELD(mbr_report, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_report, thread_count, 4, 4);
MBR_LAYOUT_FIELD(mbr_report, allocation_count, 8, 8);
MBR_LAYOUT_FIELD(mbr_report, reservation_count, 16, 8);
MBR_LAYOUT_FIELD(mbr_report, extent_count, 24, 8);
MBR_LAYOUT_FIELD(mbr_report, mapping_count, 32, 8);
MBR_LAYOUT_FIELD(mbr_report, line_count, 40, 8);
MBR_LAYOUT_FIELD(mbr_report, stream_count, 48, 8);

MBR_LAYOUT_SIZE(mbr_quiesce_request, 16);
MBR_LAYOUT_FIELD(mbr_quiesce_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_quiesce_request, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_quiesce_request, deadline_ns, 8, 8);

MBR_LAYOUT_SIZE(mbr_plugin_vtable, 72);
MBR_LAYOUT_FIELD(mbr_plugin_vtable, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_plugin_vtable, kind, 4, 2);
MBR_LAYOUT_FIELD(mbr_plugin_vtable, minor, 6, 2);
MBR_LAYOUT_FIELD(mbr_plugin_vtable, name, 8, 8);
MBR_LAYOUT_FIELD(mbr_plugin_vtable, version, 16, 8);
MBR_LAYOUT_FIELD(mbr_plugin_vtable, mechanisms, 24, 8);
MBR_LAYOUT_FIELD(mbr_plugin_vtable, open, 32, 8);
MBR_LAYOUT_FIELD(mbr_plugin_vtable, capability, 40, 8);
MBR_LAYOUT_FIELD(mbr_plugin_vtable, close, 48, 8);
MBR_LAYOUT_FIELD(mbr_plugin_vtable, report, 56, 8);
MBR_LAYOUT_FIELD(mbr_plugin_vtable, quiesce, 64, 8);

MBR_LAYOUT_SIZE(mbr_map_shared_request, 40);
MBR_LAYOUT_FIELD(mbr_map_shared_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_map_shared_request, access_count, 4, 4);
MBR_LAYOUT_FIELD(mbr_map_shared_request, reservation_id, 8, 8);
MBR_LAYOUT_FIELD(mbr_map_shared_request, offset_bytes, 16, 8);
MBR_LAYOUT_FIELD(mbr_map_shared_request, extent_id, 24, 8);
MBR_LAYOUT_FIELD(mbr_map_shared_request, access, 32, 8);

MBR_LAYOUT_SIZE(mbr_shared_vtable, 16);
MBR_LAYOUT_FIELD(mbr_shared_vtable, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_shared_vtable, kind, 4, 2);
MBR_LAYOUT_FIELD(mbr_shared_vtable, minor, 6, 2);
MBR_LAYOUT_FIELD(mbr_shared_vtable, map_shared, 8, 8);

MBR_LAYOUT_SIZE(mbr_stream_create_request, 8);
MBR_LAYOUT_FIELD(mbr_stream_create_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_stream_create_request, flags, 4, 4);

MBR_LAYOUT_SIZE(mbr_stream_create_outcome, 24);
MBR_LAYOUT_FIELD(mbr_stream_create_outcome, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_stream_create_outcome, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_stream_create_outcome, stream, 8, 16);

MBR_LAYOUT_SIZE(mbr_stream_destroy_request, 24);
MBR_LAYOUT_FIELD(mbr_stream_destroy_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_stream_destroy_request, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_stream_destroy_request, stream, 8, 16);

MBR_LAYOUT_SIZE(mbr_fill_request, 40);
MBR_LAYOUT_FIELD(mbr_fill_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_fill_request, pattern, 4, 4);
MBR_LAYOUT_FIELD(mbr_fill_request, stream, 8, 16);
MBR_LAYOUT_FIELD(mbr_fill_request, address, 24, 8);
MBR_LAYOUT_FIELD(mbr_fill_request, bytes, 32, 8);

MBR_LAYOUT_SIZE(mbr_copy_request, 48);
MBR_LAYOUT_FIELD(mbr_copy_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_copy_request, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_copy_request, stream, 8, 16);
MBR_LAYOUT_FIELD(mbr_copy_request, to_address, 24, 8);
MBR_LAYOUT_FIELD(mbr_copy_request, from_address, 32, 8);
MBR_LAYOUT_FIELD(mbr_copy_request, bytes, 40, 8);

MBR_LAYOUT_SIZE(mbr_transfer_vtable, 40);
MBR_LAYOUT_FIELD(mbr_transfer_vtable, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_transfer_vtable, kind, 4, 2);
MBR_LAYOUT_FIELD(mbr_transfer_vtable, minor, 6, 2);
MBR_LAYOUT_FIELD(mbr_transfer_vtable, stream_create, 8, 8);
MBR_LAYOUT_FIELD(mbr_transfer_vtable, stream_destroy, 16, 8);
MBR_LAYOUT_FIELD(mbr_transfer_vtable, fill, 24, 8);
MBR_LAYOUT_FIELD(mbr_transfer_vtable, copy, 32, 8);

MBR_LAYOUT_SIZE(mbr_reserve_request, 32);
MBR_LAYOUT_FIELD(mbr_reserve_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_reserve_request, flags, 4, 4);
MBR_LAYOUT_FIELD(mbr_reserve_request, reservation_id, 8, 8);
MBR_LAYOUT_FIELD(mbr_reserve_request, bytes, 16, 8);
MBR_LAYOUT_FIELD(mbr_reserve_request, align_bytes, 24, 8);

MBR_LAYOUT_SIZE(mbr_unreserve_request, 16);
MBR_LAYOUT_FIELD(mbr_unreserve_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_unreserve_request, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_unreserve_request, reservation_id, 8, 8);

MBR_LAYOUT_SIZE(mbr_extent_create_request, 40);
MBR_LAYOUT_FIELD(mbr_extent_create_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_extent_create_request, flags, 4, 4);
MBR_LAYOUT_FIELD(mbr_extent_create_request, extent_id, 8, 8);
MBR_LAYOUT_FIELD(mbr_extent_create_request, bytes, 16, 8);
MBR_LAYOUT_FIELD(mbr_extent_create_request, max_owned_bytes, 24, 8);
MBR_LAYOUT_FIELD(mbr_extent_create_request, numa_node, 32, 4);
MBR_LAYOUT_FIELD(mbr_extent_create_request, reserved_0, 36, 4);

MBR_LAYOUT_SIZE(mbr_extent_destroy_request, 16);
MBR_LAYOUT_FIELD(mbr_extent_destroy_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_extent_destroy_request, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_extent_destroy_request, extent_id, 8, 8);

MBR_LAYOUT_SIZE(mbr_map_request, 32);
MBR_LAYOUT_FIELD(mbr_map_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_map_request, flags, 4, 4);
MBR_LAYOUT_FIELD(mbr_map_request, reservation_id, 8, 8);
MBR_LAYOUT_FIELD(mbr_map_request, offset_bytes, 16, 8);
MBR_LAYOUT_FIELD(mbr_map_request, extent_id, 24, 8);

MBR_LAYOUT_SIZE(mbr_protect_request, 40);
MBR_LAYOUT_FIELD(mbr_protect_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_protect_request, access_count, 4, 4);
MBR_LAYOUT_FIELD(mbr_protect_request, reservation_id, 8, 8);
MBR_LAYOUT_FIELD(mbr_protect_request, offset_bytes, 16, 8);
MBR_LAYOUT_FIELD(mbr_protect_request, bytes, 24, 8);
MBR_LAYOUT_FIELD(mbr_protect_request, access, 32, 8);

MBR_LAYOUT_SIZE(mbr_unmap_request, 32);
MBR_LAYOUT_FIELD(mbr_unmap_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_unmap_request, flags, 4, 4);
MBR_LAYOUT_FIELD(mbr_unmap_request, reservation_id, 8, 8);
MBR_LAYOUT_FIELD(mbr_unmap_request, offset_bytes, 16, 8);
MBR_LAYOUT_FIELD(mbr_unmap_request, bytes, 24, 8);

MBR_LAYOUT_SIZE(mbr_query_request, 24);
MBR_LAYOUT_FIELD(mbr_query_request, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_query_request, reserved_0, 4, 4);
MBR_LAYOUT_FIELD(mbr_query_request, reservation_id, 8, 8);
MBR_LAYOUT_FIELD(mbr_query_request, offset_bytes, 16, 8);

MBR_LAYOUT_SIZE(mbr_query_outcome, 32);
MBR_LAYOUT_FIELD(mbr_query_outcome, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_query_outcome, access, 4, 4);
MBR_LAYOUT_FIELD(mbr_query_outcome, extent_id, 8, 8);
MBR_LAYOUT_FIELD(mbr_query_outcome, offset_bytes, 16, 8);
MBR_LAYOUT_FIELD(mbr_query_outcome, bytes, 24, 8);

MBR_LAYOUT_SIZE(mbr_virtual_vtable, 72);
MBR_LAYOUT_FIELD(mbr_virtual_vtable, struct_size, 0, 4);
MBR_LAYOUT_FIELD(mbr_virtual_vtable, kind, 4, 2);
MBR_LAYOUT_FIELD(mbr_virtual_vtable, minor, 6, 2);
MBR_LAYOUT_FIELD(mbr_virtual_vtable, reserve, 8, 8);
MBR_LAYOUT_FIELD(mbr_virtual_vtable, unreserve, 16, 8);
MBR_LAYOUT_FIELD(mbr_virtual_vtable, extent_create, 24, 8);
MBR_LAYOUT_FIELD(mbr_virtual_vtable, extent_destroy, 32, 8);
MBR_LAYOUT_FIELD(mbr_virtual_vtable, map, 40, 8);
MBR_LAYOUT_FIELD(mbr_virtual_vtable, protect, 48, 8);
MBR_LAYOUT_FIELD(mbr_virtual_vtable, unmap, 56, 8);
MBR_LAYOUT_FIELD(mbr_virtual_vtable, query, 64, 8);

#undef MBR_LAYOUT_FIELD
#undef MBR_LAYOUT_SIZE
/* clang-format on */

#endif
