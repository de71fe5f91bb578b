/* The version of the tools; the plugin contract has its own. */
#ifndef MEMBRANE_TOOLS_CLI_VERSION_H
#define MEMBRANE_TOOLS_CLI_VERSION_H

#define MBR_TOOLS_VERSION "0.1.0"

#endif
