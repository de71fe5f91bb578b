/* Runs the chosen checks, each under a warden of its own. */
#ifndef MEMBRANE_TOOLS_CHECK_RUNNER_H
#define MEMBRANE_TOOLS_CHECK_RUNNER_H

#include "tools/check/options.h"
#include "tools/check/result.h"

/* Fills run->results and ->count. False: the tool has no memory for it. */
bool mbr_runner_plan(const mbr_check_options *options, mbr_run *run);

/* Runs them; `path` is the plugin's, absolute. */
void mbr_runner_run(const mbr_check_options *options, const char *path, mbr_run *run);

#endif
