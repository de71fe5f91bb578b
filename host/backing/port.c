/* The port between host and plugin: ids, validated outcomes, clamped numbers, counts.
 * It decides nothing, keeps no list of objects but of the addresses that are out, and holds no
 * lock. */
#include "host/backing/port_internal.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/lock.h"
#include "host/loader/call.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#define OWNED_LIMIT_BYTES (UINT64_C(1) << 47) /* of one object: a processor's whole addresses */
#define PROTECT_ATTEMPT_COUNT 4 /* where the mechanism says that protect may fail spuriously */

/* What a slot gets to write into, never the caller's own. */
typedef struct mbr_said {
    mbr_outcome outcome;
    mbr_error error;
} mbr_said;

static void begin_call(mbr_port *port, mbr_said *said)
{
    mbr_lock_assert_none_held();
    add_count(&port->call_count, 1);
    *said = (mbr_said){{MBR_SIZED(mbr_outcome)}, {MBR_SIZED(mbr_error)}};
}

/* `bytes`: all that the object can own, since nobody knows what it does (rule 5). */
static mbr_status violate(mbr_port *port, mbr_answer *answer, uint64_t bytes, mbr_error *error,
    const char *slot, const char *what)
{
    add_count(&port->violation_count, 1);
    add_count(&port->withheld_count, 1);
    answer->quarantined = true;
    answer->owned_bytes = bytes;
    answer->status = MBR_CONTRACT_BROKEN;
    return mbr_fail(error, MBR_CONTRACT_BROKEN,
        "plugin %s: slot %s: %s; the object is withheld and stays charged",
        port->mechanism.plugin.name, slot, what);
}

/* The table of membrane/base.h: which state may come with which status. `bytes` bounds what the
 * call can have changed on either axis. */
static mbr_status validate(mbr_port *port, const char *slot, mbr_status status, mbr_said *said,
    uint64_t bytes, mbr_answer *answer, mbr_error *error)
{
    const mbr_outcome *outcome = &said->outcome;
    status = mbr_answer_take(slot, status, &said->error, error);
    answer->status = status;
    answer->content = outcome->content;
    answer->granted_flags = outcome->granted_flags;
    answer->address = outcome->address;
    if (status == MBR_OK && outcome->state != MBR_STATE_DONE)
        return violate(port, answer, bytes, error, slot, "success with a state other than done");
    if (status != MBR_OK && outcome->state == MBR_STATE_DONE)
        return violate(port, answer, bytes, error, slot, "a failure with the state done");
    if (outcome->state > MBR_STATE_QUARANTINED)
        return violate(port, answer, bytes, error, slot, "a state that the contract does not know");
    answer->unchanged = outcome->state == MBR_STATE_UNCHANGED;
    if (outcome->content > MBR_CONTENT_STALE)
        answer->content = MBR_CONTENT_UNDEFINED;
    if (outcome->state == MBR_STATE_QUARANTINED) {
        answer->quarantined = true;
        answer->owned_bytes = bytes;
        add_count(&port->withheld_count, 1);
    }
    if (outcome->state == MBR_STATE_PARTIAL) {
        if (outcome->residual_owned_bytes > bytes || outcome->residual_mapped_bytes > bytes)
            add_count(&port->violation_count, 1); /* clamped: more than the object has */
        answer->owned_bytes = mbr_min(outcome->residual_owned_bytes, bytes);
        answer->mapped_bytes = mbr_min(outcome->residual_mapped_bytes, bytes);
    }
    return status;
}

/* What the plugin took is booked as it is, also where it took more than it was allowed; nothing, or
 * a number that no memory has, is a lie (rule 24). */
static uint64_t take_owned(mbr_port *port, uint64_t newly_owned_bytes, uint64_t max_owned_bytes)
{
    if (newly_owned_bytes != 0 && newly_owned_bytes <= max_owned_bytes)
        return newly_owned_bytes;
    add_count(&port->violation_count, 1);
    bool possible = newly_owned_bytes != 0 && newly_owned_bytes <= OWNED_LIMIT_BYTES;
    return possible ? newly_owned_bytes : max_owned_bytes;
}

/* ---- Addresses (rule 24) --------------------------------------------------------------------- */

/* Storage for one entry, taken before the slot is called, so that nothing has to be undone for want
 * of it. NULL with MBR_OK: too small to be checked. */
