package main

// upkeep are what runs in the background, and the space and time of the store, rest on.
var upkeep []mutation
