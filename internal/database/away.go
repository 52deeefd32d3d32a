package database

import "errors"

// Away reports whether an error means that the database does not answer for a
// while: it was not reached, ended, or is busy. Whoever waits for an answer may ask
// again later.
func Away(err error) bool {
	return errors.Is(err, ErrUncertain) || contended(err) || err != nil && lost(err)
}
