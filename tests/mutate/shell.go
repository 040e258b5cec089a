package main

// shell are what kvshell rests on.
var shell []mutation
