/* Draws progress on a terminal. Never writes to anything else, never makes a step fail: a display
 * that cannot be drawn is turned off. */
#include "tools/cli/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Last, because it makes macros of everyday words. */
#include <curses.h>
#include <term.h>

#define MIN_COLUMNS_COUNT 20u
#define MIN_BAR_COLUMNS_COUNT 6u
#define MAX_BAR_COLUMNS_COUNT 24u

/* Copies a capability without its padding, "$<5>", which no terminal of today needs. False when it
 * does not fit. */
static bool copy_capability(char *to, size_t capacity, const char *from)
{
    size_t length = 0;
    while (*from != '\0') {
        const char *end = strncmp(from, "$<", 2) == 0 ? strchr(from, '>') : NULL;
        if (end != NULL) {
            from = end + 1;
            continue;
        }
        if (length + 1 == capacity)
            return false;
        to[length++] = *from++;
    }
    to[length] = '\0';
    return true;
}

/* Reads the description of the terminal's type. */
static bool describe_terminal(mbr_progress *progress)
{
    int answer;
    if (setupterm(progress->options.term, progress->options.file, &answer) != OK)
        return false;
    const char *clear = tigetstr("el");
    bool is_able = clear != NULL && clear != (const char *)-1 &&
        copy_capability(progress->clear, sizeof progress->clear, clear) &&
        progress->clear[0] != '\0';
    int columns_count = tigetnum("cols");
    progress->fallback_columns_count = columns_count > 0 ? (uint32_t)columns_count : 80;
    del_curterm(cur_term);
    return is_able;
}

void mbr_progress_init(mbr_progress *progress, const mbr_progress_options *options)
{
    *progress = (mbr_progress){.options = *options};
    if (progress->options.clock == NULL)
        progress->options.clock = &mbr_clock_monotonic;
    const char *term = options->term;
    progress->is_on = term != NULL && *term != '\0' && strcmp(term, "dumb") != 0 &&
        isatty(options->file) == 1 && describe_terminal(progress);
}

static void write_all(mbr_progress *progress, const char *text, size_t length)
{
    while (length != 0) {
        ssize_t written = write(progress->options.file, text, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            progress->is_on = false; /* the terminal is gone, or does not take more for now */
            return;
        }
        text += written;
        length -= (size_t)written;
    }
}

static uint32_t columns_of(const mbr_progress *progress)
{
    struct winsize size;
    if (ioctl(progress->options.file, TIOCGWINSZ, &size) == 0 && size.ws_col != 0)
        return size.ws_col;
    return progress->fallback_columns_count;
}

/* "47 %  188 of 400 requests, 612 MiB owned" */
static void put_count(
    const mbr_progress *progress, uint64_t done_count, const char *note, char *to, size_t capacity)
{
    const mbr_progress_options *options = &progress->options;
    const char *comma = note == NULL || *note == '\0' ? "" : ", ";
    const char *shown_note = note == NULL ? "" : note;
    if (options->total_count == 0) {
        snprintf(to, capacity, "%" PRIu64 " %s%s%s", done_count, options->unit, comma, shown_note);
        return;
    }
    /* A total may grow past what was promised: 100 % is the end. */
    double share = (double)done_count / (double)options->total_count;
    snprintf(to, capacity, "%3u %%  %" PRIu64 " of %" PRIu64 " %s%s%s",
        share >= 1 ? 100u : (unsigned)(share * 100), done_count, options->total_count,
        options->unit, comma, shown_note);
}

/* "[====>     ] ", or nothing where there is no room for it. */
static void put_bar(const mbr_progress *progress, uint64_t done_count, size_t room, char *to)
{
    const size_t frame = 3; /* the brackets and a blank */
    *to = '\0';
    if (progress->options.total_count == 0 || room < MIN_BAR_COLUMNS_COUNT + frame)
        return;
    size_t inside = room - frame > MAX_BAR_COLUMNS_COUNT ? MAX_BAR_COLUMNS_COUNT : room - frame;
    double share = (double)done_count / (double)progress->options.total_count;
    size_t filled = share >= 1 ? inside : (size_t)(share * (double)inside);
    to[0] = '[';
    memset(to + 1, '=', filled);
    memset(to + 1 + filled, ' ', inside - filled);
    if (filled < inside)
        to[1 + filled] = '>';
    memcpy(to + 1 + inside, "] ", 3);
}

static void draw(mbr_progress *progress, uint64_t done_count, const char *note)
{
    char count[MBR_PROGRESS_MAX_LINE_BYTES];
    char bar[MAX_BAR_COLUMNS_COUNT + 4];
    char text[2 * MBR_PROGRESS_MAX_LINE_BYTES];
    char line[MBR_PROGRESS_MAX_LINE_BYTES + MBR_PROGRESS_MAX_CLEAR_BYTES + 2];
    /* The last column stays free: some terminals go to the next line when it is written. */
    size_t room = columns_of(progress) - 1;
    if (room < MIN_COLUMNS_COUNT)
        return;
    put_count(progress, done_count, note, count, sizeof count);
    size_t used = strlen(progress->options.label) + 1 + strlen(count);
    put_bar(progress, done_count, room > used ? room - used : 0, bar);
    snprintf(text, sizeof text, "%s %s%s", progress->options.label, bar, count);
    for (char *c = text; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    int shown = (int)(room < MBR_PROGRESS_MAX_LINE_BYTES ? room : MBR_PROGRESS_MAX_LINE_BYTES);
    int length = snprintf(line, sizeof line, "\r%.*s%s", shown, text, progress->clear);
    write_all(progress, line, (size_t)length);
    progress->is_drawn = true;
}

void mbr_progress_update(mbr_progress *progress, uint64_t done_count, const char *note)
{
    if (!progress->is_on)
        return;
    uint64_t now_ns = mbr_clock_now(progress->options.clock);
    if (now_ns < progress->next_draw_ns)
        return;
    progress->next_draw_ns = now_ns + MBR_PROGRESS_MIN_GAP_NS;
    draw(progress, done_count, note);
}

void mbr_progress_finish(mbr_progress *progress)
{
    if (progress->is_on && progress->is_drawn) {
        write_all(progress, "\r", 1);
        write_all(progress, progress->clear, strlen(progress->clear));
    }
    progress->is_on = false;
    progress->is_drawn = false;
}
