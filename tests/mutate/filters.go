package main

// filters are what filling, merging and the rates of filters rest on.
var filters []mutation
