package main

// hash are what the hashes of items rest on.
var hash []mutation
