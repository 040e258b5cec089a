package sievekv_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sievekv/sievekv"
)

// A calendar of sign-ins: a bit for each day of the year.
func ExampleBitmap() {
	db := inMemory()
	defer db.Close()
	days := db.Bitmap("signin:alice:2026")
	for _, day := range []uint32{0, 27, 28, 29, 31, 32, 33} {
		if _, err := days.Set(day); err != nil {
			log.Fatal(err)
		}
	}
	inJanuary, err := days.CountRange(0, 30)
	inARow, err := days.Streak(33)
	var came []uint32
	for day, err := range days.All() {
		if err != nil {
			log.Fatal(err)
		}
		came = append(came, day)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(came)
	fmt.Println(inJanuary, "days in January,", inARow, "days in a row")
	// Output:
	// [0 27 28 29 31 32 33]
	// 4 days in January, 3 days in a row
}

// Who was active on all seven days, of ten million users? Each is active on six days of seven, but for one in a
// hundred, who is active every day. The time and the bytes go to standard error, as they differ from run to run.
func ExampleBitmap_CountCombined() {
	const users = 10_000_000
	ctx := context.Background()
	db := inMemory()
	defer db.Close()
	var week []*sievekv.Bitmap
	for day := range uint32(7) {
		active := roaring.New()
		active.AddRange(0, users)
		idle := roaring.New()
		for user := range uint32(users) {
			if user%100 != 0 && user*2654435761>>16%7 == day {
				idle.Add(user)
			}
		}
		active.AndNot(idle)
		bitmap := db.Bitmap(fmt.Sprintf("active:%d", day))
		if err := bitmap.FromRoaring(ctx, active); err != nil {
			log.Fatal(err)
		}
		week = append(week, bitmap)
	}
	begin := time.Now()
	everyDay, err := week[0].CountCombined(ctx, sievekv.BitAnd, week[1:]...)
	if err != nil {
		log.Fatal(err)
	}
	took := time.Since(begin)
	bytes, err := db.Store().DiskBytes()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "%d users intersected over 7 days in %v; %d bytes are stored\n", users, took, bytes)
	fmt.Println(everyDay, "users were active every day")
	// Output: 100000 users were active every day
}

// A bitmap moves to other programs as a roaring bitmap in the standard format, and back.
func ExampleBitmap_ToRoaring() {
	ctx := context.Background()
	db := inMemory()
	defer db.Close()
	if err := db.Bitmap("beta").FromRoaring(ctx, roaring.BitmapOf(7, 4_000_000_000)); err != nil {
		log.Fatal(err)
	}
	set, err := db.Bitmap("beta").ToRoaring(ctx)
	if err != nil {
		log.Fatal(err)
	}
	exported, err := set.ToBytes()
	fmt.Println(set.ToArray(), len(exported), err)
	// Output: [7 4000000000] 28 <nil>
}
