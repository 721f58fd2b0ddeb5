package agent

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"ebb/fleet"
)

// A slot is a file of slotSize bytes:
//
//	0   "EBBSLOT1"
//	8   sequence number, big endian
//	16  length of the payload, big endian
//	24  SHA-256 over bytes 8 to 24 and the payload
//	56  payload: JSON of Record
//
// The record with the highest sequence number of those whose sum is right is
// the state. The other slot is the one written next, so a write cut in half
// costs the new state and never the old.
const (
	slotMagic  = "EBBSLOT1"
	slotSize   = 512 << 10
	slotHeader = 56
	// slotSpare is kept free of everything but holds, so that a cordon always fits.
	slotSpare = 160 << 10
)

// slotNames are the two files in the state directory.
var slotNames = [2]string{"holds.0", "holds.1"}

// ErrNoRecord says that a state directory has no readable record of holds: the
// host was reimaged, is diskless, or both slots are damaged.
var ErrNoRecord = errors.New("no record of holds")

var (
	errTooLarge = errors.New("the record does not fit its slot")
	errInvalid  = errors.New("no record in this slot")
)

// slotFile is what the slots need of a file; tests put a failing one in its place.
type slotFile interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
	Close() error
}

type slots struct {
	files [2]slotFile
	seq   uint64
	next  int // index of the slot that is written next
}

// openSlots opens the two slots of dir, creating and filling them where they
// are missing, and reads the record. A directory without a valid record gives
// ErrNoRecord together with usable slots.
func openSlots(dir string) (*slots, Record, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, Record{}, fmt.Errorf("create state directory: %w", err)
	}
	s := &slots{}
	for i, name := range slotNames {
		f, err := openSlot(filepath.Join(dir, name))
		if err != nil {
			s.close()
			return nil, Record{}, fmt.Errorf("open slot: %w", err)
		}
		s.files[i] = f
	}
	if err := syncDir(dir); err != nil {
		s.close()
		return nil, Record{}, fmt.Errorf("sync state directory: %w", err)
	}
	rec, err := s.load()
	return s, rec, err
}

// openSlot opens one slot and makes sure that all its blocks exist: later
// writes in place need no space.
func openSlot(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < slotSize {
		// Only what is missing is filled: a short file may still hold a record.
		_, err = f.WriteAt(make([]byte, slotSize-info.Size()), info.Size())
		if err == nil {
			err = f.Sync()
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// load finds the newest valid record.
func (s *slots) load() (Record, error) {
	rec, seq, slot, err := newest([2]io.ReaderAt{s.files[0], s.files[1]})
	if err == nil {
		s.seq, s.next = seq, 1-slot
	}
	return rec, err
}

// newest reads both slots and takes the record with the higher number. A slot
// that is empty, torn or not there is passed over; one that can't be read at
// all may hold the newer record, so there is none that could be relied on.
func newest(files [2]io.ReaderAt) (rec Record, seq uint64, slot int, err error) {
	err = ErrNoRecord
	for i, f := range files {
		if f == nil {
			continue
		}
		r, n, e := readSlot(f)
		switch {
		case errors.Is(e, errInvalid):
		case e != nil:
			return Record{}, 0, 0, fmt.Errorf("%w: slot %s: %w", ErrNoRecord, slotNames[i], e)
		case err != nil || n > seq:
			rec, seq, slot, err = r, n, i, nil
		}
	}
	return rec, seq, slot, err
}

// fits refuses a record that would leave no room for holds.
func (r Record) fits() error {
	r.Holds, r.Epochs = fleet.Holds{}, nil
	payload, err := json.Marshal(r)
	if err == nil && len(payload) > slotSize-slotHeader-slotSpare {
		err = errTooLarge
	}
	return err
}

// save writes the record to the older slot. When it returns nil the record is
// on the disk; otherwise the record before it still is.
func (s *slots) save(rec Record) error {
	payload, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if len(payload) > slotSize-slotHeader {
		return errTooLarge
	}
	buf := make([]byte, slotHeader+len(payload))
	copy(buf, slotMagic)
	binary.BigEndian.PutUint64(buf[8:], s.seq+1)
	binary.BigEndian.PutUint64(buf[16:], uint64(len(payload)))
	copy(buf[slotHeader:], payload)
	sum := slotSum(buf[8:24], payload)
	copy(buf[24:], sum[:])
	f := s.files[s.next]
	_, err = f.WriteAt(buf, 0)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		// What was refused must not come back after a crash: the slot is spoiled,
		// as far as the disk still lets us.
		_, _ = f.WriteAt(make([]byte, slotHeader), 0)
		_ = f.Sync()
		return err
	}
	s.seq, s.next = s.seq+1, 1-s.next
	return nil
}

func slotSum(head, payload []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write(head)
	h.Write(payload)
	return [sha256.Size]byte(h.Sum(nil))
}

func readSlot(f io.ReaderAt) (Record, uint64, error) {
	head := make([]byte, slotHeader)
	if err := readAt(f, head, 0); err != nil {
		return Record{}, 0, err
	}
	n := binary.BigEndian.Uint64(head[16:])
	if string(head[:8]) != slotMagic || n > slotSize-slotHeader {
		return Record{}, 0, errInvalid
	}
	payload := make([]byte, n)
	if err := readAt(f, payload, slotHeader); err != nil {
		return Record{}, 0, err
	}
	if slotSum(head[8:24], payload) != [sha256.Size]byte(head[24:slotHeader]) {
		return Record{}, 0, errInvalid
	}
	var rec Record
	if err := json.Unmarshal(payload, &rec); err != nil {
		return Record{}, 0, err // whole, and of a kind that this agent does not know
	}
	return rec, binary.BigEndian.Uint64(head[8:]), nil
}

func readAt(f io.ReaderAt, p []byte, off int64) error {
	if _, err := f.ReadAt(p, off); errors.Is(err, io.EOF) {
		return errInvalid
	} else if err != nil {
		return err
	}
	return nil
}

func (s *slots) close() {
	for _, f := range s.files {
		if f != nil {
			f.Close()
		}
	}
}

// ReadHolds reads the record of a state directory without a daemon and without
// changing anything. Where there is no record it returns ErrNoRecord.
func ReadHolds(dir string) (Record, error) {
	var files [2]io.ReaderAt
	for i, name := range slotNames {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Record{}, fmt.Errorf("read holds: %w", err)
		}
		defer f.Close()
		files[i] = f
	}
	rec, _, _, err := newest(files)
	return rec, err
}

// Init records "no holds" in a state directory that has no record, which is
// what tells a new host's agent that it may admit work. It refuses where a
// record exists.
func Init(dir, machine string) error {
	lock, err := lockState(dir)
	if err != nil {
		return fmt.Errorf("state directory %s: %w", dir, err)
	}
	defer lock.Close()
	s, _, err := openSlots(dir)
	if s == nil {
		return err
	}
	defer s.close()
	if err == nil {
		return fmt.Errorf("state directory %s: there is a record of holds already", dir)
	}
	return s.save(Record{Machine: machine})
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
