/* The command `membrane new-plugin`. */
#ifndef MEMBRANE_TOOLS_CLI_NEW_PLUGIN_H
#define MEMBRANE_TOOLS_CLI_NEW_PLUGIN_H

/* Writes a plugin's first files into a new folder. Returns an exit code of args.h. */
int mbr_cli_new_plugin(int argc, char **argv);

#endif
