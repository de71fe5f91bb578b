/* The slots of `membrane.order` over a driver's events: a line's value is an event behind the
 * stream's work. What was seen as done is remembered, because a driver that lost its device says
 * "lost" of every event, also of one that was done before.
 *
 * Equations, true whenever the line's lock is free:
 *     reached <= signalled; each value in (reached, signalled] has one event, in the order of
 * values events of the instance = idle ones + those of all lines
 *
 * Locking: the instance's lock guards the table, who is inside, and the idle events; a line's own
 * lock guards its values, and is held while the driver is asked about them, which never waits. It
 * is taken first. */
#ifndef MEMBRANE_PLUGINS_COMMON_LINES_H
#define MEMBRANE_PLUGINS_COMMON_LINES_H

#include "plugins/common/objects.h"

/* A function that fails writes the error. None waits. */
struct mbr_line_port {
    /* Whether a line may stand on it, whatever the driver says of it: asked at open alone. */
    mbr_status (*check_stream)(mbr_instance *instance, uint64_t stream, mbr_error *error);
    mbr_status (*event_create)(mbr_instance *instance, uint64_t *event, mbr_error *error);
    void (*event_destroy)(mbr_instance *instance, uint64_t event);
    /* MBR_BUSY while the stream is being captured, also where the driver only says that asking
     * would disturb a capture; so, too, of stream_wait: neither adds anything to a capture. Also an
     * event that is pending: it then stands for the new point alone. After a failure it is
     * destroyed: a capture that began meanwhile may have made it its own. */
    mbr_status (*event_record)(
        mbr_instance *instance, uint64_t event, uint64_t stream, mbr_error *error);
    /* MBR_OK, or MBR_NOT_READY. Disturbs no capture on any thread. */
    mbr_status (*event_query)(mbr_instance *instance, uint64_t event, mbr_error *error);
    mbr_status (*stream_wait)(
        mbr_instance *instance, uint64_t stream, uint64_t event, mbr_error *error);
};

mbr_status mbr_line_slot_open(mbr_instance *instance, const mbr_line_open_request *raw,
    mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_line_slot_signal(
    mbr_instance *instance, const mbr_line_request *raw, mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_line_slot_reached(
    mbr_instance *instance, const mbr_line_request *raw, mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_line_slot_wait(mbr_instance *instance, const mbr_line_wait_request *raw,
    mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_line_slot_stream_wait(mbr_instance *instance, const mbr_stream_wait_request *raw,
    mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_line_slot_close(
    mbr_instance *instance, const mbr_line_request *raw, mbr_outcome *outcome, mbr_error *error);

/* The slot `quiesce` of a plugin without threads of its own. */
mbr_status mbr_line_slot_quiesce(
    mbr_instance *instance, const mbr_quiesce_request *raw, mbr_outcome *outcome, mbr_error *error);

/* Destroys the idle events: all there are, once no line is open. */
void mbr_lines_finish(mbr_instance *instance);

#endif
