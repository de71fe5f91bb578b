/* `membrane stats` and `membrane limit`: a shared ledger of several processes on one device, looked
 * at and limited from outside. Exit codes as for all commands. */
#ifndef MEMBRANE_TOOLS_CLI_LEDGER_H
#define MEMBRANE_TOOLS_CLI_LEDGER_H

int mbr_cli_stats(int argc, char **argv);
int mbr_cli_limit(int argc, char **argv);

#endif
