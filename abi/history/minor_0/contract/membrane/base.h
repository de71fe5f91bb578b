/* Membrane plugin contract, version 1: the words that every other header is written in.
 *
 * True for all structs of the contract (rules 10 to 15):
 *   - A struct that may grow begins with `uint32_t struct_size`, set by whoever provides the
 * memory. It travels by pointer only. A reader uses a field only if struct_size reaches the field's
 * end; fields beyond it count as zero. A writer writes at most struct_size bytes.
 *   - Integers have fixed width; a device address is a uint64_t, never a pointer. Padding is a
 * named reserved_N field: zero when written, ignored when read.
 *   - A flag word's low 16 bits are critical (an unknown one is refused with MBR_UNSUPPORTED), its
 *     high 16 bits are optional (an unknown one is ignored).
 *   - Sizes are bytes, times are nanoseconds of CLOCK_MONOTONIC, ranges are half-open.
 *
 * True for all slots (rules 1, 5 to 9, 22, 25, 26):
 *   - A slot takes (instance, const request *, outcome *, error *). `request` and `outcome` are not
 *     NULL. `error` may be NULL; it is written on failure only.
 *   - A slot sets its outcome on entry to "nothing happened" and again when something did.
 *   - A slot neither throws, longjmps, exits, prints, forks nor changes signal handlers, locale,
 *     directory, environment, floating-point mode or any driver's current device or context.
 *   - Arguments are not kept after the call. The host gives every object a 64-bit id that rises and
 *     is never used again; a slot refuses ids that are unknown, released, foreign or doubled with
 *     MBR_UNKNOWN_OBJECT or MBR_ALREADY_EXISTS, without side effect.
 *   - Reservations and allocations of a granule and more never overlap others that are out, of any
 *     instance of the process. The host withholds for good what breaks this (rule 24).
 *   - Size 0 is MBR_INVALID_ARGUMENT. Arithmetic on sizes is checked: MBR_OVERFLOW.
 *   - Each slot carries one thread tag: [any-thread], or [serial: OBJECT] where the host never
 * makes two calls at once for the same object.
 */
#ifndef MEMBRANE_BASE_H
#define MEMBRANE_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A vtable states the literal minor that its source was written for, one of these. */
#define MBR_MAJOR 1
#define MBR_MINOR_0 0

/* First field of a sized struct, in a designated initializer. */
#define MBR_SIZED(type) .struct_size = (uint32_t)sizeof(type)

/* Nonzero if `object`, whose struct_size its sender set, holds `field` to its end. */
#define MBR_HAS(type, object, field)                                                               \
    ((object)->struct_size >= offsetof(type, field) + sizeof((object)->field))

/* ---- Status ---------------------------------------------------------------------------------
 * 0 is success. Any other value is class * 65536 + code, so that the class of an unknown code can
 * still be read. */
typedef int32_t mbr_status;

#define MBR_STATUS_CLASS(status) ((int32_t)(status) >> 16)

#define MBR_CLASS_OK 0
#define MBR_CLASS_CALLER 1      /* the caller's bug: the same call never works */
#define MBR_CLASS_EXHAUSTED 2   /* a resource is used up: works after something is given back */
#define MBR_CLASS_RETRY 3       /* not now: works later without anybody's help */
#define MBR_CLASS_UNSUPPORTED 4 /* not offered here: use another way */
#define MBR_CLASS_BROKEN 5      /* the callee or the system below it failed */
#define MBR_CLASS_LOST 6        /* the device or its context is gone */

#define MBR_OK 0
#define MBR_INVALID_ARGUMENT 65537    /* class 1: a value outside its documented range */
#define MBR_UNKNOWN_OBJECT 65538      /* an id that is unknown, released or of another owner */
#define MBR_ALREADY_EXISTS 65539      /* an id, a name or a place that is taken */
#define MBR_MISALIGNED 65540          /* no multiple of the granule or alignment */
#define MBR_OVERFLOW 65541            /* arithmetic on the sizes does not fit 64 bits */
#define MBR_OUT_OF_RANGE 65542        /* beyond the object's end, or an index past the last */
#define MBR_UNKNOWN_KEY 65543         /* an option's key; the text lists the known ones */
#define MBR_STALE 65544               /* a superseded generation or an old view */
#define MBR_IN_USE 65545              /* something still refers to it; counts in the text */
#define MBR_OUT_OF_MEMORY 131073      /* class 2: physical memory of the mechanism */
#define MBR_OUT_OF_ADDRESSES 131074   /* address space */
#define MBR_OUT_OF_DESCRIPTORS 131075 /* file descriptors or handles */
#define MBR_OUT_OF_MAPPINGS 131076    /* mappings (vm.max_map_count on Linux) */
#define MBR_FILE_SIZE_LIMIT 131077    /* RLIMIT_FSIZE */
#define MBR_OUT_OF_HOST_MEMORY 131078 /* the library's or plugin's own heap */
#define MBR_OVER_BUDGET 131079        /* the governor refused; figures in the refusal */
#define MBR_QUEUE_FULL 131080         /* a bounded queue; the request is handed back */
#define MBR_BUSY 196609               /* class 3: mapped, capturing or held by another call */
#define MBR_TIMED_OUT 196610          /* the deadline passed; nothing was changed */
#define MBR_NOT_READY 196611          /* not reached yet */
#define MBR_UNSUPPORTED 262145        /* class 4: capability, slot, fact or flag not offered */
#define MBR_NO_DEVICE 262146          /* no library or no device here */
#define MBR_VERSION_MISMATCH 262147   /* no common minor; both ranges in the text */
#define MBR_NOT_A_PLUGIN 262148       /* the file is no plugin; the text says what is missing */
#define MBR_UNTRUSTED 262149          /* owner or mode of the file or its folder */
#define MBR_INTERNAL 327681           /* class 5: the callee's own failure */
#define MBR_CONTRACT_BROKEN 327682    /* an answer that the contract does not allow */
#define MBR_SYSTEM 327683             /* the operating system failed; native code in the error */
#define MBR_RESIDUAL 327684           /* an undo failed; what is left stays charged */
#define MBR_DEVICE_LOST 393217        /* class 6 */

