// Package suggest finds the names that a mistyped name may stand for.
package suggest

import (
	"slices"
	"strings"
)

// maxSuggestions is the most names that Closest returns.
const maxSuggestions = 3

// Closest returns the names that a mistyped name may stand for, the closest first. Case does not matter. A name is
// close if
//
//   - it is within one edit for each three characters typed, and within three edits: with more, nearly every name of this
//     length would be close;
//   - it is at most one edit further away than the closest name;
//   - with more than one edit, it has the same first character, or both names have a dot: people rarely mistype the first
//     character.
//
// If some of these names have the typed part before a dot, such as BF, the others are left out: commands of different
// types of filter have similar names.
func Closest(mistyped string, names []string) []string {
	mistyped = strings.ToUpper(mistyped)
	limit := min(max(len(mistyped)/3, 1), 3)
	type candidate struct {
		name  string
		edits int
	}
	var near []candidate
	for _, name := range names {
		n := Distance(mistyped, strings.ToUpper(name))
		if n <= limit && (n <= 1 || beginAlike(mistyped, strings.ToUpper(name))) {
			near = append(near, candidate{name, n})
		}
	}
	if family, _, ok := strings.Cut(mistyped, "."); ok {
		foreign := func(c candidate) bool { return !strings.HasPrefix(strings.ToUpper(c.name), family+".") }
		if own := slices.DeleteFunc(slices.Clone(near), foreign); len(own) > 0 {
			near = own
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.edits - b.edits })
	var found []string
	for _, c := range near[:min(len(near), maxSuggestions)] {
		if c.edits <= near[0].edits+1 {
			found = append(found, c.name)
		}
	}
	return found
}

// beginAlike reports whether two names have the same first character, or a dot each.
func beginAlike(a, b string) bool {
	return a != "" && b != "" && a[0] == b[0] || strings.Contains(a, ".") && strings.Contains(b, ".")
}

// Distance returns the Damerau-Levenshtein distance of a and b, in bytes, in its restricted form (optimal string
// alignment): how many bytes to insert, delete, replace, or swap with their neighbours, none of them twice.
func Distance(a, b string) int {
	// rows[i%3][j] is the distance of a[:i] and b[:j]; a swap looks two rows back.
	var rows [3][]int
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row, above := rows[i%3], rows[(i-1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := above[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(above[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], rows[(i-2)%3][j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}