static mbr_status prepare_entry(
    const mbr_port *port, uint64_t bytes, mbr_addresses_entry **entry, mbr_error *error)
{
    *entry = NULL;
    if (bytes == 0 || bytes < port->mechanism.granule_min_bytes)
        return MBR_OK;
    *entry = mbr_heap_allocate(port->heap, sizeof(**entry));
    if (*entry == NULL)
        return mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no host memory to note which addresses are out");
    return MBR_OK;
}

/* Judges the address of a call that succeeded and notes it as out. `owned_bytes`: all that the
 * object can own. Takes the entry. */
static mbr_status take_address(mbr_port *port, const char *slot, uint64_t bytes,
    uint64_t align_bytes, uint64_t owned_bytes, mbr_addresses_entry *entry, mbr_answer *answer,
    mbr_error *error)
{
    char what[128];
    uint64_t end, taken;
    uint64_t address = answer->address;
    if (address == 0 || !mbr_add(address, bytes, &end) ||
        (align_bytes != 0 && address % align_bytes != 0))
        snprintf(what, sizeof(what), "an address that is null or misaligned: 0x%" PRIx64, address);
    else if (entry != NULL &&
        !mbr_addresses_enter(port->addresses, entry, port, address, bytes, &taken))
        snprintf(what, sizeof(what),
            "addresses [0x%" PRIx64 ", +%" PRIu64 ") that overlap what is out at 0x%" PRIx64,
            address, bytes, taken);
    else
        return MBR_OK;
    mbr_heap_release(port->heap, entry);
    return violate(port, answer, owned_bytes, error, slot, what);
}

/* After the slot that gives addresses back. They stay out if it failed; a plugin that handed them
 * out again meanwhile has broken the contract. */
static void settle_entry(mbr_port *port, mbr_addresses_entry *entry, bool is_gone)
{
    uint64_t taken;
    if (entry != NULL && !is_gone) {
        if (mbr_addresses_enter(
                port->addresses, entry, port, entry->interval.start, entry->interval.bytes, &taken))
            return;
        add_count(&port->violation_count, 1);
    }
    mbr_heap_release(port->heap, entry);
}

/* ---- The gate of the device ------------------------------------------------------------------ */

void mbr_port_set_gate(mbr_port *port, mbr_gate *gate)
{
    port->gate = gate;
}

mbr_gate *mbr_port_gate(const mbr_port *port)
{
    return port->gate;
}

bool mbr_port_is_gated(const mbr_port *port)
{
    return port->gate != NULL && mbr_gate_is_closed(port->gate);
}

bool mbr_port_try_enter_gate(const mbr_port *port)
{
    return port->gate == NULL || mbr_gate_try_enter(port->gate);
}

void mbr_port_leave_gate(const mbr_port *port)
{
    if (port->gate != NULL)
        mbr_gate_leave(port->gate);
}

mbr_status mbr_port_refuse_gated(const mbr_port *port, const char *slot, mbr_error *error)
{
    return mbr_fail(error, MBR_BUSY,
        "mechanism %s: a graph is being captured on its device, and slot %s may not be called; try "
        "again when the capture has ended",
        port->mechanism.description.name, slot);
}

/* False: *answer says that nothing happened. */
static bool enter_gate(const mbr_port *port, const char *slot, mbr_answer *answer, mbr_error *error)
{
    if (mbr_port_try_enter_gate(port))
        return true;
    answer->unchanged = answer->gated = true;
    answer->status = mbr_port_refuse_gated(port, slot, error);
    return false;
}

