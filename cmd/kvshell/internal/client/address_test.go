package client

import "testing"

func TestAddressOf(t *testing.T) {
	t.Setenv(passwordVariable, "secret")
	for _, tt := range []struct {
		uri, user, password string
		shows               bool
	}{
		{"redis://127.0.0.1", "", "secret", false},
		{"redis://user:@127.0.0.1", "user", "secret", false},
		{"redis://user:word@127.0.0.1", "user", "word", true},
		{"redis://:word@127.0.0.1", "", "word", true},
		{"redis://word@127.0.0.1", "", "word", true},
	} {
		a, shows, err := AddressOf("--from", tt.uri)
		if err != nil || a.user != tt.user || a.password != tt.password || shows != tt.shows {
			t.Errorf("%s: %+v, %v, %v", tt.uri, a, shows, err)
		}
	}
}
