package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ebb/fleet"
	"ebb/probes/wire"
)

// idleThing is a resource seen unused, by identity.
type idleThing struct {
	key      fleet.Key
	identity string
}

func checkClean(req wire.ActRequest) error {
	switch req.Key.Kind {
	case "netns", "loop", "dir":
	default:
		return refuse(wire.CodeBadRequest, "only netns, loop and dir can be cleaned, not "+req.Key.Kind)
	}
	if req.Identity == "" {
		return refuse(wire.CodeBadRequest, "identity: name the thing as it was observed")
	}
	return nil
}

// observeIdle notes since when each resource has been seen unused while the
// host was held and no admission was open. Whatever interrupts that begins the
// count anew. The lock is held.
func (a *Agent) observeIdle(r Readings, at time.Duration) {
	if !a.rec.Holds.Any() || len(openTickets(a.tickets)) > 0 || r.Workloads.Status != fleet.OK {
		a.idle = nil
		return
	}
	next := map[idleThing]time.Duration{}
	for _, list := range [][]fleet.Resource{r.Netns.Value, r.Loops.Value, r.Dirs.Value} {
		for _, res := range list {
			thing := idleThing{res.Key, res.Identity}
			if inUse(res, r.Workloads.Value) != "" {
				continue
			}
			since, ok := a.idle[thing]
			if !ok {
				since = at
			}
			next[thing] = since
		}
	}
	a.idle = next
}

// inUse says why a resource may not be cleaned, or nothing.
func inUse(r fleet.Resource, workloads []fleet.Workload) string {
	switch {
	case r.System != "":
		return "it is the host's own: " + r.System
	case r.Identity == "":
		return "it has no identity"
	case len(r.Users) > 0:
		return fmt.Sprintf("process %d uses it", r.Users[0].PID)
	}
	for _, w := range workloads {
		if w.Key == r.Owner || slices.Contains(w.Owns, r.Key) {
			return fmt.Sprintf("its owner %s is here (%s)", w.Key, w.Phase)
		}
	}
	return ""
}

// handle is a thing that is about to be cleaned, held open so that its identity
// can't be taken over.
type handle interface {
	// same reports whether the name still leads to the thing that is held.
	same() error
	// remove takes the thing away under its name; quick, for the lock is held.
	remove() error
	// finish does what takes longer, without the lock.
	finish() error
	close()
}

// clean removes a resource that has been unused for long enough. The order is
// what makes it safe: hold the thing open, look at the whole host anew, find it
// there unused under the identity that was asked for, and check in the instant
// of the act that the name still leads to what is held.
func (a *Agent) clean(ctx context.Context, req wire.ActRequest, reply *wire.ActReply) error {
	h, err := a.hold(req.Key)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) {
		return refuse(wire.CodeOtherRun, req.Key.String()+" is not there")
	}
	if err != nil {
		return err
	}
	defer h.close()
	f, err := a.lookAnew(ctx, false)
	if err != nil {
		return ending(ctx, err)
	}
	err = func() error {
		defer a.mu.Unlock()
		return a.removeHeld(f, req, h, reply)
	}()
	if err != nil {
		return err
	}
	if err := h.finish(); err != nil {
		return err
	}
	h.close()
	if f, err = a.fresh(ctx); err != nil {
		return ending(ctx, err)
	}
	reading, _ := resources(f, req.Key.Kind)
	if reading.Status != fleet.OK {
		return fmt.Errorf("clean %s: it was removed, and whether it is gone can't be read: %s", req.Key, reading.Error)
	}
	if _, there := findResource(reading.Value, req.Key, req.Identity); there {
		return fmt.Errorf("clean %s: it is still there", req.Key)
	}
	reply.Detail = "read again: gone"
	return nil
}

// removeHeld is the instant of the act. The lock is held.
func (a *Agent) removeHeld(f fleet.Facts, req wire.ActRequest, h handle, reply *wire.ActReply) error {
	if err := a.fence(req); err != nil {
		return err
	}
	reading, _ := resources(f, req.Key.Kind)
	if reading.Status != fleet.OK || f.Workloads.Status != fleet.OK || f.Processes.Status != fleet.OK {
		return refuse(wire.CodeOtherRun, "what would show it unused can't be read")
	}
	res, ok := findResource(reading.Value, req.Key, req.Identity)
	if !ok {
		return refuse(wire.CodeOtherRun, req.Key.String()+" is not the one observed").arg("identity", req.Identity)
	}
	if why := inUse(res, f.Workloads.Value); why != "" {
		return refuse(wire.CodeOtherRun, "not cleaned: "+why)
	}
	since, seen := a.idle[idleThing{req.Key, req.Identity}]
	now := a.cfg.Clock.Boottime()
	if !seen {
		since = now
	}
	if left := a.cfg.scaled(a.cfg.CleanGap) - (now - since); left > 0 {
		reply.NotYet = a.cfg.Clock.Now().Add(left)
		return refuse(wire.CodeTooEarly, fmt.Sprintf("it has been seen unused for %v only", (now-since).Round(time.Millisecond)))
	}
	if err := h.same(); err != nil {
		return err
	}
	return h.remove()
}

func resources(f fleet.Facts, kind string) (fleet.Reading[[]fleet.Resource], bool) {
	switch kind {
	case "netns":
		return f.Netns, true
	case "loop":
		return f.Loops, true
	case "dir":
		return f.Dirs, true
	}
	return fleet.Reading[[]fleet.Resource]{}, false
}

func findResource(list []fleet.Resource, key fleet.Key, identity string) (fleet.Resource, bool) {
	for _, r := range list {
		if r.Key == key && r.Identity == identity {
			return r, true
		}
	}
	return fleet.Resource{}, false
}

// hold opens the thing that a key names now.
func (a *Agent) hold(key fleet.Key) (handle, error) {
	switch key.Kind {
	case "netns":
		return holdNetns(a.cfg.Netns, key.ID)
	case "loop":
		return holdLoop(a.cfg.Dev, strings.TrimPrefix(key.ID, "/dev/"))
	default:
		return holdDir(a.cfg.path(key.ID))
	}
}

// inode identifies a file for as long as somebody holds it open.
type inode struct{ dev, ino uint64 }

func inodeOf(fd int) (inode, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return inode{st.Dev, st.Ino}, err
}

func inodeAt(dir int, name string) (inode, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return inode{st.Dev, st.Ino}, err
}

func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

func replaced(what string) error {
	return refuse(wire.CodeOtherRun, what+" was replaced by another in between: nothing was done")
}