mbr_status mbr_port_create(const mbr_mechanism *mechanism, mbr_addresses *addresses,
    const mbr_heap *heap, mbr_port **port, mbr_error *error)
{
    *port = NULL;
    mbr_port *created = mbr_heap_allocate(heap, sizeof(*created));
    if (created == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a mechanism");
    created->mechanism = *mechanism;
    created->addresses = addresses;
    created->heap = heap;
    created->groups = &created->own_groups;
    atomic_store(&created->next_id, 1);
    *port = created;
    return MBR_OK;
}

void mbr_port_note_leak(mbr_port *port)
{
    add_count(&port->leak_count, 1);
}

mbr_status mbr_port_close(mbr_port *port, mbr_error *error)
{
    uint64_t live = read_count(&port->reservation_count) + read_count(&port->extent_count) +
        read_count(&port->allocation_count);
    bool leaks = read_count(&port->leak_count) != 0;
    if (live != 0 && read_count(&port->withheld_count) == 0 && !leaks) {
        return mbr_fail(error, MBR_IN_USE,
            "mechanism %s still has %llu reservations, %llu extents, %llu allocations; release "
            "them first",
            port->mechanism.description.name,
            (unsigned long long)read_count(&port->reservation_count),
            (unsigned long long)read_count(&port->extent_count),
            (unsigned long long)read_count(&port->allocation_count));
    }
    /* An instance that answered what the contract forbids is given up by the loader, which keeps
     * its code mapped; nobody can close it a second time. */
    mbr_error own = {MBR_SIZED(mbr_error)};
    mbr_status status = mbr_mechanism_close(&port->mechanism, &own);
    bool gone = live == 0 && read_count(&port->forgotten_count) != 0;
    bool refused = port->mechanism.instance != NULL &&
        (status == MBR_IN_USE || MBR_STATUS_CLASS(status) == MBR_CLASS_LOST);
    if (refused && (gone || leaks))
        mbr_mechanism_abandon(&port->mechanism);
    if (status != MBR_OK && port->mechanism.instance != NULL) {
        mbr_error_copy(error, &own);
        return status;
    }
    mbr_addresses_entry *withheld;
    while ((withheld = mbr_addresses_leave_first(port->addresses, port)) != NULL)
        mbr_heap_release(port->heap, withheld);
    mbr_heap_release(port->heap, port);
    return MBR_OK;
}

const mbr_mechanism *mbr_port_mechanism(const mbr_port *port)
{
    return &port->mechanism;
}

mbr_status mbr_port_reserve(
    mbr_port *port, uint64_t bytes, uint64_t align_bytes, mbr_answer *answer, mbr_error *error)
{
    *answer = (mbr_answer){.id = atomic_fetch_add(&port->next_id, 1)};
    mbr_addresses_entry *entry;
    answer->status = prepare_entry(port, bytes, &entry, error);
    if (answer->status != MBR_OK)
        return answer->status;
    mbr_said said;
    begin_call(port, &said);
    mbr_reserve_request request = {MBR_SIZED(mbr_reserve_request), .reservation_id = answer->id,
        .bytes = bytes, .align_bytes = align_bytes};
    mbr_status status = CALL(port, virtual_.reserve, &request, &said);
    status = validate(port, "reserve", status, &said, 0, answer, error);
    if (status != MBR_OK) {
        mbr_heap_release(port->heap, entry);
        return status;
    }
    status = take_address(port, "reserve", bytes, align_bytes, 0, entry, answer, error);
    if (status != MBR_OK)
        return status;
    add_count(&port->reservation_count, 1);
    add_count(&port->reserved_bytes, bytes);
    return MBR_OK;
}

mbr_status mbr_port_unreserve(
    mbr_port *port, uint64_t reservation_id, uint64_t address, uint64_t bytes, mbr_error *error)
{
    mbr_answer answer = {0};
    mbr_said said;
    mbr_addresses_entry *entry = mbr_addresses_leave(port->addresses, port, address);
    begin_call(port, &said);
    mbr_unreserve_request request = {
        MBR_SIZED(mbr_unreserve_request), .reservation_id = reservation_id};
    mbr_status status = CALL(port, virtual_.unreserve, &request, &said);
    status = validate(port, "unreserve", status, &said, 0, &answer, error);
    settle_entry(port, entry, status == MBR_OK);
    if (status != MBR_OK)
        return status;
    sub_count(&port->reservation_count, 1);
    sub_count(&port->reserved_bytes, bytes);
    return MBR_OK;
}

/* PARTIAL: what was about to be made lives on under its id, and the plugin counts it. */
static bool is_left(const mbr_answer *answer)
{
    return answer->status != MBR_OK && !answer->quarantined && answer->owned_bytes != 0;
}

mbr_status mbr_port_extent_create(mbr_port *port, uint64_t bytes, uint64_t max_owned_bytes,
    uint32_t flags, mbr_answer *answer, mbr_error *error)
{
    *answer = (mbr_answer){.id = atomic_fetch_add(&port->next_id, 1)};
    mbr_said said;
    begin_call(port, &said);
    mbr_extent_create_request request = {MBR_SIZED(mbr_extent_create_request), .flags = flags,
        .extent_id = answer->id, .bytes = bytes, .max_owned_bytes = max_owned_bytes};
    mbr_status status = CALL(port, virtual_.extent_create, &request, &said);
    status = validate(port, "extent_create", status, &said, max_owned_bytes, answer, error);
    if (status == MBR_OK) {
        answer->owned_bytes = take_owned(port, said.outcome.newly_owned_bytes, max_owned_bytes);
        add_count(&port->extent_count, 1);
    } else if (is_left(answer)) {
        add_count(&port->extent_count, 1);
    }
    add_count(&port->owned_bytes, answer->owned_bytes);
    return status;
}

mbr_status mbr_port_extent_destroy(
    mbr_port *port, uint64_t extent_id, uint64_t owned_bytes, mbr_answer *answer, mbr_error *error)
{
    *answer = (mbr_answer){.id = extent_id};
    if (!enter_gate(port, "extent_destroy", answer, error)) {
        answer->owned_bytes = owned_bytes;
        return answer->status;
    }
    mbr_said said;
    begin_call(port, &said);
    mbr_extent_destroy_request request = {
        MBR_SIZED(mbr_extent_destroy_request), .extent_id = extent_id};
    mbr_status status = CALL(port, virtual_.extent_destroy, &request, &said);
    mbr_port_leave_gate(port);
    status = validate(port, "extent_destroy", status, &said, owned_bytes, answer, error);
    if (status != MBR_OK) {
        answer->owned_bytes = owned_bytes; /* all of it stays charged */
        return status;
    }
    if (said.outcome.released_bytes != owned_bytes)
        add_count(&port->violation_count, 1); /* clamped: the extent is gone as a whole */
    answer->gone_bytes = owned_bytes;
    sub_count(&port->extent_count, 1);
    sub_count(&port->owned_bytes, owned_bytes);
    add_count(&port->given_back_bytes, owned_bytes);
    return MBR_OK;
}

static mbr_status note_mapped(mbr_port *port, mbr_status status, const mbr_outcome *outcome,
    uint64_t bytes, mbr_answer *answer)
{
    if (status == MBR_OK) {
        if (outcome->newly_mapped_bytes != bytes)
            add_count(&port->violation_count, 1);
        answer->mapped_bytes = bytes;
        add_count(&port->mapping_count, 1);
        add_count(&port->mapped_bytes, bytes);
    } else if (answer->quarantined) {
        answer->mapped_bytes = bytes;
    } else if (answer->mapped_bytes != 0) { /* PARTIAL: the caller unmaps it whole */
        answer->mapped_bytes = bytes;
        add_count(&port->mapping_count, 1);
        add_count(&port->mapped_bytes, bytes);
    }
    return status;
}

mbr_status mbr_port_map(mbr_port *port, uint64_t reservation_id, uint64_t offset_bytes,
    uint64_t extent_id, uint64_t bytes, mbr_answer *answer, mbr_error *error)
{
    *answer = (mbr_answer){.id = extent_id};
    mbr_said said;
    begin_call(port, &said);
    mbr_map_request request = {MBR_SIZED(mbr_map_request), .reservation_id = reservation_id,
        .offset_bytes = offset_bytes, .extent_id = extent_id};
    mbr_status status = CALL(port, virtual_.map, &request, &said);
    status = validate(port, "map", status, &said, bytes, answer, error);
    return note_mapped(port, status, &said.outcome, bytes, answer);
}

static mbr_status check_peer(
    const mbr_mechanism *mechanism, const mbr_access *peers, uint32_t index, mbr_error *error)
{
    uint32_t device = peers[index].device_index, access = peers[index].access;
    if (device == mechanism->description.device_index)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "peer %" PRIu32 " is device %" PRIu32 ", mechanism %s's own; peers are the others",
            index, device, mechanism->description.name);
    if (access != MBR_ACCESS_READ && access != MBR_ACCESS_READ_WRITE)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "access %" PRIu32 " of peer %" PRIu32 " is neither MBR_ACCESS_READ nor "
            "MBR_ACCESS_READ_WRITE",
            access, index);
    for (uint32_t i = 0; i < index; i++)
        if (peers[i].device_index == device)
            return mbr_fail(error, MBR_INVALID_ARGUMENT,
                "peers %" PRIu32 " and %" PRIu32 " are both device %" PRIu32, i, index, device);
    return MBR_OK;
}

