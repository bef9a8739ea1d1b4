// Lists the extension points that each in-tree plugin of kube-scheduler implements, as JSON.
//
// kscheduler/config/in_tree_plugins.py is compared with this; `python -m tests.controlplane.listings` runs it. Plugins
// are built as kube-scheduler builds them, with no cluster behind them, and asked for each interface.
package main

import (
	"context"
	"encoding/json"
	"os"
	"reflect"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

func points(plugin fwk.Plugin) []string {
	found := []string{}
	add := func(point string, implemented bool) {
		if implemented {
			found = append(found, point)
		}
	}
	_, ok := plugin.(fwk.PreEnqueuePlugin)
	add("preEnqueue", ok)
	_, ok = plugin.(fwk.QueueSortPlugin)
	add("queueSort", ok)
	_, ok = plugin.(fwk.PreFilterPlugin)
	add("preFilter", ok)
	_, ok = plugin.(fwk.FilterPlugin)
	add("filter", ok)
	_, ok = plugin.(fwk.PostFilterPlugin)
	add("postFilter", ok)
	_, ok = plugin.(fwk.PreScorePlugin)
	add("preScore", ok)
	_, ok = plugin.(fwk.ScorePlugin)
	add("score", ok)
	_, ok = plugin.(fwk.ReservePlugin)
	add("reserve", ok)
	_, ok = plugin.(fwk.PermitPlugin)
	add("permit", ok)
	_, ok = plugin.(fwk.PreBindPlugin)
	add("preBind", ok)
	_, ok = plugin.(fwk.BindPlugin)
	add("bind", ok)
	_, ok = plugin.(fwk.PostBindPlugin)
	add("postBind", ok)
	_, ok = plugin.(fwk.PlacementGeneratePlugin)
	add("placementGenerate", ok)
	_, ok = plugin.(fwk.PlacementScorePlugin)
	add("placementScore", ok)
	// By name: 1.36 has no such interface.
	add("podGroupPostFilter", reflect.ValueOf(plugin).MethodByName("PodGroupPostFilter").IsValid())
	return found
}

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
	listed := map[string][]string{}
	for name, build := range plugins.NewInTreeRegistry() {
		plugin, err := build(ctx, args[name].Args, handle)
		if err != nil {
			panic(name + ": " + err.Error())
		}
		listed[name] = points(plugin)
	}
	json.NewEncoder(os.Stdout).Encode(listed)
}
