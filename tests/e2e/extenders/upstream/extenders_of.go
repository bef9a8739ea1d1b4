package scheduler

import schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

// ExtendersOf returns the extenders that options configure.
func ExtendersOf(opts []Option) []schedulerapi.Extender {
	options := schedulerOptions{}
	for _, option := range opts {
		option(&options)
	}
	return options.extenders
}
