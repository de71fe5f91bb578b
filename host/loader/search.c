/* Where plugins are looked for, and in which order (rule 28): MEMBRANE_PLUGIN_PATH, the user's data
 * folder, the system's data folders, the folder fixed at build time. Never the current directory,
 * never an empty or relative element; in an elevated process nothing that its user could have set.
 * Judges no file itself. */
#include "host/loader/search.h"

#include "host/loader/note.h"
#include "host/loader/reason.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#ifndef MBR_BUILT_IN_PLUGIN_DIR
#define MBR_BUILT_IN_PLUGIN_DIR "/usr/lib/membrane/plugins"
#endif

#define DATA_SUFFIX "/membrane/plugins"
#define DEFAULT_DATA_DIRS "/usr/local/share:/usr/share"

void mbr_loader_environment_read(
    mbr_loader_environment *environment, char storage[MBR_LOADER_PATH_BYTES])
{
    const char *home = getenv("HOME");
    const char *data_home = getenv("XDG_DATA_HOME");
    *environment = (mbr_loader_environment){
        .plugin_path = getenv("MEMBRANE_PLUGIN_PATH"),
        .data_home = data_home,
        .data_dirs = getenv("XDG_DATA_DIRS"),
        .built_in_dir = MBR_BUILT_IN_PLUGIN_DIR,
        .secure = getauxval(AT_SECURE) != 0,
        .trace = getenv("MEMBRANE_TRACE"),
        .trace_file = getenv("MEMBRANE_TRACE_FILE"),
    };
    if (data_home != NULL && data_home[0] != '\0')
        return;
    environment->data_home = NULL;
    if (home == NULL || home[0] == '\0')
        return;
    int length = snprintf(storage, MBR_LOADER_PATH_BYTES, "%s/.local/share", home);
    if ((size_t)length < MBR_LOADER_PATH_BYTES)
        environment->data_home = storage;
}

/* ---- The walk -------------------------------------------------------------------------------- */

typedef struct stage {
    const char *source;
    const char *suffix;
    const char *list; /* NULL: nothing */
    bool is_single;   /* one folder, in which a colon means nothing */
} stage;

static const char *or_default(const char *list, const char *otherwise)
{
    return list == NULL || list[0] == '\0' ? otherwise : list;
}

static bool read_stage(const mbr_loader_environment *environment, uint32_t index, stage *out)
{
    const bool secure = environment->secure;
    switch (index) {
    case 0:
        *out = (stage){"MEMBRANE_PLUGIN_PATH", "",
            secure ? NULL : or_default(environment->plugin_path, NULL), false};
        return true;
    case 1:
        *out = (stage){"XDG_DATA_HOME", DATA_SUFFIX,
            secure ? NULL : or_default(environment->data_home, NULL), true};
        return true;
    case 2:
        *out = (stage){"XDG_DATA_DIRS", DATA_SUFFIX,
            secure ? DEFAULT_DATA_DIRS : or_default(environment->data_dirs, DEFAULT_DATA_DIRS),
            false};
        return true;
    case 3:
        *out = (stage){"built-in folder", "", or_default(environment->built_in_dir, NULL), true};
        return true;
    default:
        return false;
    }
}

static mbr_folder_step compose(const char *element, size_t bytes, const char *suffix, char *folder)
{
    int length = snprintf(folder, MBR_LOADER_PATH_BYTES, "%.*s%s", (int)bytes, element, suffix);
    bool fits = bytes < MBR_LOADER_PATH_BYTES && (size_t)length < MBR_LOADER_PATH_BYTES;
    if (bytes > 0 && element[0] == '/' && fits)
        return MBR_FOLDER_GOOD;
    size_t shown = bytes < MBR_LOADER_PATH_BYTES ? bytes : MBR_LOADER_PATH_BYTES - 1;
    memcpy(folder, element, shown);
    folder[shown] = '\0';
    return MBR_FOLDER_REFUSED;
}

