/* Lists of distinct streams. */
#ifndef MEMBRANE_HOST_HOLDER_COMMON_STREAMS_H
#define MEMBRANE_HOST_HOLDER_COMMON_STREAMS_H

#include "membrane/handle.h"

/* Where the stream stands; `count`: nowhere. */
static inline uint32_t mbr_stream_index(
    const mbr_stream_handle *streams, uint32_t count, mbr_stream_handle stream)
{
    uint32_t at = 0;
    while (at < count && streams[at].value != stream.value)
        at++;
    return at;
}

#endif
