package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite"
)

// database is a table of users in SQLite.
type database struct {
	sql     *sql.DB
	queries atomic.Int64 // that reached it
	down    atomic.Bool  // it refuses queries, after they have reached it
	slow    atomic.Int64 // what a query takes longer, in nanoseconds
}

var (
	errNoUser = errors.New("no such user")
	errDown   = errors.New("the database is down")
)

// openDatabase opens the database in a directory, and makes it if it is new, with the users 0 to users-1.
func openDatabase(dir string, users int) (*database, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "users.sqlite")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS users (id TEXT PRIMARY KEY, profile TEXT NOT NULL) WITHOUT ROWID`)
	if err == nil {
		_, err = db.Exec(`INSERT OR IGNORE INTO users WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i+1 < ?)
			SELECT printf('%07d', i), printf('{"name":"user %d","city":"city %d"}', i, i % 100) FROM n
			WHERE NOT EXISTS (SELECT 1 FROM users)`, users)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &database{sql: db}, nil
}

func (d *database) close() error { return d.sql.Close() }

// reach counts a query, holds it up if the database is slow, and refuses it if it is down.
func (d *database) reach() error {
	d.queries.Add(1)
	time.Sleep(time.Duration(d.slow.Load()))
	if d.down.Load() {
		return errDown
	}
	return nil
}

// user returns the profile of a user, or errNoUser.
func (d *database) user(ctx context.Context, id string) (profile []byte, err error) {
	if err := d.reach(); err != nil {
		return nil, err
	}
	err = d.sql.QueryRowContext(ctx, `SELECT profile FROM users WHERE id = ?`, id).Scan(&profile)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoUser
	}
	return profile, err
}

// users returns the profiles of users by one query. Those that are not there are not in the map.
func (d *database) users(ctx context.Context, ids []string) (profiles map[string][]byte, err error) {
	if err := d.reach(); err != nil {
		return nil, err
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	rows, err := d.sql.QueryContext(ctx, `SELECT id, profile FROM users WHERE id IN (?`+strings.Repeat(",?", len(ids)-1)+`)`, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	profiles = make(map[string][]byte, len(ids))
	for rows.Next() {
		var id string
		var profile []byte
		if err := rows.Scan(&id, &profile); err != nil {
			return nil, err
		}
		profiles[id] = profile
	}
	return profiles, rows.Err()
}

// idsAfter gives the ids behind one, in order. It is what Guard.RebuildFrom wants.
func (d *database) idsAfter(ctx context.Context) func(after string) iter.Seq2[string, error] {
	return func(after string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			rows, err := d.sql.QueryContext(ctx, `SELECT id FROM users WHERE id > ? ORDER BY id`, after)
			if err != nil {
				yield("", err)
				return
			}
			defer func() { _ = rows.Close() }() // rows.Err has its error
			for rows.Next() {
				var id string
				if err := rows.Scan(&id); !yield(id, err) || err != nil { // a Rebuild must hear of it: it lacks ids
					return
				}
			}
			if err := rows.Err(); err != nil {
				yield("", fmt.Errorf("listing users: %w", err))
			}
		}
	}
}

func (d *database) put(ctx context.Context, id string, profile []byte) error {
	if err := d.reach(); err != nil {
		return err
	}
	_, err := d.sql.ExecContext(ctx, `INSERT INTO users VALUES (?, ?) ON CONFLICT DO UPDATE SET profile = excluded.profile`, id, string(profile))
	return err
}

func (d *database) remove(ctx context.Context, id string) error {
	if err := d.reach(); err != nil {
		return err
	}
	_, err := d.sql.ExecContext(ctx, `DELETE FROM users WHERE id = ?`, id)
	return err
}
