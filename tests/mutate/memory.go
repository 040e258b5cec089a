package main

// memory are what bounds memory inside transactions.
var memory []mutation
