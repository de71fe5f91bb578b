/* Responsible for connections: which path, how large a body, which answer. Decides nothing about
 * bytes; a request that is parked costs a suspended connection and no thread. */
#include "http.h"

#include "ask.h"
#include "report.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BODY_LIMIT_BYTES 4096
#define BODY_CUT_BYTES 65536
#define TOO_LARGE "the body has more than 4096 bytes"
#define HEADER_LIMIT_BYTES 16384
#define IDLE_LIMIT_SECONDS 75
#define ANSWER_BYTES 512

struct http {
    struct MHD_Daemon *daemon;
    desk *desk;
    http_options options;
    /* Made beforehand, for when there is no heap to make another. */
    struct MHD_Response *no_memory;
    pthread_mutex_t lock;
    pthread_cond_t fewer;
    uint32_t exchange_count; /* lock */
};

/* One request and its answer. */
typedef struct exchange {
    request request;
    struct MHD_Connection *connection;
    bool entered;
    size_t body_bytes; /* that came; more than fit: it is too large */
    char body[BODY_LIMIT_BYTES];
} exchange;

/* What a connection keeps between requests: a client that stays connected need not show its key. */
typedef struct memory {
    uint64_t key;
} memory;

/* ---- Answers */
static enum MHD_Result send_busy(http *server, struct MHD_Connection *connection)
{
    return MHD_queue_response(connection, MHD_HTTP_SERVICE_UNAVAILABLE, server->no_memory);
}

static struct MHD_Response *make(const char *text, size_t bytes, const char *type)
{
    struct MHD_Response *made =
        MHD_create_response_from_buffer(bytes, (void *)text, MHD_RESPMEM_MUST_COPY);
    if (made != NULL && MHD_add_response_header(made, "Content-Type", type) == MHD_NO) {
        MHD_destroy_response(made);
        made = NULL;
    }
    return made;
}

/* Takes the response; without one, for lack of memory, says just that. */
static enum MHD_Result send_made(
    http *server, struct MHD_Connection *connection, unsigned status, struct MHD_Response *made)
{
    if (made == NULL)
        return send_busy(server, connection);
    enum MHD_Result result = MHD_queue_response(connection, status, made);
    MHD_destroy_response(made);
    return result;
}

static enum MHD_Result send_problem(
    http *server, struct MHD_Connection *connection, unsigned status, const char *problem)
{
    char text[ANSWER_BYTES];
    int bytes = snprintf(text, sizeof(text), "{\"error\": \"");
    for (; *problem != '\0' && bytes < ANSWER_BYTES - 8; problem++) {
        unsigned char next = (unsigned char)*problem;
        if (next == '"' || next == '\\')
            text[bytes++] = '\\';
        text[bytes++] = next < ' ' || next > '~' ? '?' : *problem;
    }
    bytes += snprintf(text + bytes, sizeof(text) - (size_t)bytes, "\"}\n");
    return send_made(server, connection, status, make(text, (size_t)bytes, "application/json"));
}

static enum MHD_Result send_not_allowed(
    http *server, struct MHD_Connection *connection, const char *allowed)
{
    struct MHD_Response *made = make("", 0, "text/plain");
    if (made != NULL && MHD_add_response_header(made, "Allow", allowed) == MHD_NO) {
        MHD_destroy_response(made);
        made = NULL;
    }
    return send_made(server, connection, MHD_HTTP_METHOD_NOT_ALLOWED, made);
}

static enum MHD_Result send_served(http *server, const exchange *of)
{
    const request *done = &of->request;
    char text[ANSWER_BYTES];
    int bytes = snprintf(text, sizeof(text),
        "{\"tokens\": %" PRIu64 ", \"committed_bytes\": %" PRIu64 ", \"most_bytes\": %" PRIu64
        ", \"waited_ms\": %" PRIu64 ", \"ran_ms\": %" PRIu64 "}\n",
        done->prompt_tokens + done->made_tokens, done->committed_bytes, done->most_bytes,
        (done->began_ns - done->entered_ns) / 1000000, (done->ended_ns - done->began_ns) / 1000000);
    return send_made(
        server, of->connection, MHD_HTTP_OK, make(text, (size_t)bytes, "application/json"));
}

/* The place in line is a cookie, so that a client that knows nothing of places keeps its own. */
static bool add_place(
    struct MHD_Response *made, uint64_t key, uint64_t retry_seconds, char text[ANSWER_BYTES])
{
    snprintf(text, ANSWER_BYTES, "%" PRIu64, retry_seconds);
    if (MHD_add_response_header(made, "Retry-After", text) == MHD_NO)
        return false;
    if (key == 0)
        return true;
    snprintf(text, ANSWER_BYTES,
        "place=%016" PRIx64 "; Path=/generate; Max-Age=%" PRIu64 "; HttpOnly", key,
        retry_seconds + 2);
    return MHD_add_response_header(made, "Set-Cookie", text) == MHD_YES;
}

