/* The CPU execution provider: streams that are FIFOs on worker threads, with copies, fills and host
 * functions, and real lines. It lives apart from any manager: create it, give its tables to
 * mbr_ep_create, destroy it after the EP.
 *
 *   mbr_ep_request request = {MBR_SIZED(mbr_ep_request), .name = "cpu",
 *       .order = mbr_cpu_order(cpu), .transfer = mbr_cpu_transfer(cpu),
 *       .instance = mbr_cpu_instance(cpu)};
 */
#ifndef MEMBRANE_CPU_H
#define MEMBRANE_CPU_H

#include "membrane/handle.h"
#include "membrane/order.h"
#include "membrane/transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_cpu mbr_cpu;

typedef struct mbr_cpu_options {
    uint32_t struct_size;
    uint32_t stream_limit;    /* streams at once; each has one worker thread; 0: 64 */
    uint32_t operation_limit; /* operations queued on one stream, the running one included; a
                               * submission past it waits; 0: 4096 */
    uint32_t reserved_0;
} mbr_cpu_options;

/* MBR_OUT_OF_RANGE: a limit above 4096 streams or 2^20 operations. `options` may be NULL. */
MBR_API mbr_status mbr_cpu_create(const mbr_cpu_options *options, mbr_cpu **cpu, mbr_error *error);
/* MBR_IN_USE while a stream or line is open. Joins the workers. */
MBR_API mbr_status mbr_cpu_destroy(mbr_cpu *cpu, mbr_error *error);

MBR_API const mbr_order_vtable *mbr_cpu_order(const mbr_cpu *cpu);
MBR_API const mbr_transfer_vtable *mbr_cpu_transfer(const mbr_cpu *cpu);
MBR_API mbr_instance *mbr_cpu_instance(mbr_cpu *cpu);

/* A stream of the kind MBR_NATIVE_STREAM_CPU; its value is never used again. Destroying it lets
 * queued work finish; until then it counts as a stream. MBR_OUT_OF_DESCRIPTORS at stream_limit. */
MBR_API mbr_status mbr_cpu_stream_create(mbr_cpu *cpu, mbr_native *stream, mbr_error *error);
MBR_API mbr_status mbr_cpu_stream_destroy(mbr_cpu *cpu, mbr_native stream, mbr_error *error);

/* Operations run in order of submission, on the stream's worker. A full stream makes the caller
 * wait, except a host function, which gets MBR_QUEUE_FULL: workers that wait for room could wait
 * for each other. (So does the slot stream_wait, which never waits.) 0 bytes, the address 0 and
 * ranges that overlap are MBR_INVALID_ARGUMENT. */
MBR_API mbr_status mbr_cpu_copy(mbr_cpu *cpu, mbr_native stream, uint64_t to_address,
    uint64_t from_address, uint64_t bytes, mbr_error *error);
MBR_API mbr_status mbr_cpu_fill(mbr_cpu *cpu, mbr_native stream, uint64_t address, uint8_t value,
    uint64_t bytes, mbr_error *error);
/* The function must not wait for its own stream: MBR_INVALID_ARGUMENT there. */
MBR_API mbr_status mbr_cpu_host_function(mbr_cpu *cpu, mbr_native stream,
    void (*function)(void *context), void *context, mbr_error *error);
/* Waits until all work submitted so far is done, or the deadline (CLOCK_MONOTONIC). */
MBR_API mbr_status mbr_cpu_synchronize(
    mbr_cpu *cpu, mbr_native stream, uint64_t deadline_ns, mbr_error *error);

#ifdef __cplusplus
}
#endif

#endif
