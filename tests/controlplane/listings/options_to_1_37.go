package main

import "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

func moreOptions() []runtime.Option { return nil }
