// Package coretest has what tests of modules share: scripts of commands with their replies
// in both protocols, run in a store whose clock the test moves, and a module of
// another type.
//
// A script has a command on each line, and after "=>" its reply in RESP2, and after
// "|" that in RESP3 if it differs. Replies are written as
//
//	+OK  -ERR text  :1  ,0.5  "bulk"  _ (nil)  #t #f  [:1 :0]  ~[+set]  {"key" :1}
//
// with four or more equal elements in a row as 4*:1, and ... for any text. A word
// in quotes is a Go string literal; item{1..5} stands for five words. A
// line that begins with two blanks goes on with the one before; "@pass 10s" lets
// time pass.
package coretest
