/* Candidates and their notes as JSON. Judges nothing. */
#include "tools/cli/note_json.h"

#include "tools/cli/text.h"

json_t *mbr_text_json(const char *text)
{
    char printable[MBR_LOADER_PATH_BYTES];
    return json_string(mbr_text_printable(printable, sizeof printable, text));
}

const char *mbr_pin_text(const mbr_note_facts *note)
{
    if (note->has_unique_symbol)
        return "unique symbol";
    if (note->has_thread_key)
        return "keys of threads";
    if (note->has_static_tls)
        return "static thread-local storage";
    return note->has_tls ? "thread-local storage" : "";
}

static json_t *note_json(const mbr_note_facts *note)
{
    char digest[24];
    snprintf(digest, sizeof digest, "%016lx", note->digest);
    return json_pack("{s:i,s:i,s:i,s:s,s:o,s:o,s:b,s:b,s:s,s:o}", "major", note->major, "minor_min",
        note->minor_min, "minor_max", note->minor_max, "digest", digest, "name",
        mbr_text_json(note->name), "vendor", mbr_text_json(note->vendor), "unloadable",
        (note->flags & MBR_NOTE_UNLOADABLE) != 0, "fork_safe",
        (note->flags & MBR_NOTE_FORK_SAFE) != 0, "pinned_by", mbr_pin_text(note), "unique_symbol",
        mbr_text_json(note->unique_symbol));
}

json_t *mbr_candidate_json(const mbr_candidate *candidate)
{
    json_t *object = json_pack("{s:o,s:o,s:s,s:o}", "path", mbr_text_json(candidate->path), "name",
        mbr_text_json(candidate->name), "reason", mbr_reason_word(candidate->reason), "detail",
        mbr_text_json(candidate->detail));
    if (object == NULL || candidate->note.major == 0)
        return object;
    if (json_object_set_new(object, "note", note_json(&candidate->note)) == 0)
        return object;
    json_decref(object);
    return NULL;
}
