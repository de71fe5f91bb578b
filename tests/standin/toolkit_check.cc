/* Holds calls.h against a toolkit's cuda.h, by the checks that hold driver.h. Built by hand, where
 * a toolkit is. */
#include "plugins/cuda/toolkit_check.cc"
#include "tests/standin/calls.h"

namespace
{

PAIR(mbr_cuda_graph_node_record, CUgraphNode_st)
STANDIN_CONSTANTS(CHECK_CONSTANT)
STANDIN_FUNCTIONS(CHECK_FUNCTION)

} // namespace
