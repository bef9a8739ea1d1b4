// Lists every feature gate that kube-scheduler registers, at its own version, as JSON.
//
// kscheduler/config/feature_gates_data/*.json is made of this; `python -m tests.controlplane.listings` runs it.
package main

import (
	"encoding/json"
	"os"
	"slices"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/component-base/logs/api/v1" // gates of the logs
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

type gate struct {
	Stage   string                `json:"stage"`
	Default bool                  `json:"default"`
	Locked  bool                  `json:"locked,omitempty"`
	Needs   []featuregate.Feature `json:"needs,omitempty"`
}

func main() {
	app.NewSchedulerCommand() // registers the component, which fixes the version that is emulated
	gates := utilfeature.DefaultMutableFeatureGate
	dependencies := gates.Dependencies()
	listed := map[featuregate.Feature]gate{}
	for name, spec := range gates.GetAll() {
		needs := dependencies[name]
		slices.Sort(needs)
		listed[name] = gate{string(spec.PreRelease), spec.Default, spec.LockToDefault, needs}
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"version": gates.EmulationVersion().String(), "gates": listed})
}