mbr_status mbr_port_check_peers(
    const mbr_mechanism *mechanism, const mbr_access *peers, uint32_t peer_count, mbr_error *error)
{
    if (peer_count > MBR_PEER_LIMIT_COUNT || (peer_count > 0 && peers == NULL))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "%" PRIu32 " peers%s; at most %d can be named",
            peer_count, peers == NULL ? " at address 0" : "", MBR_PEER_LIMIT_COUNT);
    if (peer_count > 0 && !mechanism->has_virtual)
        return mbr_fail(error, MBR_UNSUPPORTED,
            "mechanism %s has no membrane.virtual, so no peer can be given access",
            mechanism->description.name);
    mbr_status status = MBR_OK;
    for (uint32_t i = 0; i < peer_count && status == MBR_OK; i++)
        status = check_peer(mechanism, peers, i, error);
    return status;
}

void mbr_port_set_peers(mbr_port *port, const mbr_access *peers, uint32_t peer_count)
{
    for (uint32_t i = 0; i < peer_count; i++)
        port->peers[i] = peers[i];
    port->peer_count = peer_count;
}

/* The mechanism's own device and its peers, which get no more than it does. It comes last: some
 * drivers want that (MBR_QUIRK_LOCAL_DEVICE_LAST), and no one minds. */
