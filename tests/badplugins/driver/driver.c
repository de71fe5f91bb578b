/* A driver's library as far as a thread's current context goes, under a driver's name (soname).
 * Never does any work. */
__attribute__((visibility("default"))) int cuCtxGetCurrent(void **context);
__attribute__((visibility("default"))) int cuCtxSetCurrent(void *context);

static _Thread_local void *current;

int cuCtxGetCurrent(void **context)
{
    *context = current;
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    current = context;
    return 0;
}
