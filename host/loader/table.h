/* Private copies of a plugin's vtables (rules 3 and 18). */
#ifndef MEMBRANE_HOST_LOADER_TABLE_H
#define MEMBRANE_HOST_LOADER_TABLE_H

#include "host/loader/image.h"

#define MBR_TABLE_TEXT_BYTES 256

typedef enum mbr_table_index {
    MBR_TABLE_PLUGIN,
    MBR_TABLE_ALLOCATOR,
    MBR_TABLE_VIRTUAL,
    MBR_TABLE_SHARED,
    MBR_TABLE_ORDER,
    MBR_TABLE_TRANSFER,
    MBR_TABLE_COUNT,
} mbr_table_index;

/* "membrane.virtual" …; "membrane.plugin" for the table that has no id. */
const char *mbr_table_id(mbr_table_index table);
/* The bytes of the host's own struct. */
uint32_t mbr_table_bytes(mbr_table_index table);

/* A table whose slots all answer MBR_UNSUPPORTED, with an outcome that says that nothing happened.
 */
void mbr_table_fill_absent(mbr_table_index table, void *own);

/* Copies a plugin's table once and validates the copy: it lies in the plugin's own file, its kind
 * is right, its size reaches the minimum of its minor, and every required slot is filled. Slots
 * above the lower of `agreed` and the table's own minor are stubs. False with the reason in `text`;
 * *own is then absent. */
bool mbr_table_copy(mbr_table_index table, const mbr_image *image, const void *foreign,
    uint16_t agreed, void *own, char text[MBR_TABLE_TEXT_BYTES]);

/* The kind of a third party's table, from its id (rule 2). */
uint16_t mbr_table_kind_of_id(const char *id);

/* mbr_table_copy for a third party's table: the kind is that of the id, the minor the third
 * party's own. */
bool mbr_table_copy_foreign(const mbr_foreign_table *wanted, const mbr_image *image,
    const void *foreign, void *own, char text[MBR_TABLE_TEXT_BYTES]);

#endif