static uint32_t list_access(const mbr_port *port, uint32_t access, mbr_access *list)
{
    for (uint32_t i = 0; i < port->peer_count; i++)
        list[i] = (mbr_access){port->peers[i].device_index, port->peers[i].access & access};
    list[port->peer_count] = (mbr_access){port->mechanism.description.device_index, access};
    return port->peer_count + 1;
}

static uint32_t attempts_at_access(const mbr_port *port)
{
    return port->mechanism.protect_may_fail_spuriously ? PROTECT_ATTEMPT_COUNT : UINT32_C(1);
}

/* A failure that left all as it was, and that the caller of the plugin did not bring about. */
static bool may_try_again(mbr_status status, const mbr_answer *answer)
{
    int32_t class = MBR_STATUS_CLASS(status);
    return status != MBR_OK && class != MBR_CLASS_CALLER && class != MBR_CLASS_LOST &&
        !answer->quarantined && answer->mapped_bytes == 0;
}

mbr_status mbr_port_map_shared(mbr_port *port, uint64_t reservation_id, uint64_t offset_bytes,
    uint64_t extent_id, uint64_t bytes, uint32_t access, mbr_answer *answer, mbr_error *error)
{
    mbr_access list[MBR_PEER_LIMIT_COUNT + 1];
    mbr_map_shared_request request = {MBR_SIZED(mbr_map_shared_request),
        .access_count = list_access(port, access, list), .reservation_id = reservation_id,
        .offset_bytes = offset_bytes, .extent_id = extent_id, .access = list};
    mbr_status status = MBR_INTERNAL;
    uint32_t left = attempts_at_access(port);
    do {
        *answer = (mbr_answer){.id = extent_id};
        mbr_said said;
        begin_call(port, &said);
        status = CALL(port, shared.map_shared, &request, &said);
        status = validate(port, "map_shared", status, &said, bytes, answer, error);
        status = note_mapped(port, status, &said.outcome, bytes, answer);
    } while (--left > 0 && may_try_again(status, answer));
    return status;
}

mbr_status mbr_port_protect(mbr_port *port, uint64_t reservation_id, uint64_t offset_bytes,
    uint64_t bytes, uint32_t access, mbr_answer *answer, mbr_error *error)
{
    mbr_access list[MBR_PEER_LIMIT_COUNT + 1];
    mbr_protect_request request = {MBR_SIZED(mbr_protect_request),
        .access_count = list_access(port, access, list), .reservation_id = reservation_id,
        .offset_bytes = offset_bytes, .bytes = bytes, .access = list};
    uint32_t attempts = attempts_at_access(port);
    mbr_status status = MBR_INTERNAL;
    mbr_answer own;
    bool unchanged = true; /* by any of the attempts */
    if (answer == NULL)
        answer = &own;
    for (uint32_t attempt = 0; attempt < attempts && status != MBR_OK; attempt++) {
        *answer = (mbr_answer){0};
        mbr_said said;
        begin_call(port, &said);
        status = CALL(port, virtual_.protect, &request, &said);
        status = validate(port, "protect", status, &said, bytes, answer, error);
        unchanged = answer->unchanged = answer->unchanged && unchanged;
        if (answer->quarantined || MBR_STATUS_CLASS(status) == MBR_CLASS_LOST)
            break;
    }
    return status;
}

