/* A member of a shared ledger for ledger_test.py: FOLDER NAME LIMIT BYTES. Leases the bytes, says
 * so, and leaves at the end of its input. */
#include "governor/shared.h"

#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments)
{
    mbr_shared *shared;
    mbr_shared_view view;
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (count != 5)
        return 2;
    mbr_shared_place place = {.name = arguments[2], .folder = arguments[1]};
    uint64_t bytes = strtoull(arguments[4], NULL, 10);
    if (mbr_shared_join(&place, NULL, strtoull(arguments[3], NULL, 10), &shared, &error) !=
            MBR_OK ||
        mbr_shared_lease(shared, bytes, bytes, &view, &error) != MBR_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("leased %llu\n", (unsigned long long)view.own_bytes);
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    mbr_shared_leave(shared);
    return 0;
}
