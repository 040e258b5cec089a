// Package dashboard serves pages that show what the filters of a store do: how full they are, how often they answer yes, which are above
// their rate, and what the store, and the server if there is one, are busy with. The pages are only read, from a browser, and load nothing
// from elsewhere.
//
//	d, err := dashboard.New(db.Store(), nil)
//	...
//	defer d.Close() // before the store is closed
//	go http.ListenAndServe("127.0.0.1:8080", d)
//
// Without Options.Authorize only requests from this machine are answered.
//
// # Terminology
//
//   - listing: a row for each filter, kept in memory, as the last pass over the keys has found them. See listing.go.
//   - history: what was at earlier times, of the store and of the filters that are used most, in a fixed memory. See history.go.
//   - viewer: the person who looks at a page, and may see what his rights allow.
//
// # How it works
//
// A page is a template of package html/template and what its function returns: overview.go, filters.go, filter.go, plan.go and busy.go have
// one each. A small script asks for the page again and exchanges the parts that are marked; without it the pages say the same, and stand
// still. One goroutine keeps the listing and the history, until Close.
package dashboard
