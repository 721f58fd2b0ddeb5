package journal

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"ebb/drain"
)

func TestExportImport(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j, ctx := p.open(), t.Context()
		l := must(j.Acquire(ctx, "d1", "me", 40))(t)
		put(t, j, ask(t, "a", "1"), ask(t, "a", "2"))
		marked := ask(t, "b", "3")
		marked.Body = []byte(`{"note":"<b> & \u003c \u2028 ü"}`)
		put(t, j, marked)
		must(j.Append(ctx, drain.Batch{Stream: "a", Lease: &l, Events: []drain.Event{event(t, "a", "4", "d1", l.Epoch, drain.DriveReleased{})}}))(t)

		var all, one bytes.Buffer
		if err := errors.Join(j.Export(ctx, &all, ""), j.Export(ctx, &one, "a")); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(one.String(), "\n"); n != 3 {
			t.Errorf("stream a has %d lines:\n%s", n, one.String())
		}

		to := place{t, "sqlite::memory:"}.open()
		put(t, to, ask(t, "c", "before"))
		if err := to.Import(ctx, bytes.NewReader(all.Bytes())); err != nil {
			t.Fatal(err)
		}
		got := must(to.All(ctx, 1, 0))(t)
		want := must(j.All(ctx, 0, 0))(t)
		for i := range want {
			want[i].Seq++
			if got[i].Seq != want[i].Seq || got[i].ID != want[i].ID || got[i].Num != want[i].Num ||
				!got[i].At.Equal(want[i].At) || string(got[i].Body) != string(want[i].Body) {
				t.Errorf("imported %+v, want %+v", got[i], want[i])
			}
		}
		if next := put(t, to, ask(t, "a", "next"))[0]; next.Num != 4 || next.At.Before(want[3].At) {
			t.Errorf("the stream goes on with %+v", next)
		}
		if l := must(to.Acquire(ctx, "d1", "me", 0))(t); l.Epoch != 42 {
			t.Errorf("epoch %d of an imported drain, want 42", l.Epoch)
		}

		lines := strings.SplitAfter(one.String(), "\n")
		for name, text := range map[string]string{
			"again":        one.String(),
			"gap":          strings.ReplaceAll(lines[1], `"id":"2"`, `"id":"new"`),
			"same id":      strings.Replace(lines[0], `"stream":"a"`, `"stream":"z"`, 1),
			"twice":        strings.NewReplacer(`"id":"1"`, `"id":"n"`, `"stream":"a"`, `"stream":"y"`).Replace(lines[0] + lines[0]),
			"cut off":      `{"stream":"q","num":1,"id":"q1","kind":"ask.stop","v":1,"by":{}}` + "\n" + `{"stream":"q","nu`,
			"no event":     `{"hello":1}`,
			"not even one": "[]",
		} {
			if err := to.Import(ctx, strings.NewReader(text)); err == nil {
				t.Errorf("%s: imported", name)
			}
		}
		if n := len(must(to.All(ctx, 0, 0))(t)); n != 6 {
			t.Errorf("%d events after refused imports, want 6", n)
		}
		if err := to.Import(ctx, strings.NewReader("")); err != nil {
			t.Errorf("nothing to import: %v", err)
		}
	})
}
