// Package dump makes the dumps of filters that SCANDUMP answers, and loads what LOADCHUNK is given.
package dump
