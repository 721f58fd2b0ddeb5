package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"ebb/fleet"
)

const onePlane = "[[plane]]\nname = \"lab\"\ntype = \"none\"\n"

func TestLevers(t *testing.T) {
	f, err := parseFleet(onePlane + `
[[lever]]
name = "notebook"
run = ["/usr/lib/levers/notebook", "--fast"]
timeout = "2m"
steps = ["snapshot", "restore", "remove"]
[[lever]]
name = "pg"
run = ["/usr/lib/levers/pg"]
[[class]]
match = { kind = "notebook" }
class = "pausable"
lever = "notebook"
[[lever]]
name = "vm"
run = ["/usr/lib/levers/vm"]
steps = ["snapshot", "park", "resume"]
[[class]]
match = { kind = "vm" }
class = "pausable"
lever = "vm"
park = true
[[class]]
match = { kind = "postgres" }
class = "durable"
lever = "pg"
[[class]]
match = { kind = "vllm" }
class = "stateless"
readiness = "unready"
in_flight = { url = "http://127.0.0.1:8000/metrics", gauge = ["running"], window = "30s" }
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Lever{{Name: "notebook", Run: []string{"/usr/lib/levers/notebook", "--fast"}, Timeout: 2 * time.Minute, Steps: []string{"snapshot", "restore", "remove"}},
		{Name: "pg", Run: []string{"/usr/lib/levers/pg"}, Timeout: time.Minute},
		{Name: "vm", Run: []string{"/usr/lib/levers/vm"}, Timeout: time.Minute, Steps: []string{"snapshot", "park", "resume"}}}
	if !reflect.DeepEqual(f.Levers, want) {
		t.Errorf("%+v", f.Levers)
	}
	rules := f.Rules()
	if rules[0].Lever != "notebook" || rules[0].Park || rules[1].Lever != "vm" || !rules[1].Park || rules[2].Lever != "pg" || rules[3].Readiness != "unready" || rules[3].InFlight.Window != 30*time.Second {
		t.Errorf("%+v", rules)
	}
}

func TestLeversThatMeanNothing(t *testing.T) {
	for text, want := range map[string]string{
		"[[lever]]\nname = \"a\"\nrun = [\"b\"]":                                                                                                                "absolute path",
		"[[lever]]\nname = \"a\"":                                                                                                                               "lever[0].run",
		"[[lever]]\nname = \"a\"\nrun = [\"/b\"]\nsteps = [\"jump\"]":                                                                                           "\"jump\" is not a step",
		"[[lever]]\nname = \"a\"\nrun = [\"/b\"]\n[[lever]]\nname = \"a\"\nrun = [\"/b\"]":                                                                      "stands twice",
		"[[class]]\nmatch = { kind = \"x\" }\nclass = \"pausable\"\nlever = \"a\"":                                                                              "there is no [[lever]] \"a\"",
		"[[lever]]\nname = \"a\"\nrun = [\"/b\"]\n[[class]]\nmatch = { kind = \"x\" }\nclass = \"stuck\"\nlever = \"a\"":                                        "needs none",
		"[[class]]\nmatch = { kind = \"x\" }\nclass = \"stateless\"\nreadiness = \"off\"":                                                                       "without in_flight",
		"[[lever]]\nname = \"a\"\nrun = [\"/b\"]\nsteps = [\"fence\", \"promote\"]\n[[class]]\nclass = \"durable\"\nlever = \"a\"":                              "does not do replay, remove",
		"[[class]]\nmatch = { kind = \"x\" }\nclass = \"pausable\"\npark = true":                                                                                "fleet.toml:7: class[0].park: without a lever",
		"[[lever]]\nname = \"a\"\nrun = [\"/b\"]\n[[class]]\nclass = \"durable\"\nlever = \"a\"\npark = true":                                                   "only a workload of class pausable",
		"[[lever]]\nname = \"a\"\nrun = [\"/b\"]\nsteps = [\"snapshot\", \"restore\", \"remove\"]\n[[class]]\nclass = \"pausable\"\nlever = \"a\"\npark = true": "does not do resume, which a workload that is parked",
		"[[class]]\nmatch = { kind = \"x\" }\nclass = \"pausable\"\nparked = true":                                                                              "fleet.toml:7: class.parked: unknown key",
	} {
		if _, err := parseFleet(onePlane + text + "\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

func TestOffer(t *testing.T) {
	a, err := parseAgent("[offer]\nslots = 40\ngpus = 8\nkinds = { notebook = 12 }\ncompat = { engine = \"1.5\" }\nlabels = { zone = \"a\" }\n")
	want := fleet.Offer{Slots: 40, GPUs: 8, Kinds: map[string]int{"notebook": 12}, Compat: map[string]string{"engine": "1.5"}, Labels: map[string]string{"zone": "a"}}
	if err != nil || !reflect.DeepEqual(a.Offer, want) {
		t.Fatalf("%+v %v", a.Offer, err)
	}
	for _, text := range []string{"[offer]\nslots = -1\n", "[offer]\nkinds = { x = -1 }\n", "[offer]\nseats = 3\n"} {
		if _, err := parseAgent(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
