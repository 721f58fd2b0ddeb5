package probes

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ebb/fleet"
)

// endsMax is how many processes are watched at most; the ends of others show at
// the next look at all of them.
const endsMax = 4096

// Ends tells when processes end, at once: each is held by a pidfd, which keeps
// neither the process nor its pid from going. It only says that something has
// ended; what there is now, a look must tell.
type Ends struct {
	epoll *os.File
	conn  syscall.RawConn
	limit int

	mu   sync.Mutex
	set  int // the epoll descriptor; negative once closed
	fds  map[fleet.Run]int
	runs map[int]fleet.Run
	gone map[fleet.Run]bool // told, and to be forgotten once a look no longer shows them
}

// newEnds makes a watcher without processes.
func newEnds() (*Ends, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	// Non-blocking, so that waiting for it parks a goroutine and not a thread.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	e := &Ends{
		epoll: os.NewFile(uintptr(fd), "pidfds"), set: fd, limit: endsLimit(),
		fds: map[fleet.Run]int{}, runs: map[int]fleet.Run{}, gone: map[fleet.Run]bool{},
	}
	if e.conn, err = e.epoll.SyscallConn(); err != nil {
		e.epoll.Close()
		return nil, err
	}
	return e, nil
}

// endsLimit leaves most descriptors to others.
func endsLimit() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 256
	}
	return int(min(r.Cur/2, endsMax))
}

// Watch sets which processes are watched. It reports whether one of them has
// ended already, without having been told by Wait.
func (e *Ends) Watch(runs []fleet.Run) (ended bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	want := make(map[fleet.Run]bool, len(runs))
	for _, run := range runs {
		want[run] = true
	}
	for run, fd := range e.fds {
		if !want[run] {
			e.drop(run, fd)
		}
	}
	for run := range e.gone {
		if !want[run] {
			delete(e.gone, run)
		}
	}
	for _, run := range runs {
		if e.set < 0 {
			return false
		}
		if _, ok := e.fds[run]; ok || e.gone[run] || run.PID <= 1 || len(e.fds) >= e.limit {
			continue
		}
		fd, err := unix.PidfdOpen(run.PID, 0)
		if errors.Is(err, unix.ESRCH) {
			e.gone[run], ended = true, true
			continue
		}
		if err != nil {
			continue // the next look will do
		}
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
		if err := unix.EpollCtl(e.set, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			unix.Close(fd)
			continue
		}
		e.fds[run], e.runs[fd] = fd, run
	}
	return ended
}

// held lists what has not ended.
func (e *Ends) held() map[fleet.Run]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := make(map[fleet.Run]bool, len(e.fds))
	for run := range e.fds {
		held[run] = true
	}
	return held
}

func (e *Ends) drop(run fleet.Run, fd int) {
	unix.Close(fd) // which takes it out of the epoll set too
	delete(e.fds, run)
	delete(e.runs, fd)
}

// Wait waits until watched processes have ended. After Close it returns an error.
func (e *Ends) Wait() error {
	events := make([]unix.EpollEvent, 128)
	return e.conn.Read(func(epoll uintptr) bool {
		n, err := unix.EpollWait(int(epoll), events, 0)
		if err != nil || n == 0 {
			return false // interrupted, or nothing yet
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, event := range events[:n] {
			if run, ok := e.runs[int(event.Fd)]; ok {
				e.drop(run, int(event.Fd))
				e.gone[run] = true
			}
		}
		return true
	})
}

// Close ends the watch and every Wait. It waits for one that is just noting an
// end, which needs the lock.
func (e *Ends) Close() error {
	e.mu.Lock()
	e.set = -1
	for run, fd := range e.fds {
		e.drop(run, fd)
	}
	e.mu.Unlock()
	return e.epoll.Close()
}
