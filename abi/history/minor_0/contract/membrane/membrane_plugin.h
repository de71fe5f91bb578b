/* The one header that a plugin's author includes. */
#ifndef MEMBRANE_MEMBRANE_PLUGIN_H
#define MEMBRANE_MEMBRANE_PLUGIN_H

#include "membrane/allocator.h"
#include "membrane/base.h"
#include "membrane/note.h"
#include "membrane/order.h"
#include "membrane/plugin.h"
#include "membrane/shared.h"
#include "membrane/transfer.h"
#include "membrane/virtual.h"

#endif
