/* Takes a symbol out of the library that this file is part of, as an older driver would not have
 * it: its entry in the dynamic symbol table becomes one that is not defined here. */
#include "tests/standin/model.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool make_writable(void *entry)
{
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)entry & ~(page_bytes - 1);
    uintptr_t end = (uintptr_t)entry + sizeof(ElfW(Sym));
    return mprotect((void *)start, end - start, PROT_READ | PROT_WRITE) == 0; // NOLINT: a page
}

/* The symbol's entry, by way of the loader: it alone knows the tables' sizes. */
static ElfW(Sym) * entry_of(const char *name)
{
    Dl_info self;
    Dl_info info;
    void *extra = NULL;
    if (dladdr((void *)(uintptr_t)sim_hide_symbol, &self) == 0)
        return NULL;
    void *library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    void *function = library ? dlsym(library, name) : NULL;
    if (library)
        dlclose(library);
    bool is_own = function && dladdr1(function, &info, &extra, RTLD_DL_SYMENT) != 0 &&
        info.dli_fbase == self.dli_fbase;
    return is_own ? (ElfW(Sym) *)extra : NULL;
}

/* ThreadSanitizer keeps no notes about a library's read-only pages. */
__attribute__((no_sanitize("thread"))) bool sim_hide_symbol(const char *name)
{
    ElfW(Sym) *entry = entry_of(name);
    if (!entry || !make_writable(entry))
        return false;
    entry->st_shndx = SHN_UNDEF;
    entry->st_value = 0;
    return true;
}
