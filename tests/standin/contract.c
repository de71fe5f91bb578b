/* The contract table's program: runs each row, writes what the driver answered, and compares it
 * with what is expected; of a row that cannot be asked here it says why. Rows that lose their
 * context or end their process have a process of their own. Needs the C library alone; calls no
 * driver function itself. */
#include "tests/standin/contract.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1000
#define ROW_LIMIT_MS 60000
#define FROM_QUESTION "two" /* of a child: in place of a row it says what two devices lack */

static const struct row *const tables[] = {contract_device_rows, contract_context_rows,
    contract_handle_rows, contract_map_rows, contract_access_rows, contract_lost_rows,
    contract_stream_rows, contract_capture_rows, contract_graph_rows, contract_plain_rows,
    contract_more_rows, contract_two_rows};
#define TABLE_COUNT (sizeof tables / sizeof *tables)

static const char *library = MBR_CUDA_LIBRARY;
static bool is_standin;
static bool runs_by_itself; /* the device, while nobody waits for it */
static const char *only;    /* the rows whose names begin so, or NULL */
static char lack_of_two[LINE_MAX_BYTES];

/* ---- What a row says ---- */

static char said[LINE_MAX_BYTES];
static jmp_buf row_end;

void say(const char *word)
{
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s%s", used ? ", " : "", word);
}

const char *status_name(mbr_cuda_result code)
{
    static char number[32];
#define NAME_OF(ours, theirs, value)                                                               \
    if (code == (value) && strncmp(#theirs, "CUDA_", 5) == 0)                                      \
        return (value) == 0 ? "OK" : &#theirs[strlen("CUDA_ERROR_")];
    MBR_CUDA_CONSTANTS(NAME_OF)
    STANDIN_CONSTANTS(NAME_OF)
#undef NAME_OF
    snprintf(number, sizeof number, "code %u", code);
    return number;
}

mbr_cuda_result see(mbr_cuda_result code)
{
    say(status_name(code));
    return code;
}

void say_if(bool condition, const char *yes, const char *no)
{
    say(condition ? yes : no);
}

void need(mbr_cuda_result code, const char *call, int line)
{
    if (code == MBR_CUDA_SUCCESS)
        return;
    char text[200];
    snprintf(text, sizeof text, "stopped by %s at line %d: %s", call, line, status_name(code));
    say(text);
    if (world.flag)
        let_go();
    longjmp(row_end, 1);
}

/* ---- One process with some rows ---- */

static const struct row *row_at(size_t index)
{
    for (size_t table = 0; table < TABLE_COUNT; table++)
        for (const struct row *row = tables[table]; row->name; row++)
            if (index-- == 0)
                return row;
    return NULL;
}

static bool is_shared(const struct row *row)
{
    return row->kind == ROW_SHARED || row->kind == ROW_TWO;
}

static bool wants_two(const struct row *row)
{
    return row->kind == ROW_TWO || row->kind == ROW_TWO_ALONE;
}

/* Whether the row has no process of its own, nor do those next to it that want the same. */
static bool shares_with(const struct row *row, const struct row *other)
{
    return is_shared(row) && other && other->kind == row->kind;
}

/* Runs one step of a row up to its end, or to what it needed and did not get. */
static bool run_to_end(void (*step)(void))
{
    said[0] = '\0';
    if (setjmp(row_end) != 0)
        return false;
    step();
    return true;
}

/* Runs rows from `index` on: one alone, or shared ones up to the next that must be alone. Writes a
 * line each, so that the parent knows how far it came. */
static int run_rows(size_t index)
{
    contract_open(library);
    const struct row *row = row_at(index);
    bool goes_on = row->kind == ROW_BARE ||
        run_to_end(wants_two(row) ? contract_two_worlds_init : contract_world_init);
    if (!goes_on)
        printf("%s\n", said);
    while (goes_on) {
        run_to_end(row->run);
        printf("%s\n", said);
        fflush(stdout);
        const struct row *next = row_at(++index);
        goes_on = shares_with(row, next) && contract_is_well();
        row = next;
    }
    /* Not exit: what a library does at the end of a process is not what a row is about. */
    fflush(stdout);
    _exit(0);
}

static int answer_question(void)
{
    contract_open(library);
    const char *lack = contract_lack_of_two();
    printf("%s\n", lack ? lack : "");
    fflush(stdout);
    _exit(0);
}

/* ---- The process that starts them ---- */

struct outcome {
    char line[LINE_MAX_BYTES];
    bool is_run;
    bool is_right;
};

/* Reads one line within the limit; false at the end of the child's output, or when it hangs. */
static bool read_line(int pipe_end, char *line, bool *hangs)
{
    size_t used = 0;
    for (;;) {
        struct pollfd wait = {pipe_end, POLLIN, 0};
        if (poll(&wait, 1, ROW_LIMIT_MS) <= 0) {
            *hangs = true;
            return false;
        }
        char next;
        if (read(pipe_end, &next, 1) != 1)
            return false;
        line[used] = '\0';
        if (next == '\n')
            return true;
        if (used < LINE_MAX_BYTES - 1)
            line[used++] = next;
        line[used] = '\0';
    }
}

static pid_t start_child(const char *from, int *pipe_end)
{
    int ends[2];
    pid_t child = pipe(ends) == 0 ? fork() : -1;
    if (child < 0) {
        perror("contract: fork");
        exit(3);
    }
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "contract", "--library", library, "--from", from, NULL);
        _exit(127);
    }
    close(ends[1]);
    *pipe_end = ends[0];
    return child;
}

