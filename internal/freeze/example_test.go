package freeze_test

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/freeze"
)

// A store stacks Pebble on FS, FS on Space, and Space on the disk. It acknowledges a commit if the directory is not
// frozen after the sync.
func Example() {
	disk := vfs.NewMem()
	space := freeze.NewSpace(disk, "db", freeze.Options{Low: 64 << 20, High: 96 << 20})
	fs := freeze.New(space.FS(), "db", func(err error) { fmt.Println("failed:", err) })
	db, err := pebble.Open("db", &pebble.Options{FS: fs, Logger: &listener{}})
	if err == nil {
		err = fs.Failed() // Open can seem to succeed
	}
	if err != nil {
		panic(err)
	}
	space.Start()

	set := func(key string) {
		err := errors.Join(db.Set([]byte(key), nil, pebble.Sync), fs.Failed())
		fmt.Printf("set %s: %v\n", key, err)
	}
	set("a")
	fs.Freeze(errors.New("the disk makes noises"))
	set("b")
	fmt.Println("close:", db.Close())
	space.Close()

	db, err = pebble.Open("db", &pebble.Options{FS: freeze.New(disk, "db", nil), Logger: &listener{}})
	if err != nil {
		panic(err)
	}
	for _, key := range []string{"a", "b"} {
		_, closer, err := db.Get([]byte(key))
		fmt.Printf("get %s: %v\n", key, err)
		if err == nil {
			closer.Close()
		}
	}
	fmt.Println("close:", db.Close())
	// Output:
	// set a: <nil>
	// failed: the disk makes noises
	// set b: the disk makes noises
	// close: <nil>
	// get a: <nil>
	// get b: pebble: not found
	// close: <nil>
}
