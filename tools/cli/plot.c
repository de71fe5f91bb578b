/* Writes a gnuplot script with its data inside, runs gnuplot on it, checks that the picture is
 * whole and gives it its name. Never leaves a part of a picture behind, never lets a title become a
 * command: gnuplot's single quotes know one escape, the doubled quote.
 *
 * The script reaches gnuplot's standard input as a file in memory and not as a pipe: a gnuplot that
 * ends early raises no SIGPIPE, and one that complains at length cannot block both sides. */
#include "tools/cli/plot.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NS_A_SECOND UINT64_C(1000000000)
#define MAX_TITLE_BYTES 200
#define MAX_TEMPORARY_NAMES_COUNT 64u
#define MAX_TAIL_BYTES 16

typedef struct ending {
    const char *suffix;
    const char *terminal;
    const char *tail; /* the last bytes of a whole picture */
    size_t tail_bytes;
} ending;

static const ending endings[] = {
    {".svg", "svg size 960,540 dynamic noenhanced background rgb 'white'", "</svg>", 6},
    /* A PNG ends with the chunk IEND, which is empty, and its checksum. */
    {".png", "pngcairo size 960,540 noenhanced", "IEND\xae\x42\x60\x82", 8},
};

typedef struct work {
    const mbr_plot *plot;
    const mbr_plot_os *os;
    mbr_plot_error *error;
    const ending *end;
    int script;
    int complaint; /* what gnuplot wrote to its standard error */
    int picture;
    char temporary[MBR_PLOT_MAX_PATH_BYTES];
} work;

