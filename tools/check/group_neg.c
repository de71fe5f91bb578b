/* Group NEG: version negotiation through the entry, with structs of every size. */
#include "tools/check/elf_file.h"
#include "tools/check/lay.h"

#include <stdio.h>
#include <string.h>

#define FUTURE_BYTES 64 /* of a host whose structs have grown */
#define FAR_MINOR 60000

/* Larger than any struct of the contract's first minor. */
typedef union future_reply {
    mbr_reply reply;
    unsigned char bytes[FUTURE_BYTES];
} future_reply;

static mbr_reply reply;
static mbr_error error;

static mbr_status greet(mbr_trial *trial, uint16_t low, uint16_t high)
{
    const mbr_hello hello = {MBR_SIZED(mbr_hello), .minor_min = low, .minor_max = high};
    reply = (mbr_reply){MBR_SIZED(mbr_reply)};
    error = (mbr_error){MBR_SIZED(mbr_error)};
    return trial->entry(&hello, &reply, &error);
}

static void need_good_reply(mbr_trial *trial)
{
    mbr_status status = greet(trial, 0, 0);
    MBR_NEED(trial, status == MBR_OK && reply.plugin != NULL, "the entry answers %s",
        mbr_status_name(status));
}

static void run_same(mbr_trial *trial)
{
    mbr_status status = greet(trial, 0, 0);
    MBR_EXPECT(trial, status == MBR_OK && reply.plugin != NULL,
        "the entry answers MBR_OK and a table to a host of minor 0", "%s, table %p",
        mbr_status_name(status), (const void *)reply.plugin);
}

static void run_newer_host(mbr_trial *trial)
{
    need_good_reply(trial);
    uint16_t own_max = reply.minor_max;
    mbr_status status = greet(trial, 0, FAR_MINOR);
    MBR_EXPECT(trial, status == MBR_OK && reply.minor == own_max,
        "a host of minors 0 to 60000 gets the plugin's own highest",
        "%s, minor %u, the plugin's highest is %u", mbr_status_name(status), reply.minor, own_max);
}

static void run_agreed_in_both(mbr_trial *trial)
{
    need_good_reply(trial);
    MBR_EXPECT(trial,
        reply.minor == 0 && reply.minor_min <= reply.minor && reply.minor <= reply.minor_max,
        "the agreed minor lies in the host's range and in the plugin's",
        "minor %u for a host of 0 to 0, own range %u to %u", reply.minor, reply.minor_min,
        reply.minor_max);
}

/* A range that lies above the plugin's own. */
static mbr_status greet_far(mbr_trial *trial)
{
    need_good_reply(trial);
    MBR_NEED(trial, reply.minor_max < FAR_MINOR, "its minors reach %u", reply.minor_max);
    return greet(trial, FAR_MINOR, FAR_MINOR + 1);
}

static void run_disjoint(mbr_trial *trial)
{
    mbr_status status = greet_far(trial);
    mbr_expect_status(trial, status, MBR_VERSION_MISMATCH, "a range without a common minor");
}

static void run_disjoint_range(mbr_trial *trial)
{
    need_good_reply(trial);
    uint16_t low = reply.minor_min, high = reply.minor_max;
    mbr_status status = greet_far(trial);
    MBR_NEED(trial, status != MBR_OK, "accepted");
    MBR_EXPECT(trial, reply.minor_min == low && reply.minor_max == high,
        "a refusal holds the plugin's own range too", "%u to %u, with MBR_OK it was %u to %u",
        reply.minor_min, reply.minor_max, low, high);
}

static void run_disjoint_table(mbr_trial *trial)
{
    mbr_status status = greet_far(trial);
    MBR_NEED(trial, status != MBR_OK, "accepted");
    MBR_EXPECT(trial, reply.plugin == NULL, "a refusal gives no table", "table %p",
        (const void *)reply.plugin);
}

static void run_disjoint_text(mbr_trial *trial)
{
    mbr_status status = greet_far(trial);
    MBR_NEED(trial, status == MBR_VERSION_MISMATCH, "%s", mbr_status_name(status));
    error.text[MBR_ERROR_TEXT_BYTES - 1] = '\0';
    MBR_EXPECT(trial, strstr(error.text, "60000") != NULL && error.status == status,
        "the refusal's text holds the host's range (60000 to 60001)", "'%.200s', status %d",
        error.text, error.status);
}

static void run_backwards(mbr_trial *trial)
{
    mbr_status status = greet(trial, 5, 2);
    mbr_expect_status(trial, status, MBR_INVALID_ARGUMENT, "a range that runs backwards");
}

/* ---- Pointers -------------------------------------------------------------------------------- */

static void run_null_hello(mbr_trial *trial)
{
    reply = (mbr_reply){MBR_SIZED(mbr_reply)};
    error = (mbr_error){MBR_SIZED(mbr_error)};
    mbr_expect_status(
        trial, trial->entry(NULL, &reply, &error), MBR_INVALID_ARGUMENT, "hello NULL");
}

