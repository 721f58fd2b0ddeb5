package proof

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Diff names what changed between two lists of items, one sentence each:
// "process 4117 (python3) started". It is empty exactly where their digests are
// the same.
func Diff(before, after []Item) []string {
	type named struct {
		item Item
		text string
	}
	var changes []named
	old, fresh := counted(before), counted(after)
	gone, came := excess(old, fresh), excess(fresh, old)
	for _, was := range gone {
		now := slices.IndexFunc(came, func(i Item) bool { return i.Kind == was.Kind && i.ID == was.ID })
		switch {
		case now < 0:
			changes = append(changes, named{was, name(was) + " " + went(was)})
			continue
		case came[now].Identity != was.Identity:
			changes = append(changes, named{was, name(was) + " was replaced by another " + came[now].Kind + " of the same name"})
		default:
			changes = append(changes, named{was, fmt.Sprintf("%s changed from %s to %s", name(was), state(was), state(came[now]))})
		}
		came = slices.Delete(came, now, now+1)
	}
	for _, now := range came {
		changes = append(changes, named{now, name(now) + " " + arrived(now)})
	}
	slices.SortStableFunc(changes, func(a, b named) int { return a.item.compare(b.item) })
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.text
	}
	return texts
}

func counted(items []Item) map[Item]int {
	n := make(map[Item]int, len(items))
	for _, it := range items {
		n[it]++
	}
	return n
}

// excess lists what a holds more of than b, sorted.
func excess(a, b map[Item]int) []Item {
	var more []Item
	for it, n := range a {
		for range n - b[it] {
			more = append(more, it)
		}
	}
	slices.SortFunc(more, Item.compare)
	return more
}

func name(it Item) string {
	switch it.Kind {
	case "process":
		return fmt.Sprintf("process %s (%s)", safe(it.ID), safe(first(it)))
	case "workload":
		return safe(it.ID)
	case "hold":
		return "the " + safe(it.ID) + " hold"
	case "boot":
		return "the boot " + safe(it.ID)
	case "gpu":
		return fmt.Sprintf("GPU %s, by %s,", safe(it.ID), safe(it.Identity))
	case "ticket":
		return fmt.Sprintf("ticket %s for %s", safe(it.ID), safe(it.Identity))
	case "probe":
		return "the probe of " + safe(it.ID)
	case "unheld":
		return "the agent's record of its holds"
	}
	return safe(it.Kind) + " " + safe(it.ID)
}

func arrived(it Item) string {
	switch it.Kind {
	case "process":
		return "started"
	case "workload":
		if first(it) == "at_rest" {
			return "came to rest here"
		}
		return "started"
	case "hold":
		return "was set"
	case "gpu":
		return "is held"
	case "ticket":
		return "was opened"
	case "boot":
		return "began: the host was rebooted"
	case "probe":
		return "no longer answers"
	case "unheld":
		return "is missing"
	}
	return "appeared"
}

func went(it Item) string {
	switch it.Kind {
	case "process":
		return "ended"
	case "workload":
		return "is gone"
	case "hold":
		return "was lifted"
	case "gpu":
		return "was released"
	case "ticket":
		return "was settled"
	case "boot":
		return "is over"
	case "probe":
		return "answers again"
	case "unheld":
		return "is there again"
	}
	return "is gone"
}

func first(it Item) string {
	if parts := split(it.State); len(parts) > 0 {
		return parts[0]
	}
	return ""
}

func state(it Item) string {
	var parts []string
	for _, p := range split(it.State) {
		if p != "" {
			parts = append(parts, safe(p))
		}
	}
	return cmp.Or(strings.Join(parts, " "), "nothing")
}
