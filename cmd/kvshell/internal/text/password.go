package text

import (
	"bytes"
	"errors"
)

// Password returns the password in a file that has been read: its first line, of a text as DecodeAll knows. An empty one is
// an error.
func Password(file []byte) (string, error) {
	decoded, err := DecodeAll(file)
	if err != nil {
		return "", err
	}
	line, _, _ := bytes.Cut(decoded, []byte("\n"))
	if line = bytes.TrimSuffix(line, []byte("\r")); len(line) == 0 {
		return "", errors.New("its first line, the password, is empty")
	}
	return string(line), nil
}
