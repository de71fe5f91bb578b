/* Prefixes that are numbers, in a program without a cache: who would end, read or press one. */
#ifndef MEMBRANE_TESTS_UNIT_REPLAY_NUMBERS_H
#define MEMBRANE_TESTS_UNIT_REPLAY_NUMBERS_H

extern "C" {
#include "host/holder/kv/prefix.h"
#include "tools/cli/replay/store.h"
}

extern "C" mbr_status mbr_kv_prefix_read(
    const mbr_kv_prefix *, mbr_kv_prefix_figures *figures, mbr_error *)
{
    figures->exclusive_bytes = 1;
    return MBR_OK;
}

extern "C" mbr_holder_handle mbr_kv_prefix_payer(const mbr_kv_prefix *, mbr_manager **manager)
{
    *manager = nullptr;
    return {0};
}

extern "C" bool mbr_kv_prefix_is_held(const mbr_kv_prefix *)
{
    return false;
}

/* host/bind/giver.h is C's alone. As where the client answers for the holder. */
struct mbr_giver;
struct mbr_giver_calls;

extern "C" mbr_status mbr_giver_join(
    mbr_manager *, mbr_holder_handle, const mbr_giver_calls *, void *, mbr_giver *, mbr_error *)
{
    return MBR_OK;
}

extern "C" void mbr_giver_leave(mbr_giver *) {}

#endif
