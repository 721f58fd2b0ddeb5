package agent

import (
	"errors"
	"net/http"

	"ebb/fleet"
	"ebb/probes/wire"
)

// refusal is an answer that is not a success: a status and what to say.
type refusal struct {
	status  int
	problem wire.Problem
}

func (r *refusal) Error() string { return r.problem.Code + ": " + r.problem.Error }

// refuse makes a refusal; a conflict unless the code means something else.
func refuse(code, text string) *refusal {
	status := http.StatusConflict
	switch code {
	case wire.CodeBadRequest:
		status = http.StatusBadRequest
	case wire.CodeForbidden, wire.CodeScoped:
		status = http.StatusForbidden
	case wire.CodeNotFound, wire.CodeUnknownName:
		status = http.StatusNotFound
	case wire.CodeNotRecorded:
		status = http.StatusInternalServerError
	case wire.CodeHeld, wire.CodeFull, wire.CodeUnheld:
		status = http.StatusTooManyRequests
	}
	return &refusal{status, wire.Problem{Code: code, Error: text}}
}

func (r *refusal) hint(s string) *refusal { r.problem.Hint = s; return r }

func (r *refusal) hold(h *fleet.Hold) *refusal { r.problem.Hold = cloneHold(h); return r }

func (r *refusal) issues(i []fleet.Issue) *refusal { r.problem.Issues = i; return r }

func (r *refusal) epoch(e uint64) *refusal { r.problem.Epoch = e; return r }

func (r *refusal) arg(name, value string) *refusal {
	if r.problem.Args == nil {
		r.problem.Args = map[string]string{}
	}
	r.problem.Args[name] = value
	return r
}

// notRecorded says that a change could not be made durable.
func notRecorded(err error) *refusal {
	return refuse(wire.CodeNotRecorded, "nothing was changed: "+err.Error()).hint("look at the host's disk: it may be full or read-only")
}

// outcome names how a change ended, for the audit log.
func outcome(err error) string {
	var r *refusal
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &r):
		return "refused " + r.problem.Code
	default:
		return "failed"
	}
}

// reasonOf turns a refusal into the reason of an act.
func reasonOf(err error) fleet.Reason {
	var r *refusal
	if errors.As(err, &r) {
		return fleet.Reason{Code: r.problem.Code, Args: r.problem.Args}
	}
	return fleet.Because("failed", "error", err.Error())
}
