/* The shared ledger's file: opened with suspicion, read and written under its lock. */
#ifndef MEMBRANE_GOVERNOR_SHARED_FILE_H
#define MEMBRANE_GOVERNOR_SHARED_FILE_H

#include "governor/shared_page.h"

#define MBR_SHARED_PATH_BYTES 512
#define MBR_SHARED_NAME_BYTES 48 /* with the terminator */

typedef enum mbr_shared_access {
    MBR_SHARED_READ = 0,
    MBR_SHARED_WRITE,
    MBR_SHARED_CREATE, /* to write; made where it is missing */
} mbr_shared_access;

typedef struct mbr_shared_file {
    mbr_shared_os os;
    mbr_shared_access access;
    int descriptor;
    char path[MBR_SHARED_PATH_BYTES];
} mbr_shared_file;

/* Opens, takes the ledger's lock, and reads and checks the page. The lock is held after MBR_OK
 * only. `limit_bytes` is the limit of a ledger that this makes. */
mbr_status mbr_shared_file_open(mbr_shared_file *file, const mbr_shared_place *place,
    mbr_shared_access access, uint64_t limit_bytes, mbr_shared_page *page, mbr_error *error);
/* Without the lock. */
void mbr_shared_file_close(mbr_shared_file *file);

/* Between the two nobody else changes the page. */
mbr_status mbr_shared_file_begin(mbr_shared_file *file, mbr_shared_page *page, mbr_error *error);
void mbr_shared_file_end(mbr_shared_file *file);

/* One write each, of a head or record that is sealed first. */
mbr_status mbr_shared_file_store_head(
    mbr_shared_file *file, mbr_shared_page *page, mbr_error *error);
mbr_status mbr_shared_file_store_record(
    mbr_shared_file *file, mbr_shared_page *page, uint32_t index, mbr_error *error);

/* The lock that a member holds while it lives; *is_taken is false where another one has it. */
mbr_status mbr_shared_file_try_lock_life(
    mbr_shared_file *file, uint32_t index, bool *is_taken, mbr_error *error);
void mbr_shared_file_unlock_life(mbr_shared_file *file, uint32_t index);
/* Whether somebody else holds it; true where the system does not say. */
bool mbr_shared_file_lives(mbr_shared_file *file, uint32_t index);

/* Removes the file, if the path still leads to it. */
void mbr_shared_file_remove(mbr_shared_file *file);

#endif