mbr_folder_step mbr_folder_next(
    mbr_folder_walk *walk, char folder[MBR_LOADER_PATH_BYTES], const char **source)
{
    stage now;
    while (read_stage(walk->environment, walk->stage, &now)) {
        if (walk->rest == NULL) {
            walk->rest = now.list;
            walk->is_at_end = now.list == NULL;
        }
        if (walk->is_at_end) {
            walk->rest = NULL;
            walk->stage++;
            continue;
        }
        const char *element = walk->rest;
        size_t bytes = now.is_single ? strlen(element) : strcspn(element, ":");
        walk->is_at_end = element[bytes] == '\0';
        walk->rest = walk->is_at_end ? element : element + bytes + 1;
        *source = now.source;
        return compose(element, bytes, now.suffix, folder);
    }
    return MBR_FOLDER_END;
}

/* ---- By name --------------------------------------------------------------------------------- */

/* The folders that were looked into, as many as fit. */
typedef struct tried {
    char text[MBR_LOADER_REASON_BYTES - 128];
    size_t bytes;
    uint32_t unnamed_count;
} tried;

static void add_tried(tried *list, const char *folder)
{
    size_t length = strlen(folder);
    size_t wanted = length + (list->bytes > 0 ? 2 : 0);
    if (list->unnamed_count > 0 || wanted >= sizeof list->text - list->bytes) {
        list->unnamed_count++;
        return;
    }
    if (list->bytes > 0) {
        memcpy(list->text + list->bytes, ", ", 2);
        list->bytes += 2;
    }
    memcpy(list->text + list->bytes, folder, length);
    list->bytes += length;
    list->text[list->bytes] = '\0';
}

static mbr_status refuse_not_found(const tried *list, const char *name, mbr_candidate *candidate)
{
    char more[32] = "";
    if (list->unnamed_count > 0)
        snprintf(more, sizeof more, " and %u more", list->unnamed_count);
    return mbr_candidate_refuse(candidate, MBR_REASON_NOT_FOUND,
        "no libmembrane-%s.so in %s%s; set MEMBRANE_PLUGIN_PATH or give a path with a '/'", name,
        list->bytes > 0 ? list->text : "any folder (none is configured)", more);
}

mbr_status mbr_search_open(const mbr_loader_os *os, const mbr_loader_environment *environment,
    const char *name, mbr_judged *judged, mbr_candidate *candidate)
{
    judged->os = os;
    judged->fd = -1;
    *candidate = (mbr_candidate){.reason = MBR_REASON_USED};
    mbr_text_copy(candidate->path, name, sizeof candidate->path);
    if (!mbr_plugin_name_is_valid(name, strlen(name)))
        return mbr_candidate_refuse(candidate, MBR_REASON_NOT_FOUND,
            "no plugin is called that: a name is 1 to 31 of [a-z0-9-]; a path has a '/', such as "
            "./libmembrane-mine.so");
    mbr_folder_walk walk = {.environment = environment};
    tried list = {.bytes = 0};
    bool has_refusal = false;
    for (;;) {
        char path[MBR_LOADER_PATH_BYTES + sizeof "/libmembrane-.so" + MBR_NOTE_NAME_BYTES];
        char folder[MBR_LOADER_PATH_BYTES];
        const char *source;
        mbr_candidate next;
        struct stat unused;
        mbr_folder_step step = mbr_folder_next(&walk, folder, &source);
        if (step == MBR_FOLDER_END)
            break;
        if (step == MBR_FOLDER_REFUSED)
            continue;
        add_tried(&list, folder);
        snprintf(path, sizeof path, "%s/libmembrane-%s.so", folder, name);
        if (os->lstat(path, &unused) != 0)
            continue;
        mbr_status status = mbr_judge_open(os, path, false, judged, &next);
        if (status == MBR_OK || !has_refusal)
            *candidate = next;
        if (status == MBR_OK)
            return MBR_OK;
        has_refusal = true;
    }
    if (has_refusal)
        return mbr_reason_status(candidate->reason);
    return refuse_not_found(&list, name, candidate);
}
