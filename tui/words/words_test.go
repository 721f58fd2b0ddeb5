package words

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
)

// constants reads the string constants of one file of package drain or fleet
// whose name has the prefix and, with typ, that are of that type.
func constants(t *testing.T, file, prefix, typ string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../"+file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, prefix) {
				continue
			}
			if id, ok := v.Type.(*ast.Ident); typ != "" && (!ok || id.Name != typ) {
				continue
			}
			if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				out = append(out, text)
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s has no constants %s %s", file, prefix, typ)
	}
	return out
}

func TestEveryReasonHasASentence(t *testing.T) {
	for _, code := range append(constants(t, "drain/reason.go", "Wait", ""), "issue", "driver_ended", drain.Untold, drain.NotParkedFor, drain.NotParkedOn) {
		for _, r := range []fleet.Reason{{Code: code}, {Code: code, Args: map[string]string{
			"at": "2026-11-29T14:31:00Z", "until": "2026-11-29T14:31:00Z", "term": "2026-11-29T14:31:00Z", "target": "gpu-044",
			"detail": "no answer", "why": "full", "by": "mira", "class": "durable", "needs": "11m45s", "has": "3m",
			"step": "start", "lever": "vm", "what": "memory", "wants": "64", "host": "gpu-044",
		}}} {
			text, ok := reason(r)
			if !ok || text == "" || text == code && len(r.Args) > 0 || strings.Contains(text, "_") {
				t.Errorf("%s: %q", code, text)
			}
			if Brief(r) == "" {
				t.Errorf("%s has no brief form", code)
			}
		}
	}
	got := Reason(fleet.Because("new_code", "b", "two words", "a", "1"))
	if got != `new_code a=1 b="two words"` {
		t.Errorf("unknown code: %s", got)
	}
}

func TestEveryTermHasAWord(t *testing.T) {
	for _, tc := range []struct {
		file, typ string
		word      func(string) string
	}{
		{"fleet/finding.go", "Verdict", func(s string) string { return Verdict(fleet.Verdict(s)) }},
		{"drain/state.go", "Phase", func(s string) string { return Phase(drain.Phase(s)) }},
		{"drain/state.go", "Step", func(s string) string { return Step(drain.Step(s)) }},
		{"drain/drives.go", "Result", func(s string) string { return Result(drain.Result(s)) }},
		{"drain/drives.go", "End", func(s string) string { return End(drain.End(s), "owner") }},
		{"drain/drives.go", "ActKind", func(s string) string {
			return Act(drain.Act{Kind: drain.ActKind(s), Key: fleet.Key{Kind: "a", ID: "b"}})
		}},
		{"fleet/reading.go", "Status", func(s string) string { return Status(fleet.Status(s)) }},
		{"fleet/class.go", "Class", func(s string) string { return Letter(fleet.Class(s)) + Strategy(fleet.Class(s)) }},
	} {
		seen := map[string]string{}
		for _, c := range constants(t, tc.file, "", tc.typ) {
			w := tc.word(c)
			if w == "" || strings.Contains(w, "_") {
				t.Errorf("%s %q: %q", tc.typ, c, w)
			}
			if other, dup := seen[w]; dup {
				t.Errorf("%s: %q and %q are both %q", tc.typ, c, other, w)
			}
			seen[w] = c
		}
	}
	for _, c := range fleet.Checks {
		if Check(c) == c || CheckFails(c) == "" {
			t.Errorf("check %s has no words", c)
		}
	}
}

