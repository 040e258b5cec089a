package main

// accepted are the points at which no test notices a change, with the reason why none should.
var accepted = map[string]string{}
