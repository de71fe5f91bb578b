/* Shows that the harness names what it must: checks of its own that crash, hang, exit, print. */
#ifndef MEMBRANE_TOOLS_CHECK_SELF_TEST_H
#define MEMBRANE_TOOLS_CHECK_SELF_TEST_H

#include "tools/check/check.h"

/* Not listed, never run on a plugin; mbr_check_find knows them. */
extern const mbr_group mbr_group_self;

/* Runs them and prints one line each. True: each got the verdict that it must get. */
bool mbr_self_test(void);

#endif
