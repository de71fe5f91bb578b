/* The client interface of libmembrane: what execution providers, engines and shims include. */
#ifndef MEMBRANE_MEMBRANE_H
#define MEMBRANE_MEMBRANE_H

#include "membrane/base.h"
#include "membrane/budget.h"
#include "membrane/capture.h"
#include "membrane/cpu.h"
#include "membrane/ep.h"
#include "membrane/handle.h"
#include "membrane/kernel_cache.h"
#include "membrane/kv.h"
#include "membrane/manager.h"
#include "membrane/memory.h"
#include "membrane/paged.h"
#include "membrane/range.h"
#include "membrane/registry.h"
#include "membrane/sleep.h"
#include "membrane/state.h"
#include "membrane/ticket.h"
#include "membrane/weights.h"
#include "membrane/workspace.h"

#endif
