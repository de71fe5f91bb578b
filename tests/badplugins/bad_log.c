/* Faults of the log callback (group LOG). */
#include "tests/badplugins/bad.h"

#include <string.h>

#define INSTANCES_MAX 64u

static struct user {
    const mbr_instance *instance;
    mbr_log_function log;
    void *context;
} users[INSTANCES_MAX], closed;

static struct user *find(const mbr_instance *instance)
{
    for (uint32_t i = 0; i < INSTANCES_MAX; i++)
        if (users[i].instance == instance)
            return &users[i];
    return NULL;
}

static mbr_status open_instance(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    static const char opened[] = "opened";
    mbr_status status = bad_good->plugin.open(none, request, outcome, error);
    struct user *user = find(NULL);
    if (status != MBR_OK || user == NULL)
        return status;
    *user = (struct user){outcome->instance, request->log, request->log_context};
    if (bad_is("log_after_close") && closed.log != NULL)
        closed.log(closed.context, MBR_LOG_INFO, opened, strlen(opened));
    return status;
}

static mbr_status close_instance(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    struct user *user = find(instance);
    mbr_status status = bad_good->plugin.close(instance, request, outcome, error);
    if (status != MBR_OK || user == NULL)
        return status;
    closed = *user;
    *user = (struct user){0};
    return status;
}

static mbr_status trim(
    mbr_instance *instance, const mbr_trim_request *request, mbr_outcome *outcome, mbr_error *error)
{
    static const char one[] = "trimmed", two[] = "trimmed\nnothing";
    const struct user *user = instance == NULL ? NULL : find(instance);
    if (user != NULL && bad_is("log_level_unknown"))
        user->log(user->context, 0, one, strlen(one));
    if (user != NULL && bad_is("log_two_lines"))
        user->log(user->context, MBR_LOG_DEBUG, two, strlen(two));
    if (user != NULL && bad_is("log_text_with_terminator"))
        user->log(user->context, MBR_LOG_DEBUG, one, sizeof one);
    if (user != NULL && bad_is("log_context_lost"))
        user->log(instance, MBR_LOG_DEBUG, one, strlen(one));
    return bad_good->allocator.trim(instance, request, outcome, error);
}

void bad_install_log(void)
{
    static const char *const faults[] = {"log_level_unknown", "log_two_lines",
        "log_text_with_terminator", "log_context_lost", "log_after_close"};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (bad_is(faults[i])) {
            bad.plugin.open = open_instance;
            bad.plugin.close = close_instance;
            bad.allocator.trim = trim;
        }
}
