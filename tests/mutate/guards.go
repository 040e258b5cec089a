package main

// guards are single lines beside the read and commit protocols that a fault hides behind.
var guards []mutation