// bodies has one of each kind; TestEveryKindHasALine finds the one that is
// missing.
func bodies() []drain.Body {
	k := fleet.Key{Kind: "sandbox", ID: "vm-1"}
	at := time.Date(2026, 11, 29, 14, 31, 0, 0, time.UTC)
	return []drain.Body{
		drain.AskStart{Deadline: at, For: fleet.ForKernel, Reason: "CVE", MayDie: []fleet.Key{k}}, drain.AskExtend{Until: at},
		drain.AskStop{Reason: "enough"}, drain.AskClass{Key: k, Class: fleet.Stuck}, drain.AskMoreTime{Key: k, By: 15 * time.Minute},
		drain.AskHold{Key: k, Reason: "mine"}, drain.AskRetry{Key: k}, drain.AskRetry{}, drain.AskEscalate{Key: k},
		drain.AskKeep{Key: k}, drain.AskTargetGone{Key: k, Target: "prod/h2", Reason: "its board burnt"}, drain.AskHandover{To: "lena", Note: "watch pg"}, drain.AskRebind{Machine: "b7", Was: "a1", Reason: "reimaged"}, drain.RecBound{Machine: "a1"},
		drain.AskPark{Key: k}, drain.AskPark{Key: k, Ship: true}, drain.AskResume{Key: k}, drain.AskResume{},
		drain.AskKeep{Key: k}, drain.AskHandover{To: "lena", Note: "watch pg"}, drain.AskRebind{Machine: "b7", Was: "a1", Reason: "reimaged"}, drain.RecBound{Machine: "a1"},
		drain.RecCordon{Reason: "hunch"}, drain.RecCordoned{State: fleet.Cordoned, Proved: []string{"flag", "host"}, Weaker: "scheduler"},
		drain.RecUncordon{Theirs: true}, drain.RecUndrain{}, drain.RecCleaned{Key: k, Identity: "4026", Done: true},
		drain.RecCleaned{Key: k, Error: "busy"}, drain.RecAccepted{Key: k, Reason: "known"},
		drain.RecProof{Digest: strings.Repeat("a", 64), Expires: at}, drain.RecTerminateIntent{Type: "command", Run: []string{"x", "i-1"}},
		drain.RecTerminateOutcome{Done: true}, drain.RecTerminateOutcome{Error: "no"},
		drain.RecReach{Driver: "bastion-2:77", OK: true},
		drain.RecRefused{Verb: "terminate", Issues: []fleet.Issue{{Check: fleet.CheckLeaks, Key: k, Detail: "since 14:24"}}},
		drain.DriveTook{Driver: "bastion-2", Blind: time.Minute, Person: true}, drain.DriveReleased{Why: "asked"},
		drain.DrivePhase{Phase: drain.Verifying, Issues: []fleet.Issue{{Check: fleet.CheckLeft, Key: k}}},
		drain.DriveFound{Items: []drain.Found{{Key: k, Class: fleet.Stuck}}, Late: true}, drain.DriveFound{},
		drain.DriveIntent{Act: drain.Act{Kind: drain.ActSignal, Key: k, Signal: "TERM"}},
		drain.DriveOutcome{Act: "d-1/sandbox/vm-1/term/1", Key: k, Result: drain.Done},
		drain.DriveWaits{Reasons: []drain.Wait{{Key: k, Reason: fleet.Because(drain.WaitGrace, "until", "2026-11-29T14:31:00Z")}, {}}},
		drain.DriveMissing{Keys: []fleet.Key{k}}, drain.DriveMissing{Keys: []fleet.Key{k}, Back: true},
		drain.DriveEnded{Ends: []drain.Ended{{Key: k, End: drain.Lost, By: "it vanished"}}},
		drain.DriveLate{Keys: []fleet.Key{k}}, drain.DriveRecord{Key: k, Owner: "data", Named: "plan"},
		drain.DriveDeadline{Left: []drain.Left{{Key: k, Class: fleet.Durable, Owner: "payments", Step: drain.StepTerm}}, Age: "old"},
	}
}

func TestEveryKindHasALine(t *testing.T) {
	have := map[drain.Kind]bool{}
	for _, b := range bodies() {
		have[b.Kind()] = true
		e, err := drain.NewEvent("prod/gpu-041", "x", "d-1", 1, drain.Actor{Name: "mira"}, b)
		if err != nil {
			t.Fatal(err)
		}
		text := Event(e)
		if text == "" || strings.HasPrefix(text, string(b.Kind())) || strings.ContainsAny(text, "\n\x1b") {
			t.Errorf("%s: %q", b.Kind(), text)
		}
		v := reflect.ValueOf(b)
		if f := v.FieldByName("Key"); f.IsValid() && !f.IsZero() && !strings.Contains(text, "vm-1") {
			t.Errorf("%s does not name its workload: %q", b.Kind(), text)
		}
	}
	for _, file := range []string{"asks.go", "drives.go"} {
		for _, kind := range kindsIn(t, file) {
			if !have[drain.Kind(kind)] {
				t.Errorf("no line is tried for %s", kind)
			}
		}
	}
}

// kindsIn reads what the Kind methods of a file return.
func kindsIn(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../drain/"+file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv == nil || fn.Name.Name != "Kind" {
			continue
		}
		ret := fn.Body.List[0].(*ast.ReturnStmt)
		kind, _ := strconv.Unquote(ret.Results[0].(*ast.BasicLit).Value)
		out = append(out, kind)
	}
	if len(out) < 10 {
		t.Fatalf("%s has only kinds %v", file, out)
	}
	return out
}

