package words

import "ebb/fleet"

// lever makes the sentences of what moves of a workload wait for: its lever's
// steps, the room where it goes, the traffic it still has.
func lever(r fleet.Reason) (string, bool) {
	a := func(k string) string { return r.Args[k] }
	by := join(" of lever ", stepOf(a("step")), nameOf(a("lever")))
	switch r.Code {
	case "no_room":
		return join("; nearest is ", "no host has room: "+compared(a), nameOf(a("host"))), true
	case "incompatible":
		return join("; nearest is ", "no host fits: "+compared(a), nameOf(a("host"))), true
	case "no_lever":
		return join(" ", "no lever is there for it:", by, "is not configured"), true
	case "lever":
		return join(": ", "its lever has been asked", by), true
	case "running":
		return join(": ", join(" ", by, "goes on"), Text(a("detail"))), true
	case "lever_waits":
		return join(": ", join(" ", by, "can't begin yet"), Text(a("detail"))), true
	case "lever_refuses":
		return join(": ", "lever "+Name(a("lever"))+" refuses to move it", Text(a("detail"))), true
	case "lever_silent":
		return join(": ", "lever "+Name(a("lever"))+" does not say whether it can move it", Text(a("detail"))), true
	case "undo":
		return join(": ", join(" of ", "the move is rolled back", stepOf(a("step"))), Text(a("why"))), true
	case "rolled_back":
		return join(": ", "its move failed and was rolled back, it runs here as before", Text(a("detail"))), true
	case "two_copies":
		return join(": ", join(" on ", "it stays paused until the other copy is known to be gone", nameOf(a("target"))), Text(a("detail"))), true
	case "leaving":
		return "its lever says that it has left, and it is still there", true
	case "unready":
		return "it is being taken out of traffic", true
	case "in_flight":
		return join(": ", "requests are in flight", Text(a("detail"))), true
	}
	return "", false
}

// compared names what is wanted and what there is.
func compared(a func(string) string) string {
	text := Text(a("what"))
	if a("wants") != "" || a("has") != "" {
		text = join(" ", text, "wanted", Name(a("wants"))+",", "there is", Name(a("has")))
	}
	return text
}

// moveSteps are the steps of moves that a lever carries out.
var moveSteps = map[string]string{
	"unready": "out of traffic", "quiesce": "finish what is in flight", "stop": "stop",
	"snapshot": "snapshot", "ship": "ship", "restore": "restore", "clock": "set the clock", "answers": "answers", "remove": "remove here",
	"park": "park here", "resume": "resume here", "wake": "say that it runs",
	"announce": "announce", "fence": "fence", "archive": "archive the log", "replay": "replay", "promote": "promote", "repoint": "repoint", "prove": "prove",
}
