package main

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// The version of axe-core, and the hash of its archive as npm tells it.
const (
	axeVersion = "axe-core@4.14.1"
	axeHash    = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// fetchAxe returns axe-core's script from npm's registry.
func fetchAxe() (script []byte, err error) {
	dir, err := os.MkdirTemp("", "axe")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	pack := exec.Command("npm", "pack", "--silent", axeVersion)
	pack.Dir = dir
	out, err := pack.Output()
	if err != nil {
		return nil, fmt.Errorf("npm pack %s, in place of which --axe names a file: %w", axeVersion, err)
	}
	archive, err := os.ReadFile(filepath.Join(dir, strings.TrimSpace(string(out))))
	if err != nil {
		return nil, err
	}
	if sum := sha512.Sum512(archive); base64.StdEncoding.EncodeToString(sum[:]) != axeHash {
		return nil, fmt.Errorf("the archive of %s has the SHA-512 %x, which is not the one known", axeVersion, sum)
	}
	unpack := exec.Command("tar", "xzOf", strings.TrimSpace(string(out)), "package/axe.min.js")
	unpack.Dir = dir
	return unpack.Output()
}

// accessible checks pages by axe-core, in light and in dark.
func (b *browser) accessible(file string) (err error) {
	var script []byte
	if file != "" {
		script, err = os.ReadFile(file)
	} else {
		script, err = fetchAxe()
	}
	if err != nil {
		return err
	}
	return b.tab("", func(ctx context.Context) error {
		var errs []error
		for _, scheme := range []string{"light", "dark"} {
			for name, path := range b.pages() {
				found, err := b.axe(ctx, string(script), path, scheme)
				errs = append(errs, err)
				for _, violation := range found {
					errs = append(errs, fmt.Errorf("%s, %s: %s", name, scheme, violation))
				}
			}
		}
		return errors.Join(errs...)
	})
}

// axe returns what axe-core finds wrong with a page.
func (b *browser) axe(ctx context.Context, script, path, scheme string) (found []string, err error) {
	const look = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => JSON.stringify(
		r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + v.help + ": " + n.html.slice(0, 200) + " " + (n.any[0]?.message ?? "")))))`
	if err := b.show(ctx, path, 1280, scheme); err != nil {
		return nil, err
	}
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[int](script+";0")); err != nil {
		return nil, err
	}
	answer, err := chromedp.Run(ctx, chromedp.Evaluate[string](look, chromedp.EvalAwaitPromise))
	if err != nil {
		return nil, err
	}
	return found, json.Unmarshal([]byte(answer), &found)
}

// show opens a page on a screen of a width, in light or dark.
func (b *browser) show(ctx context.Context, path string, width int64, scheme string) error {
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
		return err
	}
	return chromedp.Do(ctx, chromedp.EmulateViewport(width, 900), chromedp.Navigate(b.store.pages+path))
}

// pictures takes a picture of each page.
func (b *browser) pictures(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return b.tab(user+":"+password, func(ctx context.Context) error {
		var errs []error
		for name, path := range b.pages() {
			for _, width := range []int64{1280, 360} {
				for _, scheme := range []string{"light", "dark"} {
					err := b.show(ctx, path, width, scheme)
					errs = append(errs, err)
					picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
					errs = append(errs, err, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), picture, 0o644))
				}
			}
		}
		return errors.Join(errs...)
	})
}
