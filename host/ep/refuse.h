/* How the code of EPs refuses: one statement that fills the caller's mbr_error within its
 * struct_size and returns the status. Nothing here prints, allocates or takes a lock. */
#ifndef MEMBRANE_HOST_EP_REFUSE_H
#define MEMBRANE_HOST_EP_REFUSE_H

#include "membrane/base.h"

/* `error` may be NULL. argument_index as in mbr_error: 1 is the first field after struct_size, or
 * the first argument after the object; 0 is no single one. */
__attribute__((format(printf, 4, 5))) mbr_status mbr_ep_refuse(
    mbr_error *error, mbr_status status, uint32_t argument_index, const char *format, ...);

/* The same with an errno of the operating system. */
__attribute__((format(printf, 4, 5))) mbr_status mbr_ep_refuse_system(
    mbr_error *error, mbr_status status, int errno_value, const char *format, ...);

#endif
