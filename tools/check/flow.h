/* Steps of checks over streams and lines. A try_ is one call whose answer the check judges; a step_
 * is one that must work on the way, else the check is skipped. Contents are looked at by the CPU
 * where it can get there, else through copies on a stream of their own. */
#ifndef MEMBRANE_TOOLS_CHECK_FLOW_H
#define MEMBRANE_TOOLS_CHECK_FLOW_H

#include "tools/check/alc.h"
#include "tools/check/trial.h"

/* A deadline that a busy machine does not reach; what waits longer hangs. */
#define MBR_FLOW_PATIENCE_NS (UINT64_C(8) * 1000000000)

/* ---- Tries ----------------------------------------------------------------------------------- */

mbr_status mbr_try_stream(mbr_trial *trial, mbr_subject *self, uint32_t flags, mbr_native *stream);
mbr_status mbr_try_stream_end(mbr_trial *trial, mbr_subject *self, mbr_native stream);
mbr_status mbr_try_fill(mbr_trial *trial, mbr_subject *self, mbr_native stream, uint64_t address,
    uint64_t bytes, uint32_t pattern);
mbr_status mbr_try_copy(mbr_trial *trial, mbr_subject *self, mbr_native stream, uint64_t to,
    uint64_t from, uint64_t bytes);
mbr_status mbr_try_line(
    mbr_trial *trial, mbr_subject *self, uint64_t id, mbr_native stream, uint32_t flags);
mbr_status mbr_try_signal(mbr_trial *trial, mbr_subject *self, uint64_t id, uint64_t *value);
mbr_status mbr_try_reached(mbr_trial *trial, mbr_subject *self, uint64_t id, uint64_t *value);
mbr_status mbr_try_wait(
    mbr_trial *trial, mbr_subject *self, uint64_t id, uint64_t value, uint64_t deadline_ns);
mbr_status mbr_try_stream_wait(
    mbr_trial *trial, mbr_subject *self, uint64_t id, uint64_t value, mbr_native stream);
mbr_status mbr_try_line_close(mbr_trial *trial, mbr_subject *self, uint64_t id);

/* ---- Steps of the trial's own subject -------------------------------------------------------- */

mbr_native mbr_step_stream(mbr_trial *trial);
void mbr_step_stream_end(mbr_trial *trial, mbr_native stream);
uint64_t mbr_step_line(mbr_trial *trial, mbr_native stream); /* the line's id */
uint64_t mbr_step_signal(mbr_trial *trial, uint64_t line);
uint64_t mbr_step_reached(mbr_trial *trial, uint64_t line);
void mbr_step_wait(mbr_trial *trial, uint64_t line, uint64_t value);
void mbr_step_line_close(mbr_trial *trial, uint64_t line);
void mbr_step_fill(
    mbr_trial *trial, mbr_native stream, uint64_t address, uint64_t bytes, uint32_t pattern);
void mbr_step_copy(mbr_trial *trial, mbr_native stream, uint64_t to, uint64_t from, uint64_t bytes);

/* Waits for all work of a stream, by a line of its own with one value. */
void mbr_step_drain(mbr_trial *trial, mbr_native stream);

/* Copies contents of the mechanism's memory to `to`, or from `from` into it. */
void mbr_step_read(mbr_trial *trial, uint64_t address, void *to, uint64_t bytes);
void mbr_step_put(mbr_trial *trial, uint64_t address, const void *from, uint64_t bytes);

/* ---- Work that takes a while ------------------------------------------------------------------
 * MBR_LOAD_BYTES at `address` are filled again and again; in the end every byte is the pattern.
 * Whether it is still pending when the check goes on can be seen and not be forced: a check tries
 * until it has seen it a few times, and gives up where it never is. */
#define MBR_LOAD_BYTES (UINT64_C(8) << 20)
void mbr_step_load(mbr_trial *trial, mbr_native stream, uint64_t address, uint32_t pattern);

/* A load, and a signal behind it. */
uint64_t mbr_step_load_signal(
    mbr_trial *trial, mbr_native stream, uint64_t line, uint64_t address, uint32_t pattern);
bool mbr_step_is_pending(mbr_trial *trial, uint64_t line, uint64_t value);

/* The last byte of a load's memory, which is written last. */
uint32_t mbr_step_load_mark(mbr_trial *trial, uint64_t address);

#endif
