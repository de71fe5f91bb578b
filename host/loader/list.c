/* Lists every candidate of the search with the reason why it would or would not be used. Reads
 * notes, loads nothing (rule 28). */
#include "abi/base/error.h"
#include "host/loader/note.h"
#include "host/loader/reason.h"
#include "host/loader/search.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANDIDATES_MAX 4096

typedef struct listing {
    const mbr_heap *heap;
    mbr_candidate *items;
    uint32_t count, capacity;
} listing;

/* A new, zeroed item at the end. */
static mbr_status add(listing *list, mbr_candidate **item, mbr_error *error)
{
    if (list->count == CANDIDATES_MAX)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "more than %d files look like plugins; point MEMBRANE_PLUGIN_PATH at fewer",
            CANDIDATES_MAX);
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 8 : list->capacity * 2;
        mbr_candidate *items = mbr_heap_allocate(list->heap, capacity * sizeof *items);
        if (items == NULL)
            return mbr_fail(
                error, MBR_OUT_OF_HOST_MEMORY, "no memory to list %u plugin files", capacity);
        if (list->count > 0)
            memcpy(items, list->items, list->count * sizeof *items);
        mbr_heap_release(list->heap, list->items);
        list->items = items;
        list->capacity = capacity;
    }
    *item = &list->items[list->count++];
    memset(*item, 0, sizeof **item);
    return MBR_OK;
}

static bool looks_like_plugin(const char *file)
{
    size_t length = strlen(file);
    return strncmp(file, "libmembrane-", 12) == 0 && length > 15 &&
        strcmp(file + length - 3, ".so") == 0;
}

/* Among the first `count`: those of earlier folders. */
static bool is_known(const listing *list, uint32_t count, const char *path)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list->items[i].path, path) == 0)
            return true;
    return false;
}

/* A path that fits, and that no earlier folder of the same spelling brought. */
static mbr_status add_file(
    listing *list, uint32_t first, const char *folder, const char *file, mbr_error *error)
{
    char path[MBR_LOADER_PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, file);
    if ((size_t)length >= sizeof path || is_known(list, first, path))
        return MBR_OK;
    mbr_candidate *item;
    mbr_status status = add(list, &item, error);
    if (status == MBR_OK)
        memcpy(item->path, path, (size_t)length + 1);
    return status;
}

static mbr_status add_refused_folder(
    listing *list, const char *folder, const char *source, mbr_error *error)
{
    mbr_candidate *item;
    mbr_status status = add(list, &item, error);
    if (status != MBR_OK)
        return status;
    mbr_text_copy(item->path, folder, sizeof item->path);
    mbr_candidate_refuse(item, MBR_REASON_UNTRUSTED_FOLDER,
        "%s has %s element, which would depend on the current directory; write absolute folders",
        source,
        folder[0] == '\0'      ? "an empty"
            : folder[0] == '/' ? "a too long"
                               : "a relative");
    return MBR_OK;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const mbr_candidate *)a)->path, ((const mbr_candidate *)b)->path);
}

static const mbr_candidate *used_before(const listing *list, uint32_t before, const char *name)
{
    for (uint32_t i = 0; i < before; i++)
        if (list->items[i].reason == MBR_REASON_USED && strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

static void judge_item(listing *list, uint32_t index)
{
    mbr_candidate *item = &list->items[index];
    char path[MBR_LOADER_PATH_BYTES];
    char name[MBR_NOTE_NAME_BYTES];
    memcpy(path, item->path, sizeof path);
    if (!mbr_name_from_path(path, name)) {
        mbr_candidate_refuse(item, MBR_REASON_NAME_MISMATCH,
            "the NAME of libmembrane-NAME.so is 1 to 31 of [a-z0-9-]");
        return;
    }
    if (mbr_loader_judge(path, false, item) != MBR_OK)
        return;
    const mbr_candidate *earlier = used_before(list, index, item->name);
    if (earlier != NULL)
        mbr_candidate_refuse(item, MBR_REASON_SHADOWED, "%s comes first", earlier->path);
}

static mbr_status list_folder(listing *list, const char *folder, mbr_error *error)
{
    DIR *stream = opendir(folder);
    if (stream == NULL)
        return MBR_OK; /* most folders of the search do not exist */
    uint32_t first = list->count;
    mbr_status status = MBR_OK;
    const struct dirent *entry;
    while (status == MBR_OK && (entry = readdir(stream)) != NULL)
        if (looks_like_plugin(entry->d_name))
            status = add_file(list, first, folder, entry->d_name, error);
    closedir(stream);
    if (status != MBR_OK || list->count == first)
        return status;
    qsort(list->items + first, list->count - first, sizeof *list->items, by_path);
    for (uint32_t i = first; i < list->count; i++)
        judge_item(list, i);
    return MBR_OK;
}

mbr_status mbr_loader_list(const mbr_loader_environment *environment, const mbr_heap *heap,
    mbr_candidate **candidates, uint32_t *count, mbr_error *error)
{
    char storage[MBR_LOADER_PATH_BYTES];
    mbr_loader_environment own;
    *candidates = NULL;
    *count = 0;
    if (environment == NULL) {
        mbr_loader_environment_read(&own, storage);
        environment = &own;
    }
    listing list = {.heap = heap == NULL ? &mbr_heap_libc : heap};
    mbr_folder_walk walk = {.environment = environment};
    for (;;) {
        char folder[MBR_LOADER_PATH_BYTES];
        const char *source;
        mbr_folder_step step = mbr_folder_next(&walk, folder, &source);
        if (step == MBR_FOLDER_END)
            break;
        mbr_status status = step == MBR_FOLDER_GOOD
            ? list_folder(&list, folder, error)
            : add_refused_folder(&list, folder, source, error);
        if (status != MBR_OK) {
            mbr_heap_release(list.heap, list.items);
            return status;
        }
    }
    *candidates = list.items;
    *count = list.count;
    return MBR_OK;
}

void mbr_loader_list_release(const mbr_heap *heap, mbr_candidate *candidates)
{
    mbr_heap_release(heap == NULL ? &mbr_heap_libc : heap, candidates);
}
