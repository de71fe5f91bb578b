/* The one exported function of libmembrane-cuda.so, and the note that is read before it runs. */
#include "plugins/common/answer.h"
#include "plugins/cuda/core.h"

/* Not unloadable, though this file alone would be: the driver that it opens has threads and keys of
 * thread-local storage, and stays. */
MBR_PLUGIN_NOTE("cuda", "membrane", 0);

MBR_EXPORT mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    return mbr_answer_hello(&mbr_cuda_plugin, hello, reply, error);
}
