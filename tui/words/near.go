package words

import (
	"cmp"
	"slices"
	"strings"
)

// Suggest names what a mistyped word is near to, to stand behind an error; ""
// where nothing is.
func Suggest(word string, all []string) string {
	near := Near(word, all)
	if len(near) == 0 {
		return ""
	}
	for i, n := range near {
		near[i] = Name(n)
	}
	return ": did you mean " + strings.Join(near, " or ") + "?"
}

// Near are at most three words that one or two slips of a finger lead to, the
// nearest first.
func Near(word string, all []string) []string {
	type hit struct {
		word string
		far  int
	}
	var hits []hit
	low := strings.ToLower(word)
	most := min(2, (len(low)+1)/3)
	for _, w := range all {
		if far := slips(low, strings.ToLower(w), most); far <= most {
			hits = append(hits, hit{w, far})
		}
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(a.far-b.far, cmp.Compare(a.word, b.word)) })
	var out []string
	for _, h := range hits {
		if len(out) < 3 && h.far == hits[0].far && !slices.Contains(out, h.word) {
			out = append(out, h.word)
		}
	}
	return out
}

// slips is how many letters have to be put in, left out, changed or swapped with
// their neighbour to come from a to b; above most it is only known to be more.
func slips(a, b string, most int) int {
	if d := len(a) - len(b); d > most || -d > most {
		return most + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
