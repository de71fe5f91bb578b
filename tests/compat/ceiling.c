/* Opens a plugin's first mechanism with the loader at hand and says what was agreed: a word for the
 * refusal, or the minors. Built against today's headers it is a host of today; against the grown
 * ones a host of a minor 1. */
#include "host/loader/loader.h"

#include <stdio.h>

/* What the slot answers that only a minor 1 has, or that this host knows none. */
static const char *newer_slot(const mbr_mechanism *mechanism)
{
#ifdef MBR_MINOR_1
    mbr_reserve_request request = {MBR_SIZED(mbr_reserve_request)};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    mbr_status status = mechanism->virtual_.grown_0(mechanism->instance, &request, &outcome, NULL);
    return status == MBR_OK ? "plugin" : status == MBR_UNSUPPORTED ? "stub" : "other";
#else
    (void)mechanism;
    return "unknown";
#endif
}

int main(int count, char **arguments)
{
    mbr_module *module;
    mbr_candidate candidate;
    mbr_mechanism mechanism;
    mbr_mechanism_options options = {0};
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (count != 2)
        return 2;
    mbr_module_options file = {.name_or_path = arguments[1], .trusted = true};
    if (mbr_module_open(&file, &module, &candidate, &error) != MBR_OK) {
        printf("%s: %s\n", mbr_reason_word(candidate.reason), candidate.detail);
        return 1;
    }
    if (mbr_mechanism_open(module, &options, &mechanism, &error) != MBR_OK) {
        printf("open: %s\n", error.text);
        return 1;
    }
    printf("agreed %u, table %u, newer slot %s, digest %016lx\n", mbr_module_minor(module),
        mechanism.virtual_.minor, newer_slot(&mechanism), candidate.note.digest);
    mbr_status status = mbr_mechanism_close(&mechanism, &error);
    mbr_module_close(module);
    return status == MBR_OK ? 0 : 1;
}
