/* What the interfaces of CUDA's driver and of HIP's runtime have in common: types, layouts, values
 * and signatures. Prototypes of our own: nothing here needs a toolkit to be built. Each driver's
 * own header lists the names that its library exports these functions by, and is held against them.
 *
 * An address is a pointer in some of HIP's prototypes and an integer of its size in CUDA's; both
 * travel in the same way.
 *
 * Structs below stand in the drivers' ABI, not in ours: they never grow. */
#ifndef MEMBRANE_PLUGINS_COMMON_GPU_CALLS_H
#define MEMBRANE_PLUGINS_COMMON_GPU_CALLS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t mbr_gpu_result; /* an enum without negative values */
typedef int32_t mbr_gpu_device;  /* an ordinal */
typedef unsigned long long mbr_gpu_address;
typedef unsigned long long mbr_gpu_handle; /* of physical memory */
typedef struct mbr_gpu_stream_record *mbr_gpu_stream;
typedef struct mbr_gpu_event_record *mbr_gpu_event;

struct mbr_gpu_uuid {
    uint8_t bytes[16];
};

struct mbr_gpu_location {
    uint32_t type; /* MBR_GPU_LOCATION_DEVICE */
    int32_t id;
};

struct mbr_gpu_properties { /* what a handle is made with */
    uint32_t type;          /* MBR_GPU_ALLOCATION_PINNED */
    uint32_t handle_types;  /* what it can be exported as */
    struct mbr_gpu_location location;
    void *windows_metadata;
    struct {
        uint8_t compression;
        uint8_t rdma; /* a wish: the driver may leave it out, and says so only when it is asked */
        uint16_t usage;
        uint8_t reserved[4];
    } flags;
};

struct mbr_gpu_access {
    struct mbr_gpu_location location;
    uint32_t flags; /* MBR_GPU_ACCESS_… */
};

#ifdef __cplusplus
#define MBR_GPU_ASSERT(condition) static_assert(condition, "the drivers' layout")
#else
#define MBR_GPU_ASSERT(condition) _Static_assert(condition, "the drivers' layout")
#endif

MBR_GPU_ASSERT(sizeof(size_t) == 8);
MBR_GPU_ASSERT(sizeof(struct mbr_gpu_uuid) == 16);
MBR_GPU_ASSERT(sizeof(struct mbr_gpu_location) == 8);
MBR_GPU_ASSERT(offsetof(struct mbr_gpu_location, id) == 4);
MBR_GPU_ASSERT(sizeof(struct mbr_gpu_properties) == 32);
MBR_GPU_ASSERT(offsetof(struct mbr_gpu_properties, handle_types) == 4);
MBR_GPU_ASSERT(offsetof(struct mbr_gpu_properties, location) == 8);
MBR_GPU_ASSERT(offsetof(struct mbr_gpu_properties, windows_metadata) == 16);
MBR_GPU_ASSERT(offsetof(struct mbr_gpu_properties, flags.compression) == 24);
MBR_GPU_ASSERT(offsetof(struct mbr_gpu_properties, flags.rdma) == 25);
MBR_GPU_ASSERT(offsetof(struct mbr_gpu_properties, flags.usage) == 26);
MBR_GPU_ASSERT(offsetof(struct mbr_gpu_properties, flags.reserved) == 28);
MBR_GPU_ASSERT(sizeof(struct mbr_gpu_access) == 12);
MBR_GPU_ASSERT(offsetof(struct mbr_gpu_access, flags) == 8);

/* SHARED(name, value): each driver has a constant of that name, which is held against it. For the
 * plugins, and for tests of both. */
#define MBR_GPU_CONSTANTS(SHARED)                                                                  \
    SHARED(SUCCESS, 0)                                                                             \
    SHARED(INVALID_VALUE, 1)                                                                       \
    SHARED(OUT_OF_MEMORY, 2)                                                                       \
    SHARED(NOT_FOUND, 500)                                                                         \
    SHARED(NOT_READY, 600)                                                                         \
    SHARED(ILLEGAL_ADDRESS, 700)                                                                   \
    SHARED(UNKNOWN, 999)                                                                           \
    SHARED(ALLOCATION_PINNED, 1)                                                                   \
    SHARED(LOCATION_DEVICE, 1)                                                                     \
    SHARED(ACCESS_NONE, 0)                                                                         \
    SHARED(ACCESS_READ, 1)                                                                         \
    SHARED(ACCESS_READ_WRITE, 3)                                                                   \
    SHARED(GRANULARITY_MINIMUM, 0)                                                                 \
    SHARED(GRANULARITY_RECOMMENDED, 1)                                                             \
    SHARED(HOST_PORTABLE, 1)                                                                       \
    SHARED(HOST_DEVICE_MAP, 2)                                                                     \
    SHARED(ATTACH_GLOBAL, 1)                                                                       \
    SHARED(STREAM_PER_THREAD, 2)                                                                   \
    SHARED(STREAM_NON_BLOCKING, 1)                                                                 \
    SHARED(EVENT_DISABLE_TIMING, 2)                                                                \
    SHARED(CAPTURE_MODE_GLOBAL, 0)                                                                 \
    SHARED(CAPTURE_MODE_THREAD_LOCAL, 1)                                                           \
    SHARED(CAPTURE_MODE_RELAXED, 2)                                                                \
    SHARED(CAPTURE_NONE, 0)                                                                        \
    SHARED(CAPTURE_ACTIVE, 1)