static int await_child(pid_t child, int pipe_end, bool hangs)
{
    int status = 0;
    if (hangs)
        kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    close(pipe_end);
    return status;
}

/* How a child ended that did not finish its row. */
static void describe_end(int status, bool hangs, char *line)
{
    if (hangs)
        snprintf(line, LINE_MAX_BYTES, "no answer within %d s", ROW_LIMIT_MS / 1000);
    else if (WIFSIGNALED(status))
        snprintf(line, LINE_MAX_BYTES, "ended by SIG%s", sigabbrev_np(WTERMSIG(status)));
    else
        snprintf(line, LINE_MAX_BYTES, "ended with status %d", WEXITSTATUS(status));
}

/* Rows that one child runs, from `index`; answers the index of the next. */
static size_t run_child(size_t index, struct outcome *outcomes)
{
    char number[32];
    int pipe_end = -1;
    snprintf(number, sizeof number, "%zu", index);
    pid_t child = start_child(number, &pipe_end);
    const size_t first = index;
    const struct row *row = row_at(index);
    bool hangs = false;
    while ((index == first || shares_with(row, row_at(index))) &&
        read_line(pipe_end, outcomes[index].line, &hangs))
        outcomes[index++].is_run = true;
    int status = await_child(child, pipe_end, hangs);
    /* A child that ended early was in the row that has no line. */
    bool is_inside = index == first || shares_with(row, row_at(index));
    if (is_inside && (index == first || hangs || status != 0)) {
        describe_end(status, hangs, outcomes[index].line);
        outcomes[index++].is_run = true;
    }
    return index;
}

static bool is_for_drivers(const struct row *row)
{
    return row->kind != ROW_CRASH;
}

static void ask_for_two(void)
{
    int pipe_end = -1;
    bool hangs = false;
    pid_t child = start_child(FROM_QUESTION, &pipe_end);
    if (!read_line(pipe_end, lack_of_two, &hangs))
        snprintf(lack_of_two, sizeof lack_of_two, "the driver tells no devices");
    await_child(child, pipe_end, hangs);
}

/* Why the row is not asked here, or NULL. */
static const char *reason_against(const struct row *row)
{
    if (!is_standin && !is_for_drivers(row))
        return "a driver crashed at it";
    if (!runs_by_itself && row->kind == ROW_RUNNING)
        return "nothing runs by itself in this mode";
    return wants_two(row) && lack_of_two[0] ? lack_of_two : NULL;
}

static bool is_chosen(const struct row *row)
{
    return !only || strncmp(row->name, only, strlen(only)) == 0;
}

static void run_all(struct outcome *outcomes)
{
    const struct row *row;
    for (size_t index = 0; (row = row_at(index));)
        index = is_chosen(row) && !reason_against(row) ? run_child(index, outcomes) : index + 1;
}

/* ---- What comes out ---- */

static void write_not_asked(
    FILE *file, const char *before, const char *between, const char *after, const char *separator)
{
    const struct row *row;
    const char *lead = "";
    for (size_t index = 0; (row = row_at(index)); index++) {
        const char *reason = is_chosen(row) ? reason_against(row) : NULL;
        if (!reason)
            continue;
        fprintf(file, "%s%s%s%s%s%s", lead, before, row->name, between, reason, after);
        lead = separator;
    }
}

