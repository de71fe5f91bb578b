/* The states of a ticket as a table, for the tests and the diagram in docs/. */
#ifndef MEMBRANE_GOVERNOR_TICKET_STATES_H
#define MEMBRANE_GOVERNOR_TICKET_STATES_H

#include "abi/base/state.h"

extern const mbr_state_table mbr_ticket_states; /* MBR_TICKET_… */

#endif