static mbr_plot_status refuse(work *at, mbr_plot_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static mbr_plot_status refuse(work *at, mbr_plot_status status, const char *format, ...)
{
    char what[MBR_PLOT_ERROR_BYTES - MAX_TITLE_BYTES - 3];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    /* The end of a path says which file it is. */
    const char *path = at->plot->path;
    size_t length = strlen(path);
    snprintf(at->error->text, sizeof at->error->text, "%s: %s",
        length > MAX_TITLE_BYTES ? path + length - MAX_TITLE_BYTES : path, what);
    for (char *c = at->error->text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    at->error->status = status;
    return status;
}

static mbr_plot_status refuse_errno(
    work *at, mbr_plot_status status, int64_t negative_errno, const char *what)
{
    char reason[96];
    return refuse(
        at, status, "%s: %s", what, strerror_r((int)-negative_errno, reason, sizeof reason));
}

/* A script on its way into its file. */
typedef struct script_writer {
    const mbr_plot_os *os;
    int file;
    int64_t failure; /* the first negative errno */
    size_t held_bytes;
    char held[4096];
} script_writer;

static void flush(script_writer *to)
{
    const char *from = to->held;
    while (to->held_bytes != 0 && to->failure == 0) {
        int64_t written = to->os->write(to->os->context, to->file, from, to->held_bytes);
        if (written == -EINTR)
            continue;
        if (written <= 0) {
            to->failure = written == 0 ? -EIO : written;
            break;
        }
        from += written;
        to->held_bytes -= (size_t)written;
    }
    to->held_bytes = 0;
}

static void put(script_writer *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* At most MAX_TITLE_BYTES at once and a little more. */
static void put(script_writer *to, const char *format, ...)
{
    char text[2 * MAX_TITLE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    MBR_ASSERT(length >= 0 && (size_t)length < sizeof text);
    if (sizeof to->held - to->held_bytes < (size_t)length)
        flush(to);
    memcpy(to->held + to->held_bytes, text, (size_t)length);
    to->held_bytes += (size_t)length;
}

static bool is_inside_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80; /* UTF-8 */
}

/* A gnuplot string, cut between two characters. Bytes that could end a line become blanks. */
static void put_quoted(script_writer *to, const char *text)
{
    put(to, "'");
    for (size_t i = 0; text[i] != '\0'; i++) {
        if (i >= MAX_TITLE_BYTES && !is_inside_character(text[i]))
            break;
        bool is_control = (unsigned char)text[i] < ' ' || text[i] == 0x7f;
        put(to, text[i] == '\'' ? "''" : "%c", is_control ? ' ' : text[i]);
    }
    put(to, "'");
}

static void put_points(script_writer *to, uint32_t index, const mbr_plot_series *series)
{
    put(to, "$series%" PRIu32 " << END\n", index);
    for (uint64_t i = 0; i < series->point_count; i++)
        put(to, "%" PRIu64 ".%09" PRIu64 " %" PRIu64 "\n", series->points[i].time_ns / NS_A_SECOND,
            series->points[i].time_ns % NS_A_SECOND, series->points[i].bytes);
    put(to, "END\n");
}

/* The unit of the y axis and the distance of its ticks, a power of two of bytes that gives at most
 * nine of them: gnuplot's own ticks are round in powers of ten and odd in MiB. */
typedef struct scale {
    uint64_t unit_bytes;
    uint64_t tick_units;
    const char *unit;
} scale;

static scale choose_scale(const mbr_plot *plot)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    uint64_t most_bytes = 0;
    for (uint32_t i = 0; i < plot->series_count; i++)
        for (uint64_t at = 0; at < plot->series[i].point_count; at++)
            most_bytes = mbr_max(most_bytes, plot->series[i].points[at].bytes);
    uint64_t tick_bytes = 1;
    while (most_bytes / tick_bytes > 8)
        tick_bytes *= 2;
    size_t unit = 0;
    uint64_t unit_bytes = 1;
    for (; unit + 1 < sizeof units / sizeof *units && tick_bytes / unit_bytes >= 1024; unit++)
        unit_bytes *= 1024;
    return (scale){
        .unit_bytes = unit_bytes, .tick_units = tick_bytes / unit_bytes, .unit = units[unit]};
}

static void put_script(script_writer *to, const mbr_plot *plot, const ending *end)
{
    scale y = choose_scale(plot);
    put(to, "set terminal %s\nset encoding utf8\nset title ", end->terminal);
    put_quoted(to, plot->title);
    put(to, "\nset xlabel 'seconds'\nset ylabel '%s'\nset ytics %" PRIu64 "\n", y.unit,
        y.tick_units);
    put(to, "set yrange [0:*]\nset grid\nset key outside right top Left reverse\n");
    for (uint32_t i = 0; i < plot->series_count; i++)
        if (plot->series[i].point_count != 0)
            put_points(to, i, &plot->series[i]);
    const char *before = "plot";
    for (uint32_t i = 0; i < plot->series_count; i++) {
        if (plot->series[i].point_count == 0)
            continue;
        put(to, "%s $series%" PRIu32 " using 1:($2/%" PRIu64 ".0) with steps linewidth 2 title ",
            before, i, y.unit_bytes);
        put_quoted(to, plot->series[i].title);
        before = ",";
    }
    put(to, "\n");
    flush(to);
}

static mbr_plot_status check_path(work *at)
{
    const char *path = at->plot->path;
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t suffix = strlen(endings[i].suffix);
        if (length > suffix && strcmp(path + length - suffix, endings[i].suffix) == 0)
            at->end = &endings[i];
    }
    if (at->end == NULL)
        return refuse(
            at, MBR_PLOT_UNKNOWN_ENDING, "a picture's name ends in .svg or .png, as in bytes.svg");
    int answer = at->os->is_replaceable(at->os->context, path);
    if (answer < 0)
        return refuse_errno(at, MBR_PLOT_CANNOT_WRITE, answer, "cannot be written");
    if (answer == 0)
        return refuse(at, MBR_PLOT_CANNOT_WRITE,
            "is a pipe, a device or a socket, which a picture would replace; another name would "
            "work");
    return MBR_PLOT_OK;
}

static mbr_plot_status check_series(work *at)
{
    const mbr_plot *plot = at->plot;
    if (plot->series_count > MBR_PLOT_MAX_SERIES_COUNT)
        return refuse(at, MBR_PLOT_OVER_LIMIT,
            "%" PRIu32 " series, at most %" PRIu32 " (MBR_PLOT_MAX_SERIES_COUNT) fit",
            plot->series_count, MBR_PLOT_MAX_SERIES_COUNT);
    uint64_t room = MBR_PLOT_MAX_POINTS_COUNT;
    for (uint32_t i = 0; i < plot->series_count; i++) {
        if (plot->series[i].point_count > room)
            return refuse(at, MBR_PLOT_OVER_LIMIT,
                "more than %" PRIu64 " points (MBR_PLOT_MAX_POINTS_COUNT); plot every n-th",
                MBR_PLOT_MAX_POINTS_COUNT);
        room -= plot->series[i].point_count;
    }
    if (room == MBR_PLOT_MAX_POINTS_COUNT)
        return refuse(at, MBR_PLOT_NO_DATA, "there is no point to plot");
    return MBR_PLOT_OK;
}

/* Creates an empty file beside the picture's name, under a name that nobody else has. */
static mbr_plot_status create_temporary(work *at)
{
    int file = -EEXIST;
    for (uint32_t i = 0; i < MAX_TEMPORARY_NAMES_COUNT && file == -EEXIST; i++) {
        int length = snprintf(at->temporary, sizeof at->temporary, "%s.%ld-%" PRIu32 ".part",
            at->plot->path, (long)getpid(), i);
        if ((size_t)length >= sizeof at->temporary)
            return refuse_errno(at, MBR_PLOT_CANNOT_WRITE, -ENAMETOOLONG, "cannot be written");
        file = at->os->create(at->os->context, at->temporary);
    }
    if (file < 0)
        return refuse_errno(at, MBR_PLOT_CANNOT_WRITE, file, "cannot be written");
    at->picture = file;
    return MBR_PLOT_OK;
}

static mbr_plot_status write_script(work *at)
{
    const mbr_plot_os *os = at->os;
    at->script = os->memory_file(os->context);
    if (at->script < 0)
        return refuse_errno(at, MBR_PLOT_SYSTEM, at->script, "no file for the gnuplot script");
    at->complaint = os->memory_file(os->context);
    if (at->complaint < 0)
        return refuse_errno(at, MBR_PLOT_SYSTEM, at->complaint, "no file for gnuplot's messages");
    script_writer to = {.os = os, .file = at->script};
    put_script(&to, at->plot, at->end);
    if (to.failure == 0)
        to.failure = os->rewind(os->context, at->script);
    if (to.failure != 0)
        return refuse_errno(at, MBR_PLOT_SYSTEM, to.failure, "the gnuplot script");
    return MBR_PLOT_OK;
}

/* The last line of gnuplot's messages that says something, without blanks before it. */
static const char *find_complaint(work *at, char *buffer, size_t capacity)
{
    int64_t got = at->os->read(at->os->context, at->complaint, buffer, capacity - 1, 0);
    buffer[got < 0 ? 0 : got] = '\0';
    const char *found = "no message";
    char *rest = buffer;
    char *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        line += strspn(line, " \t^");
        if (*line != '\0')
            found = line;
    }
    return found;
}

