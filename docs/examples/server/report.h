/* The figures of the desk as text. */
#ifndef MEMBRANE_EXAMPLES_SERVER_REPORT_H
#define MEMBRANE_EXAMPLES_SERVER_REPORT_H

#include "desk.h"

#include <stddef.h>

#define REPORT_BYTES 4096

/* Each answers how many bytes it wrote, without the terminator. */
size_t report_json(const desk_figures *figures, char text[REPORT_BYTES]);
/* In the text format of Prometheus. */
size_t report_metrics(const desk_figures *figures, char text[REPORT_BYTES]);

#endif
