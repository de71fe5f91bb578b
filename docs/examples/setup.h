/* What every program sets up once: a plugin's mechanism, a budget with one holder, an EP with one
 * stream, and the binding that ties them together. */
#ifndef MEMBRANE_EXAMPLES_SETUP_H
#define MEMBRANE_EXAMPLES_SETUP_H

#include "membrane/membrane.h"

#include <stdio.h>
#include <stdlib.h>

static mbr_error error = {MBR_SIZED(mbr_error)};

/* Every call answers a status and, on failure, one line that says what would work. */
#define TRY(call) ((call) == MBR_OK ? (void)0 : (fprintf(stderr, "%s\n", error.text), exit(1)))

typedef struct setup {
    mbr_manager *manager;
    mbr_plugin_handle plugin;
    mbr_mechanism_handle mechanism;
    mbr_authority_handle authority;
    mbr_holder_handle holder;
    mbr_cpu *cpu;
    mbr_native native;
    mbr_ep_handle ep;
    mbr_stream_handle stream;
    mbr_binding_handle binding;
} setup;

static inline void setup_open(setup *s, const char *plugin, uint64_t limit_bytes)
{
    TRY(mbr_manager_create(NULL, &s->manager, &error));
    mbr_plugin_open_request open = {MBR_SIZED(mbr_plugin_open_request), .name = plugin};
    TRY(mbr_manager_open_plugin(s->manager, &open, &s->plugin, &error));
    mbr_mechanism_open_request mechanism = {
        MBR_SIZED(mbr_mechanism_open_request), .plugin = s->plugin};
    TRY(mbr_manager_open_mechanism(s->manager, &mechanism, &s->mechanism, &error));

    mbr_authority_request authority = {MBR_SIZED(mbr_authority_request), .tier = MBR_TIER_HOST,
        .name = "pool", .limit_bytes = limit_bytes};
    TRY(mbr_manager_create_authority(s->manager, &authority, &s->authority, &error));
    mbr_holder_request holder = {MBR_SIZED(mbr_holder_request), .role = MBR_ROLE_KV,
        .authority = s->authority, .name = "kv", .allowance_bytes = MBR_NO_ALLOWANCE};
    TRY(mbr_manager_create_holder(s->manager, &holder, &s->holder, &error));

    TRY(mbr_cpu_create(NULL, &s->cpu, &error));
    TRY(mbr_cpu_stream_create(s->cpu, &s->native, &error));
    mbr_ep_request ep = {MBR_SIZED(mbr_ep_request), .order = mbr_cpu_order(s->cpu),
        .transfer = mbr_cpu_transfer(s->cpu), .instance = mbr_cpu_instance(s->cpu)};
    TRY(mbr_ep_create(s->manager, &ep, &s->ep, &error));
    TRY(mbr_ep_attach_stream(s->manager, s->ep, s->native, &s->stream, &error));
    mbr_bind_request bind = {MBR_SIZED(mbr_bind_request), .mechanism = s->mechanism, .ep = s->ep,
        .authority = s->authority};
    TRY(mbr_manager_bind(s->manager, &bind, &s->binding, &error));
}

/* In reverse, once nothing of it is in use: the drain waits for what was released behind streams.
 */
static inline void setup_close(setup *s)
{
    TRY(mbr_ep_drain(s->manager, s->ep, UINT64_MAX, &error));
    TRY(mbr_manager_unbind(s->manager, s->binding, &error));
    TRY(mbr_ep_detach_stream(s->manager, s->stream, &error));
    TRY(mbr_ep_destroy(s->manager, s->ep, UINT64_MAX, &error));
    TRY(mbr_cpu_stream_destroy(s->cpu, s->native, &error));
    TRY(mbr_cpu_destroy(s->cpu, &error));
    TRY(mbr_manager_destroy_holder(s->manager, s->holder, &error));
    TRY(mbr_manager_destroy_authority(s->manager, s->authority, &error));
    TRY(mbr_manager_close_mechanism(s->manager, s->mechanism, &error));
    TRY(mbr_manager_close_plugin(s->manager, s->plugin, &error));
    TRY(mbr_manager_destroy(s->manager, &error));
}

#endif
