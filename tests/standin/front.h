/* What the front ends share (front.c): the same functions of the drivers, under the model's
 * answers. */
#ifndef MEMBRANE_TESTS_STANDIN_FRONT_H
#define MEMBRANE_TESTS_STANDIN_FRONT_H

#include "plugins/common/gpu_calls.h"
#include "tests/standin/model.h"

int front_count(int *told);
/* Whether there is the device and a place for the answer. */
int front_check(const void *answer, int device);
int front_get(mbr_gpu_device *device, int ordinal);
int front_name(char *text, int room, int device);
int front_uuid(struct mbr_gpu_uuid *told, int device);
int front_pci(char *text, int room, int device);
int front_total(size_t *bytes, int device);
int front_granularity(size_t *bytes, const struct mbr_gpu_properties *properties, uint32_t which);
int front_reserve(mbr_gpu_address *address, size_t bytes, size_t align_bytes, uint64_t flags);
int front_create(mbr_gpu_handle *handle, size_t bytes, const struct mbr_gpu_properties *properties,
    uint64_t flags);
int front_set_access(
    uint64_t address, size_t bytes, const struct mbr_gpu_access *list, size_t count);
int front_get_access(
    unsigned long long *flags, const struct mbr_gpu_location *location, uint64_t address);
int front_memory_info(size_t *free_bytes, size_t *total_bytes);
int front_allocate(mbr_gpu_address *address, size_t bytes);
int front_allocate_managed(mbr_gpu_address *address, size_t bytes, unsigned flags);
int front_address_range(mbr_gpu_address *start, size_t *bytes, uint64_t address);
int front_stream_create(mbr_gpu_stream *stream, unsigned flags, int priority);
int front_event_create(mbr_gpu_event *event, unsigned flags);
int front_capture_end(uintptr_t stream, struct sim_graph **graph);

#endif
