package edit

import "io"

// keyboard reads a terminal, in a goroutine of its own, and only while somebody waits for keys: another program may read
// the terminal meanwhile.
type keyboard struct {
	decoder
	asks  chan struct{}
	reads chan chunk
	asked bool
	more  func() bool // the terminal has bytes that were not read; nil if that is not known
}

type chunk struct {
	bytes []byte
	err   error
}

// newKeyboard begins to read. The goroutine ends with the process.
func newKeyboard(in io.Reader) *keyboard {
	k := &keyboard{asks: make(chan struct{}), reads: make(chan chunk)}
	go func() {
		for range k.asks {
			b := make([]byte, 4096)
			n, err := in.Read(b)
			k.reads <- chunk{b[:n], err}
		}
	}()
	return k
}

// read returns the channel on which bytes come.
func (k *keyboard) read() <-chan chunk {
	if !k.asked {
		k.asked = true
		k.asks <- struct{}{}
	}
	return k.reads
}

// took keeps bytes that came.
func (k *keyboard) took(c chunk) error {
	k.asked = false
	k.in = append(k.in, c.bytes...)
	if len(c.bytes) > 0 {
		return nil
	}
	return c.err
}

// waits reports whether there are bytes that no line has yet.
func (k *keyboard) waits() bool { return len(k.in) > 0 || k.more != nil && k.more() }

// Read reads bytes that no line has yet.
func (k *keyboard) Read(p []byte) (int, error) {
	if len(k.in) == 0 {
		if err := k.took(<-k.read()); err != nil {
			return 0, err
		}
	}
	n := copy(p, k.in)
	k.in = k.in[n:]
	return n, nil
}

// Unread gives bytes back that were read.
func (k *keyboard) Unread(b []byte) { k.in = append(append([]byte(nil), b...), k.in...) }
