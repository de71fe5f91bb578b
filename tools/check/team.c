/* Runs one function on several threads. Never judges. */
#include "tools/check/team.h"

void mbr_team_meet(mbr_member *self)
{
    pthread_barrier_wait(&self->team->barrier);
}

static void *run_member(void *argument)
{
    mbr_member *self = argument;
    mbr_team_meet(self);
    self->team->body(self);
    return NULL;
}

void mbr_team_run(mbr_trial *trial, mbr_team *self, uint32_t count, void (*body)(mbr_member *),
    const void *shared)
{
    *self = (mbr_team){.count = count, .body = body, .shared = shared};
    pthread_barrier_init(&self->barrier, NULL, count);
    for (uint32_t i = 0; i < count; i++) {
        mbr_member *one = &self->members[i];
        *one = (mbr_member){.team = self, .trial = trial, .self = &trial->subject, .index = i};
        if (pthread_create(&one->thread, NULL, run_member, one) != 0)
            mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no thread %u", i);
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(self->members[i].thread, NULL);
    pthread_barrier_destroy(&self->barrier);
}

uint32_t mbr_team_ok_count(const mbr_team *self)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < self->count; i++)
        count += self->members[i].status == MBR_OK;
    return count;
}

mbr_alc mbr_team_take(mbr_member *self, uint64_t bytes)
{
    mbr_alc taken;
    mbr_need_ok(self->trial,
        mbr_alc_ask(self->trial, self->self, mbr_alc_request(self->trial, bytes), &taken),
        "allocate");
    return taken;
}

void mbr_team_give(mbr_member *self, const mbr_alc *taken)
{
    mbr_need_ok(self->trial,
        mbr_alc_release(self->trial, self->self, taken->id, taken->address, NULL), "release");
}
