/* A header whose library depends on abi/base, so that the file of abi/base is there to be found. */
#ifndef MEMBRANE_TESTS_CANARY_REACHES_BASE_H
#define MEMBRANE_TESTS_CANARY_REACHES_BASE_H

#include "abi/base/checked.h"

#endif
