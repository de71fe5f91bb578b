/* Several threads that do the same at once. */
#ifndef MEMBRANE_TOOLS_CHECK_TEAM_H
#define MEMBRANE_TOOLS_CHECK_TEAM_H

#include "tools/check/alc.h"
#include "tools/check/trial.h"

#include <pthread.h>

#define MBR_TEAM_MAX 16u

typedef struct mbr_team mbr_team;

typedef struct mbr_member {
    mbr_team *team;
    mbr_trial *trial;
    mbr_subject *self; /* the trial's own; a body may take another one */
    uint32_t index;
    pthread_t thread;
    mbr_status status; /* the body's answer to the check */
} mbr_member;

struct mbr_team {
    mbr_member members[MBR_TEAM_MAX];
    uint32_t count;
    pthread_barrier_t barrier;
    void (*body)(mbr_member *self);
    const void *shared;
};

/* Runs `body` on `count` threads, which begin together, and waits for their end. */
void mbr_team_run(mbr_trial *trial, mbr_team *self, uint32_t count, void (*body)(mbr_member *),
    const void *shared);

/* Waits for all others of the team. */
void mbr_team_meet(mbr_member *self);

/* How many bodies answered MBR_OK. */
uint32_t mbr_team_ok_count(const mbr_team *self);

/* Allocates and releases in the member's subject; must work for the check to go on. */
mbr_alc mbr_team_take(mbr_member *self, uint64_t bytes);
void mbr_team_give(mbr_member *self, const mbr_alc *taken);

#endif
