package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Cast writes a film as asciicast, version 2: a header, then a line for each
// picture with its time in seconds.
func (f Film) Cast(w io.Writer, title string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	head := struct {
		Version int               `json:"version"`
		Width   int               `json:"width"`
		Height  int               `json:"height"`
		Title   string            `json:"title"`
		Env     map[string]string `json:"env"`
	}{2, f.Width, f.Height, title, map[string]string{"TERM": "xterm-256color"}}
	if err := enc.Encode(head); err != nil {
		return err
	}
	for _, t := range f.Takes {
		text, err := json.Marshal(string(t.Data))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "[%.3f, \"o\", %s]\n", t.At.Seconds(), text)
	}
	_, err := w.Write(b.Bytes())
	return err
}
