package widget

import (
	"strings"
	"testing"
)

func TestFilter(t *testing.T) {
	row := Filterable{
		Text:   "gpu-041 mira CVE-2026-1183 10.0.0.1:22",
		Labels: map[string]string{"pool": "h200-a", "empty": ""},
		Fields: map[string]string{"state": "draining", "by": "mira", "class": ""},
	}
	for s, want := range map[string]bool{
		"":                             true,
		"/":                            true,
		"  ":                           true,
		"gpu":                          true,
		"/GPU-041":                     true,
		"gpu-042":                      false,
		"!gpu-042":                     true,
		"!gpu-041":                     false,
		"gpu mira":                     true,
		"gpu lena":                     false,
		"pool=h200-a":                  true,
		"pool=h200":                    false,
		"pool=h200*":                   true,
		"pool=H200-A":                  true,
		"pool=x,h200-a":                true,
		"pool=":                        false,
		"empty=":                       true,
		"none=x":                       false,
		"!none=x":                      true,
		"state:draining":               true,
		"state:drain":                  true,
		"state:cordoned":               false,
		"state:cordoned,draining":      true,
		"!state:cordoned":              true,
		"State:draining":               true,
		"state:":                       false,
		"10.0.0.1:22":                  true,
		"10.0.0.1:23":                  false,
		":22":                          true,
		"class:x":                      false,
		`"mira CVE"`:                   true,
		`"CVE mira"`:                   false,
		`!"mira CVE"`:                  false,
		`"state:draining"`:             false,
		"/gpu !lost pool=h200-a by:mi": true,
	} {
		f, err := ParseFilter(s)
		if err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		if got := f.Match(row); got != want {
			t.Errorf("%q matches: %v, want %v", s, got, want)
		}
	}
	for _, s := range []string{`"open`, "!", "=x", `""`, "a ! b", `!"open`} {
		if _, err := ParseFilter(s); err == nil || !strings.HasPrefix(err.Error(), "filter: ") {
			t.Errorf("%q: error %v", s, err)
		}
	}
	if f, _ := ParseFilter("/ pool=a "); f.String() != "pool=a" || f.Empty() {
		t.Errorf("String() = %q, Empty() = %v", f.String(), f.Empty())
	}
}

func FuzzParseFilter(f *testing.F) {
	f.Add(`/text !not label=value state:cordoned "q"`)
	f.Fuzz(func(t *testing.T, s string) {
		flt, err := ParseFilter(s)
		if err != nil {
			return
		}
		again, err := ParseFilter("/" + flt.String())
		if err != nil || again.Match(Filterable{Text: s}) != flt.Match(Filterable{Text: s}) {
			t.Errorf("%q read again differs: %v", s, err)
		}
	})
}
