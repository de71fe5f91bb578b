/* The port: the only place of the host that calls a mechanism's allocator, virtual and shared
 * slots. It gives the objects their ids, checks every outcome against the contract's table, clamps
 * the plugin's numbers (rule 24), counts calls, bytes and violations. It decides nothing.
 *
 * Slots that a graph capture on the device would not survive, or whose effect its graph would run
 * into (unmap, destroy, allocate, release, stats, report), are called inside the device's gate:
 * while a capture is open they are MBR_BUSY, and nothing has happened.
 *
 * Every call is any-thread; serial slots are serialized by the backing's busy marks. No lock of
 * ours is held (asserted). */
#ifndef MEMBRANE_HOST_BACKING_PORT_H
#define MEMBRANE_HOST_BACKING_PORT_H

#include "host/backing/addresses.h"
#include "host/ep/gate.h"
#include "host/loader/loader.h"

typedef struct mbr_port mbr_port;

/* What a mutating slot did, after validation. With a failure, residual_… is what is left: all of
 * the object's bytes if the outcome was QUARANTINED or illegal. */
typedef struct mbr_answer {
    mbr_status status;
    bool quarantined;
    bool unchanged; /* the plugin says that nothing happened */
    bool gated;     /* unchanged, because the slot was not called: a capture is open */
    uint32_t content;
    uint32_t granted_flags;
    uint64_t id; /* the object's, rising, never reused */
    uint64_t address;
    uint64_t owned_bytes;  /* newly owned, or residual after a failure */
    uint64_t mapped_bytes; /* newly mapped, or residual after a failure */
    uint64_t gone_bytes;   /* unmapped or released */
} mbr_answer;

/* The mechanism is copied in; mbr_port_close gives it back to the loader. `addresses` is shared
 * with the other ports whose users meet, and outlives the port. */
mbr_status mbr_port_create(const mbr_mechanism *mechanism, mbr_addresses *addresses,
    const mbr_heap *heap, mbr_port **port, mbr_error *error);
/* What a backing could not give back is nobody's any more: it does not keep the mechanism open. */
void mbr_port_note_leak(mbr_port *port);
/* MBR_IN_USE with both tallies while anything lives. An instance that still holds what a lost
 * device took along or a backing has leaked, and so can never be closed, is given up, as is one
 * whose close has left it in a state that nobody knows: its code stays mapped. */
mbr_status mbr_port_close(mbr_port *port, mbr_error *error);
const mbr_mechanism *mbr_port_mechanism(const mbr_port *port);

/* Of the mechanism's device; set before the port is used, and outlives it. Without one nothing is
 * gated. */
void mbr_port_set_gate(mbr_port *port, mbr_gate *gate);
mbr_gate *mbr_port_gate(const mbr_port *port);
bool mbr_port_is_gated(const mbr_port *port);
/* For several gated calls: no capture begins until it is left. False: one is open. */
bool mbr_port_try_enter_gate(const mbr_port *port);
void mbr_port_leave_gate(const mbr_port *port);

/* Isolation groups that memory of one device serves, through whichever backing and mechanism: one
 * group's is said before memory is made for it. Once there are several, what a plugin hands out and
 * does not know the contents of may be what another group gave back to it or to another mechanism
 * of the device (I21). Who makes memory looks once it has it: of what was given back it then knows.
 */
typedef struct mbr_groups mbr_groups;
/* As the gate; without it the port's own. */
void mbr_port_set_groups(mbr_port *port, mbr_groups *groups);
void mbr_port_serve_group(mbr_port *port, uint32_t isolation_group);
bool mbr_port_has_groups(const mbr_port *port);

/* Devices that get access beside the mechanism's own; set, once checked, before anything is mapped.
 */
#define MBR_PEER_LIMIT_COUNT 63
mbr_status mbr_port_check_peers(
    const mbr_mechanism *mechanism, const mbr_access *peers, uint32_t peer_count, mbr_error *error);
