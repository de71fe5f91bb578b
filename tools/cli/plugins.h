/* `membrane plugins`: what is installed, and why something is not used. */
#ifndef MEMBRANE_TOOLS_CLI_PLUGINS_H
#define MEMBRANE_TOOLS_CLI_PLUGINS_H

/* The command. Loads nothing without --probe, which loads each plugin in a child. Returns 0, also
 * when nothing is found; 1 where the listing failed or a probe did; 2 for arguments that are not
 * understood. */
int mbr_cli_plugins(int argc, char **argv);

#endif
