/* Disjoint half-open intervals in order of their start: the mappings of a reservation, the free
 * parts of a file, the addresses that are out. Every operation takes O(log n) expected steps and
 * none allocates: an interval is a member of its owner's struct.
 *
 * A treap. Equations: left.start < start < right.start; priority >= both children's;
 * largest_bytes = max(bytes, both children's largest_bytes). Not locked. */
#ifndef MEMBRANE_BASE_INTERVAL_TREE_H
#define MEMBRANE_BASE_INTERVAL_TREE_H

#include <stdbool.h>
#include <stdint.h>

struct mbr_interval {
    struct mbr_interval *left, *right;
    uint64_t start, bytes;  /* the owner's; unchanged while in a tree */
    uint64_t largest_bytes; /* the tree's own, like the pointers and the priority */
    uint64_t priority;
};

/* Adds a range whose start is not there. *root is NULL for an empty tree. */
void mbr_interval_tree_insert(struct mbr_interval **root, struct mbr_interval *interval);

/* Takes away an interval that is there. */
void mbr_interval_tree_remove(struct mbr_interval **root, struct mbr_interval *interval);

/* The interval with the highest start at or below `position`, or NULL. */
struct mbr_interval *mbr_interval_tree_floor(struct mbr_interval *root, uint64_t position);

/* The interval with the lowest start at or above `position`, or NULL. */
struct mbr_interval *mbr_interval_tree_ceiling(struct mbr_interval *root, uint64_t position);

/* The lowest interval of at least `bytes`, or NULL. */
struct mbr_interval *mbr_interval_tree_first_fit(struct mbr_interval *root, uint64_t bytes);

/* True if the equations above hold; for tests. */
bool mbr_interval_tree_is_valid(const struct mbr_interval *root);

#endif
