/* An HTTP server whose requests are let in through the governor. Each needs bytes of KV cache that
 * grow as its tokens are made; a request that cannot be in beside the others stands in line for a
 * moment, or is told by 429 and Retry-After when its place will be served. See README.md.
 *
 * This file is responsible for the options and for the order of opening and closing. */
#include "desk.h"
#include "http.h"

#include "docs/examples/setup.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>

#define DRAIN_NS (2 * NS_PER_SECOND)
#define CONNECTION_LIMIT_COUNT 4096
#define RESERVED_DESCRIPTORS 64 /* for all but connections */

typedef struct options {
    const char *plugin;
    uint64_t port, limit_mib, tokens_per_second, max_tokens, stand_ms;
} options;

static const char usage[] =
    "usage: server [--plugin NAME|FILE] [--port N] [--limit-mib N] [--tokens-per-second N]\n"
    "              [--max-tokens N] [--stand-ms N]\n";

static bool number(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    char *end;
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && *value >= least && *value <= most;
}

static bool read_options(int count, char **arguments, options *read)
{
    static const struct option known[] = {{"plugin", 1, NULL, 'p'}, {"port", 1, NULL, 'o'},
        {"limit-mib", 1, NULL, 'l'}, {"tokens-per-second", 1, NULL, 't'},
        {"max-tokens", 1, NULL, 'm'}, {"stand-ms", 1, NULL, 's'}, {NULL, 0, NULL, 0}};
    bool good = true;
    int option;
    while (good && (option = getopt_long(count, arguments, "", known, NULL)) != -1) {
        if (option == 'p')
            read->plugin = optarg;
        else if (option == 'o')
            good = number(optarg, 0, 65535, &read->port);
        else if (option == 'l')
            good = number(optarg, 1, 1048576, &read->limit_mib);
        else if (option == 't')
            good = number(optarg, 1, 1000000, &read->tokens_per_second);
        else if (option == 'm')
            good = number(optarg, 2, 1048576, &read->max_tokens);
        else if (option == 's')
            good = number(optarg, 0, 60000, &read->stand_ms);
        else
            good = false;
    }
    return good && optind == count;
}

/* As many as there are descriptors for, so that none is missing where one is needed. */
static uint32_t connection_limit(void)
{
    struct rlimit files = {0};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_NOFILE, &files);
    uint64_t left = files.rlim_cur > 2 * RESERVED_DESCRIPTORS
        ? files.rlim_cur - RESERVED_DESCRIPTORS
        : RESERVED_DESCRIPTORS;
    return left < CONNECTION_LIMIT_COUNT ? (uint32_t)left : CONNECTION_LIMIT_COUNT;
}

/* The books with nothing in, once what was queued for release is given back: what is not zero is
 * said, and ends the program with 1. */
static bool is_all_at_zero(const setup *s)
{
    mbr_authority_figures books = {MBR_SIZED(mbr_authority_figures)};
    TRY(mbr_ep_drain(s->manager, s->ep, UINT64_MAX, &error));
    TRY(mbr_manager_read_authority(s->manager, s->authority, &books, &error));
    TRY(mbr_manager_audit(s->manager, &error));
    printf("at the end: claimed %" PRIu64 ", charged %" PRIu64 ", mapped %" PRIu64 " bytes\n",
        books.claimed_bytes, books.charged_bytes, books.mapped_bytes);
    return books.claimed_bytes == 0 && books.charged_bytes == 0 && books.mapped_bytes == 0;
}

static void serve(const options *with, const setup *s, const sigset_t *ends)
{
    desk *desk;
    http *http;
    int which;
    desk_options desk_with = {.manager = s->manager,
        .authority = s->authority,
        .holder = s->holder,
        .binding = s->binding,
        .tokens_per_second = with->tokens_per_second,
        .max_tokens = with->max_tokens,
        .stand_ns = with->stand_ms * (NS_PER_SECOND / 1000),
        .hooks = {.park = http_park, .wake = http_wake}};
    http_options http_with = {.port = (uint16_t)with->port,
        .connection_limit = connection_limit(),
        .max_tokens = with->max_tokens};
    TRY(desk_open(&desk_with, &desk, &error));
    if (!http_open(&http_with, desk, &http))
        exit(1);
    printf("listening on 127.0.0.1:%u\n", http_port(http));
    fflush(stdout);
    sigwait(ends, &which);
    desk_close(desk, DRAIN_NS);
    http_close(http, DRAIN_NS);
    TRY(desk_destroy(desk, &error));
}

int main(int count, char **arguments)
{
    options with = {.plugin = "host",
        .port = 8080,
        .limit_mib = 64,
        .tokens_per_second = 100,
        .max_tokens = 8192,
        .stand_ms = 1000};
    if (!read_options(count, arguments, &with)) {
        fputs(usage, stderr);
        return 2;
    }
    sigset_t ends; /* blocked before any thread is there, so that this one alone takes them */
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    setup s;
    setup_open(&s, with.plugin, with.limit_mib << 20);
    serve(&with, &s, &ends);
    bool clean = is_all_at_zero(&s);
    setup_close(&s);
    return clean ? 0 : 1;
}
