/* The command `membrane check`. */
#ifndef MEMBRANE_TOOLS_CLI_CHECK_H
#define MEMBRANE_TOOLS_CLI_CHECK_H

int mbr_cli_check(int argc, char **argv);

#endif
