/* The rules of the plugin contract in words, and their page. Runs no check. */
#include "tools/check/contract.h"

#include "tools/check/check.h"

#include <stdlib.h>
#include <string.h>

const mbr_rule mbr_rules[] = {
    {1, "A slot takes instance, request, outcome and error, and nothing else",
        "positional arguments can never change, structs with a size can grow", "the headers",
        "it does not compile"},
    {2,
        "Capabilities are tables fetched from an open mechanism by a string id; one that is not "
        "offered is answered `MBR_UNSUPPORTED`. Kinds of third parties have the high bit and the "
        "low 15 bits of the id's FNV-1a hash",
        "a flag beside a table could disagree with it", "the loader",
        "the mechanism is refused, or the capability counts as absent"},
    {3,
        "A table is static storage: the host copies its known prefix once and never looks again; "
        "absent optional slots are NULL",
        "a table that changes later would be called half old, half new", "the loader",
        "what was changed is not seen"},
    {4,
        "A fact is a number by its id and never changes while the mechanism is open; an unknown "
        "one is `MBR_UNSUPPORTED`",
        "the host plans by facts before it has a failure to learn from", "the loader",
        "an impossible fact refuses the mechanism, a wrong one makes the plans fail"},
    {5,
        "The outcome of a slot that changes something says what happened: state, mapped, owned, "
        "unmapped, released, residual bytes, content; a figure that the slot has no use for is 0; "
        "`DONE` comes with `MBR_OK` alone",
        "the ledger is built from these figures", "the host",
        "the object is quarantined and stays charged, the violation is counted"},
    {6,
        "A status tells its class (caller, exhausted, retry, unsupported, broken, lost) by its "
        "number; the error is written on failure only and inside of its size",
        "the host acts by the class of codes that it does not know", "the host",
        "a request is refused that could have been served after an eviction, or tried for ever"},
    {7,
        "Outcomes are set on entry and again on success; success without a result does not exist; "
        "size 0 is a caller's bug, like all that no state of the mechanism could serve; sums that "
        "do not fit 64 bits are `MBR_OVERFLOW`",
        "stale bytes of an earlier call would be taken for an answer", "the host",
        "contract broken: the object is withheld"},
    {8,
        "A plugin calls the host through `log` alone, with one bounded line; exhaustion is a "
        "status, never a call",
        "a slot that calls back into the ledger would deadlock or recurse", "nobody",
        "the process may hang"},
    {9, "A native stream is a kind and a value; a device address is an integer",
        "0 is a stream of some drivers, and a device's address is no pointer here", "the headers",
        "work waits for the wrong stream"},
    {10, "Every struct that may grow begins with `struct_size`, every table with size, kind, minor",
        "each side must know what the other one's struct holds", "the loader",
        "the table is refused"},
    {11, "A growable struct travels by pointer only, never inside another and never in an array",
        "its size is not the same on both sides", "the headers", "it does not compile"},
    {12,
        "A callee reads the fields that lie wholly in min(struct_size, its own size), the rest "
        "counts as zero, and writes at most struct_size",
        "an older caller's memory behind the struct is somebody else's", "nobody",
        "memory of the host is overwritten"},
    {13, "Sizes, offsets and digests are derived from the headers, never typed",
        "two copies of a number differ one day", "the headers' own tests",
        "the digest does not fit and the file is refused"},
    {14, "Fixed-width integers and named padding only",
        "the layout must be the same for every compiler and language", "the headers",
        "a static assertion fails"},
    {15, "Of a flag word the low half is critical (unknown: refuse), the high half optional",
        "a newer host must know whether its wish was heard", "nobody",
        "memory is handed out without what was asked of it"},
    {16, "One exported function a major: `membrane_plugin_v1`",
        "the name alone says what may be called", "the loader", "no-entry: the file is refused"},
    {17,
        "The host offers a range of minors; the plugin answers one of them, and its own range also "
        "when it refuses",
        "who reads the refusal must know which side to update", "the loader",
        "negotiation: the file is refused"},
    {18,
        "The agreed minor is a ceiling; a table states the literal minor that its source was "
        "written for",
        "a source that is compiled again with newer headers does not know the newer slots",
        "the loader", "slots above the lower of the two count as absent"},
    {19, "Required slots exist in minor 0 only; later minors append optional ones",
        "an older plugin stays complete", "the loader", "bad-table: the file is refused"},
    {20, "The ELF note holds name, majors, minors, flags and one digest for each minor",
        "a patched header is found before a call", "the loader",
        "no-note, bad-note or digest: the file is refused"},
    {21, "The history of minors is frozen: old and new plugins run under old and new hosts",
        "a binary that worked goes on working", "the project's own tests", "a change is refused"},
    {22,
        "Ids are the host's, rise and are never used again; unknown, released, foreign and doubled "
        "ones are refused without side effect, and so are instances; each class of objects has "
        "numbers of its own",
        "a free of somebody else's memory must not work by chance", "the host, by its own tables",
        "another tenant's memory is given away"},
    {23, "What was handed over with `MBR_OK` is released exactly once, also after a refusal",
        "objects of a half-failed open would leak", "the host",
        "unload is refused with the counts"},
    {24,
        "Figures are true: released is what was owned, addresses of live objects do not overlap, "
        "counts stay within capacity",
        "the ledger refunds by them", "the host: clamps, counts and withholds",
        "the object is quarantined, the violation counted"},
    {25, "Each slot keeps its thread tag: any-thread, or serial for one object",
        "threads of a runtime release what others allocated", "the host never breaks it",
        "books and memory are corrupted"},
    {26,
        "A slot does not throw, longjmp, exit, print, fork, or change handlers, locale, directory, "
        "environment, floating-point mode, or the thread's current device",
        "it runs inside of somebody else's process", "the host is built without unwind tables",
        "the process ends at the call"},
    {27,
        "Nothing runs at exit or in a library destructor; after fork a plugin is unusable in the "
        "child unless its note says otherwise",
        "the order of destructors is nobody's", "the host", "the child gets a typed refusal"},
    {28, "The file is `libmembrane-NAME.so` in one of the search folders, and NAME is the note's",
        "a name must mean one file", "the loader", "not-found or name-mismatch"},
    {29,
        "A complete shared object of this machine, no executable stack, no text relocations, no "
        "search path that depends on the current directory",
        "all this can be judged before any code of it runs", "the loader", "a typed refusal"},
    {30, "File and folder belong to root or the user and are not writable by others",
        "who can write the file owns the process", "the loader", "untrusted-file or -folder"},
    {31,
        "Every symbol is bound when it is loaded and comes from its own dependencies; the entry is "
        "the file's own",
        "a missing function must not end a release half-way", "the loader",
        "dlopen or no-entry: the file is refused"},
    {32,
        "`report` counts live objects and threads truly; `quiesce` joins threads; `close` refuses "
        "while something lives",
        "code is unmapped by these answers", "the host, by its own tallies",
        "the code stays mapped for good"},
    {33, "What cannot be settled safely is leaked on purpose, counted and named",
        "a certain leak is better than an uncertain corruption", "the host",
        "quarantined bytes in the figures"},
};

