/* Responsible for lines: their table by the host's id, their values, and who still holds one.
 * Never submits an operation, and never takes a stream's lock while it holds a line's. */
#include "abi/base/error.h"
#include "host/ep/cpu/internal.h"

#include <inttypes.h>

static mbr_cpu_line **bucket_of(mbr_cpu *cpu, uint64_t id)
{
    return &cpu->buckets[id % MBR_CPU_LINE_BUCKETS];
}

/* The link that points at the line with this id, or at NULL. */
static mbr_cpu_line **find_link(mbr_cpu *cpu, uint64_t id) MBR_REQUIRES(&cpu->lines_lock)
{
    mbr_cpu_line **link = bucket_of(cpu, id);
    while (*link != NULL && (*link)->id != id)
        link = &(*link)->next;
    return link;
}

static mbr_cpu_line *create(mbr_cpu *cpu, uint64_t id, mbr_native stream)
{
    mbr_cpu_line *line = mbr_heap_allocate(cpu->heap, sizeof *line);
    if (line == NULL)
        return NULL;
    line->id = id;
    line->stream = stream;
    line->heap = cpu->heap;
    atomic_init(&line->reference_count, 1);
    mbr_lock_init(&line->lock, MBR_RANK_STREAM);
    mbr_condition_init(&line->progress);
    return line;
}

void mbr_cpu_line_hold(mbr_cpu_line *line)
{
    atomic_fetch_add(&line->reference_count, 1);
}

void mbr_cpu_line_drop(mbr_cpu_line *line)
{
    if (atomic_fetch_sub(&line->reference_count, 1) != 1)
        return;
    mbr_condition_finish(&line->progress);
    mbr_lock_finish(&line->lock);
    mbr_heap_release(line->heap, line);
}

mbr_status mbr_cpu_line_open(mbr_cpu *cpu, uint64_t id, mbr_native stream, mbr_error *error)
{
    if (id == 0)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 2, "line_id is 0; ids start at 1");
    mbr_status status = mbr_cpu_stream_check(cpu, stream, error);
    if (status != MBR_OK)
        return status;
    mbr_cpu_line *line = create(cpu, id, stream);
    if (line == NULL)
        return mbr_fail_argument(
            error, MBR_OUT_OF_HOST_MEMORY, 0, "no memory for line %" PRIu64, id);
    mbr_lock_take(&cpu->lines_lock);
    mbr_cpu_line **link = find_link(cpu, id);
    bool taken = *link != NULL;
    if (!taken) {
        *link = line;
        cpu->line_count++;
    }
    mbr_lock_drop(&cpu->lines_lock);
    if (!taken)
        return MBR_OK;
    mbr_cpu_line_drop(line);
    return mbr_fail_argument(error, MBR_ALREADY_EXISTS, 2, "line %" PRIu64 " is open", id);
}

static mbr_status unknown_line(uint64_t id, mbr_error *error)
{
    return mbr_fail_argument(error, MBR_UNKNOWN_OBJECT, 2, "no open line has the id %" PRIu64, id);
}

mbr_status mbr_cpu_line_close(mbr_cpu *cpu, uint64_t id, mbr_error *error)
{
    mbr_lock_take(&cpu->lines_lock);
    mbr_cpu_line **link = find_link(cpu, id);
    mbr_cpu_line *line = *link;
    if (line != NULL) {
        *link = line->next;
        cpu->line_count--;
    }
    mbr_lock_drop(&cpu->lines_lock);
    if (line == NULL)
        return unknown_line(id, error);
    mbr_cpu_line_drop(line);
    return MBR_OK;
}

mbr_cpu_line *mbr_cpu_line_find(mbr_cpu *cpu, uint64_t id, mbr_error *error)
{
    mbr_lock_take(&cpu->lines_lock);
    mbr_cpu_line *line = *find_link(cpu, id);
    if (line != NULL)
        mbr_cpu_line_hold(line);
    mbr_lock_drop(&cpu->lines_lock);
    if (line == NULL)
        unknown_line(id, error);
    return line;
}

void mbr_cpu_line_reach(mbr_cpu_line *line, uint64_t value)
{
    mbr_lock_take(&line->lock);
    MBR_CHECK(atomic_load(&line->reached) < value);
    atomic_store(&line->reached, value);
    mbr_condition_signal_all(&line->progress);
    mbr_lock_drop(&line->lock);
}

bool mbr_cpu_line_wait(mbr_cpu_line *line, uint64_t value, uint64_t deadline_ns)
{
    bool in_time = true;
    mbr_lock_take(&line->lock);
    while (in_time && atomic_load(&line->reached) < value)
        in_time = mbr_condition_wait(&line->progress, &line->lock, deadline_ns);
    bool reached = atomic_load(&line->reached) >= value;
    mbr_lock_drop(&line->lock);
    return reached;
}
