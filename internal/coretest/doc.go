// Package coretest has what tests of modules share: scripts of commands with their replies in both protocols, run in
// a store whose clock the test controls, and a module with another type.
//
// A script has a command on each line, its reply in RESP2 after "=>", and its reply in RESP3 after "|" if that
// differs. Replies are written as
//
//	+OK  -ERR text  :1  ,0.5  "bulk"  _ (nil)  #t #f  [:1 :0]  ~[+set]  {"key" :1}
//
// Four or more equal elements in a row are written as 4*:1, and ... stands for any text. A word in quotes is a Go
// string literal; item{1..5} stands for five words. A line that begins with two blanks continues the one before;
// "@pass 10s" moves the clock.
package coretest
