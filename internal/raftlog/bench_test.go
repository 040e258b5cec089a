package raftlog_test

import (
	"fmt"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/raftlog"
)

// One call of Append, on the disk of the temporary directory.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 64} {
		for _, sync := range []bool{false, true} {
			b.Run(fmt.Sprintf("entries=%d/sync=%t", n, sync), func(b *testing.B) {
				l, err := raftlog.Open(b.TempDir()+"/log", raftlog.Options{})
				if err != nil {
					b.Fatal(err)
				}
				data := string(make([]byte, 200))
				index := uint64(0)
				b.SetBytes(int64(n * len(data)))
				for b.Loop() {
					entries := make([]*pb.Entry, n)
					for i := range entries {
						index++
						entries[i] = entry(index, 1, data)
					}
					if err := l.Append(entries, hard(1, 1, index), sync); err != nil {
						b.Fatal(err)
					}
					if index%(1<<16) == 0 {
						if err := l.Truncate(index - 1<<15); err != nil {
							b.Fatal(err)
						}
					}
				}
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