static enum MHD_Result send_come_again(http *server, const exchange *of)
{
    const request *done = &of->request;
    uint64_t retry_ms = done->retry_after_ns / 1000000 + 1;
    char text[ANSWER_BYTES];
    int bytes = snprintf(text, sizeof(text),
        "{\"error\": \"no room for %" PRIu64 " bytes now\", \"retry_after_ms\": %" PRIu64
        ", \"place\": \"%016" PRIx64 "\"}\n",
        done->most_bytes, retry_ms, done->key);
    struct MHD_Response *made = make(text, (size_t)bytes, "application/json");
    if (made != NULL && !add_place(made, done->key, done->retry_after_seconds, text)) {
        MHD_destroy_response(made);
        made = NULL;
    }
    return send_made(server, of->connection, MHD_HTTP_TOO_MANY_REQUESTS, made);
}

static memory *memory_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static enum MHD_Result send_answer(http *server, const exchange *of)
{
    const request *done = &of->request;
    memory *kept = memory_of(of->connection);
    if (kept != NULL)
        kept->key = done->answer == ANSWER_COME_AGAIN ? done->key : 0;
    switch (done->answer) {
    case ANSWER_SERVED:
        return send_served(server, of);
    case ANSWER_COME_AGAIN:
        return send_come_again(server, of);
    case ANSWER_NEVER:
        return send_problem(server, of->connection, MHD_HTTP_UNPROCESSABLE_CONTENT,
            "more bytes than the limit; ask for fewer tokens");
    default:
        return send_busy(server, of->connection);
    }
}

/* ---- Requests */
static enum MHD_Result send_report(http *server, struct MHD_Connection *connection,
    size_t (*report)(const desk_figures *, char *), const char *type)
{
    char text[REPORT_BYTES];
    desk_figures figures;
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (desk_read(server->desk, &figures, &error) != MBR_OK)
        return send_busy(server, connection);
    return send_made(server, connection, MHD_HTTP_OK, make(text, report(&figures, text), type));
}

static const char *query(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
}

static uint64_t key_shown(struct MHD_Connection *connection)
{
    const char *text = query(connection, "place");
    if (text == NULL)
        text = MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, "place");
    const memory *kept = memory_of(connection);
    if (text == NULL && kept != NULL)
        return kept->key;
    return ask_key(text);
}

/* The whole body is here. */
static enum MHD_Result enter(http *server, exchange *of)
{
    struct MHD_Connection *connection = of->connection;
    char problem[PROBLEM_BYTES];
    ask asked;
    if (of->body_bytes > sizeof(of->body))
        return send_problem(server, connection, MHD_HTTP_CONTENT_TOO_LARGE, TOO_LARGE);
    bool understood = of->body_bytes != 0
        ? ask_from_json(of->body, of->body_bytes, &asked, problem)
        : ask_from_query(query(connection, "prompt_tokens"), query(connection, "output_tokens"),
              &asked, problem);
    if (!understood)
        return problem[0] == '\0' ? send_busy(server, connection)
                                  : send_problem(server, connection, MHD_HTTP_BAD_REQUEST, problem);
    uint64_t most = server->options.max_tokens;
    if (asked.prompt_tokens > most || asked.output_tokens > most - asked.prompt_tokens) {
        snprintf(problem, sizeof(problem),
            "prompt_tokens and output_tokens are more than %" PRIu64 " together", most);
        return send_problem(server, connection, MHD_HTTP_UNPROCESSABLE_CONTENT, problem);
    }
    of->request.prompt_tokens = asked.prompt_tokens;
    of->request.output_tokens = asked.output_tokens;
    of->request.key = key_shown(connection);
    of->request.owner = of;
    of->entered = true;
    bool answered = desk_enter(server->desk, &of->request);
    /* Else it is suspended by now, or even woken again, and this function is called once more. */
    return answered ? send_answer(server, of) : MHD_YES;
}

static bool says_too_much(struct MHD_Connection *connection)
{
    const char *text =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return text != NULL && strtoull(text, NULL, 10) > BODY_LIMIT_BYTES;
}

static enum MHD_Result begin_generate(http *server, struct MHD_Connection *connection, void **kept)
{
    if (says_too_much(connection)) /* before a byte of it is read */
        return send_problem(server, connection, MHD_HTTP_CONTENT_TOO_LARGE, TOO_LARGE);
    exchange *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return send_busy(server, connection);
    made->connection = connection;
    *kept = made;
    pthread_mutex_lock(&server->lock);
    server->exchange_count++;
    pthread_mutex_unlock(&server->lock);
    return MHD_YES;
}