static mbr_plot_status run_gnuplot(work *at)
{
    /* -d: the user's own start-up file is not read. */
    static const char *const arguments[] = {"gnuplot", "-d", "-", NULL};
    int status;
    int failure =
        at->os->run(at->os->context, arguments, at->script, at->picture, at->complaint, &status);
    if (failure == -ENOENT)
        return refuse(at, MBR_PLOT_NO_GNUPLOT,
            "gnuplot is not on PATH; install it (on Debian: gnuplot-nox) or do without the plot");
    if (failure != 0)
        return refuse_errno(at, MBR_PLOT_SYSTEM, failure, "gnuplot cannot be run");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return MBR_PLOT_OK;
    char buffer[MBR_PLOT_ERROR_BYTES];
    const char *complaint = find_complaint(at, buffer, sizeof buffer);
    if (WIFSIGNALED(status))
        return refuse(at, MBR_PLOT_GNUPLOT_FAILED, "gnuplot was ended by signal %d: %s",
            WTERMSIG(status), complaint);
    return refuse(
        at, MBR_PLOT_GNUPLOT_FAILED, "gnuplot ended with %d: %s", WEXITSTATUS(status), complaint);
}

/* gnuplot ends with 0 on a full disk too: only the picture's end tells. */
static mbr_plot_status check_picture(work *at)
{
    const mbr_plot_os *os = at->os;
    char tail[MAX_TAIL_BYTES + 1] = "";
    int64_t size = os->size(os->context, at->picture);
    uint64_t offset = size > MAX_TAIL_BYTES ? (uint64_t)size - MAX_TAIL_BYTES : 0;
    int64_t got =
        size < 0 ? size : os->read(os->context, at->picture, tail, MAX_TAIL_BYTES, offset);
    if (got < 0)
        return refuse_errno(at, MBR_PLOT_CANNOT_WRITE, got, "the picture cannot be read back");
    while (got > 0 && strchr("\r\n ", tail[got - 1]) != NULL)
        got--;
    size_t tail_bytes = at->end->tail_bytes;
    if ((size_t)got < tail_bytes ||
        memcmp(tail + (size_t)got - tail_bytes, at->end->tail, tail_bytes) != 0)
        return refuse(at, MBR_PLOT_GNUPLOT_FAILED,
            "gnuplot wrote %" PRId64 " bytes that are no whole picture; is the disk full?", size);
    return MBR_PLOT_OK;
}

