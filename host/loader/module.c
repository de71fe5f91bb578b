/* Loads a judged file and lets go of it again. Responsible for the order of the gates and for one
 * clean-up after dlopen (rule 31): whatever refuses, nothing stays open. Opens no mechanism. */
#include "host/loader/module.h"

#include "abi/base/assert.h"
#include "abi/base/error.h"
#include "abi/base/lock.h"
#include "host/loader/open.h"
#include "host/loader/reason.h"
#include "host/loader/search.h"

#include <dlfcn.h>
#include <string.h>

/* Code stays mapped unless its author declared that it may go and nothing in the file forbids it.
 */
static int open_flags(const mbr_note_facts *note)
{
    bool may_go = (note->flags & MBR_NOTE_UNLOADABLE) != 0 && !note->has_tls &&
        !note->has_static_tls && !note->has_thread_key && !note->has_unique_symbol;
    return RTLD_NOW | RTLD_LOCAL | (may_go ? 0 : RTLD_NODELETE);
}

static mbr_status map_file(mbr_module *module, const mbr_judged *judged)
{
    mbr_candidate *candidate = &module->candidate;
    MBR_CHECK(judged->resolved[0] == '/'); /* a bare name would be searched for (rule 28) */
    mbr_lock_assert_none_held();           /* constructors are the plugin's code */
    module->handle = dlopen(judged->resolved, open_flags(&candidate->note));
    if (module->handle != NULL)
        return MBR_OK;
    return mbr_candidate_refuse(
        candidate, MBR_REASON_DLOPEN, "the dynamic linker says: %s", dlerror());
}

static mbr_status check_mapped(mbr_module *module, const mbr_judged *judged)
{
    mbr_candidate *candidate = &module->candidate;
    mbr_image_find(module->handle, &module->image);
    if (!mbr_image_is_file(&module->image, judged))
        return mbr_candidate_refuse(candidate, MBR_REASON_FILE_CHANGED,
            "what is mapped from %s is not the file that stands there now: it was replaced after "
            "an "
            "earlier load; restart this process to use the new one",
            judged->resolved);
    if (mbr_judge_has_changed(judged))
        return mbr_candidate_refuse(candidate, MBR_REASON_FILE_CHANGED,
            "it was written to while it was loaded; install by renaming a complete file over it");
    return MBR_OK;
}

static mbr_status find_entry(mbr_module *module, mbr_entry_function *entry)
{
    mbr_candidate *candidate = &module->candidate;
    const char *file;
    void *symbol = dlsym(module->handle, MBR_ENTRY_SYMBOL);
    if (symbol == NULL)
        return mbr_candidate_refuse(candidate, MBR_REASON_NO_ENTRY,
            "it exports no " MBR_ENTRY_SYMBOL "; define it with MBR_EXPORT, and list it in the "
            "version script if there is one");
    if (mbr_image_of_address(symbol, &file) != module->image.link_map)
        return mbr_candidate_refuse(candidate, MBR_REASON_NO_ENTRY,
            "it exports no " MBR_ENTRY_SYMBOL " of its own: that symbol comes from %s", file);
    memcpy(entry, &symbol, sizeof *entry); /* ISO C has no cast from object to function */
    return MBR_OK;
}

static mbr_status load(mbr_module *module, const mbr_judged *judged)
{
    mbr_entry_function entry = NULL;
    mbr_status status = map_file(module, judged);
    if (status != MBR_OK)
        return status;
    status = check_mapped(module, judged);
    if (status == MBR_OK)
        status = find_entry(module, &entry);
    if (status == MBR_OK)
        status = mbr_module_negotiate(module, entry);
    if (status != MBR_OK)
        dlclose(module->handle);
    return status;
}

static mbr_status find_file(const mbr_loader_os *os, const mbr_module_options *options,
    const mbr_loader_environment *environment, mbr_judged *judged, mbr_candidate *candidate)
{
    const char *name = options->name_or_path;
    if (strchr(name, '/') != NULL)
        return mbr_judge_open(os, name, options->trusted, judged, candidate);
    return mbr_search_open(os, environment, name, judged, candidate);
}

static void finish_parts(mbr_module *module)
{
    mbr_fork_guard_finish(&module->fork);
    mbr_trace_sink_finish(&module->trace);
}

/* Everything between an empty record and an open one; on failure the record is as it was. */
static mbr_status open_record(
    const mbr_loader_os *os, const mbr_module_options *options, mbr_module *own)
{
    char storage[MBR_LOADER_PATH_BYTES];
    mbr_loader_environment process;
    const mbr_loader_environment *environment = options->environment;
    if (environment == NULL) {
        mbr_loader_environment_read(&process, storage);
        environment = &process;
    }
    mbr_judged judged;
    mbr_status status = find_file(os, options, environment, &judged, &own->candidate);
    if (status == MBR_OK) {
        mbr_trace_sink_init(&own->trace, environment);
        mbr_fork_guard_init(&own->fork);
        status = load(own, &judged);
        if (status != MBR_OK)
            finish_parts(own);
    }
    mbr_judge_close(&judged);
    return status;
}

mbr_status mbr_module_open(const mbr_module_options *options, mbr_module **module,
    mbr_candidate *candidate, mbr_error *error)
{
    return mbr_module_open_on(&mbr_loader_os_libc, options, module, candidate, error);
}

mbr_status mbr_module_open_on(const mbr_loader_os *os, const mbr_module_options *options,
    mbr_module **module, mbr_candidate *candidate, mbr_error *error)
{
    const mbr_heap *heap = options->heap == NULL ? &mbr_heap_libc : options->heap;
    *module = NULL;
    if (candidate != NULL)
        *candidate = (mbr_candidate){.reason = MBR_REASON_USED};
    if (options->name_or_path == NULL)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "no name and no path of a plugin is given");
    mbr_module *own = mbr_heap_allocate(heap, sizeof *own);
    if (own == NULL)
        return mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no memory to open plugin %s", options->name_or_path);
    own->heap = *heap;
    mbr_status status = open_record(os, options, own);
    if (candidate != NULL)
        *candidate = own->candidate;
    if (status != MBR_OK) {
        mbr_candidate_error(&own->candidate, status, error);
        mbr_heap_release(heap, own);
        return status;
    }
    *module = own;
    return MBR_OK;
}

void mbr_module_close(mbr_module *module)
{
    if (module == NULL)
        return;
    MBR_CHECK(atomic_load(&module->open_count) == 0);
    mbr_heap heap = module->heap;
    mbr_lock_assert_none_held();
    if (atomic_load(&module->leaked_count) == 0)
        dlclose(module->handle);
    finish_parts(module);
    mbr_heap_release(&heap, module);
}

bool mbr_module_is_kept(const mbr_module *module)
{
    return atomic_load(&module->leaked_count) != 0;
}

const mbr_candidate *mbr_module_candidate(const mbr_module *module)
{
    return &module->candidate;
}

const mbr_plugin_vtable *mbr_module_plugin(const mbr_module *module)
{
    return &module->plugin;
}

uint16_t mbr_module_minor(const mbr_module *module)
{
    return module->minor;
}