static enum MHD_Result begin(http *server, struct MHD_Connection *connection, const char *url,
    const char *method, void **kept)
{
    bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0;
    if (strcmp(url, "/generate") == 0)
        return strcmp(method, MHD_HTTP_METHOD_POST) == 0
            ? begin_generate(server, connection, kept)
            : send_not_allowed(server, connection, MHD_HTTP_METHOD_POST);
    if (strcmp(url, "/stats") == 0)
        return get ? send_report(server, connection, report_json, "application/json")
                   : send_not_allowed(server, connection, MHD_HTTP_METHOD_GET);
    if (strcmp(url, "/metrics") == 0)
        return get ? send_report(server, connection, report_metrics, "text/plain; version=0.0.4")
                   : send_not_allowed(server, connection, MHD_HTTP_METHOD_GET);
    return send_problem(server, connection, MHD_HTTP_NOT_FOUND,
        "no such path; there are POST /generate, GET /stats, GET /metrics");
}

/* A body of no said length is read a while past its limit, to be told so, and then cut. */
static bool take_body(exchange *of, const char *data, size_t *bytes)
{
    bool fits = of->body_bytes <= sizeof(of->body) && *bytes <= sizeof(of->body) - of->body_bytes;
    if (fits)
        memcpy(of->body + of->body_bytes, data, *bytes);
    of->body_bytes += *bytes;
    *bytes = 0;
    return of->body_bytes <= BODY_CUT_BYTES;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
    const char *method, const char *version, const char *data, size_t *bytes, void **kept)
{
    (void)version;
    http *server = context;
    exchange *of = *kept;
    if (of == NULL)
        return begin(server, connection, url, method, kept);
    if (*bytes != 0)
        return take_body(of, data, bytes) ? MHD_YES : MHD_NO;
    if (!of->entered)
        return enter(server, of);
    return send_answer(server, of);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **kept,
    enum MHD_RequestTerminationCode how)
{
    (void)connection;
    (void)how;
    http *server = context;
    if (*kept == NULL)
        return;
    free(*kept);
    *kept = NULL;
    pthread_mutex_lock(&server->lock);
    if (--server->exchange_count == 0)
        pthread_cond_signal(&server->fewer);
    pthread_mutex_unlock(&server->lock);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **kept,
    enum MHD_ConnectionNotificationCode what)
{
    (void)context;
    (void)connection;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *kept = calloc(1, sizeof(memory)); /* without it the client shows its key */
    } else {
        free(*kept);
        *kept = NULL;
    }
}

void http_park(request *request)
{
    MHD_suspend_connection(((exchange *)request->owner)->connection);
}

void http_wake(request *request)
{
    MHD_resume_connection(((exchange *)request->owner)->connection);
}

/* ---- Opening and closing */
static struct MHD_Response *make_no_memory(void)
{
    struct MHD_Response *made =
        make("{\"error\": \"no host memory now, or closing\"}\n", 42, "application/json");
    if (made != NULL && MHD_add_response_header(made, "Retry-After", "1") == MHD_NO) {
        MHD_destroy_response(made);
        made = NULL;
    }
    return made;
}

static bool start(http *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
        .sin_port = htons(server->options.port),
        .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL,
        on_request, server, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)server->options.connection_limit, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_LIMIT_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HEADER_LIMIT_BYTES, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
    return server->daemon != NULL;
}

bool http_open(const http_options *options, desk *desk, http **opened)
{
    *opened = NULL;
    http *made = calloc(1, sizeof(*made));
    struct MHD_Response *no_memory = make_no_memory();
    if (made != NULL && no_memory != NULL) {
        made->options = *options;
        made->desk = desk;
        made->no_memory = no_memory;
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&made->fewer, &monotonic);
        pthread_condattr_destroy(&monotonic);
        pthread_mutex_init(&made->lock, NULL);
        if (start(made)) {
            *opened = made;
            return true;
        }
    }
    fprintf(stderr, "cannot listen on 127.0.0.1:%u: %s\n", options->port, strerror(errno));
    if (no_memory != NULL)
        MHD_destroy_response(no_memory);
    free(made);
    return false;
}

uint16_t http_port(const http *server)
{
    return MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

void http_close(http *server, uint64_t patience_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(patience_ns / NS_PER_SECOND);
    pthread_mutex_lock(&server->lock);
    int late = 0;
    while (server->exchange_count != 0 && late == 0)
        late = pthread_cond_timedwait(&server->fewer, &server->lock, &until);
    pthread_mutex_unlock(&server->lock);
    MHD_stop_daemon(server->daemon);
    MHD_destroy_response(server->no_memory);
    pthread_cond_destroy(&server->fewer);
    pthread_mutex_destroy(&server->lock);
    free(server);
}
