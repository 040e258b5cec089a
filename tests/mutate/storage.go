package main

// storage are what the store rests on when files fail or rot.
var storage []mutation
