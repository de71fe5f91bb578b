/* Who wrote which rows of a paged sequence, as runs in ascending order. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_WRITTEN_H
#define MEMBRANE_TOOLS_CLI_REPLAY_WRITTEN_H

#include "tools/cli/replay/stamp.h"

#include <stdbool.h>

typedef struct replay_rows {
    uint64_t end; /* from the end of the one before */
    replay_writer writer;
} replay_rows;

typedef struct replay_written {
    replay_rows *rows;
    uint64_t count, capacity;
} replay_written;

static inline uint64_t replay_written_tokens(const replay_written *written)
{
    return written->count == 0 ? 0 : written->rows[written->count - 1].end;
}
/* Of a row that there is. */
replay_writer replay_written_by(const replay_written *written, uint64_t row);
/* The rows from `tokens` on are gone. */
void replay_written_cut(replay_written *written, uint64_t tokens);
/* [first, end), with first at most at the end, is this writer's. False: no memory, unchanged. */
bool replay_written_set(
    replay_written *written, uint64_t first, uint64_t end, replay_writer writer);
/* The first `tokens` of another's. False: no memory. */
bool replay_written_copy(replay_written *written, const replay_written *from, uint64_t tokens);
void replay_written_finish(replay_written *written);

#endif
