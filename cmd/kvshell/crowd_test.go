package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

// crowdVariable makes a process open connections: with "FROM NUMBER ADDRESS NUMBER ADDRESS ..." NUMBER to each ADDRESS,
// from the local address FROM. The process then prints "connected", and keeps them until its standard input ends.
const crowdVariable = "KVSHELL_TEST_CROWD"

// crowdAt does what a value of crowdVariable says.
func crowdAt(value string) {
	if value == "" {
		return
	}
	var open []net.Conn // which would be closed if nobody held them
	words := strings.Fields(value)
	var dialer net.Dialer
	if runtime.GOOS == "linux" { // which has all of 127.0.0.0/8, and looks for a port for long where most are taken
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(words[0])}
	}
	for words = words[1:]; len(words) > 1; words = words[2:] {
		n, err := strconv.Atoi(words[0])
		for i := 0; i < n && err == nil; i++ {
			var c net.Conn
			if c, err = dialer.Dial("tcp", words[1]); err == nil {
				open = append(open, c)
			}
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(exit.Refused)
		}
	}
	fmt.Println("connected")
	_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end, too
	os.Exit(min(len(open), exit.OK))
}
