// Section explores a model of how lookups read memory while commits change it: two lookups with two commits, or with a
// commit and what happens beside it, in every order of their steps, from each kind of filter.
//
// Words, versions and loads are as in packages kv and internal/memory, where versions are the places of an object's
// last changes. Before a slow lookup reads a snapshot, kv runs it once more with commits of several objects held off.
//
//	go run ./tests/section [-every n]
//
// An answer has to be true at a moment between the beginning and the end of its lookup, in one order for all. Then it
// leaves the steps of protection out, one at a time: each time an answer must be wrong. It prints how many states there
// are, and the steps that lead to a wrong answer, and exits with status 1 if one is wrong, or if none is where a step is
// left out. With -every it explores one in n scenes; all take some minutes.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
)

func main() {
	every := flag.Int("every", 1, "explore one in so many scenes")
	flag.Parse()
	if *every < 1 {
		fmt.Fprintf(os.Stderr, "section: -every is %d, at least 1\n", *every)
		os.Exit(2)
	}
	ok := exploreScenes(*every)
	for _, r := range races {
		steps, found := r.shown()
		fmt.Printf("%s: %d steps\n", r.name, len(steps))
		ok = ok && found
	}
	if !ok {
		os.Exit(1)
	}
}

// exploreScenes explores one in n scenes, as many at once as there are processors, and prints what is wrong.
func exploreScenes(n int) (ok bool) {
	list := scenes()
	next := make(chan scene)
	var wait sync.WaitGroup
	var mu sync.Mutex
	ok = true
	explored, states := 0, 0
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for sc := range next {
				count, wrong, steps := sc.explore(0)
				mu.Lock()
				explored, states = explored+1, states+count
				if wrong != "" {
					ok = false
					fmt.Printf("%s %v: %s\n\t%s\n", sc.kind.name, sc.runs, wrong, strings.Join(steps, "\n\t"))
				}
				mu.Unlock()
			}
		})
	}
	for i := 0; i < len(list); i += n {
		next <- list[i]
	}
	close(next)
	wait.Wait()
	fmt.Printf("%d scenes, %d states\n", explored, states)
	return ok
}

// explore explores a scene without some steps of protection.
func (sc scene) explore(w without) (states int, wrong string, steps []string) {
	x := &explorer{slots: sc.kind.slots, without: w}
	return x.explore(sc.kind.start(sc.runs))
}

// shown reports whether a race is found in its scene, and only without its step, and returns the steps that lead to it.
func (r race) shown() (steps []string, found bool) {
	if _, wrong, _ := r.scene.explore(0); wrong != "" {
		return nil, false
	}
	_, wrong, steps := r.scene.explore(r.without)
	return steps, wrong != ""
}
