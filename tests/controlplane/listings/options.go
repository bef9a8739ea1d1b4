package main

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// moreOptions are those of 1.38 and later, whose DefaultPreemption asks the framework for its executor.
func moreOptions() []runtime.Option {
	return []runtime.Option{runtime.WithPreemptionManager(func(handle fwk.Handle) fwk.PreemptionManager {
		return preemption.NewPreemptionManager(handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	})}
}
