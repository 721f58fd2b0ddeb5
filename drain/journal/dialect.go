package journal

import (
	"strings"
	"time"
)

// dialect is what differs between the two databases.
//
// The SQL text is written once, with two words that are replaced: {s} is the
// prefix of every table, {now} the time in microseconds since 1970. The first
// argument of a statement that says {now} is this process's clock: SQLite uses
// it, PostgreSQL is given null and uses its own.
type dialect struct {
	words *strings.Replacer
	pg    bool
}

func sqliteDialect() dialect {
	return dialect{words: strings.NewReplacer("{s}", "", "{now}", "cast($1 as bigint)", "{guard}", "''")}
}

// pgDialect also guards the head row: a writer that is stopped in the middle of
// a transaction (SIGSTOP, a frozen laptop) is disconnected after five seconds, so
// that it can't keep everybody else from writing.
func pgDialect() dialect {
	return dialect{pg: true, words: strings.NewReplacer(
		"{s}", "ebb.",
		"{now}", "coalesce(cast($1 as bigint), cast(extract(epoch from clock_timestamp()) * 1000000 as bigint))",
		"{guard}", "set_config('idle_in_transaction_session_timeout', '5000', true)",
	)}
}

func (d dialect) sql(text string) string { return d.words.Replace(text) }

// clock is the first argument of statements that say {now}.
func (j *Journal) clock() any {
	if j.dialect.pg {
		return nil
	}
	return j.now().UnixMicro()
}

func fromMicro(us int64) time.Time { return time.UnixMicro(us).UTC() }
