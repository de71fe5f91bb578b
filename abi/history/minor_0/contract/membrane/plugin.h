/* Capability `plugin` (required): what a file offers, and the life of its mechanisms.
 *
 * A plugin publishes mechanisms: one per device and memory domain. Enumerating them initializes no
 * device and may be repeated; index, name and identity stay as long as the process.
 *
 *   created by      released by     thread
 *   open            close           any; close once, after every object of the instance is gone
 */
#ifndef MEMBRANE_PLUGIN_H
#define MEMBRANE_PLUGIN_H

#include "membrane/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Negotiation (rules 16 to 18) --------------------------------------------------------------
 * The host offers a range of minors; the plugin answers one of them and its own range, also when
 * it refuses with MBR_VERSION_MISMATCH. */
typedef struct mbr_hello {
    uint32_t struct_size;
    uint16_t minor_min;
    uint16_t minor_max;
} mbr_hello;

typedef struct mbr_plugin_vtable mbr_plugin_vtable;

typedef struct mbr_reply {
    uint32_t struct_size;
    uint16_t minor;     /* the agreed one: a ceiling for every vtable */
    uint16_t minor_min; /* the plugin's own range */
    uint16_t minor_max;
    uint16_t reserved_0;
    uint32_t reserved_1;
    const mbr_plugin_vtable *plugin; /* static storage of the plugin */
} mbr_reply;

/* The one exported function of major 1. [any-thread] It touches no device and keeps no state. */
#define MBR_ENTRY_SYMBOL "membrane_plugin_v1"
typedef mbr_status (*mbr_entry_function)(
    const mbr_hello *hello, mbr_reply *reply, mbr_error *error);

#define MBR_EXPORT __attribute__((visibility("default")))
MBR_EXPORT mbr_status membrane_plugin_v1(
    const mbr_hello *hello, mbr_reply *reply, mbr_error *error);

/* ---- mechanisms ------------------------------------------------------------------------------ */
#define MBR_DOMAIN_HOST 1    /* plain host memory */
#define MBR_DOMAIN_PINNED 2  /* host memory that a device reaches */
#define MBR_DOMAIN_DEVICE 3  /* the device's own memory */
#define MBR_DOMAIN_UNIFIED 4 /* one pool that host and device share */

#define MBR_TIER_DEVICE 1
#define MBR_TIER_HOST 2

typedef struct mbr_mechanisms_request {
    uint32_t struct_size;
    uint32_t index; /* from 0; past the last: MBR_OUT_OF_RANGE */
} mbr_mechanisms_request;

typedef struct mbr_mechanism_description {
    uint32_t struct_size;
    uint32_t count;        /* of all mechanisms; set also with MBR_OUT_OF_RANGE */
    char name[64];         /* stable and unique in the plugin, such as "host" or "device0" */
    char description[128]; /* for people */
    uint32_t domain;       /* MBR_DOMAIN_… */
    uint32_t tier;         /* MBR_TIER_… */
    uint32_t device_index; /* 0 where the domain has one device */
    uint32_t reserved_0;
    uint8_t uuid[16]; /* zero where there is none */
    char pci[16];     /* "0000:65:00.0", or "" */
} mbr_mechanism_description;

/* ---- open --------------------------------------------------------------------------------------
 */
#define MBR_LOG_DEBUG 1
#define MBR_LOG_INFO 2
#define MBR_LOG_WARNING 3
#define MBR_LOG_ERROR 4

/* The only callback of the host. [any-thread] `text` is one line, not terminated; it lives for the
 * call. The sink calls neither the host nor a plugin. */
typedef void (*mbr_log_function)(
    void *context, uint32_t level, const char *text, uint64_t text_bytes);

typedef struct mbr_open_request {
    uint32_t struct_size;
    uint32_t option_count;
    const char *mechanism;     /* its name */
    const mbr_option *options; /* option_count of them; NULL if 0 */
    mbr_native native_context; /* kind MBR_NATIVE_STREAM_NONE: the plugin finds its own */
    mbr_log_function log;      /* never NULL */
    void *log_context;
} mbr_open_request;

