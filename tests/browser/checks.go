package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// pages are the pages that are looked at.
func (b *browser) pages() map[string]string {
	return map[string]string{
		"overview": "", "filters": "filters?sort=used&order=desc", "filter": path("crawl:urls"), "window": path("clicks:recent"), "plan": "plan?capacity=1e6&rate=0.1%25", "busy": "busy",
		"hostile": path(hostile[0]) + "&item=%3Cscript%3Ewindow.pwned%3D5%3C%2Fscript%3E",
	}
}

// card returns how many items a filter has.
func (b *browser) card(command, key string) (string, error) {
	answer, err := b.store.do(command, key)
	return fmt.Sprint(answer), err
}

// numbers checks that pages have the numbers that commands answer.
func (b *browser) numbers() error {
	return b.tab(user+":"+password, func(ctx context.Context) error {
		var errs []error
		for _, key := range []string{"crawl:urls", "users:seen", "orders:done"} {
			items, err := b.card("BF.CARD", key)
			errs = append(errs, err, b.has(ctx, "filters?q="+key, key, items), b.has(ctx, path(key), "It holds "+items+" of the "))
		}
		online, err := b.card("CBF.CARD", "sessions:online")
		return errors.Join(append(errs, err, b.has(ctx, path("sessions:online"), "It holds "+online+" of the 20000"),
			b.has(ctx, "", "Nearly full: 2", "users:seen", "Grown: 1", "Never asked", fmt.Sprintf("%d filters", 7+120+len(hostile)), "Commands a second"),
			b.has(ctx, path("users:seen")+"&item=item+7", "Yes, it may be in the filter."),
			b.has(ctx, path("crawl:urls"), "60000 answered yes", "BF.RESERVE crawl:urls 0.001 1000000"),
			b.has(ctx, "plan?capacity=1000000&rate=0.01&type=bloom", "1378472", "RedisBloom, as it is made"),
			b.has(ctx, "busy", "bf.madd", "cf.add", "Slow commands", "for user "+user))...)
	})
}

// following checks that a page shows what is added while it is open.
func (b *browser) following() error {
	return b.tab(user+":"+password, func(ctx context.Context) error {
		if _, err := b.open(ctx, path("tokens:revoked")); err != nil {
			return err
		}
		if _, err := b.store.do("CF.ADD", "tokens:revoked", "one more"); err != nil {
			return err
		}
		if err := await(ctx, "It holds 201 of the "); err != nil {
			return err
		}
		// It stands still when it is told to.
		if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS("#polling button"))); err != nil {
			return err
		}
		return await(ctx, "The page stands still.")
	})
}

// names checks that names of keys and items stay text on every page.
func (b *browser) names() error {
	return b.tab(user+":"+password, func(ctx context.Context) error {
		var errs []error
		look := func(path string) {
			_, err := b.open(ctx, path)
			errs = append(errs, err)
			state, err := chromedp.Run(ctx, chromedp.Evaluate[string](
				"`pwned ${window.pwned}, ${document.querySelectorAll('h1').length} headings, ${document.images.length} images`"))
			if errs = append(errs, err); state != "pwned undefined, 1 headings, 0 images" {
				errs = append(errs, fmt.Errorf("/%s: %s", path, state))
			}
		}
		for _, path := range []string{"", "filters", "filters?page=2", "busy", "filters?q=%3Cscript%3Ewindow.pwned%3D6%3C/script%3E"} {
			look(path)
		}
		for _, key := range hostile {
			look(path(key))
		}
		shown, err := b.open(ctx, path(hostile[0])+"&item=%3Cb%3E")
		if !strings.Contains(shown, hostile[0]) || !strings.Contains(shown, "<b>: No, it is not in the filter.") {
			errs = append(errs, fmt.Errorf("the name is not shown as it is: %s", shown))
		}
		return errors.Join(append(errs, err)...)
	})
}

// passwords checks that only the right password opens pages. The default user needs none on this machine, and is somebody else.
func (b *browser) passwords() error {
	var errs []error
	for login, want := range map[string]int64{user + ":" + password: 200, user + ":wrong": 401, "nobody:" + password: 401, "": 200} {
		errs = append(errs, b.tab(login, func(ctx context.Context) error {
			answer, err := chromedp.RunResponse(ctx, chromedp.Navigate(b.store.pages+"filters"))
			if err != nil && want == 401 && strings.Contains(err.Error(), "ERR_INVALID_AUTH_CREDENTIALS") {
				return nil // Chromium shows a page of its own
			}
			if err != nil {
				return err
			}
			if answer.Status != want {
				return fmt.Errorf("login %q: %d, want %d", login, answer.Status, want)
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}

// withoutScripts checks that pages are whole without scripts.
func (b *browser) withoutScripts() error {
	return b.tab("", func(ctx context.Context) error {
		if _, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
			return err
		}
		return errors.Join(b.has(ctx, "", "What needs attention", "users:seen"), b.has(ctx, "filters?q=crawl", "crawl:urls"), b.has(ctx, path("crawl:urls"), "It holds"))
	})
}

// keyboard checks that the first key leads past the navigation, and that a filter is reached and asked by keys alone.
func (b *browser) keyboard() error {
	return b.tab("", func(ctx context.Context) error {
		if _, err := b.open(ctx, path("crawl:urls")); err != nil {
			return err
		}
		if err := chromedp.Do(ctx, chromedp.KeyEvent(kb.Tab)); err != nil {
			return err
		}
		first, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.activeElement.textContent`))
		if err == nil {
			err = chromedp.Do(ctx, chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("item 7"), chromedp.KeyEvent(kb.Enter))
		}
		if err != nil {
			return err
		}
		if first != "Skip to the page" {
			return fmt.Errorf("the first key leads to %q", first)
		}
		return await(ctx, "Yes, it may be in the filter.")
	})
}

// narrow checks that no page is wider than a small screen: only tables scroll, in places of their own.
func (b *browser) narrow() error {
	return b.tab("", func(ctx context.Context) error {
		var errs []error
		for name, path := range b.pages() {
			err := chromedp.Do(ctx, chromedp.EmulateViewport(360, 740), chromedp.Navigate(b.store.pages+path))
			errs = append(errs, err)
			width, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.documentElement.scrollWidth`))
			if errs = append(errs, err); width > 360 {
				errs = append(errs, fmt.Errorf("%s is %d pixels wide on a screen of 360", name, width))
			}
		}
		return errors.Join(errs...)
	})
}
