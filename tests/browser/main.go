// Browser looks at the dashboard of kvshell serve with Chromium, as people see it. It is a module of its own, so that programs that use
// sievekv do not get what it needs.
//
//	go -C tests/browser run . [--shots DIR] [--chromium PATH] [--axe FILE]
//
// It checks that pages show the numbers that commands answer, and follow them; that names of keys stay text; that a wrong password is
// refused; that no request leaves the server; that pages work without scripts, by keyboard, in the dark and on narrow screens; and, by
// axe-core, what screen readers need. With --shots it leaves a picture of each page, 1280 and 360 pixels wide, light and dark, in DIR.
//
// Without Chromium it is installed by apt-get. axe-core comes from npm's registry, in the version below.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/chromedp/chromedp"
)

// options say what is run.
type options struct {
	shots, chromium, axe string
}

func main() {
	o := options{}
	flag.StringVar(&o.shots, "shots", "", "the directory for pictures, none for \"\"")
	flag.StringVar(&o.chromium, "chromium", "", "Chromium's program (default: that in $PATH, or Debian's package)")
	flag.StringVar(&o.axe, "axe", "", "axe.min.js (default: from npm's registry)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(1)
	}
	fmt.Println("all is as it should be")
}

// run serves a store, and looks at its pages.
func run(ctx context.Context, o options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // something hangs
	defer cancel()
	if o.chromium == "" {
		if o.chromium, err = findChromium(ctx); err != nil {
			return err
		}
	}
	s, err := startStore()
	if err != nil {
		return err
	}
	defer s.stop()
	allocator, end := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(o.chromium), chromedp.NoSandbox)...)
	defer end()
	first, endFirst := chromedp.NewContext(allocator)
	defer endFirst()
	if err := chromedp.Do(first, chromedp.Navigate("about:blank")); err != nil {
		return err
	}
	b := &browser{first: first, store: s}
	var wrong []error
	for _, check := range []struct {
		name string
		run  func(*browser) error
	}{
		{"numbers", (*browser).numbers}, {"following", (*browser).following}, {"names of keys", (*browser).names}, {"passwords", (*browser).passwords},
		{"without scripts", (*browser).withoutScripts}, {"by keyboard", (*browser).keyboard}, {"narrow screens", (*browser).narrow},
		{"accessibility", func(b *browser) error { return b.accessible(o.axe) }},
		{"pictures", func(b *browser) error { return b.pictures(o.shots) }},
	} {
		if err := check.run(b); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", check.name, err))
		}
	}
	return errors.Join(append(wrong, b.requestsStayed())...)
}

// findChromium returns Chromium's program.
func findChromium(ctx context.Context) (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	if out, err := exec.CommandContext(ctx, "apt-get", "install", "-y", "--no-install-recommends", "chromium").CombinedOutput(); err != nil {
		return "", fmt.Errorf("there is no Chromium, and apt-get cannot install it: %w\n%s", err, out)
	}
	return exec.LookPath("chromium")
}
