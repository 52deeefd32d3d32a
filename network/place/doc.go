// Package place says which model belongs on which node at the least cost, and how
// far its answer is from the best there can be.
//
// It is pure: nodes and demand in, a placement out, the same one for the same input.
//
// It promises that no placement costs less than the bound it gives; that a node is
// given one model at most, never more than was measured of it or its peers, never
// what it has no memory for, and nothing at all when it may not serve or its cost is
// not known; and that what is not met is said, with the reason. It refuses to guess:
// a capacity that nobody measured is the worst of its peers, and is marked.
package place
