/* backing.h for C++: its state table holds atomics, which C++ spells otherwise. */
#ifndef MEMBRANE_TESTS_UNIT_BACKING_BACKING_C_H
#define MEMBRANE_TESTS_UNIT_BACKING_BACKING_C_H

#define _Atomic
#include "host/backing/backing.h"
#undef _Atomic

#endif
