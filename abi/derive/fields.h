/* Written by abi/derive/derive.py from the contract headers; do not edit (rule 13).
 * MBR_FIELDS_<struct>(X) calls X(struct, field) for each field that holds a number of 32 or 64
 * bits and is neither struct_size nor reserved. */
#ifndef MEMBRANE_DERIVE_FIELDS_H
#define MEMBRANE_DERIVE_FIELDS_H

#include "membrane/membrane_plugin.h"

/* clang-format off */
#define MBR_FIELDS_mbr_error(X) \
    X(mbr_error, status) \
    X(mbr_error, argument_index) \
    X(mbr_error, native_domain) \
    X(mbr_error, native_code) \
    X(mbr_error, asked_bytes) \
    X(mbr_error, free_bytes)

#define MBR_FIELDS_mbr_outcome(X) \
    X(mbr_outcome, state) \
    X(mbr_outcome, content) \
    X(mbr_outcome, granted_flags) \
    X(mbr_outcome, address) \
    X(mbr_outcome, value) \
    X(mbr_outcome, newly_mapped_bytes) \
    X(mbr_outcome, newly_owned_bytes) \
    X(mbr_outcome, unmapped_bytes) \
    X(mbr_outcome, released_bytes) \
    X(mbr_outcome, residual_mapped_bytes) \
    X(mbr_outcome, residual_owned_bytes)

#define MBR_FIELDS_mbr_vtable_head(X)

#define MBR_FIELDS_mbr_fact_request(X) \
    X(mbr_fact_request, fact)

#define MBR_FIELDS_mbr_fact_outcome(X) \
    X(mbr_fact_outcome, value)

#define MBR_FIELDS_mbr_allocate_request(X) \
    X(mbr_allocate_request, flags) \
    X(mbr_allocate_request, allocation_id) \
    X(mbr_allocate_request, bytes) \
    X(mbr_allocate_request, align_bytes) \
    X(mbr_allocate_request, max_owned_bytes)

#define MBR_FIELDS_mbr_release_request(X) \
    X(mbr_release_request, allocation_id) \
    X(mbr_release_request, address)

#define MBR_FIELDS_mbr_stats_request(X)

#define MBR_FIELDS_mbr_mechanism_stats(X) \
    X(mbr_mechanism_stats, total_bytes) \
    X(mbr_mechanism_stats, free_bytes) \
    X(mbr_mechanism_stats, owned_bytes) \
    X(mbr_mechanism_stats, mapped_bytes)

#define MBR_FIELDS_mbr_trim_request(X) \
    X(mbr_trim_request, keep_bytes)

#define MBR_FIELDS_mbr_line_open_request(X) \
    X(mbr_line_open_request, flags) \
    X(mbr_line_open_request, line_id)

#define MBR_FIELDS_mbr_line_request(X) \
    X(mbr_line_request, line_id)

#define MBR_FIELDS_mbr_line_wait_request(X) \
    X(mbr_line_wait_request, line_id) \
    X(mbr_line_wait_request, value) \
    X(mbr_line_wait_request, deadline_ns)

#define MBR_FIELDS_mbr_stream_wait_request(X) \
    X(mbr_stream_wait_request, line_id) \
    X(mbr_stream_wait_request, value)

#define MBR_FIELDS_mbr_hello(X)

#define MBR_FIELDS_mbr_reply(X)

#define MBR_FIELDS_mbr_mechanisms_request(X) \
    X(mbr_mechanisms_request, index)

#define MBR_FIELDS_mbr_mechanism_description(X) \
    X(mbr_mechanism_description, count) \
    X(mbr_mechanism_description, domain) \
    X(mbr_mechanism_description, tier) \
    X(mbr_mechanism_description, device_index)

#define MBR_FIELDS_mbr_open_request(X) \
    X(mbr_open_request, option_count)

#define MBR_FIELDS_mbr_open_outcome(X)

#define MBR_FIELDS_mbr_capability_request(X) \
    X(mbr_capability_request, minor)

#define MBR_FIELDS_mbr_capability_outcome(X)

#define MBR_FIELDS_mbr_close_request(X) \
    X(mbr_close_request, flags)

#define MBR_FIELDS_mbr_report_request(X)

#define MBR_FIELDS_mbr_report(X) \
    X(mbr_report, thread_count) \
    X(mbr_report, allocation_count) \
    X(mbr_report, reservation_count) \
    X(mbr_report, extent_count) \
    X(mbr_report, mapping_count) \
    X(mbr_report, line_count) \
    X(mbr_report, stream_count)

#define MBR_FIELDS_mbr_quiesce_request(X) \
    X(mbr_quiesce_request, deadline_ns)

#define MBR_FIELDS_mbr_map_shared_request(X) \
    X(mbr_map_shared_request, access_count) \
    X(mbr_map_shared_request, reservation_id) \
    X(mbr_map_shared_request, offset_bytes) \
    X(mbr_map_shared_request, extent_id)

#define MBR_FIELDS_mbr_stream_create_request(X) \
    X(mbr_stream_create_request, flags)

#define MBR_FIELDS_mbr_stream_create_outcome(X)

#define MBR_FIELDS_mbr_stream_destroy_request(X)

#define MBR_FIELDS_mbr_fill_request(X) \
    X(mbr_fill_request, pattern) \
    X(mbr_fill_request, address) \
    X(mbr_fill_request, bytes)

#define MBR_FIELDS_mbr_copy_request(X) \
    X(mbr_copy_request, to_address) \
    X(mbr_copy_request, from_address) \
    X(mbr_copy_request, bytes)

#define MBR_FIELDS_mbr_reserve_request(X) \
    X(mbr_reserve_request, flags) \
    X(mbr_reserve_request, reservation_id) \
    X(mbr_reserve_request, bytes) \
    X(mbr_reserve_request, align_bytes)

#define MBR_FIELDS_mbr_unreserve_request(X) \
    X(mbr_unreserve_request, reservation_id)

#define MBR_FIELDS_mbr_extent_create_request(X) \
    X(mbr_extent_create_request, flags) \
    X(mbr_extent_create_request, extent_id) \
    X(mbr_extent_create_request, bytes) \
    X(mbr_extent_create_request, max_owned_bytes) \
    X(mbr_extent_create_request, numa_node)

#define MBR_FIELDS_mbr_extent_destroy_request(X) \
    X(mbr_extent_destroy_request, extent_id)

#define MBR_FIELDS_mbr_map_request(X) \
    X(mbr_map_request, flags) \
    X(mbr_map_request, reservation_id) \
    X(mbr_map_request, offset_bytes) \
    X(mbr_map_request, extent_id)

#define MBR_FIELDS_mbr_protect_request(X) \
    X(mbr_protect_request, access_count) \
    X(mbr_protect_request, reservation_id) \
    X(mbr_protect_request, offset_bytes) \
    X(mbr_protect_request, bytes)

#define MBR_FIELDS_mbr_unmap_request(X) \
    X(mbr_unmap_request, flags) \
    X(mbr_unmap_request, reservation_id) \
    X(mbr_unmap_request, offset_bytes) \
    X(mbr_unmap_request, bytes)

#define MBR_FIELDS_mbr_query_request(X) \
    X(mbr_query_request, reservation_id) \
    X(mbr_query_request, offset_bytes)

#define MBR_FIELDS_mbr_query_outcome(X) \
    X(mbr_query_outcome, access) \
    X(mbr_query_outcome, extent_id) \
    X(mbr_query_outcome, offset_bytes) \
    X(mbr_query_outcome, bytes)

/* clang-format on */

#endif
