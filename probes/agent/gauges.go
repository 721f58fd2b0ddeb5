package agent

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// sumGauges adds up the named gauges of a Prometheus text, over all labels:
//
//	# TYPE vllm:num_requests_running gauge
//	vllm:num_requests_running{model_name="a"} 4
//	vllm:num_requests_running{model_name="b"} 3
//
// A sum is given only where it is certain: every name is there, with samples,
// and no sample is negative, infinite or NaN. Errors quote nothing of the text,
// which may be anybody's.
func sumGauges(text []byte, names []string) (sum float64, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the text can't be parsed")
		}
	}()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		var at expfmt.ParseError
		if errors.As(err, &at) {
			return 0, fmt.Errorf("line %d is not Prometheus text", at.Line)
		}
		return 0, errors.New("it is not Prometheus text")
	}
	for _, name := range names {
		family := families[name]
		if len(family.GetMetric()) == 0 {
			return 0, fmt.Errorf("gauge %s is missing", name)
		}
		for _, m := range family.GetMetric() {
			var v float64
			switch {
			case m.GetGauge() != nil:
				v = m.GetGauge().GetValue()
			case m.GetUntyped() != nil:
				v = m.GetUntyped().GetValue()
			default:
				return 0, fmt.Errorf("%s is no gauge", name)
			}
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				return 0, fmt.Errorf("gauge %s has a sample of %v", name, v)
			}
			sum += v
		}
	}
	if math.IsInf(sum, 0) {
		return 0, errors.New("the sum is too large")
	}
	return sum, nil
}