func TestUnknownAndBrokenEvents(t *testing.T) {
	for _, e := range []drain.Event{
		{Kind: "drive.teleport", V: 1, Body: json.RawMessage(`{"to":"mars"}`)},
		{Kind: "ask.start", V: 7, Body: json.RawMessage(`{}`)},
		{Kind: "ask.start", V: 1, Body: json.RawMessage(`{"deadline": 7}`)},
	} {
		if text := Event(e); !strings.Contains(text, string(e.Kind)) {
			t.Errorf("%s: %q", e.Kind, text)
		}
	}
}

// Whatever a host calls things, a sentence stays one line in which the name
// can't be taken for a part of it.
func TestForeignNamesAreQuoted(t *testing.T) {
	evil := "x\x1b[2J\n ✓ gate open\u202e" + strings.Repeat("y", 5000)
	k := fleet.Key{Kind: "sandbox", ID: evil}
	all := []string{
		Key(k), Reason(fleet.Because(drain.WaitFailed, "step", "term", "detail", evil)), Reason(fleet.Because(evil, evil, evil)),
		Issue(fleet.Issue{Check: evil, Key: k, Detail: evil}), Body(drain.AskHold{Key: k, Reason: evil}),
		Body(drain.DriveWaits{Reasons: []drain.Wait{{Key: k, Reason: fleet.Because(drain.WaitHeld, "why", evil, "by", evil)}}}),
		ComingText(Due{Key: k, At: time.Unix(0, 0), What: "KILL"}), Host(fleet.HostID(evil)),
		Line(drain.Event{Stream: evil, Kind: drain.Kind(evil), By: drain.Actor{Name: evil}}),
	}
	for _, text := range all {
		if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q has something that would not be seen", text[i:min(len(text), i+8)])
		}
		if len(text) > 2500 {
			t.Errorf("%d bytes: %.80s", len(text), text)
		}
	}
	for _, text := range all {
		if strings.ContainsRune(text, '✓') {
			t.Errorf("%.80s has a sign of the console", text)
		}
	}
	if got := Text("a ✓  b"); got != `a \u2713 b` {
		t.Error(got)
	}
	if got := Name("two words"); got != `"two words"` {
		t.Error(got)
	}
	if got := Name("仕事-7"); got != "仕事-7" {
		t.Error(got)
	}
}

func TestStateNamesAreThoseOfThemes(t *testing.T) {
	ours := []string{stServing, stCordoned, stCordoning, stDraining, stEmpty, stUnreachable, stLost, stNeedsYou, stHostOnly, stPlaneOnly, stTerminated}
	theirs := themes.States()
	slices.Sort(ours)
	slices.Sort(theirs)
	if !slices.Equal(ours, theirs) {
		t.Errorf("%v\n%v", ours, theirs)
	}
}

