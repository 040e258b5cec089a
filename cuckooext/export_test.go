package cuckooext

// RaceEnabled is raceEnabled for the tests from outside.
const RaceEnabled = raceEnabled
