/* The first call into a plugin: agrees on a minor and takes the plugin table (rules 16 to 18). The
 * reply is written by a stranger that may know a larger struct, so it lies before a space that must
 * stay untouched. Opens no mechanism. */
#include "host/loader/module.h"

#include "abi/base/error.h"
#include "abi/base/lock.h"
#include "host/loader/call.h"
#include "host/loader/note.h"
#include "host/loader/reason.h"
#include "host/loader/table.h"

#include <string.h>

#define GUARD_BYTES 512
#define GUARD_VALUE 0xA5

typedef struct guarded_reply {
    mbr_reply reply;
    unsigned char guard[GUARD_BYTES];
} guarded_reply;

static bool is_guard_whole(const guarded_reply *room)
{
    for (size_t i = 0; i < sizeof room->guard; i++)
        if (room->guard[i] != GUARD_VALUE)
            return false;
    return true;
}

static mbr_status judge_refusal(
    mbr_module *module, const mbr_reply *reply, mbr_status status, const mbr_error *error)
{
    if (status == MBR_VERSION_MISMATCH)
        mbr_candidate_refuse(&module->candidate, MBR_REASON_NO_COMMON_MINOR,
            "its entry speaks minors %u to %u, this host %u to %u; one of them must be updated",
            reply->minor_min, reply->minor_max, (unsigned)MBR_HOST_MINOR_MIN,
            (unsigned)MBR_HOST_MINOR_MAX);
    else
        mbr_candidate_refuse(
            &module->candidate, MBR_REASON_NEGOTIATION, "its entry refused: %s", error->text);
    return status;
}

/* Is the agreed number one that offer, reply and note all allow? */
static mbr_status judge_reply(mbr_module *module, const mbr_reply *reply)
{
    const mbr_note_facts *note = &module->candidate.note;
    if (reply->struct_size < MBR_MIN_SIZE_REPLY_MINOR_0 || reply->struct_size > sizeof *reply)
        return mbr_candidate_refuse(&module->candidate, MBR_REASON_NEGOTIATION,
            "its reply states %u bytes; minor 0 has %u and this host gave room for %zu",
            reply->struct_size, (unsigned)MBR_MIN_SIZE_REPLY_MINOR_0, sizeof *reply);
    const struct {
        const char *whose;
        uint16_t min, max;
    } ranges[] = {{"this host's", MBR_HOST_MINOR_MIN, MBR_HOST_MINOR_MAX},
        {"its own", reply->minor_min, reply->minor_max},
        {"its note's", note->minor_min, note->minor_max}};
    for (unsigned i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (!mbr_minor_ranges_meet(reply->minor, reply->minor, ranges[i].min, ranges[i].max))
            return mbr_candidate_refuse(&module->candidate, MBR_REASON_NEGOTIATION,
                "its entry answered minor %u, outside %s range %u to %u (own %u to %u)",
                reply->minor, ranges[i].whose, ranges[i].min, ranges[i].max, reply->minor_min,
                reply->minor_max);
    return MBR_OK;
}

/* The table's texts are read once, bounded, and the copy gets our own. */
static mbr_status take_texts(mbr_module *module)
{
    mbr_plugin_vtable *plugin = &module->plugin;
    mbr_candidate *candidate = &module->candidate;
    if (!mbr_image_holds_text(&module->image, plugin->name, MBR_NOTE_NAME_BYTES) ||
        strcmp(plugin->name, candidate->note.name) != 0)
        return mbr_candidate_refuse(candidate, MBR_REASON_BAD_TABLE,
            "the plugin table's name is not the note's, \"%s\"", candidate->note.name);
    if (!mbr_image_holds_text(&module->image, plugin->version, MBR_PLUGIN_VERSION_BYTES))
        return mbr_candidate_refuse(candidate, MBR_REASON_BAD_TABLE,
            "the plugin table's version is no text of up to %d bytes in the plugin's file",
            MBR_PLUGIN_VERSION_BYTES - 1);
    mbr_text_copy(module->version, plugin->version, sizeof module->version);
    mbr_text_one_line(module->version);
    plugin->name = candidate->note.name;
    plugin->version = module->version;
    return MBR_OK;
}

mbr_status mbr_module_negotiate(mbr_module *module, mbr_entry_function entry)
{
    mbr_hello hello = {MBR_SIZED(mbr_hello), MBR_HOST_MINOR_MIN, MBR_HOST_MINOR_MAX};
    guarded_reply room = {.reply = {MBR_SIZED(mbr_reply)}};
    mbr_error own = {MBR_SIZED(mbr_error)}, error = {MBR_SIZED(mbr_error)};
    memset(room.guard, GUARD_VALUE, sizeof room.guard);
    mbr_lock_assert_none_held();
    mbr_status status = entry(&hello, &room.reply, &own);
    if (!is_guard_whole(&room))
        return mbr_candidate_refuse(&module->candidate, MBR_REASON_NEGOTIATION,
            "its entry wrote past the %zu bytes of the reply", sizeof room.reply);
    status = mbr_answer_take("the entry", status, &own, &error);
    if (status != MBR_OK)
        return judge_refusal(module, &room.reply, status, &error);
    status = judge_reply(module, &room.reply);
    if (status != MBR_OK)
        return status;
    char text[MBR_TABLE_TEXT_BYTES];
    if (!mbr_table_copy(MBR_TABLE_PLUGIN, &module->image, room.reply.plugin, room.reply.minor,
            &module->plugin, text))
        return mbr_candidate_refuse(&module->candidate, MBR_REASON_BAD_TABLE, "%s", text);
    module->minor = room.reply.minor;
    return take_texts(module);
}
