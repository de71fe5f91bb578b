/* Holds driver.h against HIP's own header, at compile time: every constant, the number and the
 * sizes of every function's arguments, the structs. Built by hand, where a header is: Debian's
 * libamdhip64-dev is enough, which is older than virtual memory's attribute. */
#define __HIP_PLATFORM_AMD__ 1
#include "plugins/hip/driver.h"

#include <hip/hip_runtime_api.h>
#include <hip/hip_version.h>

namespace
{

#if HIP_VERSION < 50300000
#define hipDeviceAttributeVirtualMemoryManagementSupported 89
#endif
#undef hipStreamPerThread /* a pointer */
#define hipStreamPerThread 2

#define CHECK_CONSTANT(ours, theirs, value)                                                        \
    static_assert(static_cast<unsigned long long>(theirs) == (value), #theirs);
MBR_HIP_CONSTANTS(CHECK_CONSTANT)

/* An address is an integer of ours and a pointer of theirs, in the same register. */
template <typename Ours, typename Theirs> struct same {
    static constexpr bool value = false;
};
template <typename Ours, typename... OurArguments, typename Theirs, typename... TheirArguments>
struct same<Ours(OurArguments...), Theirs(TheirArguments...)> {
    static constexpr bool value = sizeof...(OurArguments) == sizeof...(TheirArguments) &&
        sizeof(Ours) == sizeof(Theirs) && ((sizeof(OurArguments) == sizeof(TheirArguments)) && ...);
};

/* Three have templates of their name beside them in C++, and are left out. */
#define hipMalloc left_out_1
#define hipMallocManaged left_out_2
#define hipHostMalloc left_out_3
extern "C" hipError_t left_out_1(void **, size_t);
extern "C" hipError_t left_out_2(void **, size_t, unsigned);
extern "C" hipError_t left_out_3(void **, size_t, unsigned);

#define CHECK_FUNCTION(member, exported, parameters)                                               \
    static_assert(same<mbr_hip_result parameters, decltype(exported)>::value, #exported);
MBR_HIP_PLAIN_FUNCTIONS(CHECK_FUNCTION)
MBR_HIP_VIRTUAL_FUNCTIONS(CHECK_FUNCTION)
MBR_HIP_OWN_FUNCTIONS(CHECK_FUNCTION)
MBR_HIP_FUNCTIONS_OF_TESTS(CHECK_FUNCTION)

static_assert(sizeof(hipMemLocation) == sizeof(mbr_gpu_location), "hipMemLocation");
static_assert(sizeof(hipMemAccessDesc) == sizeof(mbr_gpu_access), "hipMemAccessDesc");
static_assert(sizeof(hipMemAllocationProp) == sizeof(mbr_gpu_properties), "hipMemAllocationProp");

} // namespace
