package util

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
)

type tree = map[string]interface{}

// decidedElsewhere starts another scheduler with the extenders of the options, and leaves to the
// one of this process a profile that no pod names.
func decidedElsewhere(t *testing.T, testCtx *TestContext, opts []scheduler.Option) []scheduler.Option {
	folder := t.TempDir()
	kubeconfig := writeTree(t, filepath.Join(folder, "kubeconfig"), kubeconfigOf(testCtx))
	extenders := []tree{}
	for _, each := range scheduler.ExtendersOf(opts) {
		managed := []tree{}
		for _, resource := range each.ManagedResources {
			managed = append(managed, tree{"name": resource.Name, "ignoredByScheduler": resource.IgnoredByScheduler})
		}
		extenders = append(extenders, tree{
			"urlPrefix": each.URLPrefix, "filterVerb": each.FilterVerb, "prioritizeVerb": each.PrioritizeVerb,
			"preemptVerb": each.PreemptVerb, "bindVerb": each.BindVerb, "weight": each.Weight,
			"enableHTTPS": each.EnableHTTPS, "nodeCacheCapable": each.NodeCacheCapable,
			"ignorable": each.Ignorable, "managedResources": managed,
		})
	}
	config := writeTree(t, filepath.Join(folder, "config.json"), tree{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"leaderElection":   tree{"leaderElect": false},
		"clientConnection": tree{"kubeconfig": kubeconfig},
		"profiles":         []tree{{"schedulerName": "default-scheduler"}},
		"extenders":        extenders,
	})
	words := append(strings.Fields(os.Getenv("SCHEDULER_ELSEWHERE")), "--config", config)
	command := exec.Command(words[0], words[1:]...)
	log, err := os.Create(os.Getenv("SCHEDULER_ELSEWHERE_LOG"))
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
		_ = log.Close()
	})
	none, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	none.Profiles[0].SchedulerName = "nobody"
	return []scheduler.Option{scheduler.WithProfiles(none.Profiles...)}
}

func kubeconfigOf(testCtx *TestContext) tree {
	config := testCtx.KubeConfig
	cluster := tree{"server": config.Host}
	if config.CAFile != "" {
		cluster["certificate-authority"] = config.CAFile
	} else if len(config.CAData) > 0 {
		cluster["certificate-authority-data"] = base64.StdEncoding.EncodeToString(config.CAData)
	}
	if config.ServerName != "" {
		cluster["tls-server-name"] = config.ServerName
	}
	return tree{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []tree{{"name": "test", "cluster": cluster}},
		"users":    []tree{{"name": "test", "user": tree{"token": config.BearerToken}}},
		"contexts": []tree{{"name": "test", "context": tree{"cluster": "test", "user": "test"}}},
	}
}

func writeTree(t *testing.T, path string, value tree) string {
	data, err := json.Marshal(value)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}
