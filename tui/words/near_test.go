package words

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Slips of a finger lead to what was meant, and to nothing else.
func TestNear(t *testing.T) {
	all := []string{"gpu-041", "gpu-044", "db-03", "cordon", "uncordon"}
	for word, want := range map[string]string{"gpu-44": "gpu-044", "gpu-o41": "gpu-041", "cordno": "cordon", "gpu-404": "gpu-044", "db": "", "slow": "", "": ""} {
		if got := strings.Join(Near(word, all), " "); got != want {
			t.Errorf("%q leads to %q, not %q", word, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-c]{0,6}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if slips(a, b, 9) != slips(b, a, 9) || (slips(a, b, 9) == 0) != (a == b) {
			t.Fatalf("from a to b %d, back %d", slips(a, b, 9), slips(b, a, 9))
		}
	})
}

// The line on top says where one is and how one came there.

// A number alone is not guessed to be minutes.
func TestReadDuration(t *testing.T) {
	for text, want := range map[string]string{
		"45m": "", " 1h30m ": "", "5": "write 5m for minutes, 5h for hours", "": "no duration", "soon": "soon is no duration", "-5m": "no time from now on", "0s": "no time",
	} {
		d, err := ReadDuration(text)
		if got := err != nil; got != (want != "") || got && !strings.Contains(err.Error(), want) || !got && d <= 0 {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
	if d, _ := ReadDuration("1h30m"); d != 90*time.Minute {
		t.Error(d)
	}
}