const uint32_t mbr_rule_count = sizeof mbr_rules / sizeof mbr_rules[0];

bool mbr_rules_name(const char *rules, uint32_t number)
{
    for (const char *at = strchr(rules, 'C'); at != NULL; at = strchr(at + 1, 'C'))
        if (strtoul(at + 1, NULL, 10) == number)
            return true;
    return false;
}

const mbr_rule *mbr_rule_find(const char *id)
{
    char name[16];
    for (uint32_t i = 0; i < mbr_rule_count; i++) {
        snprintf(name, sizeof name, "C%u", mbr_rules[i].number);
        if (strcmp(name, id) == 0)
            return &mbr_rules[i];
    }
    return NULL;
}

void mbr_rule_print(const mbr_rule *rule, FILE *to)
{
    fprintf(to, "C%u  %s.\n     Why: %s.\n     Found, besides here, by: %s. Breaking it: %s.\n",
        rule->number, rule->what, rule->why, rule->keeper, rule->result);
}

typedef struct listing {
    FILE *to;
    uint32_t number, count;
} listing;

static bool list_check(void *context, const mbr_check *check)
{
    listing *list = context;
    if (mbr_rules_name(check->rules, list->number))
        fprintf(list->to, "%s%s", list->count++ == 0 ? "" : " ", check->id);
    return true;
}

bool mbr_contract_print(FILE *to)
{
    fputs("# The plugin contract in rules\n\n"
          "Printed by `membrane-check --contract`, from the same data as the checks; a test wants "
          "this "
          "page to be what it\nprints. The headers below `abi/membrane` are the contract itself, "
          "one a "
          "capability; `membrane check --explain ID`\nsays why a check wants what it wants. The "
          "host's "
          "own tests of each rule are in [rules.md](rules.md).\n\n"
          "| rule | what | why | found by, besides the tool | breaking it | checks |\n"
          "| --- | --- | --- | --- | --- | --- |\n",
        to);
    for (uint32_t i = 0; i < mbr_rule_count; i++) {
        const mbr_rule *rule = &mbr_rules[i];
        fprintf(to, "| C%u | %s | %s | %s | %s | ", rule->number, rule->what, rule->why,
            rule->keeper, rule->result);
        listing list = {to, rule->number, 0};
        mbr_check_each(list_check, &list);
        fputs(list.count == 0 ? "– |\n" : " |\n", to);
    }
    return fflush(to) == 0 && !ferror(to);
}