/* ---- Error ----------------------------------------------------------------------------------
 * What a status cannot say. The caller owns it and sets struct_size; written on failure only. */
#define MBR_ERROR_TEXT_BYTES 256

#define MBR_NATIVE_NONE 0
#define MBR_NATIVE_ERRNO 1
#define MBR_NATIVE_CUDA 2
#define MBR_NATIVE_HIP 3

typedef struct mbr_error {
    uint32_t struct_size;
    mbr_status status;       /* repeats the returned value */
    uint32_t argument_index; /* 1 = first field after struct_size … ; 0 = no single field */
    uint32_t native_domain;  /* MBR_NATIVE_… */
    int64_t native_code;
    uint64_t asked_bytes; /* 0 where the call asked for no bytes */
    uint64_t free_bytes;  /* what would have been granted, where known */
    char
        text[MBR_ERROR_TEXT_BYTES]; /* UTF-8, terminated, one line: what, which value, what works */
} mbr_error;

/* ---- Outcome --------------------------------------------------------------------------------
 * Of every slot that changes something. The caller owns it and sets struct_size.
 *   state         comes with status   means
 *   DONE          MBR_OK              as asked
 *   UNCHANGED     any failure         nothing happened
 *   PARTIAL       any failure         the residual_… bytes are left; they stay charged
 *   QUARANTINED   any failure         nobody knows; the object is withheld for good
 * Any other pair, and any other state, is treated as QUARANTINED and counted as a violation. */
#define MBR_STATE_UNCHANGED 0
#define MBR_STATE_DONE 1
#define MBR_STATE_PARTIAL 2
#define MBR_STATE_QUARANTINED 3

#define MBR_CONTENT_UNDEFINED 0 /* anything, also another tenant's bytes */
#define MBR_CONTENT_ZERO 1
#define MBR_CONTENT_STALE 2 /* what was last written through another mapping */

typedef struct mbr_outcome {
    uint32_t struct_size;
    uint32_t state;                 /* MBR_STATE_… */
    uint32_t content;               /* MBR_CONTENT_… of what became accessible */
    uint32_t granted_flags;         /* of the request's flags, those that hold now */
    uint64_t address;               /* allocate and reserve: the start; else 0 */
    uint64_t value;                 /* signal and reached: the line's value; else 0 */
    uint64_t newly_mapped_bytes;    /* became reachable through an address */
    uint64_t newly_owned_bytes;     /* physical bytes taken from the system */
    uint64_t unmapped_bytes;        /* no longer reachable */
    uint64_t released_bytes;        /* physical bytes given back to the system */
    uint64_t residual_mapped_bytes; /* PARTIAL: still reachable */
    uint64_t residual_owned_bytes;  /* PARTIAL: still owned */
} mbr_outcome;

/* ---- Frozen value types (never grow; may stand in arrays and in other structs) ----------------
 */

/* A native stream or context. The kind says how to read the value, because value 0 is a valid
 * stream of some drivers. */
#define MBR_NATIVE_STREAM_NONE 0
#define MBR_NATIVE_STREAM_CPU 1
#define MBR_NATIVE_STREAM_CUDA 2
#define MBR_NATIVE_STREAM_HIP 3

typedef struct mbr_native {
    uint32_t kind;
    uint32_t reserved_0;
    uint64_t value;
} mbr_native;

#define MBR_ACCESS_NONE 0
#define MBR_ACCESS_READ 1
#define MBR_ACCESS_READ_WRITE 3

/* The access that one device gets; device_index as in the mechanism's description. */
typedef struct mbr_access {
    uint32_t device_index;
    uint32_t access; /* MBR_ACCESS_… */
} mbr_access;

/* One option of an open call: both strings are terminated and outlive the call only. */
typedef struct mbr_option {
    const char *key;
    const char *value;
} mbr_option;

/* ---- Vtables ----------------------------------------------------------------------------------
 * Each begins with struct_size, kind, minor. Kinds of third parties have the high bit set and the
 * low 15 bits of a hash of their id string. */
#define MBR_KIND_PLUGIN 1
#define MBR_KIND_ALLOCATOR 2
#define MBR_KIND_VIRTUAL 3
#define MBR_KIND_SHARED 4
#define MBR_KIND_ORDER 5
#define MBR_KIND_TRANSFER 6

typedef struct mbr_vtable_head {
    uint32_t struct_size;
    uint16_t kind;
    uint16_t minor;
} mbr_vtable_head;

/* An opened mechanism, owned by the plugin from open to close. */
typedef struct mbr_instance mbr_instance;

#ifdef __cplusplus
}
#endif

#endif
