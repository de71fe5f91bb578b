/* Whether a stream is done, for holders that are asked for bytes: what is in flight gives none. */
#ifndef MEMBRANE_HOST_HOLDER_COMMON_QUIET_H
#define MEMBRANE_HOST_HOLDER_COMMON_QUIET_H

#include "abi/base/seam.h"
#include "membrane/ep.h"

#include <stdbool.h>

#define MBR_QUIET_WAIT_NS UINT64_C(5000000) /* an idle stream answers within it */

/* All work submitted to the stream so far is done; 0: the host's own. False also where that cannot
 * be told: while a capture is open on the device, or after its loss. */
static inline bool mbr_stream_is_quiet(mbr_manager *manager, mbr_stream_handle stream)
{
    uint64_t deadline_ns = mbr_clock_now(&mbr_clock_monotonic) + MBR_QUIET_WAIT_NS;
    return stream.value == 0 || mbr_ep_synchronize(manager, stream, deadline_ns, NULL) == MBR_OK;
}

/* The same for one of many looks of one call: *busy, 0 at first, is the stream that was last found
 * not to be done, and is not waited for again. */
static inline bool mbr_stream_is_quiet_again(
    mbr_manager *manager, mbr_stream_handle stream, mbr_stream_handle *busy)
{
    if (stream.value != 0 && stream.value == busy->value)
        return false;
    bool is_quiet = mbr_stream_is_quiet(manager, stream);
    if (!is_quiet)
        *busy = stream;
    return is_quiet;
}

#endif
