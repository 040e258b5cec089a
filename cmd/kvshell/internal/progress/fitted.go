package progress

import "io"

// fitted writes lines that begin with a carriage return, and cuts them to the width of a terminal. In a longer line, a
// carriage return would go back to the beginning of its last row only, so each line would leave rows behind.
type fitted struct {
	out    io.Writer
	width  func() int // in columns; 0 or less if it is not known
	column int
}

// Write implements io.Writer. A character takes one column. The last column stays empty: some terminals go to the next
// line when it is written to.
func (f *fitted) Write(p []byte) (int, error) {
	width := f.width()
	if width <= 0 {
		return f.out.Write(p)
	}
	var fit []rune
	for _, r := range string(p) {
		switch {
		case r == '\r', r == '\n':
			f.column = 0
		case f.column >= width-1:
			continue
		default:
			f.column++
		}
		fit = append(fit, r)
	}
	if _, err := io.WriteString(f.out, string(fit)); err != nil {
		return 0, err
	}
	return len(p), nil
}
