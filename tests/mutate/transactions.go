package main

// transactions are what transactions and writers rest on.
var transactions []mutation
