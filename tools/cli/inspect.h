/* `membrane inspect`: one plugin's file, mechanisms, capabilities and facts. */
#ifndef MEMBRANE_TOOLS_CLI_INSPECT_H
#define MEMBRANE_TOOLS_CLI_INSPECT_H

#include "host/loader/loader.h"

#include <stdio.h>

/* The command. Returns 0; 1 where the plugin is refused or one of its mechanisms does not open; 2
 * for arguments that are not understood. */
int mbr_cli_inspect(int argc, char **argv);

#define MBR_INSPECT_MECHANISMS_MAX 256

/* One mechanism as it was while it was open. `facts` are copied; its instance is closed again. */
typedef struct mbr_inspected {
    mbr_mechanism_description description;
    mbr_status status; /* of opening and closing it */
    bool was_opened;
    mbr_mechanism facts; /* instance and module are NULL */
    char text[MBR_ERROR_TEXT_BYTES];
} mbr_inspected;

typedef struct mbr_inspection {
    mbr_candidate candidate;
    mbr_reason breach; /* of trust, gone past; MBR_REASON_USED: none */
    char breach_text[MBR_LOADER_REASON_BYTES];
    char version[MBR_ERROR_TEXT_BYTES];
    uint16_t minor;                         /* agreed */
    char enumeration[MBR_ERROR_TEXT_BYTES]; /* why there are no mechanisms; "" otherwise */
    uint32_t count;
    mbr_inspected *mechanisms;
} mbr_inspection;

void mbr_inspect_print_human(FILE *out, const mbr_inspection *inspection);
/* False when memory is exhausted or `out` takes no more. */
bool mbr_inspect_print_json(FILE *out, const mbr_inspection *inspection);

#endif
