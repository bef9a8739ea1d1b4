// Lists the extension points that each in-tree plugin of kube-scheduler implements, as JSON.
//
// kscheduler/config/in_tree_plugins.py is compared with this; `python -m tests.controlplane.listings` runs it. Points
// are the fields of a profile's plugins; a plugin implements one if it has the method.
package main

import (
	"context"
	"encoding/json"
	"os"
	"reflect"
	"strings"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// methods has the points whose method has another name.
var methods = map[string]string{
	"QueueSort": "Less", "PlacementGenerate": "GeneratePlacements", "PlacementScore": "ScorePlacement"}

func main() {
	listed := map[string][]string{}
	fields := reflect.TypeOf(config.Plugins{})
	for name, plugin := range inTree(context.Background()) {
		listed[name] = []string{}
		for index := range fields.NumField() {
			point := fields.Field(index).Name
			method, ok := methods[point]
			if !ok {
				method = point
			}
			if reflect.ValueOf(plugin).MethodByName(method).IsValid() {
				listed[name] = append(listed[name], strings.ToLower(point[:1])+point[1:])
			}
		}
	}
	json.NewEncoder(os.Stdout).Encode(listed)
}
