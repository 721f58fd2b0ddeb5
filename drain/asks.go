package drain

import (
	"encoding/json"
	"time"

	"ebb/fleet"
)

// Asks are what operators append, without a lease; the driver folds them like
// every other event.
type (
	// AskStart starts a drain. The deadline is required.
	AskStart struct {
		Deadline time.Time     `json:"deadline"`
		For      fleet.Purpose `json:"for,omitempty"`
		Evacuate bool          `json:"evacuate,omitempty"`
		Reason   string        `json:"reason,omitempty"`
		// MayDie names what the plan listed as possibly killed when the drain was
		// asked for. Nothing else is killed unless somebody escalates it by name.
		MayDie []fleet.Key `json:"may_die,omitempty"`
	}
	// AskExtend moves the outer deadline.
	AskExtend struct {
		Until time.Time `json:"until"`
	}
	// AskStop ends the drain and keeps both holds. With Undrain it comes before an
	// undrain, which lifts the drain's.
	AskStop struct {
		Reason  string `json:"reason,omitempty"`
		Undrain bool   `json:"undrain,omitempty"`
	}
	// AskClass overrides the class of one workload.
	AskClass struct {
		Key   fleet.Key   `json:"key"`
		Class fleet.Class `json:"class"`
	}
	// AskMoreTime adds to a workload's move budget and to a running grace.
	AskMoreTime struct {
		Key fleet.Key     `json:"key"`
		By  time.Duration `json:"by"`
	}
	// AskHold leaves a workload alone until it is asked to retry.
	AskHold struct {
		Key    fleet.Key `json:"key"`
		Reason string    `json:"reason,omitempty"`
	}
	// AskRetry takes a held or failed workload up again; with no key it lets a
	// drain go on that waits for a person.
	AskRetry struct {
		Key fleet.Key `json:"key,omitzero"`
	}
	// AskEscalate makes one incarnation of a workload stuck, by name: notice,
	// TERM, grace, TERM, KILL.
	AskEscalate struct {
		Key fleet.Key `json:"key"`
		Run fleet.Run `json:"run,omitzero"`
	}
	// AskKeep lets a workload stay. The gate still names it until it is accepted.
	AskKeep struct {
		Key    fleet.Key `json:"key"`
		Reason string    `json:"reason,omitempty"`
	}
	// AskTargetGone says that a target will never run anything again, so that what
	// may have been started there of a workload counts for nothing.
	AskTargetGone struct {
		Key    fleet.Key    `json:"key"`
		Target fleet.HostID `json:"target"`
		Reason string       `json:"reason,omitempty"`
	}
	// AskPark parks a pausable workload on its own host rather than shipping it, or
	// the other way round.
	AskPark struct {
		Key  fleet.Key `json:"key"`
		Ship bool      `json:"ship,omitempty"`
	}
	// AskResume resumes what is parked on the host, one workload or all of them. The
	// drain is over with it; its holds stay.
	AskResume struct {
		Key fleet.Key `json:"key,omitzero"`
	}
	// AskHandover leaves word for whoever takes over.
	AskHandover struct {
		To   string `json:"to,omitempty"`
		Note string `json:"note"`
	}
)

// AskRebind says that another machine is the host from now on: it was reimaged,
// or its hardware was replaced. Was is the machine that whoever asks has seen the
// journal name, and Machine the one that answered; asked of another binding by
// then, it changes nothing.
type AskRebind struct {
	Machine string `json:"machine"`
	Was     string `json:"was"`
	Reason  string `json:"reason,omitempty"`
}

// RecBound binds a host to the machine that answered at the first act on it. The
// first one stands; a person binds it anew with AskRebind.
type RecBound struct {
	Machine string `json:"machine"`
}

// Records are what a verb did outside a drive: they need no lease.
type (
	// RecCordon is the intent to cordon, before anything was told; with Reword a
	// cordon that is there has another reason from now on.
	RecCordon struct {
		Reason string `json:"reason"`
		Reword bool   `json:"reword,omitempty"`
	}
	// RecCordoned says how far a cordon took.
	RecCordoned struct {
		State  fleet.CordonState `json:"state"`
		Proved []string          `json:"proved,omitempty"`
		Weaker string            `json:"weaker,omitempty"` // what could not be read back
		Error  string            `json:"error,omitempty"`
	}
	// RecUncordon says that the cordon was lifted, at plane and host.
	RecUncordon struct {
		Theirs bool   `json:"theirs,omitempty"`
		Reason string `json:"reason,omitempty"`
	}
	// RecUndrain says that the drain hold was lifted.
	RecUndrain struct {
		Theirs bool `json:"theirs,omitempty"`
	}
	// RecCleaned says that a leaked resource was removed, or why not.
	RecCleaned struct {
		Key      fleet.Key `json:"key"`
		Identity string    `json:"identity"`
		Done     bool      `json:"done"`
		Error    string    `json:"error,omitempty"`
	}
	// RecAccepted is an exception for the gate.
	RecAccepted struct {
		Key    fleet.Key `json:"key"`
		Reason string    `json:"reason"`
	}
	// RecProof says that the host signed a proof.
	RecProof struct {
		Digest  string    `json:"digest"`
		Nonce   string    `json:"nonce"`
		Expires time.Time `json:"expires"`
	}
	// RecTerminateIntent stands before the terminator runs. Without an outcome
	// behind it, nobody runs it again: a person decides.
	RecTerminateIntent struct {
		Act      string   `json:"act"`
		Type     string   `json:"type"`
		To       string   `json:"to,omitempty"` // release: who takes the host
		Run      []string `json:"run,omitempty"`
		Instance string   `json:"instance,omitempty"`
		Digest   string   `json:"digest"`
	}
	// RecTerminateOutcome is what the terminator answered.
	RecTerminateOutcome struct {
		Act   string `json:"act"`
		Done  bool   `json:"done"`
		Error string `json:"error,omitempty"`
	}
	// RecReach says whether another engine can reach the host by itself, without
	// the keys of whoever hands the drive over.
	RecReach struct {
		Driver string `json:"driver"`
		OK     bool   `json:"ok"`
		Error  string `json:"error,omitempty"`
	}
	// RecRefused says that somebody asked for an irreversible act and was refused.
	RecRefused struct {
		Verb   string        `json:"verb"`
		Issues []fleet.Issue `json:"issues"`
	}
)

