/* What stream.c and queue.c share. */
#ifndef MEMBRANE_TESTS_STANDIN_QUEUE_H
#define MEMBRANE_TESTS_STANDIN_QUEUE_H

#include "tests/standin/model.h"

struct sim_point *sim_point_new(void);
void sim_event_check(const struct sim_event *event);
void sim_stream_add_wait(struct sim_stream *stream, struct sim_point *point);
/* Takes an empty, destroyed stream off its context. */
void sim_stream_free(struct sim_stream *stream);
/* If it is: a stream with a worker is freed by that. */
void sim_stream_free_if_done(struct sim_stream *stream);
/* What is destroyed runs what it has and is freed. Drops the lock. */
void sim_stream_end(struct sim_stream *stream);
/* Keeps its husk, so that a later use is seen. */
void sim_stream_keep(struct sim_stream *stream);
uint64_t sim_thread_id(void);

#endif
