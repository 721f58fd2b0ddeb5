package words

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"ebb/drain"
	"ebb/fleet"
)

// steps that are under way, as people say it; "%s" is where it happens, and is
// left out where that is not known.
var underway = map[drain.Step][2]string{ // with a target, and without
	drain.StepStart:    {"starting on %s", "starting elsewhere"},
	drain.StepHealth:   {"waiting until healthy on %s", "waiting until healthy"},
	drain.StepFlip:     {"moving its claim to %s", "moving its claim"},
	drain.StepUnready:  {"", "being taken out of traffic"},
	drain.StepQuiesce:  {"", "finishing what is in flight"},
	drain.StepStop:     {"", "stopping it here"},
	drain.StepSnapshot: {"", "writing its snapshot"},
	drain.StepShip:     {"shipping to %s", "shipping its state"},
	drain.StepRestore:  {"restoring on %s", "restoring"},
	drain.StepClock:    {"setting its clock on %s", "setting its clock"},
	drain.StepAnswers:  {"waiting for its answer on %s", "waiting for its answer"},
	drain.StepRemove:   {"", "removing what is left here"},
	drain.StepPark:     {"", "parking it here"},
	drain.StepResume:   {"", "resuming it here"},
	drain.StepWake:     {"", "saying that it runs"},
	drain.StepAnnounce: {"", "telling its users"},
	drain.StepFence:    {"", "fencing: it takes no more writes"},
	drain.StepArchive:  {"", "archiving the end of its log"},
	drain.StepReplay:   {"replaying on %s", "replaying"},
	drain.StepPromote:  {"promoting on %s", "promoting"},
	drain.StepRepoint:  {"repointing to %s", "repointing"},
	drain.StepProve:    {"proving on %s", "proving"},
}

// Underway says what is being done to a workload, where, and how far that is:
// "restoring on gpu-044 · 1.2 of 3.1 GiB".
func Underway(step drain.Step, target fleet.HostID, progress string) string {
	forms, known := underway[step]
	text := forms[1]
	switch {
	case !known:
		text = Step(step)
	case forms[0] != "" && target != "":
		text = fmt.Sprintf(forms[0], Host(target))
	}
	return join(" · ", text, Progress(progress))
}

var ofBytes = regexp.MustCompile(`(?i)\b(\d+)(?: (?:of|/) |/)(\d+) ?(?:bytes|b)\b`)

// Progress is what a lever says of how far it is, on one line, with long numbers
// of bytes as people read them: "1.2 of 3.1 GiB".
func Progress(s string) string {
	s = ofBytes.ReplaceAllStringFunc(s, func(m string) string {
		p := ofBytes.FindStringSubmatch(m)
		done, err1 := strconv.ParseUint(p[1], 10, 64)
		all, err2 := strconv.ParseUint(p[2], 10, 64)
		if err1 != nil || err2 != nil {
			return m
		}
		return Bytes(done, all)
	})
	return Text(s)
}

// Bytes is a part of a number of bytes, both in the unit of the whole.
func Bytes(done, all uint64) string {
	unit, name := float64(1), "B"
	for _, n := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if float64(all) < 1024*unit {
			break
		}
		unit, name = unit*1024, n
	}
	if unit == 1 {
		return fmt.Sprintf("%d of %d B", done, all)
	}
	return fmt.Sprintf("%s of %s %s", short1(float64(done)/unit), short1(float64(all)/unit), name)
}

// short1 has one digit behind the point below a hundred.
func short1(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// briefly is a step that is under way in few words: how far it is counts more than
// where.
func briefly(step drain.Step, target fleet.HostID, progress string) string {
	if progress == "" {
		return Underway(step, target, "")
	}
	return Step(step) + " " + strings.Replace(Progress(progress), " of ", "/", 1)
}

// leverDoing says what a lever is doing to a workload; ok is false where it does
// nothing now.
func leverDoing(it drain.Item, brief bool) (string, bool) {
	step := drain.Step(it.Reason.Args["step"])
	switch it.Reason.Code {
	case drain.WaitRunning, drain.WaitLever:
		if brief {
			return briefly(step, it.Target, it.Reason.Args["detail"]), true
		}
		return Underway(step, it.Target, it.Reason.Args["detail"]), true
	case drain.WaitUndo:
		return join(" · ", "rolling back: "+Step(step), Progress(it.Reason.Args["detail"])), true
	}
	return "", false
}
