// Lists the events that each in-tree plugin of kube-scheduler registers with default feature gates, as JSON.
//
// tests/scheduling/upstream_events_1_37.json is made of this; `python -m tests.controlplane.listings` runs it. Plugins are
// built as kube-scheduler builds them, with no cluster behind them.
package main

import (
	"context"
	"encoding/json"
	"os"
	"slices"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

func main() {
	defaults, err := latest.Default()
	if err != nil {
		panic(err)
	}
	args := map[string]config.PluginConfig{}
	for _, one := range defaults.Profiles[0].PluginConfig {
		args[one.Name] = one
	}
	ctx := context.Background()
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	handle, err := runtime.NewFramework(ctx, nil, nil,
		runtime.WithClientSet(client), runtime.WithInformerFactory(factory),
		runtime.WithSnapshotSharedLister(cache.NewEmptySnapshot()))
	if err != nil {
		panic(err)
	}
	listed := map[string]map[string][]string{}
	for name, build := range plugins.NewInTreeRegistry() {
		plugin, err := build(ctx, args[name].Args, handle)
		if err != nil {
			panic(name + ": " + err.Error())
		}
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
