// Package filtercmd is what the commands of filters of all types share: how RESERVE and INSERT are parsed, and how adds, lookups,
// facts and errors are answered, in RedisBloom's words.
package filtercmd