static void run_null_reply(mbr_trial *trial)
{
    const mbr_hello hello = {MBR_SIZED(mbr_hello)};
    error = (mbr_error){MBR_SIZED(mbr_error)};
    mbr_expect_status(
        trial, trial->entry(&hello, NULL, &error), MBR_INVALID_ARGUMENT, "reply NULL");
}

static void run_null_error(mbr_trial *trial)
{
    need_good_reply(trial);
    const mbr_hello good = {MBR_SIZED(mbr_hello)};
    const mbr_hello far = {MBR_SIZED(mbr_hello), .minor_min = FAR_MINOR, .minor_max = FAR_MINOR};
    reply = (mbr_reply){MBR_SIZED(mbr_reply)};
    mbr_status status = trial->entry(&good, &reply, NULL);
    MBR_EXPECT(trial, status == MBR_OK, "a NULL error is allowed", "%s", mbr_status_name(status));
    reply = (mbr_reply){MBR_SIZED(mbr_reply)};
    status = trial->entry(&far, &reply, NULL);
    MBR_EXPECT(trial, status != MBR_OK, "a NULL error is allowed with a refusal too", "%s",
        mbr_status_name(status));
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

static void run_long_hello(mbr_trial *trial)
{
    unsigned char bytes[FUTURE_BYTES];
    mbr_hello hello = {.struct_size = FUTURE_BYTES};
    need_good_reply(trial);
    memset(bytes, 0xFF, sizeof bytes);
    memcpy(bytes, &hello, sizeof hello);
    reply = (mbr_reply){MBR_SIZED(mbr_reply)};
    error = (mbr_error){MBR_SIZED(mbr_error)};
    mbr_status status =
        trial->entry((const mbr_hello *)mbr_lay_input(trial, bytes, sizeof bytes), &reply, &error);
    MBR_EXPECT(trial, status == MBR_OK && reply.plugin != NULL,
        "a hello that has grown is read as far as it is known", "%s: %.200s",
        mbr_status_name(status), error.text);
}

/* Ends at a page without access: reading a field that is not there crashes. */
static void run_short_hello(mbr_trial *trial)
{
    const uint32_t size = sizeof size;
    const mbr_hello *hello = mbr_lay_input(trial, &size, sizeof size);
    reply = (mbr_reply){MBR_SIZED(mbr_reply)};
    error = (mbr_error){MBR_SIZED(mbr_error)};
    mbr_status status = trial->entry(hello, &reply, &error);
    MBR_EXPECT(trial, status == MBR_OK || MBR_STATUS_CLASS(status) == MBR_CLASS_CALLER,
        "a hello that holds its size alone is minor 0, or the caller's bug", "%s",
        mbr_status_name(status));
}

/* Calls with a reply of `size` bytes in front of poison; true if the poison is whole. */
static bool greet_into(mbr_trial *trial, future_reply *future, uint32_t size, mbr_status *status)
{
    const mbr_hello hello = {MBR_SIZED(mbr_hello)};
    error = (mbr_error){MBR_SIZED(mbr_error)};
    memset(future, MBR_LAY_POISON, sizeof *future);
    memcpy(future->bytes, &size, sizeof size);
    *status = trial->entry(&hello, &future->reply, &error);
    uint32_t known = size < sizeof(mbr_reply) ? size : sizeof(mbr_reply);
    for (uint32_t i = known; i < FUTURE_BYTES; i++)
        if (future->bytes[i] != MBR_LAY_POISON)
            return false;
    return true;
}

static void run_short_reply(mbr_trial *trial)
{
    static const uint32_t sizes[] = {4, 6, 8, 12, 16, 20, 23};
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        future_reply future;
        mbr_status status;
        bool is_whole = greet_into(trial, &future, sizes[i], &status);
        MBR_EXPECT(trial, is_whole, "nothing is written behind a short reply's struct_size",
            "%u bytes, and the plugin wrote behind them", sizes[i]);
    }
}

static void run_reply_without_table(mbr_trial *trial)
{
    future_reply future;
    mbr_status status;
    greet_into(trial, &future, 16, &status);
    MBR_EXPECT(trial, status != MBR_OK, "no MBR_OK where the reply cannot hold the table", "%s",
        mbr_status_name(status));
}

static void run_long_reply(mbr_trial *trial)
{
    future_reply future;
    mbr_status status;
    need_good_reply(trial);
    bool is_whole = greet_into(trial, &future, FUTURE_BYTES, &status);
    MBR_NEED(trial, is_whole, "bytes behind the known reply were written");
    MBR_EXPECT(trial, status == MBR_OK && future.reply.struct_size == FUTURE_BYTES,
        "a reply that has grown is accepted, and its struct_size stays", "%s, struct_size %u",
        mbr_status_name(status), future.reply.struct_size);
}

/* ---- The answer ------------------------------------------------------------------------------ */