void mbr_port_set_peers(mbr_port *port, const mbr_access *peers, uint32_t peer_count);

/* Addresses that overlap others that are out, here or in mbr_port_allocate, are a breach of the
 * contract: the object is withheld and never given back, because giving it back could end what the
 * other user stands on (rule 33). */
mbr_status mbr_port_reserve(
    mbr_port *port, uint64_t bytes, uint64_t align_bytes, mbr_answer *answer, mbr_error *error);
mbr_status mbr_port_unreserve(
    mbr_port *port, uint64_t reservation_id, uint64_t address, uint64_t bytes, mbr_error *error);
mbr_status mbr_port_extent_create(mbr_port *port, uint64_t bytes, uint64_t max_owned_bytes,
    uint32_t flags, mbr_answer *answer, mbr_error *error);
mbr_status mbr_port_extent_destroy(
    mbr_port *port, uint64_t extent_id, uint64_t owned_bytes, mbr_answer *answer, mbr_error *error);
mbr_status mbr_port_map(mbr_port *port, uint64_t reservation_id, uint64_t offset_bytes,
    uint64_t extent_id, uint64_t bytes, mbr_answer *answer, mbr_error *error);
/* Both retry a bounded number of times where the mechanism says that protect may fail spuriously.
 * The answer of protect may be NULL: whoever unmaps after a failure need not know the access. */
mbr_status mbr_port_protect(mbr_port *port, uint64_t reservation_id, uint64_t offset_bytes,
    uint64_t bytes, uint32_t access, mbr_answer *answer, mbr_error *error);
mbr_status mbr_port_map_shared(mbr_port *port, uint64_t reservation_id, uint64_t offset_bytes,
    uint64_t extent_id, uint64_t bytes, uint32_t access, mbr_answer *answer, mbr_error *error);
mbr_status mbr_port_unmap(mbr_port *port, uint64_t reservation_id, uint64_t offset_bytes,
    uint64_t bytes, mbr_answer *answer, mbr_error *error);
mbr_status mbr_port_allocate(mbr_port *port, uint64_t bytes, uint64_t align_bytes,
    uint64_t max_owned_bytes, uint32_t flags, mbr_answer *answer, mbr_error *error);
mbr_status mbr_port_release(mbr_port *port, uint64_t allocation_id, uint64_t address,
    uint64_t owned_bytes, mbr_answer *answer, mbr_error *error);

/* The device took these with it (a lost context whose end is confirmed): the host stops counting
 * them, and the audit no longer compares with the plugin. */
void mbr_port_forget_extent(mbr_port *port, uint64_t owned_bytes);
void mbr_port_forget_mapping(mbr_port *port, uint64_t bytes);
void mbr_port_forget_reservation(mbr_port *port, uint64_t address, uint64_t bytes);
void mbr_port_forget_allocation(mbr_port *port, uint64_t address, uint64_t owned_bytes);
/* Lines of a lost context, which are left open. */
void mbr_port_forget_lines(mbr_port *port, uint64_t count);

/* Moving numbers of the plugin; false if it cannot tell, or may not be asked (a capture is open).
 */
bool mbr_port_stats(mbr_port *port, mbr_mechanism_stats *stats);

typedef struct mbr_port_figures {
    uint64_t owned_bytes, mapped_bytes, reserved_bytes; /* the host's own count */
    uint64_t given_back_bytes;                          /* destroyed and released over its life */
    uint64_t reservation_count, extent_count, mapping_count, allocation_count;
    uint64_t call_count, violation_count;
} mbr_port_figures;

void mbr_port_read(const mbr_port *port, mbr_port_figures *figures);
/* Compares the host's counts with the plugin's report and stats: MBR_CONTRACT_BROKEN and the first
 * class that differs. MBR_BUSY while a capture is open. */
mbr_status mbr_port_audit(mbr_port *port, mbr_error *error);

#endif
