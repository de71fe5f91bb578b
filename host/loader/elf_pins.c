/* What pins a file's code in the process: thread-local storage and unique symbols. Reads the
 * dynamic symbol table through the hash tables, because nothing else states its length. What cannot
 * be read within the limits counts as pinned: a certain leak is better than an uncertain unmapping.
 */
#include "host/loader/elf.h"

#include "abi/base/checked.h"
#include "host/loader/reason.h"

#include <stdio.h>
#include <string.h>

#define CHUNK_COUNT 64

/* The last symbol that a chain of the GNU hash table covers: a chain ends at the odd word. */
static bool end_of_chain(
    const mbr_elf *elf, uint64_t chains, uint32_t first, uint32_t symbol, uint64_t *count)
{
    while (symbol < MBR_ELF_SYMBOLS_MAX) {
        uint32_t word;
        uint64_t place = chains + (uint64_t)(symbol - first) * sizeof word;
        if (!mbr_elf_read_at(elf, elf->gnu_hash_table, place, &word, sizeof word))
            return false;
        symbol++;
        if ((word & 1) != 0) {
            *count = symbol;
            return true;
        }
    }
    return false;
}

static bool count_by_gnu_hash(const mbr_elf *elf, uint64_t *count)
{
    struct {
        uint32_t buckets, first, bloom_words, bloom_shift;
    } head;
    if (!mbr_elf_read_at(elf, elf->gnu_hash_table, 0, &head, sizeof head) ||
        head.buckets > MBR_ELF_SYMBOLS_MAX)
        return false;
    uint64_t buckets = sizeof head + (uint64_t)head.bloom_words * sizeof(uint64_t);
    uint32_t last = 0;
    for (uint32_t done = 0; done < head.buckets;) {
        uint32_t chunk[CHUNK_COUNT];
        uint32_t now = (uint32_t)mbr_min(head.buckets - done, CHUNK_COUNT);
        if (!mbr_elf_read_at(elf, elf->gnu_hash_table, buckets + done * sizeof *chunk, chunk,
                now * sizeof *chunk))
            return false;
        for (uint32_t i = 0; i < now; i++)
            last = chunk[i] > last ? chunk[i] : last;
        done += now;
    }
    *count = head.first;
    if (last < head.first)
        return head.first <= MBR_ELF_SYMBOLS_MAX; /* empty: no exported symbol */
    uint64_t chains = buckets + head.buckets * sizeof(uint32_t);
    return end_of_chain(elf, chains, head.first, last, count);
}

static bool count_symbols(const mbr_elf *elf, uint64_t *count)
{
    *count = 0;
    if (elf->gnu_hash_table != 0)
        return count_by_gnu_hash(elf, count);
    uint32_t head[2]; /* buckets, chains; there is one chain word a symbol */
    if (elf->hash_table == 0 || !mbr_elf_read_at(elf, elf->hash_table, 0, head, sizeof head) ||
        head[1] > MBR_ELF_SYMBOLS_MAX)
        return false;
    *count = head[1];
    return true;
}

/* A key's destructor is code of the file, and threads run it whenever they end. */
static bool makes_thread_keys(const char *imported)
{
    return strcmp(imported, "pthread_key_create") == 0 || strcmp(imported, "tss_create") == 0;
}

/* False if the symbol's name cannot be read where it matters. */
static bool look_at(const mbr_elf *elf, const Elf64_Sym *symbol, mbr_note_facts *facts)
{
    char name[MBR_ELF_STRING_BYTES_MAX];
    bool is_unique = ELF64_ST_BIND(symbol->st_info) == STB_GNU_UNIQUE;
    if (is_unique)
        facts->has_unique_symbol = true;
    else if (symbol->st_shndx != SHN_UNDEF || symbol->st_name == 0)
        return true;
    if (!mbr_elf_read_string(elf, symbol->st_name, name, sizeof name))
        return false;
    if (!is_unique)
        facts->has_thread_key = facts->has_thread_key || makes_thread_keys(name);
    else if (facts->unique_symbol[0] == '\0')
        mbr_text_copy(facts->unique_symbol, name, sizeof facts->unique_symbol);
    return true;
}

/* Looks at every symbol, defined here or used; false if the table cannot be read. */
static bool find_symbols(const mbr_elf *elf, uint64_t count, mbr_note_facts *facts)
{
    for (uint64_t done = 0; done < count;) {
        Elf64_Sym chunk[CHUNK_COUNT];
        uint64_t now = mbr_min(count - done, CHUNK_COUNT);
        if (!mbr_elf_read_at(
                elf, elf->symbol_table, done * sizeof *chunk, chunk, now * sizeof *chunk))
            return false;
        for (uint64_t i = 0; i < now; i++)
            if (!look_at(elf, &chunk[i], facts))
                return false;
        done += now;
    }
    return true;
}

void mbr_elf_find_pins(const mbr_elf *elf, mbr_note_facts *facts)
{
    for (uint32_t i = 0; i < elf->segment_count; i++)
        if (elf->segments[i].p_type == PT_TLS)
            facts->has_tls = true;
    facts->has_static_tls = (elf->flags & DF_STATIC_TLS) != 0;
    uint64_t count;
    if (count_symbols(elf, &count) && find_symbols(elf, count, facts))
        return;
    if (facts->unique_symbol[0] != '\0')
        return; /* pinned and named already */
    facts->has_unique_symbol = true;
    snprintf(facts->unique_symbol, sizeof facts->unique_symbol, "(symbol table not readable)");
}
