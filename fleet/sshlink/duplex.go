package sshlink

import (
	"io"
	"sync"

	"golang.org/x/crypto/ssh"
)

// duplex is an SSH channel whose closing is local first. An ssh.Channel on its
// own leaves readers and writers waiting until the other side confirms, which a
// frozen one never does; here they talk to two pumps and are let go at once.
type duplex struct {
	conn *Conn
	ch   ssh.Channel

	in     *io.PipeReader
	writes chan writeOp
	wmu    sync.Mutex // one write at a time

	once   sync.Once
	closed chan struct{}
}

// writeOp is a piece to send, or with nil data the end of sending.
type writeOp struct {
	data []byte
	done chan writeResult // has room for one, so that the pump never waits
}

type writeResult struct {
	n   int
	err error
}

// newDuplex starts the pumps. At the end of input, ending says what the reader
// is told, nil for io.EOF; it gets the number of bytes that came.
func newDuplex(c *Conn, ch ssh.Channel, ending func(d *duplex, got int64) error) (*duplex, error) {
	in, feed := io.Pipe()
	d := &duplex{conn: c, ch: ch, in: in, writes: make(chan writeOp), closed: make(chan struct{})}
	if err := c.spawn(func() { d.pumpIn(feed, ending) }); err != nil {
		return nil, err
	}
	if err := c.spawn(d.pumpOut); err != nil {
		return nil, err
	}
	// A reader who does not read must not keep the first pump alive beyond the
	// connection.
	if err := c.spawn(func() {
		select {
		case <-c.dead:
			feed.CloseWithError(c.Err())
		case <-d.closed:
		}
	}); err != nil {
		return nil, err
	}
	return d, nil
}

// pumpIn hands over what comes. Once the stream is closed on our side it throws
// away what still arrives, until the other side has closed as well.
func (d *duplex) pumpIn(feed *io.PipeWriter, ending func(*duplex, int64) error) {
	var got int64
	buf := make([]byte, 32<<10)
	for {
		n, err := d.ch.Read(buf)
		got += int64(n)
		if n > 0 {
			_, _ = feed.Write(buf[:n]) // fails only when nobody reads any more
		}
		if err != nil {
			break
		}
	}
	feed.CloseWithError(ending(d, got))
}

func (d *duplex) pumpOut() {
	for {
		select {
		case op := <-d.writes:
			var r writeResult
			if op.data == nil {
				r.err = d.ch.CloseWrite()
			} else {
				r.n, r.err = d.ch.Write(op.data)
			}
			op.done <- r
		case <-d.closed:
			return
		case <-d.conn.dead:
			return
		}
	}
}

func (d *duplex) Read(p []byte) (int, error) { return d.in.Read(p) }

// Write returns when the data has been handed to the connection.
func (d *duplex) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	// The pump may still hold the data after a close has let us go.
	return d.send(append(make([]byte, 0, len(p)), p...))
}

// CloseWrite tells the other side that no more comes.
func (d *duplex) CloseWrite() error {
	_, err := d.send(nil)
	return err
}

func (d *duplex) send(data []byte) (int, error) {
	d.wmu.Lock()
	defer d.wmu.Unlock()
	op := writeOp{data: data, done: make(chan writeResult, 1)}
	select {
	case d.writes <- op:
	case <-d.closed:
		return 0, io.ErrClosedPipe
	case <-d.conn.dead:
		return 0, d.conn.Err()
	}
	select {
	case r := <-op.done:
		if r.err == io.EOF { // what a channel says that the other side has closed
			r.err = io.ErrClosedPipe
		}
		return r.n, r.err
	case <-d.closed:
		return 0, io.ErrClosedPipe
	case <-d.conn.dead:
		return 0, d.conn.Err()
	}
}

// Close lets go of everyone waiting here and tells the other side without
// waiting for it.
func (d *duplex) Close() error {
	d.once.Do(func() {
		close(d.closed)
		d.in.CloseWithError(io.ErrClosedPipe)
		_ = d.conn.spawn(func() { d.ch.Close() }) // a dead connection needs no message
	})
	return nil
}
