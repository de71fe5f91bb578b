/* Keeps intervals in order. Never joins, splits or owns one. */
#include "abi/base/interval_tree.h"

#include "abi/base/assert.h"

#include <stddef.h>

static uint64_t largest_of(const struct mbr_interval *interval)
{
    return interval ? interval->largest_bytes : 0;
}

static void update(struct mbr_interval *interval)
{
    interval->largest_bytes = interval->bytes;
    if (largest_of(interval->left) > interval->largest_bytes)
        interval->largest_bytes = largest_of(interval->left);
    if (largest_of(interval->right) > interval->largest_bytes)
        interval->largest_bytes = largest_of(interval->right);
}

/* A mix of the start's bits: a tree's shape depends on its intervals only, so a run repeats
 * exactly.
 */
static uint64_t priority_of(uint64_t start)
{
    start = (start ^ (start >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    start = (start ^ (start >> 27)) * UINT64_C(0x94D049BB133111EB);
    return start ^ (start >> 31);
}

/* Splits into the intervals that start below `position` and the others. */
static void split(struct mbr_interval *root, uint64_t position, struct mbr_interval **below,
    struct mbr_interval **others)
{
    if (!root) {
        *below = *others = NULL;
    } else if (root->start < position) {
        *below = root;
        split(root->right, position, &root->right, others);
        update(root);
    } else {
        *others = root;
        split(root->left, position, below, &root->left);
        update(root);
    }
}

/* Joins two trees, all of whose left starts are below all of the right ones. */
static struct mbr_interval *join(struct mbr_interval *left, struct mbr_interval *right)
{
    if (!left || !right)
        return left ? left : right;
    if (left->priority >= right->priority) {
        left->right = join(left->right, right);
        update(left);
        return left;
    }
    right->left = join(left, right->left);
    update(right);
    return right;
}

void mbr_interval_tree_insert(struct mbr_interval **root, struct mbr_interval *interval)
{
    interval->priority = priority_of(interval->start);
    struct mbr_interval **place = root;
    while (*place && (*place)->priority >= interval->priority) {
        struct mbr_interval *above = *place;
        if (interval->bytes > above->largest_bytes)
            above->largest_bytes = interval->bytes;
        place = interval->start < above->start ? &above->left : &above->right;
    }
    split(*place, interval->start, &interval->left, &interval->right);
    update(interval);
    *place = interval;
}

static struct mbr_interval *without(struct mbr_interval *root, const struct mbr_interval *interval)
{
    MBR_CHECK(root != NULL); /* the interval is in the tree */
    if (root == interval)
        return join(root->left, root->right);
    if (interval->start < root->start)
        root->left = without(root->left, interval);
    else
        root->right = without(root->right, interval);
    update(root);
    return root;
}

void mbr_interval_tree_remove(struct mbr_interval **root, struct mbr_interval *interval)
{
    *root = without(*root, interval);
}

struct mbr_interval *mbr_interval_tree_floor(struct mbr_interval *root, uint64_t position)
{
    struct mbr_interval *best = NULL;
    while (root) {
        if (root->start <= position)
            best = root;
        root = root->start <= position ? root->right : root->left;
    }
    return best;
}

struct mbr_interval *mbr_interval_tree_ceiling(struct mbr_interval *root, uint64_t position)
{
    struct mbr_interval *best = NULL;
    while (root) {
        if (root->start >= position)
            best = root;
        root = root->start >= position ? root->left : root->right;
    }
    return best;
}

struct mbr_interval *mbr_interval_tree_first_fit(struct mbr_interval *root, uint64_t bytes)
{
    if (largest_of(root) < bytes || !root)
        return NULL;
    while (largest_of(root->left) >= bytes || root->bytes < bytes)
        root = largest_of(root->left) >= bytes ? root->left : root->right;
    return root;
}

static bool is_valid_child(const struct mbr_interval *root, const struct mbr_interval *child)
{
    return !child || (child->priority <= root->priority && mbr_interval_tree_is_valid(child));
}

bool mbr_interval_tree_is_valid(const struct mbr_interval *root)
{
    if (!root)
        return true;
    struct mbr_interval copy = *root;
    update(&copy);
    const struct mbr_interval *previous = root->left, *next = root->right;
    while (previous && previous->right)
        previous = previous->right;
    while (next && next->left)
        next = next->left;
    return copy.largest_bytes == root->largest_bytes && is_valid_child(root, root->left) &&
        is_valid_child(root, root->right) &&
        (!previous || previous->start + previous->bytes <= root->start) &&
        (!next || root->start + root->bytes <= next->start);
}
