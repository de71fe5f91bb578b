/* Objects by the numbers that they cover, in the C library's balanced tree. Spans that overlap
 * compare equal, so that one search answers "who is here" for an id as well as for a range.
 * Never frees an object and takes no lock. */
#include "tests/author/anon.h"

#include <search.h>

static int compare(const void *left, const void *right)
{
    const anon_span *one = left, *other = right;
    if (one->last < other->first)
        return -1;
    return one->first > other->last;
}

void *anon_spans_find(const anon_spans *spans, uint64_t first, uint64_t last)
{
    anon_span key = {first, last};
    void *const *node = tfind(&key, &spans->root, compare);
    return node ? *node : NULL;
}

bool anon_spans_add(anon_spans *spans, anon_span *object)
{
    if (!tsearch(object, &spans->root, compare))
        return false;
    spans->count++;
    return true;
}

void anon_spans_remove(anon_spans *spans, anon_span *object)
{
    tdelete(object, &spans->root, compare);
    spans->count--;
}