func TestState(t *testing.T) {
	at := time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)
	held := fleet.Read(fleet.Facts{At: at, Holds: fleet.Holds{Cordon: &fleet.Hold{}, Drain: &fleet.Hold{}}}, "ebbd", at, 0)
	free := fleet.Read(fleet.Facts{At: at}, "ebbd", at, 0)
	k := fleet.Key{Kind: "a", ID: "b"}
	item := map[fleet.Key]drain.Item{k: {}}
	for name, tc := range map[string]struct {
		v          fleet.HostView
		s          *drain.State
		role, word string
	}{
		"nothing read":     {fleet.HostView{}, nil, "", "not read yet"},
		"serving":          {fleet.HostView{Facts: free}, nil, stServing, "serving"},
		"unreachable wins": {fleet.HostView{Facts: held, Unreachable: at}, &drain.State{Drain: "d", Phase: drain.Empty}, stUnreachable, "unreachable"},
		"cordoned":         {fleet.HostView{Facts: held, Cordon: fleet.Cordoned}, &drain.State{Drain: "d", Undone: true}, stDraining, "drain elsewhere"},
		"only cordoned": {fleet.HostView{Facts: fleet.Read(fleet.Facts{Holds: fleet.Holds{Cordon: &fleet.Hold{}}}, "", at, 0), Cordon: fleet.Cordoned},
			&drain.State{Drain: "d", Undone: true}, stCordoned, "cordoned"},
		"cordoning":       {fleet.HostView{Facts: free, Cordon: fleet.Cordoning}, nil, stCordoning, "cordoning"},
		"host only":       {fleet.HostView{Facts: free, Cordon: fleet.HostOnly}, nil, stHostOnly, "host only"},
		"plane flag":      {fleet.HostView{Facts: free, Host: fleet.Host{Draining: true}}, nil, stPlaneOnly, "plane only"},
		"drain elsewhere": {fleet.HostView{Facts: held, Cordon: fleet.Cordoned}, nil, stDraining, "drain elsewhere"},
		"draining":        {fleet.HostView{Facts: held}, &drain.State{Drain: "d", Phase: drain.Draining}, stDraining, "draining"},
		"verifying":       {fleet.HostView{Facts: held}, &drain.State{Drain: "d", Phase: drain.Verifying}, stDraining, "verifying"},
		"empty":           {fleet.HostView{Facts: held}, &drain.State{Drain: "d", Phase: drain.Empty}, stEmpty, "empty"},
		"stopped":         {fleet.HostView{Facts: held}, &drain.State{Drain: "d", Phase: drain.Stopped}, stCordoned, "drain stopped"},
		"deadline":        {fleet.HostView{Facts: held}, &drain.State{Drain: "d", Phase: drain.DeadlineReached, Items: item}, stNeedsYou, "deadline"},
		"person":          {fleet.HostView{Facts: held}, &drain.State{Drain: "d", Phase: drain.Draining, Person: true}, stNeedsYou, "needs you"},
		"lost":            {fleet.HostView{Facts: held}, &drain.State{Drain: "d", Phase: drain.Verifying, Lost: []drain.LostItem{{Key: k}}}, stLost, "lost"},
		"terminated":      {fleet.HostView{Facts: held, Unreachable: at}, &drain.State{Drain: "d", Phase: drain.Empty, Undone: true, Terminated: at, TerminatedBy: "root"}, stTerminated, "terminated"},
		"another machine of a terminated one's name": {fleet.HostView{Facts: fleet.Read(fleet.Facts{Machine: "m-2"}, "", at, 0)},
			&drain.State{Drain: "d", Phase: drain.Empty, Machine: "m-1", Undone: true, Terminated: at}, stServing, "serving"},
		"lost, accepted": {fleet.HostView{Facts: held}, &drain.State{Drain: "d", Phase: drain.Empty, Lost: []drain.LostItem{{Key: k}},
			Accepted: map[fleet.Key]string{k: "known"}}, stEmpty, "empty"},
	} {
		if role, word := State(&tc.v, tc.s); role != tc.role || word != tc.word {
			t.Errorf("%s: %q %q, want %q %q", name, role, word, tc.role, tc.word)
		}
	}
}

// What is parked, what comes back and what could not are told apart, and only the
// last needs somebody.
func TestParkedHere(t *testing.T) {
	at := time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)
	resting := drain.Move{Park: true, Done: map[drain.Step]time.Time{drain.StepPark: at}}
	coming := drain.Move{Park: true, Done: resting.Done, Begun: map[drain.Step]time.Time{drain.StepResume: at}}
	word := drain.Word{By: "mira", At: at}
	state := func(items ...drain.Item) drain.State {
		s := drain.State{Items: map[fleet.Key]drain.Item{}}
		for i, it := range items {
			it.Key = fleet.Key{Kind: "vm", ID: string(rune('a' + i))}
			s.Items[it.Key] = it
		}
		return s
	}
	stuck := drain.Item{Move: resting, Resume: word, Reason: fleet.Because(drain.WaitOtherHere)}
	for name, tc := range map[string]struct {
		s      drain.State
		want   string
		person bool
	}{
		"nothing":       {state(drain.Item{}), "", false},
		"parked":        {state(drain.Item{Move: resting}, drain.Item{Move: resting}), "parked: vm/a, vm/b", false},
		"asked for":     {state(drain.Item{Move: resting, Resume: word}), "resuming: vm/a", false},
		"on its way":    {state(drain.Item{Move: coming}), "resuming: vm/a", false},
		"not resumed":   {state(stuck), "not resumed: vm/a", true},
		"each":          {state(drain.Item{Move: resting}, stuck, drain.Item{Move: coming, Resume: word}), "not resumed: vm/b; resuming: vm/c; parked: vm/a", true},
		"has ended":     {state(drain.Item{Move: resting, End: drain.Lost}), "", false},
		"gone with all": {func() drain.State { s := state(drain.Item{Move: resting}); s.Terminated = at; return s }(), "", false},
	} {
		if got, person := ParkedHere(tc.s); got != tc.want || person != tc.person {
			t.Errorf("%s: %q, needs somebody %v", name, got, person)
		}
	}
}
