// Lists what kube-scheduler may do on an API server with default feature gates, as JSON: verbs by group and resource.
package main

import (
	"encoding/json"
	"os"
	"slices"

	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

func main() {
	listed := map[string][]string{}
	for _, role := range bootstrappolicy.ClusterRoles() {
		if role.Name != "system:kube-scheduler" && role.Name != "system:volume-scheduler" {
			continue
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					name := group + "/" + resource
					if len(rule.ResourceNames) > 0 {
						name += " " + rule.ResourceNames[0]
					}
					listed[name] = append(listed[name], rule.Verbs...)
				}
			}
		}
	}
	for name := range listed {
		slices.Sort(listed[name])
		listed[name] = slices.Compact(listed[name])
	}
	json.NewEncoder(os.Stdout).Encode(listed)
}
