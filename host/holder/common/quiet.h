/* Whether a stream is done, for holders that are asked for bytes: what is in flight gives none. */
#ifndef MEMBRANE_HOST_HOLDER_COMMON_QUIET_H
#define MEMBRANE_HOST_HOLDER_COMMON_QUIET_H

#include "abi/base/checked.h"
#include "abi/base/seam.h"
#include "host/holder/common/streams.h"
#include "membrane/ep.h"

#include <stdbool.h>

#define MBR_QUIET_WAIT_NS UINT64_C(5000000) /* an idle stream answers within it */
#define MBR_QUIET_BUSY_COUNT 8              /* busy streams that a call remembers */

/* All work submitted to the stream so far is done; 0: the host's own. False also where that cannot
 * be told: while a capture is open on the device, or after its loss. */
static inline bool mbr_stream_is_quiet(mbr_manager *manager, mbr_stream_handle stream)
{
    uint64_t deadline_ns = mbr_clock_now(&mbr_clock_monotonic) + MBR_QUIET_WAIT_NS;
    return stream.value == 0 || mbr_ep_synchronize(manager, stream, deadline_ns, NULL) == MBR_OK;
}

/* Streams that one call, which looks many times, has found not to be done; {0} at first. */
typedef struct mbr_busy_streams {
    mbr_stream_handle streams[MBR_QUIET_BUSY_COUNT]; /* the last ones */
    uint32_t found_count;
} mbr_busy_streams;

/* The same for one of many looks of one call: what is known to be busy is not waited for again. */
static inline bool mbr_stream_is_quiet_again(
    mbr_manager *manager, mbr_stream_handle stream, mbr_busy_streams *busy)
{
    uint32_t known_count = (uint32_t)mbr_min(busy->found_count, MBR_QUIET_BUSY_COUNT);
    if (mbr_stream_index(busy->streams, known_count, stream) < known_count)
        return false;
    bool is_quiet = mbr_stream_is_quiet(manager, stream);
    if (!is_quiet)
        busy->streams[busy->found_count++ % MBR_QUIET_BUSY_COUNT] = stream;
    return is_quiet;
}

#endif
