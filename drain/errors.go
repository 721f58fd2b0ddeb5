package drain

import "errors"

// Errors that every journal answers with, for whoever drives on it.
var (
	// ErrLeaseLost says that another process drives the drain now: its lease or
	// its epoch is newer.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrConflict says that the stream has moved on since the writer read it:
	// what was decided is void, and is decided anew.
	ErrConflict = errors.New("the stream has moved on")
)
