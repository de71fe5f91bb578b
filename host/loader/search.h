/* The folders of the search, in order. */
#ifndef MEMBRANE_HOST_LOADER_SEARCH_H
#define MEMBRANE_HOST_LOADER_SEARCH_H

#include "host/loader/judge.h"

/* A walk over the folders. Start it with {.environment = …}. */
typedef struct mbr_folder_walk {
    const mbr_loader_environment *environment;
    uint32_t stage;
    const char *rest; /* of the list that the stage reads; NULL: not begun */
    bool is_at_end;   /* of that list */
} mbr_folder_walk;

typedef enum mbr_folder_step {
    MBR_FOLDER_GOOD,    /* `folder` is one to look into */
    MBR_FOLDER_REFUSED, /* `folder` is an element that is never looked into: empty or relative */
    MBR_FOLDER_END,
} mbr_folder_step;

/* `source` names where the folder comes from, for texts. */
mbr_folder_step mbr_folder_next(
    mbr_folder_walk *walk, char folder[MBR_LOADER_PATH_BYTES], const char **source);

/* Finds a plugin by name: the first file of that name that passes its judgement. If none passes,
 * the refusal of the first one, or MBR_REASON_NOT_FOUND with the folders that were tried. */
mbr_status mbr_search_open(const mbr_loader_os *os, const mbr_loader_environment *environment,
    const char *name, mbr_judged *judged, mbr_candidate *candidate);

#endif