#define MBR_GPU_DECLARE_CONSTANT(name, value) MBR_GPU_##name = value,
enum mbr_gpu_constant { MBR_GPU_CONSTANTS(MBR_GPU_DECLARE_CONSTANT) };
#undef MBR_GPU_DECLARE_CONSTANT

/* CALL(member, parameters); each returns mbr_gpu_result. What plugins/common/gpu.h is built on. */
#define MBR_GPU_CALLS(CALL)                                                                        \
    CALL(device_count, (int *count))                                                               \
    CALL(device_get, (mbr_gpu_device * device, int ordinal))                                       \
    CALL(device_attribute, (int *value, uint32_t attribute, mbr_gpu_device device))                \
    CALL(device_name, (char *name, int room, mbr_gpu_device device))                               \
    CALL(device_uuid, (struct mbr_gpu_uuid * uuid, mbr_gpu_device device))                         \
    CALL(device_pci, (char *text, int room, mbr_gpu_device device))                                \
    CALL(device_total, (size_t * bytes, mbr_gpu_device device))                                    \
    CALL(memory_info, (size_t * free_bytes, size_t * total_bytes))                                 \
    CALL(granularity,                                                                              \
        (size_t * bytes, const struct mbr_gpu_properties *properties, uint32_t which))             \
    CALL(address_reserve,                                                                          \
        (mbr_gpu_address * address, size_t bytes, size_t align_bytes, mbr_gpu_address wish,        \
            unsigned long long flags))                                                             \
    CALL(address_free, (mbr_gpu_address address, size_t bytes))                                    \
    CALL(handle_create,                                                                            \
        (mbr_gpu_handle * handle, size_t bytes, const struct mbr_gpu_properties *properties,       \
            unsigned long long flags))                                                             \
    CALL(handle_release, (mbr_gpu_handle handle))                                                  \
    CALL(map,                                                                                      \
        (mbr_gpu_address address, size_t bytes, size_t offset_bytes, mbr_gpu_handle handle,        \
            unsigned long long flags))                                                             \
    CALL(unmap, (mbr_gpu_address address, size_t bytes))                                           \
    CALL(set_access,                                                                               \
        (mbr_gpu_address address, size_t bytes, const struct mbr_gpu_access *list, size_t count))  \
    CALL(get_access,                                                                               \
        (unsigned long long *flags, const struct mbr_gpu_location *location,                       \
            mbr_gpu_address address))                                                              \
    CALL(device_allocate, (mbr_gpu_address * address, size_t bytes))                               \
    CALL(managed_allocate, (mbr_gpu_address * address, size_t bytes, unsigned flags))              \
    CALL(address_range, (mbr_gpu_address * start, size_t * bytes, mbr_gpu_address address))        \
    CALL(device_free, (mbr_gpu_address address))                                                   \
    CALL(host_allocate, (void **address, size_t bytes, unsigned flags))                            \
    CALL(host_free, (void *address))                                                               \
    CALL(copy_async,                                                                               \
        (mbr_gpu_address to, mbr_gpu_address from, size_t bytes, mbr_gpu_stream stream))           \
    CALL(fill_async,                                                                               \
        (mbr_gpu_address address, unsigned char value, size_t bytes, mbr_gpu_stream stream))       \
    CALL(stream_create, (mbr_gpu_stream * stream, unsigned flags))                                 \
    CALL(stream_destroy, (mbr_gpu_stream stream))                                                  \
    CALL(stream_wait, (mbr_gpu_stream stream, mbr_gpu_event event, unsigned flags))                \
    CALL(stream_capturing, (mbr_gpu_stream stream, uint32_t * capture_status))                     \
    CALL(exchange_capture_mode, (uint32_t * mode))                                                 \
    CALL(event_create, (mbr_gpu_event * event, unsigned flags))                                    \
    CALL(event_record, (mbr_gpu_event event, mbr_gpu_stream stream))                               \
    CALL(event_query, (mbr_gpu_event event))                                                       \
    CALL(event_destroy, (mbr_gpu_event event))

#ifdef __cplusplus
}
#endif

#endif