static void write_json(FILE *file, const struct outcome *outcomes)
{
    fprintf(file, "{\n  \"library\": \"%s\",\n  \"rows\": [\n", library);
    const char *comma = "";
    for (size_t index = 0; row_at(index); index++) {
        if (!outcomes[index].is_run)
            continue;
        fprintf(file, "%s    {\"row\": \"%s\", \"answer\": \"", comma, row_at(index)->name);
        for (const char *c = outcomes[index].line; *c; c++)
            fprintf(file, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
        fprintf(file, "\", \"expected\": \"%s\", \"is_right\": %s, \"is_for_drivers\": %s}",
            row_at(index)->expected, outcomes[index].is_right ? "true" : "false",
            is_for_drivers(row_at(index)) ? "true" : "false");
        comma = ",\n";
    }
    fprintf(file, "\n  ],\n  \"not_asked\": {");
    write_not_asked(file, "\n    \"", "\": \"", "\"", ",");
    fprintf(file, "\n  }\n}\n");
}

static void write_transcript(FILE *file, const struct outcome *outcomes)
{
    for (size_t index = 0; row_at(index); index++)
        if (outcomes[index].is_run)
            fprintf(file, "%s -> %s\n", row_at(index)->name, outcomes[index].line);
}

static int write_file(
    const char *path, const struct outcome *outcomes, void (*write)(FILE *, const struct outcome *))
{
    FILE *file = path ? fopen(path, "w") : NULL;
    if (path && !file) {
        fprintf(stderr, "contract: %s: %s\n", path, strerror(errno));
        return 3;
    }
    if (file) {
        write(file, outcomes);
        if (fclose(file) != 0)
            return 3;
    }
    return 0;
}

static const char *expected_of(const struct row *row)
{
    bool is_misuse = row->kind == ROW_MISUSE || row->kind == ROW_CRASH;
    return is_misuse && is_standin ? "ended by SIGABRT" : row->expected;
}

static int judge(struct outcome *outcomes)
{
    size_t right = 0;
    size_t wrong = 0;
    for (size_t index = 0; row_at(index); index++) {
        if (!outcomes[index].is_run)
            continue;
        const struct row *row = row_at(index);
        outcomes[index].is_right = strcmp(outcomes[index].line, expected_of(row)) == 0;
        printf("%s -> %s\n", row->name, outcomes[index].line);
        if (!outcomes[index].is_right)
            printf("    expected: %s\n", expected_of(row));
        *(outcomes[index].is_right ? &right : &wrong) += 1;
    }
    write_not_asked(stdout, "", ": not asked, ", "\n", "");
    printf("%zu as expected, %zu not, on %s\n", right, wrong,
        is_standin ? "the stand-in" : "a driver");
    return wrong ? 1 : 0;
}

static const char usage[] =
    "usage: contract [--library FILE] [--transcript FILE] [--json FILE] [--only PREFIX]\n"
    "Runs the table of driver calls on FILE (" MBR_CUDA_LIBRARY ") and prints a line a row.\n"
    "Status: 0 all as expected, 1 not, 2 usage, 3 the library does not serve.\n";

int main(int count, char **arguments)
{
    const char *transcript = NULL;
    const char *json = NULL;
    const char *from = NULL;
    for (int i = 1; i < count; i++) {
        const char **place = strcmp(arguments[i], "--library") == 0 ? &library
            : strcmp(arguments[i], "--transcript") == 0             ? &transcript
            : strcmp(arguments[i], "--json") == 0                   ? &json
            : strcmp(arguments[i], "--only") == 0                   ? &only
            : strcmp(arguments[i], "--from") == 0                   ? &from
                                                                    : NULL;
        if (!place || i + 1 == count) {
            fputs(usage, stderr);
            return 2;
        }
        *place = arguments[++i];
    }
    if (from && strcmp(from, FROM_QUESTION) == 0)
        return answer_question();
    if (from)
        return run_rows(strtoul(from, NULL, 10));
    contract_open(library);
    is_standin = contract_is_standin();
    const char *mode = is_standin ? getenv("STANDIN_MODE") : NULL;
    runs_by_itself = !mode || strcmp(mode, "threaded") == 0;
    size_t row_count = 0;
    while (row_at(row_count))
        row_count++;
    struct outcome *outcomes = calloc(row_count, sizeof *outcomes);
    if (!outcomes)
        return 3;
    ask_for_two();
    run_all(outcomes);
    int status = judge(outcomes);
    if (write_file(transcript, outcomes, write_transcript) != 0 ||
        write_file(json, outcomes, write_json) != 0)
        status = 3;
    free(outcomes);
    return status;
}
