package main

import (
	"context"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// inTree builds every in-tree plugin as kube-scheduler does, with no cluster behind it.
func inTree(ctx context.Context) map[string]fwk.Plugin {
	defaults, err := latest.Default()
	if err != nil {
		panic(err)
	}
	args := map[string]config.PluginConfig{}
	for _, one := range defaults.Profiles[0].PluginConfig {
		args[one.Name] = one
	}
	client := fake.NewClientset()
	options := append(moreOptions(),
		runtime.WithClientSet(client), runtime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)),
		runtime.WithSnapshotSharedLister(cache.NewEmptySnapshot()))
	handle, err := runtime.NewFramework(ctx, nil, nil, options...)
	if err != nil {
		panic(err)
	}
	built := map[string]fwk.Plugin{}
	for name, build := range plugins.NewInTreeRegistry() {
		plugin, err := build(ctx, args[name].Args, handle)
		if err != nil {
			panic(name + ": " + err.Error())
		}
		built[name] = plugin
	}
	return built
}
