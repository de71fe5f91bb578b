/* The host's seams with the engine behind them, and what was taken through them. */
#ifndef MEMBRANE_TESTS_FAULTS_SEAMS_H
#define MEMBRANE_TESTS_FAULTS_SEAMS_H

#include "host/bind/seams.h"
#include "tests/faults/hooks.h"

extern const mbr_heap fault_heap;        /* the host's */
extern const mbr_heap fault_plugin_heap; /* the plugin's */
extern const mbr_clock fault_clock;      /* rises by a microsecond a look, and as the test says */
extern const mbr_threads fault_threads;
extern const mbr_loader_os fault_loader_os;
extern const mbr_shared_os fault_shared_os;
extern const mbr_manager_seams fault_seams; /* all of them */

void fault_clock_advance(uint64_t ns);
/* It is never behind the time that has really passed, by which some lines wait. */
void fault_clock_follow_real(bool follows);
/* Blocks and files that are out. */
uint64_t fault_heap_count(void);
uint64_t fault_plugin_heap_count(void);
int64_t fault_file_count(void);
/* What is out stays so for good, and is not counted any more. */
void fault_heap_keep(void);
/* All blocks are given back: no instance uses them any more. */
void fault_plugin_heap_wipe(void);
/* Starts a run: nothing is out, and the clock stands at its beginning. */
void fault_seams_begin(void);

#endif
