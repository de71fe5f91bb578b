/* Holds driver.h against a toolkit's cuda.h, at compile time: every prototype under the name that
 * the toolkit gives it, every struct, every constant. Built by hand, where a toolkit is. */
#include "plugins/cuda/driver.h"

#include <cuda.h>
#include <type_traits>

namespace
{

/* What may stand for what: the driver's opaque handles and structs are ours under another name. */
template <typename Ours, typename Theirs> struct pair_of : std::false_type {
};
#define PAIR(ours, theirs)                                                                         \
    template <> struct pair_of<ours, theirs> : std::true_type {                                    \
    };
PAIR(mbr_cuda_context_record, CUctx_st)
PAIR(mbr_gpu_stream_record, CUstream_st)
PAIR(mbr_gpu_event_record, CUevent_st)
PAIR(mbr_cuda_graph_record, CUgraph_st)
PAIR(mbr_cuda_graph_exec_record, CUgraphExec_st)
PAIR(mbr_cuda_module_record, CUmod_st)
PAIR(mbr_cuda_function_record, CUfunc_st)
PAIR(mbr_cuda_pool_record, CUmemPoolHandle_st)
PAIR(mbr_cuda_uuid, CUuuid)
PAIR(mbr_cuda_location, CUmemLocation)
PAIR(mbr_cuda_properties, CUmemAllocationProp)
PAIR(mbr_cuda_access, CUmemAccessDesc)

/* An integer may stand for an enumeration of its size and sign. */
template <typename T, bool = std::is_enum<T>::value> struct plain {
    using type = T;
};
template <typename T> struct plain<T, true> {
    using type = std::underlying_type_t<T>;
};

template <typename Ours, typename Theirs>
struct same
    : std::integral_constant<bool,
          std::is_same<Ours, typename plain<Theirs>::type>::value || pair_of<Ours, Theirs>::value> {
};
template <typename Ours, typename Theirs> struct same<Ours *, Theirs *> : same<Ours, Theirs> {
};
template <typename Ours, typename Theirs>
struct same<const Ours, const Theirs> : same<Ours, Theirs> {
};
template <typename Ours, typename Theirs, typename... OurArguments, typename... TheirArguments>
struct same<Ours(OurArguments...), Theirs(TheirArguments...)>
    : std::integral_constant<bool, sizeof...(OurArguments) == sizeof...(TheirArguments)> {
    static_assert(same<Ours, Theirs>::value, "result");
    static_assert((same<OurArguments, TheirArguments>::value && ...), "arguments");
};

#define CHECK_CONSTANT(ours, theirs, value)                                                        \
    static_assert(static_cast<unsigned>(theirs) == value, #theirs);
MBR_CUDA_CONSTANTS(CHECK_CONSTANT)

#define CHECK_FUNCTION(member, exported, parameters)                                               \
    static_assert(same<mbr_cuda_result parameters, decltype(exported)>::value, #exported);
MBR_CUDA_FUNCTIONS(CHECK_FUNCTION)
MBR_CUDA_FUNCTIONS_OF_TESTS(CHECK_FUNCTION)

#define CHECK_FIELD(ours, our_field, theirs, their_field)                                          \
    static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) &&                    \
            sizeof(ours::our_field) == sizeof(theirs::their_field),                                \
        #theirs "." #their_field);
#define CHECK_SIZE(ours, theirs)                                                                   \
    static_assert(sizeof(ours) == sizeof(theirs) && alignof(ours) == alignof(theirs), #theirs);

CHECK_SIZE(mbr_cuda_uuid, CUuuid)
CHECK_SIZE(mbr_cuda_location, CUmemLocation)
CHECK_SIZE(mbr_cuda_properties, CUmemAllocationProp)
CHECK_SIZE(mbr_cuda_access, CUmemAccessDesc)
CHECK_FIELD(mbr_cuda_location, type, CUmemLocation, type)
CHECK_FIELD(mbr_cuda_location, id, CUmemLocation, id)
CHECK_FIELD(mbr_cuda_properties, type, CUmemAllocationProp, type)
CHECK_FIELD(mbr_cuda_properties, handle_types, CUmemAllocationProp, requestedHandleTypes)
CHECK_FIELD(mbr_cuda_properties, location, CUmemAllocationProp, location)
CHECK_FIELD(mbr_cuda_properties, windows_metadata, CUmemAllocationProp, win32HandleMetaData)
CHECK_FIELD(mbr_cuda_properties, flags, CUmemAllocationProp, allocFlags)
CHECK_FIELD(mbr_cuda_properties, flags.compression, CUmemAllocationProp, allocFlags.compressionType)
CHECK_FIELD(mbr_cuda_properties, flags.rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)
CHECK_FIELD(mbr_cuda_properties, flags.usage, CUmemAllocationProp, allocFlags.usage)
CHECK_FIELD(mbr_cuda_access, location, CUmemAccessDesc, location)
CHECK_FIELD(mbr_cuda_access, flags, CUmemAccessDesc, flags)

} // namespace