static void run_twice(mbr_trial *trial)
{
    need_good_reply(trial);
    mbr_reply first = reply;
    greet_far(trial);
    mbr_status status = greet(trial, 0, 0);
    MBR_EXPECT(trial, status == MBR_OK && memcmp(&first, &reply, sizeof first) == 0,
        "the same offer gets the same answer each time", "%s, table %p, before %p",
        mbr_status_name(status), (const void *)reply.plugin, (const void *)first.plugin);
}

static void run_reserved(mbr_trial *trial)
{
    const mbr_hello hello = {MBR_SIZED(mbr_hello)};
    memset(&reply, 0xFF, sizeof reply);
    reply.struct_size = sizeof reply;
    mbr_status status = trial->entry(&hello, &reply, NULL);
    MBR_NEED(trial, status == MBR_OK, "%s", mbr_status_name(status));
    MBR_EXPECT(trial, reply.reserved_0 == 0 && reply.reserved_1 == 0,
        "reserved fields of the reply are zero", "0x%x, 0x%x", reply.reserved_0, reply.reserved_1);
}

static void run_range_of_note(mbr_trial *trial)
{
    static mbr_elf_file file;
    need_good_reply(trial);
    mbr_elf_file_read(trial, &file);
    mbr_note_head head = mbr_elf_file_note(trial, &file);
    MBR_NEED(trial, head.minor_min <= head.minor_max, "the note's range is empty");
    MBR_EXPECT(trial, reply.minor_min == head.minor_min && reply.minor_max == head.minor_max,
        "the reply's range is the note's", "reply %u to %u, note %u to %u", reply.minor_min,
        reply.minor_max, head.minor_min, head.minor_max);
}

#define NEG(number, rules, title, why, run)                                                        \
    {                                                                                              \
        "NEG-" number, 1, MBR_STAGE_LOADED, 0, rules, title, why, run, 0, 0                        \
    }

static const mbr_check checks[] = {
    {"NEG-001", 1, MBR_STAGE_LOADED, 0, "C16, C17", "the entry answers a host of minor 0",
        "Every host of major 1 knows minor 0. A plugin that refuses it can be opened by nobody.",
        run_same, MBR_CHECK_OPENS, 0},
    NEG("002", "C17, C18", "a newer host gets the plugin's highest minor",
        "Hosts are updated before plugins: the plugin must not refuse a range for its upper end.",
        run_newer_host),
    NEG("003", "C17", "the agreed minor lies in both ranges",
        "It is the ceiling for every table; one outside means that the two sides read different "
        "structs.",
        run_agreed_in_both),
    NEG("004", "C17", "a range without a common minor is MBR_VERSION_MISMATCH",
        "The host must tell an old plugin from a broken one.", run_disjoint),
    NEG("005", "C17", "a refusal holds the plugin's range",
        "The message to the user names what would work.", run_disjoint_range),
    NEG("006", "C7, C17", "a refusal gives no table",
        "Results are set on success only; a table in a refusal will be used by somebody.",
        run_disjoint_table),
    NEG("007", "C6, C17", "the refusal's text holds the host's range",
        "With both ranges in the text it is plain which side to update.", run_disjoint_text),
    NEG("008", "C7, C17", "a range that runs backwards is refused",
        "It is the caller's bug, and no minor lies in it.", run_backwards),
    NEG("009", "C7", "hello NULL is refused", "A plugin is judged by people who pass NULL.",
        run_null_hello),
    NEG("010", "C7", "reply NULL is refused", "A plugin is judged by people who pass NULL.",
        run_null_reply),
    NEG("011", "C1, C6", "error NULL is allowed", "The error is optional in every call.",
        run_null_error),
    NEG("012", "C12", "a hello that has grown is accepted",
        "A host of a later minor sends a longer hello; fields that are not known are ignored.",
        run_long_hello),
    NEG("013", "C12", "a short hello is not read beyond its end",
        "What is behind struct_size is another object, or no memory.", run_short_hello),
    NEG("014", "C12", "a short reply is not written beyond its end",
        "An older host's reply is shorter: writing the own size overwrites its stack.",
        run_short_reply),
    NEG("015", "C7, C12", "no success where the table does not fit",
        "Success without a table would make the host call through nothing.",
        run_reply_without_table),
    NEG("016", "C12", "a reply that has grown keeps its size",
        "struct_size is the caller's; equality with the own size is no condition.", run_long_reply),
    NEG("017", "C2, C17", "the same offer gets the same answer each time",
        "The entry keeps no state: a probe before the open must not change what the open gets.",
        run_twice),
    NEG("018", "C14", "reserved fields of the reply are zero",
        "A later minor gives them a meaning, in which zero is what was there before.",
        run_reserved),
    NEG("019", "C17, C20", "the reply's range is the note's",
        "The host chose by the note, without running code; the entry must not say otherwise.",
        run_range_of_note),
};

const mbr_group mbr_group_neg = MBR_GROUP("NEG", "version negotiation", checks);
