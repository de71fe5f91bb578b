/* The list of who wrote which rows. Knows no memory but its own. */
#include "tools/cli/replay/written.h"

#include <stdlib.h>
#include <string.h>

replay_writer replay_written_by(const replay_written *written, uint64_t row)
{
    uint64_t at = 0;
    while (written->rows[at].end <= row)
        at++;
    return written->rows[at].writer;
}

void replay_written_cut(replay_written *written, uint64_t tokens)
{
    while (written->count > 1 && written->rows[written->count - 2].end >= tokens)
        written->count--;
    if (written->count != 0 && written->rows[written->count - 1].end > tokens)
        written->rows[written->count - 1].end = tokens;
    if (tokens == 0)
        written->count = 0;
}

static bool reserve(replay_written *written, uint64_t count)
{
    if (count <= written->capacity)
        return true;
    replay_rows *grown = realloc(written->rows, 2 * count * sizeof(*grown));
    if (grown == NULL)
        return false;
    written->rows = grown;
    written->capacity = 2 * count;
    return true;
}

static void append(replay_written *to, uint64_t end, replay_writer writer)
{
    if (end > replay_written_tokens(to))
        to->rows[to->count++] = (replay_rows){end, writer};
}

bool replay_written_set(replay_written *written, uint64_t first, uint64_t end, replay_writer writer)
{
    replay_written changed = {0};
    if (!reserve(&changed, written->count + 3)) /* one is cut in two around a new one */
        return false;
    uint64_t at = 0;
    for (; at < written->count && written->rows[at].end <= first; at++)
        append(&changed, written->rows[at].end, written->rows[at].writer);
    if (at < written->count)
        append(&changed, first, written->rows[at].writer);
    append(&changed, end, writer);
    for (; at < written->count; at++)
        append(&changed, written->rows[at].end, written->rows[at].writer);
    free(written->rows);
    *written = changed;
    return true;
}

bool replay_written_copy(replay_written *written, const replay_written *from, uint64_t tokens)
{
    if (!reserve(written, from->count))
        return false;
    if (from->count != 0)
        memcpy(written->rows, from->rows, from->count * sizeof(*from->rows));
    written->count = from->count;
    replay_written_cut(written, tokens);
    return true;
}

void replay_written_finish(replay_written *written)
{
    free(written->rows);
    *written = (replay_written){0};
}
