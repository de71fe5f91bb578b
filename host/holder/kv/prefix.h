/* What registries ask of a prefix beyond the client interface. */
#ifndef MEMBRANE_HOST_HOLDER_KV_PREFIX_H
#define MEMBRANE_HOST_HOLDER_KV_PREFIX_H

#include "membrane/kv.h"

#include <stdbool.h>

/* Who pays for its bytes as long as no sequence shares them. *manager: whose the holder is. */
mbr_holder_handle mbr_kv_prefix_payer(const mbr_kv_prefix *prefix, mbr_manager **manager);
/* What its end would free stays for now: a capture is open on its device. */
bool mbr_kv_prefix_is_held(const mbr_kv_prefix *prefix);

#endif
