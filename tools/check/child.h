/* The child of one check: the only place where a plugin is loaded. */
#ifndef MEMBRANE_TOOLS_CHECK_CHILD_H
#define MEMBRANE_TOOLS_CHECK_CHILD_H

#include "tools/check/page.h"
#include "tools/check/trial.h"

#define MBR_CHILD_ARGUMENT "--child" /* hidden: what to do is in the page at MBR_PAGE_FD */

/* Memory that a plugin may take for itself in one check. */
#define MBR_CHILD_DATA_MAX_BYTES (UINT64_C(1) << 30)
#define MBR_CHILD_FILE_MAX_BYTES (UINT64_C(4) << 30) /* of one file; memory files are sparse */

/* Runs the check of the inherited page and ends the process. */
__attribute__((noreturn)) void mbr_child_main(void);

/* Runs the check of `page` in this process, for a debugger; `end` is called in the place of the
 * process's end and does not return. */
__attribute__((noreturn)) void mbr_child_run(mbr_page *page, void (*end)(mbr_trial *trial));

#endif