// Kind implements Body.
func (AskStart) Kind() Kind            { return "ask.start" }
func (AskExtend) Kind() Kind           { return "ask.extend" }
func (AskStop) Kind() Kind             { return "ask.stop" }
func (AskClass) Kind() Kind            { return "ask.class" }
func (AskMoreTime) Kind() Kind         { return "ask.more_time" }
func (AskHold) Kind() Kind             { return "ask.hold" }
func (AskRetry) Kind() Kind            { return "ask.retry" }
func (AskEscalate) Kind() Kind         { return "ask.escalate" }
func (AskKeep) Kind() Kind             { return "ask.keep" }
func (AskTargetGone) Kind() Kind       { return "ask.target_gone" }
func (AskPark) Kind() Kind             { return "ask.park" }
func (AskResume) Kind() Kind           { return "ask.resume" }
func (AskHandover) Kind() Kind         { return "ask.handover" }
func (AskRebind) Kind() Kind           { return "ask.rebind" }
func (RecBound) Kind() Kind            { return "rec.bound" }
func (RecCordon) Kind() Kind           { return "rec.cordon" }
func (RecCordoned) Kind() Kind         { return "rec.cordoned" }
func (RecUncordon) Kind() Kind         { return "rec.uncordon" }
func (RecUndrain) Kind() Kind          { return "rec.undrain" }
func (RecCleaned) Kind() Kind          { return "rec.cleaned" }
func (RecAccepted) Kind() Kind         { return "rec.accepted" }
func (RecProof) Kind() Kind            { return "rec.proof" }
func (RecTerminateIntent) Kind() Kind  { return "rec.terminate_intent" }
func (RecTerminateOutcome) Kind() Kind { return "rec.terminate_outcome" }
func (RecReach) Kind() Kind            { return "rec.reach" }
func (RecRefused) Kind() Kind          { return "rec.refused" }

// kinds reads every body this program knows.
var kinds = map[Kind]func(json.RawMessage) (Body, error){
	AskStart{}.Kind():            decoder[AskStart](),
	AskExtend{}.Kind():           decoder[AskExtend](),
	AskStop{}.Kind():             decoder[AskStop](),
	AskClass{}.Kind():            decoder[AskClass](),
	AskMoreTime{}.Kind():         decoder[AskMoreTime](),
	AskHold{}.Kind():             decoder[AskHold](),
	AskRetry{}.Kind():            decoder[AskRetry](),
	AskEscalate{}.Kind():         decoder[AskEscalate](),
	AskKeep{}.Kind():             decoder[AskKeep](),
	AskTargetGone{}.Kind():       decoder[AskTargetGone](),
	AskPark{}.Kind():             decoder[AskPark](),
	AskResume{}.Kind():           decoder[AskResume](),
	AskHandover{}.Kind():         decoder[AskHandover](),
	AskRebind{}.Kind():           decoder[AskRebind](),
	RecBound{}.Kind():            decoder[RecBound](),
	RecCordon{}.Kind():           decoder[RecCordon](),
	RecCordoned{}.Kind():         decoder[RecCordoned](),
	RecUncordon{}.Kind():         decoder[RecUncordon](),
	RecUndrain{}.Kind():          decoder[RecUndrain](),
	RecCleaned{}.Kind():          decoder[RecCleaned](),
	RecAccepted{}.Kind():         decoder[RecAccepted](),
	RecProof{}.Kind():            decoder[RecProof](),
	RecTerminateIntent{}.Kind():  decoder[RecTerminateIntent](),
	RecTerminateOutcome{}.Kind(): decoder[RecTerminateOutcome](),
	RecReach{}.Kind():            decoder[RecReach](),
	RecRefused{}.Kind():          decoder[RecRefused](),
	DriveTook{}.Kind():           decoder[DriveTook](),
	DriveReleased{}.Kind():       decoder[DriveReleased](),
	DrivePhase{}.Kind():          decoder[DrivePhase](),
	DriveFound{}.Kind():          decoder[DriveFound](),
	DriveIntent{}.Kind():         decoder[DriveIntent](),
	DriveOutcome{}.Kind():        decoder[DriveOutcome](),
	DriveWaits{}.Kind():          decoder[DriveWaits](),
	DriveMissing{}.Kind():        decoder[DriveMissing](),
	DriveEnded{}.Kind():          decoder[DriveEnded](),
	DriveLate{}.Kind():           decoder[DriveLate](),
	DriveRecord{}.Kind():         decoder[DriveRecord](),
	DriveDeadline{}.Kind():       decoder[DriveDeadline](),
}