static mbr_plot_status draw(work *at)
{
    mbr_plot_status status = write_script(at);
    if (status == MBR_PLOT_OK)
        status = run_gnuplot(at);
    if (status == MBR_PLOT_OK)
        status = check_picture(at);
    if (status != MBR_PLOT_OK)
        return status;
    int failure = at->os->rename(at->os->context, at->temporary, at->plot->path);
    if (failure != 0)
        return refuse_errno(at, MBR_PLOT_CANNOT_WRITE, failure, "cannot be written");
    return MBR_PLOT_OK;
}

/* The work before it begins; *error is empty. */
static work begin(
    const mbr_plot *plot, const mbr_plot_os *os, mbr_plot_error *error, mbr_plot_error *unwanted)
{
    work at = {.plot = plot,
        .os = os == NULL ? &mbr_plot_os_default : os,
        .error = error == NULL ? unwanted : error,
        .script = -1,
        .complaint = -1,
        .picture = -1};
    *at.error = (mbr_plot_error){0};
    return at;
}

mbr_plot_status mbr_plot_probe(const char *path, const mbr_plot_os *os, mbr_plot_error *error)
{
    mbr_plot_error unwanted;
    const mbr_plot plot = {.path = path};
    work at = begin(&plot, os, error, &unwanted);
    mbr_plot_status status = check_path(&at);
    if (status == MBR_PLOT_OK)
        status = create_temporary(&at);
    if (status != MBR_PLOT_OK)
        return status;
    at.os->close(at.os->context, at.picture);
    int failure = at.os->remove(at.os->context, at.temporary);
    return failure == 0
        ? MBR_PLOT_OK
        : refuse_errno(&at, MBR_PLOT_CANNOT_WRITE, failure, "the trial file cannot be removed");
}

mbr_plot_status mbr_plot_write(const mbr_plot *plot, const mbr_plot_os *os, mbr_plot_error *error)
{
    mbr_plot_error unwanted;
    work at = begin(plot, os, error, &unwanted);
    mbr_plot_status status = check_path(&at);
    if (status == MBR_PLOT_OK)
        status = check_series(&at);
    if (status == MBR_PLOT_OK)
        status = create_temporary(&at);
    if (status != MBR_PLOT_OK)
        return status;
    status = draw(&at);
    if (status != MBR_PLOT_OK)
        at.os->remove(at.os->context, at.temporary); /* its failure would hide the first one */
    const int files[] = {at.script, at.complaint, at.picture};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i] >= 0)
            at.os->close(at.os->context, files[i]);
    return status;
}
