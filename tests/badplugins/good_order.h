/* A plain good `order` and `transfer` over host memory, which the host plugin does not offer:
 * streams are queues with a worker thread each, and a stream's value is used again after its end,
 * as drivers do with their pointers. Faults stand before these slots. */
#ifndef MEMBRANE_TESTS_BADPLUGINS_GOOD_ORDER_H
#define MEMBRANE_TESTS_BADPLUGINS_GOOD_ORDER_H

#include "membrane/membrane_plugin.h"

#include <stdbool.h>

extern const mbr_order_vtable good_order;
extern const mbr_transfer_vtable good_transfer;

/* The host plugin's slots, which here also know lines, streams and threads. */
mbr_status good_close(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error);
mbr_status good_report(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error);
mbr_status good_quiesce(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error);

/* For faults: how a live line stands; false where there is none. */
struct good_line_view {
    uint64_t signalled, reached;
    mbr_native stream;
    bool stream_is_open;
};
bool good_line_look(mbr_instance *instance, uint64_t id, struct good_line_view *view);

/* For faults: drops what a stream has not begun, except its signals. */
void good_stream_drop_work(mbr_instance *instance, mbr_native stream);

#endif
