package resp_test

import (
	"fmt"
	"strings"

	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module/reply"
)

// A client sends commands in any pieces, and inline ones between the others.
func ExampleDecoder() {
	client := strings.NewReader("*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\nECHO 'good bye'\r\n")
	d := resp.NewDecoder(resp.Limits{})
	for {
		words, ok, err := d.Next()
		if err != nil {
			fmt.Println(err)
			return
		}
		if ok {
			fmt.Printf("%q\n", resp.Append(nil, reply.Bulk(words[1]), 2))
			continue
		}
		if _, err := d.Fill(client); err != nil {
			return
		}
	}
	// Output:
	// "$5\r\nhello\r\n"
	// "$8\r\ngood bye\r\n"
}
