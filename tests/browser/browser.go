package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// browser opens pages in tabs of their own.
type browser struct {
	first context.Context // of the first tab, which stays empty
	store *store

	mu       sync.Mutex
	requests int
	strays   []string // requests to elsewhere, and what scripts have done; guarded by mu
}

// wait is how long to wait for what has to come.
const wait = 4 * time.Minute

// tab opens a tab, with a login unless it is "", and calls f.
func (b *browser) tab(login string, f func(ctx context.Context) error) error {
	ctx, end := chromedp.NewContext(b.first)
	defer end()
	if err := chromedp.Listen(ctx, b.note); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		return err
	}
	if login != "" {
		header := network.Headers{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte(login))}
		if _, err := chromedp.Call(ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: header}); err != nil {
			return err
		}
	}
	return f(ctx)
}

// note is told of the events of a tab.
func (b *browser) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests++
		if url := e.Request.URL; !strings.HasPrefix(url, b.store.pages) && !strings.HasPrefix(url, "data:") && url != "about:blank" {
			b.strays = append(b.strays, "a request to "+url)
		}
	case *page.EventJavascriptDialogOpening:
		b.strays = append(b.strays, "a dialog: "+e.Message)
	}
}

// requestsStayed returns an error for each request that has left the server.
func (b *browser) requestsStayed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, stray := range b.strays {
		errs = append(errs, errors.New(stray))
	}
	if b.requests < 30 {
		errs = append(errs, fmt.Errorf("only %d requests were seen", b.requests))
	}
	return errors.Join(errs...)
}

// open opens a page, and returns its text with single spaces and without those between thousands.
func (b *browser) open(ctx context.Context, path string) (string, error) {
	if err := chromedp.Do(ctx, chromedp.Navigate(b.store.pages+path)); err != nil {
		return "", err
	}
	return text(ctx)
}

// text returns the text of the page that is open.
func text(ctx context.Context) (string, error) {
	shown, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body?.innerText ?? ""`))
	return strings.Join(strings.Fields(strings.ReplaceAll(html.UnescapeString(shown), "\u202f", "")), " "), err
}

// await waits until a page has a text.
func await(ctx context.Context, want string) error {
	for {
		shown, err := text(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("waiting for %q: %w", want, err)
		case strings.Contains(shown, want):
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// has opens a page, and returns an error unless it has all texts.
func (b *browser) has(ctx context.Context, path string, texts ...string) error {
	shown, err := b.open(ctx, path)
	if err != nil {
		return err
	}
	var errs []error
	for _, want := range texts {
		if !strings.Contains(shown, want) {
			errs = append(errs, fmt.Errorf("/%s lacks %q: %.3000s", path, want, shown))
		}
	}
	return errors.Join(errs...)
}