mbr_status mbr_port_unmap(mbr_port *port, uint64_t reservation_id, uint64_t offset_bytes,
    uint64_t bytes, mbr_answer *answer, mbr_error *error)
{
    *answer = (mbr_answer){0};
    if (!enter_gate(port, "unmap", answer, error)) {
        answer->mapped_bytes = bytes;
        return answer->status;
    }
    mbr_said said;
    begin_call(port, &said);
    mbr_unmap_request request = {MBR_SIZED(mbr_unmap_request), .reservation_id = reservation_id,
        .offset_bytes = offset_bytes, .bytes = bytes};
    mbr_status status = CALL(port, virtual_.unmap, &request, &said);
    mbr_port_leave_gate(port);
    status = validate(port, "unmap", status, &said, bytes, answer, error);
    if (status != MBR_OK) {
        answer->mapped_bytes = bytes;
        return status;
    }
    if (said.outcome.unmapped_bytes != bytes)
        add_count(&port->violation_count, 1);
    answer->gone_bytes = bytes;
    sub_count(&port->mapping_count, 1);
    sub_count(&port->mapped_bytes, bytes);
    return MBR_OK;
}

mbr_status mbr_port_allocate(mbr_port *port, uint64_t bytes, uint64_t align_bytes,
    uint64_t max_owned_bytes, uint32_t flags, mbr_answer *answer, mbr_error *error)
{
    *answer = (mbr_answer){.id = atomic_fetch_add(&port->next_id, 1)};
    mbr_addresses_entry *entry;
    answer->status = prepare_entry(port, bytes, &entry, error);
    if (answer->status != MBR_OK)
        return answer->status;
    if (!enter_gate(port, "allocate", answer, error)) {
        mbr_heap_release(port->heap, entry);
        return answer->status;
    }
    mbr_said said;
    begin_call(port, &said);
    mbr_allocate_request request = {MBR_SIZED(mbr_allocate_request), .flags = flags,
        .allocation_id = answer->id, .bytes = bytes, .align_bytes = align_bytes,
        .max_owned_bytes = max_owned_bytes};
    mbr_status status = CALL(port, allocator.allocate, &request, &said);
    mbr_port_leave_gate(port);
    status = validate(port, "allocate", status, &said, max_owned_bytes, answer, error);
    if (status == MBR_OK)
        status = take_address(
            port, "allocate", bytes, align_bytes, max_owned_bytes, entry, answer, error);
    else
        mbr_heap_release(port->heap, entry);
    if (status == MBR_OK)
        answer->owned_bytes = take_owned(port, said.outcome.newly_owned_bytes, max_owned_bytes);
    if (status == MBR_OK || is_left(answer)) {
        answer->mapped_bytes = answer->owned_bytes;
        add_count(&port->allocation_count, 1);
        add_count(&port->mapped_bytes, answer->mapped_bytes);
    }
    add_count(&port->owned_bytes, answer->owned_bytes);
    return status;
}

mbr_status mbr_port_release(mbr_port *port, uint64_t allocation_id, uint64_t address,
    uint64_t owned_bytes, mbr_answer *answer, mbr_error *error)
{
    *answer = (mbr_answer){.id = allocation_id};
    if (!enter_gate(port, "release", answer, error)) {
        answer->owned_bytes = owned_bytes;
        return answer->status;
    }
    mbr_said said;
    mbr_addresses_entry *entry = mbr_addresses_leave(port->addresses, port, address);
    begin_call(port, &said);
    mbr_release_request request = {
        MBR_SIZED(mbr_release_request), .allocation_id = allocation_id, .address = address};
    mbr_status status = CALL(port, allocator.release, &request, &said);
    mbr_port_leave_gate(port);
    status = validate(port, "release", status, &said, owned_bytes, answer, error);
    settle_entry(port, entry, status == MBR_OK);
    if (status != MBR_OK) {
        answer->owned_bytes = owned_bytes;
        return status;
    }
    if (said.outcome.released_bytes != owned_bytes)
        add_count(&port->violation_count, 1);
    answer->gone_bytes = owned_bytes;
    sub_count(&port->allocation_count, 1);
    sub_count(&port->owned_bytes, owned_bytes);
    add_count(&port->given_back_bytes, owned_bytes);
    sub_count(&port->mapped_bytes, owned_bytes);
    return MBR_OK;
}
