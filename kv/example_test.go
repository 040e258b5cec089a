package kv_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"slices"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// A store of strings, without any module: it is written, closed, and opened again.
func Example() {
	dir, err := os.MkdirTemp("", "kv")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := kv.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.Set(kv.Always, []byte("fruit"), []byte("apple"), kv.SetOptions{}); err != nil {
		log.Fatal(err)
	}
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}

	db, err = kv.Open(dir, &kv.Options{MustExist: true}) // the next process
	if err != nil {
		log.Fatal(err)
	}
	value, err := db.Get([]byte("fruit"))
	fmt.Printf("%s %v\n", value, err)
	_, err = db.Get([]byte("vegetable"))
	fmt.Println(errors.Is(err, kv.ErrNotFound))
	fmt.Println(db.Close())
	// Output:
	// apple <nil>
	// true
	// <nil>
}

// One writer reads and writes several keys, in one commit: it is given all of them, and keeps other writers of these
// keys waiting. Nothing is written if its function returns an error.
func ExampleDB_Write() {
	db, err := kv.Open("", &kv.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Incr(kv.Always, []byte("alice"), 10); err != nil {
		log.Fatal(err)
	}
	errTooLittle := errors.New("too little")
	pay := func(from, to []byte, amount int64) error {
		return db.Write(kv.Always, [][]byte{from, to}, func(w *kv.Writer) error {
			if _, err := w.Incr(to, amount); err != nil {
				return err
			}
			left, err := w.Incr(from, -amount)
			if err == nil && left < 0 {
				err = errTooLittle
			}
			return err
		})
	}
	fmt.Println(pay([]byte("alice"), []byte("bob"), 7))
	fmt.Println(pay([]byte("alice"), []byte("bob"), 7))
	values, err := db.MGet([]byte("alice"), []byte("bob")) // as of one moment
	fmt.Printf("%s %v\n", values, err)
	// Output:
	// <nil>
	// too little
	// [3 7] <nil>
}

// A lookup of several keys sees none or all of each commit. Its function may run twice, and so begins again.
func ExampleDB_Read() {
	db, err := kv.Open("", &kv.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	keys := [][]byte{[]byte("first"), []byte("second")}
	err = db.Write(kv.Always, keys, func(w *kv.Writer) error {
		for _, key := range keys {
			if _, err := w.Set(key, []byte("value of "+string(key)), kv.SetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	var found []string
	err = db.Read(func(r kv.Reader) error {
		found = nil
		for _, key := range keys {
			value, err := r.Get(key)
			if err != nil {
				return err
			}
			found = append(found, string(value))
		}
		return nil
	})
	fmt.Printf("%q %v\n", found, err)
	// Output: ["value of first" "value of second"] <nil>
}

// What most programs choose. A value out of range is an error that names the field.
func ExampleOptions() {
	o := &kv.Options{
		InMemory:       true,        // nothing is kept
		Durability:     kv.EverySec, // a crash loses the last second
		CacheSize:      64 << 20,    // bytes of memory for blocks
		MaxFilterBytes: 1 << 30,     // of one filter
		Logger:         slog.New(slog.DiscardHandler),
	}
	db, err := kv.Open("", o)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Durability(), db.Close())
	o.CacheSize = 1000
	_, err = kv.Open("", o)
	fmt.Println(errors.Is(err, kv.ErrOptions), err)
	// Output:
	// everysec <nil>
	// true kv: bad options: CacheSize 1000: must be 8192 to 1099511627776 bytes
}

// A scan goes through all keys that match. It is a sequence, to be ranged over.
func ExampleDB_Scan() {
	db, err := kv.Open("", &kv.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, key := range []string{"user:1", "user:2", "order:1"} {
		if _, err := db.Set(kv.Always, []byte(key), nil, kv.SetOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	var users []string
	for key, err := range db.Scan(context.Background(), kv.ScanOptions{Match: "user:*"}) {
		if err != nil {
			log.Fatal(err)
		}
		users = append(users, key)
	}
	slices.Sort(users) // a scan has no meaningful order
	fmt.Println(users)
	// Output: [user:1 user:2]
}

// A type of a module: a set of numbers below 65,536, a bit for each, in two blocks of 4 KiB. A change
// of a bit takes a few bytes of the log; the store stores the blocks, and keeps them in memory.
func ExampleType() {
	const lines = 64
	const perBlock = lines * 512 // bits
	set := &kv.Type{
		Name: "example-set", Version: 1,
		Open: func(o *kv.Object) (any, error) { // what is stored of a set, decoded and checked
			if layers := o.Layers(); len(layers) != 1 || layers[0].Spec().Lines != lines {
				return nil, fmt.Errorf("%w: a set of %d layers", kv.ErrCorrupt, len(layers))
			}
			return o.Layers()[0], nil
		},
	}
	add := func(db *kv.DB, key []byte, number uint64) (isNew bool, err error) {
		err = db.Write(kv.Always, [][]byte{key}, func(w *kv.Writer) error {
			o, err := w.Object(key)
			if err == nil && o == nil {
				o, err = w.Create(key, kv.Spec{
					Type: set, Family: block.FamilyBits,
					Layers: []kv.LayerSpec{{Layout: kv.LayoutNative, Blocks: 2, Lines: lines}},
				})
			}
			if err != nil {
				return err
			}
			layer, err := kv.As[*kv.Layer](key, o)
			if err != nil {
				return err // such as kv.ErrWrongType
			}
			n, err := w.SetBits(o, layer, number/perBlock, []uint16{uint16(number % perBlock)})
			isNew = n > 0
			return err
		})
		return isNew, err
	}
	has := func(db *kv.DB, key []byte, number uint64) (found bool, err error) {
		err = db.Read(func(r kv.Reader) error {
			o, err := r.Lookup(key)
			if err != nil {
				return err
			}
			layer, err := kv.As[*kv.Layer](key, o)
			if err != nil {
				return err
			}
			first, err := r.Load(o, layer, number/perBlock)
			if err != nil {
				return err
			}
			word := layer.Words(first)[number%perBlock/64]
			found = word>>(number%64)&1 == 1
			return nil
		})
		return found, err
	}

	db, err := kv.Open("", &kv.Options{
		InMemory: true,
		Modules:  module.New(module.Module{Name: "example", Types: []*kv.Type{set}}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	key := []byte("numbers")
	fmt.Println(add(db, key, 40_000))
	fmt.Println(add(db, key, 40_000))
	fmt.Println(has(db, key, 40_000))
	fmt.Println(has(db, key, 40_001))
	_, err = has(db, []byte("missing"), 1)
	fmt.Println(errors.Is(err, kv.ErrNotFound))
	// Output:
	// true <nil>
	// false <nil>
	// true <nil>
	// false <nil>
	// true
}

// When a key expires is a Unix time in milliseconds.
func ExampleDB_Expire() {
	db, err := kv.Open("", &kv.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	key := []byte("session")
	if _, err := db.Set(kv.Always, key, []byte("alice"), kv.SetOptions{}); err != nil {
		log.Fatal(err)
	}
	const hour = 3_600_000 // milliseconds, as all times of package kv
	expires, err := db.Expire(kv.Always, key, db.Now()+hour, kv.ExpireAlways)
	fmt.Println(expires, err)
	at, err := db.ExpiryOf(key)
	fmt.Println(at > db.Now(), err)
	gone, err := db.Expire(kv.Always, key, db.Now()-1, kv.ExpireAlways) // a time that has passed
	fmt.Println(gone, err)
	n, err := db.Exists(key)
	fmt.Println(n, err)
	// Output:
	// true <nil>
	// true <nil>
	// true <nil>
	// 0 <nil>
}