typedef struct mbr_open_outcome {
    uint32_t struct_size;
    uint32_t reserved_0;
    mbr_instance *instance; /* not NULL with MBR_OK */
} mbr_open_outcome;

/* ---- capability --------------------------------------------------------------------------------
 */
#define MBR_ID_ALLOCATOR "membrane.allocator"
#define MBR_ID_VIRTUAL "membrane.virtual"
#define MBR_ID_SHARED "membrane.shared"
#define MBR_ID_ORDER "membrane.order"
#define MBR_ID_TRANSFER "membrane.transfer"

typedef struct mbr_capability_request {
    uint32_t struct_size;
    uint32_t minor; /* the highest that the host can use */
    const char *id; /* MBR_ID_…, or a third party's with its own prefix */
} mbr_capability_request;

typedef struct mbr_capability_outcome {
    uint32_t struct_size;
    uint32_t reserved_0;
    const mbr_vtable_head *table; /* not NULL with MBR_OK; static storage of the plugin */
} mbr_capability_outcome;

/* ---- close, report, quiesce --------------------------------------------------------------------
 */
typedef struct mbr_close_request {
    uint32_t struct_size;
    uint32_t flags; /* none defined */
} mbr_close_request;

typedef struct mbr_report_request {
    uint32_t struct_size;
    uint32_t reserved_0;
} mbr_report_request;

/* Live objects of the instance, by class; unload needs all of them to be 0. */
typedef struct mbr_report {
    uint32_t struct_size;
    uint32_t thread_count; /* threads that the instance runs */
    uint64_t allocation_count;
    uint64_t reservation_count;
    uint64_t extent_count;
    uint64_t mapping_count;
    uint64_t line_count;
    uint64_t stream_count;
} mbr_report;

typedef struct mbr_quiesce_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t deadline_ns; /* MBR_TIMED_OUT past it */
} mbr_quiesce_request;

/* ---- The vtable ---------------------------------------------------------------------------------
 * All slots are required (minor 0). mechanisms and open get a NULL instance. */
struct mbr_plugin_vtable {
    uint32_t struct_size;
    uint16_t kind;       /* MBR_KIND_PLUGIN */
    uint16_t minor;      /* MBR_MINOR_0 */
    const char *name;    /* as in the note and the file name: libmembrane-NAME.so */
    const char *version; /* the plugin's own */

    /* Describes mechanism `index`. MBR_OUT_OF_RANGE past the last; MBR_NO_DEVICE where the driver's
     * library or any device is missing. [any-thread] */
    mbr_status (*mechanisms)(mbr_instance *none, const mbr_mechanisms_request *request,
        mbr_mechanism_description *outcome, mbr_error *error);

    /* Opens a mechanism by name. An unknown option is MBR_UNKNOWN_KEY with the known ones in the
     * text. Two opens give two independent instances. [any-thread] */
    mbr_status (*open)(mbr_instance *none, const mbr_open_request *request,
        mbr_open_outcome *outcome, mbr_error *error);

    /* The vtable of a capability, or MBR_UNSUPPORTED. The same answer each time. [any-thread] */
    mbr_status (*capability)(mbr_instance *instance, const mbr_capability_request *request,
        mbr_capability_outcome *outcome, mbr_error *error);

    /* Ends the instance. MBR_IN_USE while an object lives: the instance then goes on.
     * [serial: instance] */
    mbr_status (*close)(mbr_instance *instance, const mbr_close_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Counts live objects. [any-thread] */
    mbr_status (*report)(mbr_instance *instance, const mbr_report_request *request,
        mbr_report *outcome, mbr_error *error);

    /* Joins the instance's threads and ends work in flight. [serial: instance] */
    mbr_status (*quiesce)(mbr_instance *instance, const mbr_quiesce_request *request,
        mbr_outcome *outcome, mbr_error *error);
};

#ifdef __cplusplus
}
#endif

#endif
