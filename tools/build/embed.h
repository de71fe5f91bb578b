/* Files that a program carries inside, as tools/build/embed.py writes them. */
#ifndef MEMBRANE_TOOLS_BUILD_EMBED_H
#define MEMBRANE_TOOLS_BUILD_EMBED_H

typedef struct mbr_embedded {
    const char *name; /* NULL: the end of the table */
    const char *text; /* terminated */
} mbr_embedded;

#endif
