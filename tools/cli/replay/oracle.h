/* Asks the system, not the library, how much memory there is. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_ORACLE_H
#define MEMBRANE_TOOLS_CLI_REPLAY_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

/* Of the memory files that this process holds open (memfd): blocks on the file system, and the
 * proportional set size of their mappings (Rss would count each alias). False where there is no
 * such file or /proc is not readable: the plugin's memory is then none that the system can be asked
 * of. */
bool replay_oracle_read(uint64_t *block_bytes, uint64_t *pss_bytes);

#endif
