/* The server's side of HTTP: paths, bodies, answers. */
#ifndef MEMBRANE_EXAMPLES_SERVER_HTTP_H
#define MEMBRANE_EXAMPLES_SERVER_HTTP_H

#include "desk.h"

typedef struct http http;

typedef struct http_options {
    uint16_t port; /* 0: the kernel chooses */
    uint32_t connection_limit;
    uint64_t max_tokens; /* of one request */
} http_options;

/* The desk's hooks. */
void http_park(request *request);
void http_wake(request *request);

/* Listens on the loopback address; one thread. False: a line on stderr says why. */
bool http_open(const http_options *options, desk *desk, http **opened);
uint16_t http_port(const http *server);
/* After the desk is closed: waits, for at most so many whole seconds, until what was answered is
 * sent. */
void http_close(http *server, uint64_t patience_ns);

#endif
