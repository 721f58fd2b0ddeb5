package postgres

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// row is one row by column names. Schemas differ in their types: an id may be
// text, a number or a uuid, labels may be jsonb, hstore or plain text.
type row map[string]any

func toRow(rows pgx.CollectableRow) (row, error) {
	values, err := rows.Values()
	if err != nil {
		return nil, err
	}
	out := make(row, len(values))
	for i, f := range rows.FieldDescriptions() {
		out[strings.ToLower(f.Name)] = values[i]
	}
	return out, nil
}

// need returns a column that must be there and must not be empty.
func (r row) need(col string) (string, error) {
	if _, ok := r[col]; !ok {
		return "", fmt.Errorf("its result has no column %q", col)
	}
	s := r.str(col)
	if s == "" {
		return "", fmt.Errorf("column %q is empty in a row", col)
	}
	return s, nil
}

func (r row) str(col string) string { return word(r[col]) }

// word writes any value as text.
func word(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case [16]byte:
		return uuid.UUID(v).String()
	case netip.Prefix:
		if v.IsSingleIP() {
			return v.Addr().String()
		}
		return v.String()
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case pgtype.Numeric:
		if n, err := v.Value(); err == nil && n != nil {
			return fmt.Sprint(n)
		}
		return ""
	case map[string]any, []any:
		if b, err := json.Marshal(v); err == nil {
			return string(b)
		}
	}
	return fmt.Sprint(v)
}

// flag reads a truth value; null is false. A word it does not know is an error:
// taken as false it would make a held host look free.
func (r row) flag(col string) (bool, error) {
	v := r[col]
	if b, ok := v.(bool); ok {
		return b, nil
	}
	switch s := strings.ToLower(strings.TrimSpace(word(v))); s {
	case "", "f", "false", "n", "no", "off", "0":
		return false, nil
	case "t", "true", "y", "yes", "on", "1":
		return true, nil
	default:
		return false, fmt.Errorf("column %q: %.40q is neither true nor false", col, s)
	}
}

// time reads a time; null and the infinities are zero. A time without a zone is
// taken as UTC, a number as seconds since 1970.
func (r row) time(col string) (time.Time, error) {
	switch v := r[col].(type) {
	case nil, pgtype.InfinityModifier:
		return time.Time{}, nil
	case time.Time:
		return v.UTC(), nil
	case int16, int32, int64:
		n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
		return time.Unix(n, 0).UTC(), err
	case string:
		if v == "" {
			return time.Time{}, nil
		}
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07", "2006-01-02 15:04:05.999999999"} {
			if t, err := time.Parse(layout, v); err == nil {
				return t.UTC(), nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("column %q: %.40q is not a time", col, word(r[col]))
}

// labels reads a map: json, hstore ("a"=>"b"), or "a=b,c=d".
func (r row) labels(col string) (map[string]string, error) {
	var m map[string]any
	switch v := r[col].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		m = v
	case string:
		s := strings.TrimSpace(v)
		switch {
		case s == "" || s == "null":
			return nil, nil
		case strings.HasPrefix(s, "{"):
			if err := json.Unmarshal([]byte(s), &m); err != nil {
				return nil, fmt.Errorf("column %q: %.40q is not a JSON object", col, s)
			}
		case strings.HasPrefix(s, `"`):
			return hstore(s)
		default:
			return pairs(s), nil
		}
	default:
		return nil, fmt.Errorf("column %q: %.40q is not a set of labels", col, word(v))
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		if v != nil {
			out[k] = word(v)
		}
	}
	return out, nil
}

func pairs(s string) map[string]string {
	out := map[string]string{}
	for part := range strings.SplitSeq(s, ",") {
		if k, v, _ := strings.Cut(part, "="); strings.TrimSpace(k) != "" {
			out[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	return out
}
