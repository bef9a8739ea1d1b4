// Lists the events that each in-tree plugin of kube-scheduler registers with default feature gates, as JSON.
//
// tests/scheduling/upstream_events_1_37.json is made of this; `python -m tests.controlplane.listings` runs it.
package main

import (
	"context"
	"encoding/json"
	"os"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

func main() {
	ctx := context.Background()
	listed := map[string]map[string][]string{}
	for name, plugin := range inTree(ctx) {
		extensions, ok := plugin.(fwk.EnqueueExtensions)
		if !ok {
			continue
		}
		events, err := extensions.EventsToRegister(ctx)
		if err != nil {
			panic(name + ": " + err.Error())
		}
		listed[name] = map[string][]string{}
		for _, one := range events {
			resource := string(one.Event.Resource)
			for bit := fwk.ActionType(1); bit <= fwk.All; bit <<= 1 {
				if action := bit.String(); one.Event.ActionType&bit != 0 && !slices.Contains(listed[name][resource], action) {
					listed[name][resource] = append(listed[name][resource], action)
				}
			}
			slices.Sort(listed[name][resource])
		}
	}
	json.NewEncoder(os.Stdout).Encode(listed)
}
