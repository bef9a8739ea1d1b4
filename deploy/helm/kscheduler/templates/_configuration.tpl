{{/* What the process is told: KubeSchedulerConfiguration and flags. */}}

{{/*
KubeSchedulerConfiguration as YAML. Leader election is not in it but in flags: a running process cannot change it, and
flags replace the pods. Without the right to delete pods, preemption would choose victims and fail: it is left out.
*/}}
{{- define "kscheduler.configuration" -}}
{{- $config := .Values.config }}
{{- $profile := dict "schedulerName" (include "kscheduler.schedulerName" .) }}
{{- if and (not .Values.rbac.preemption) (ne .Values.mode "shadow") }}
{{- $without := dict "disabled" (list (dict "name" "DefaultPreemption")) }}
{{- $_ := set $profile "plugins" (dict "postFilter" $without) }}
{{- end }}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
{{- range $name := list "parallelism" "percentageOfNodesToScore" "podInitialBackoffSeconds" "podMaxBackoffSeconds" }}
{{- with index $config $name }}
{{ $name }}: {{ int . }}
{{- end }}
{{- end }}
{{- if $config.clientConnection.qps }}
clientConnection:
  qps: {{ $config.clientConnection.qps }}
  {{- with $config.clientConnection.burst }}
  burst: {{ int . }}
  {{- end }}
{{- end }}
{{- if $config.honorSchedulerNameAnnotation }}
honorSchedulerNameAnnotation: true
{{- end }}
{{- $profiles := default (list $profile) $config.profiles }}
{{- range $ready := (.Files.Get "files/policies.yaml" | fromYaml).profiles }}
{{- if has $ready.schedulerName $config.policies }}
{{- if and (not $.Values.rbac.preemption) (ne $.Values.mode "shadow") }}
{{- $_ := set $ready.plugins "postFilter" (dict "disabled" (list (dict "name" "DefaultPreemption"))) }}
{{- end }}
{{- $profiles = append $profiles $ready }}
{{- end }}
{{- end }}
profiles:
  {{- toYaml $profiles | nindent 2 }}
{{- with without .Values.podGroups "kubernetes" }}
podGroupAPIs:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologyAPIs }}
topologyAPIs:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $config.topologyLevels }}
topologyLevels:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $config.extenders }}
extenders:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.plugins }}
pluginSources:
{{- range $name, $source := . }}
  - file: /etc/kscheduler/plugins/{{ $name }}
    sha256: {{ sha256sum $source }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kscheduler.featureGates" -}}
{{- $pairs := list }}
{{- range $name, $on := include "kscheduler.gates" . | fromJson }}
{{- $pairs = append $pairs (printf "%s=%t" $name $on) }}
{{- end }}
{{- join "," $pairs }}
{{- end }}

{{/* `kscheduler shadow` takes no lease, and has no port with a login: asking who a caller is creates reviews. */}}
{{- define "kscheduler.shadowArgs" -}}
- shadow
- --config=/etc/kscheduler/config/config.yaml
{{- if .Values.plugins }}
- --plugin-directory=/etc/kscheduler/plugins
{{- end }}
{{- range .Values.shadow.followSchedulers }}
- --follow-scheduler={{ . }}
{{- end }}
- --followed={{ .Values.shadow.followed }}
- --settle={{ .Values.shadow.settle }}
- --grace={{ .Values.shadow.grace }}
- {{ printf "--metrics-bind-address=%s:%s" (include "kscheduler.plainAddress" .) (include "kscheduler.plainPort" .) | quote }}
- --output=json
{{- with include "kscheduler.featureGates" . }}
- --feature-gates={{ . }}
{{- end }}
- --logging-format={{ .Values.logs.format }}
- --v={{ .Values.logs.level }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kscheduler.args" -}}
{{- if eq .Values.mode "shadow" }}
{{- include "kscheduler.shadowArgs" . }}
{{- else }}
{{- include "kscheduler.runArgs" . }}
{{- end }}
{{- end }}

{{- define "kscheduler.runArgs" -}}
- run
- --config=/etc/kscheduler/config/config.yaml
{{- if .Values.plugins }}
- --plugin-directory=/etc/kscheduler/plugins
{{- end }}
{{- if eq .Values.server.scheme "HTTPS" }}
{{- with .Values.server.bindAddress }}
- {{ printf "--bind-address=%s" . | quote }}
{{- end }}
- --secure-port={{ .Values.server.port }}
{{- include "kscheduler.tlsArgs" . }}
{{- else }}
- --secure-port=0
{{- end }}
{{- with include "kscheduler.plainPort" . }}
- {{ printf "--metrics-bind-address=%s:%s" (include "kscheduler.plainAddress" $) . | quote }}
{{- end }}
{{- if .Values.repairOverfilledNodes }}
- --repair-overfilled-nodes
{{- end }}
{{- if ne .Values.scheduledEvents "all" }}
- --scheduled-events={{ .Values.scheduledEvents }}
{{- end }}
- --leader-elect={{ .Values.leaderElection.enabled }}
{{- if .Values.leaderElection.enabled }}
- --leader-elect-lease-duration={{ .Values.leaderElection.leaseDuration }}
- --leader-elect-renew-deadline={{ .Values.leaderElection.renewDeadline }}
- --leader-elect-retry-period={{ .Values.leaderElection.retryPeriod }}
- --leader-elect-resource-name={{ include "kscheduler.leaseName" . }}
- --leader-elect-resource-namespace={{ include "kscheduler.leaseNamespace" . }}
{{- end }}
{{- with include "kscheduler.featureGates" . }}
- --feature-gates={{ . }}
{{- end }}
{{- if .Values.recorder.enabled }}
- --record=/var/lib/kscheduler/recording
- --record-max-size={{ .Values.recorder.maxSize }}
{{- if .Values.recorder.redact }}
- --record-redact
{{- end }}
{{- end }}
- --logging-format={{ .Values.logs.format }}
- --v={{ .Values.logs.level }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The port of plain HTTP, health and metrics only: in place of the secure one, or beside it; empty: there is none. */}}
{{- define "kscheduler.plainPort" -}}
{{- if eq .Values.server.scheme "HTTP" }}
{{- .Values.server.port }}
{{- else if .Values.metrics.plain.enabled }}
{{- .Values.metrics.plain.port }}
{{- end }}
{{- end }}

{{/* An IPv6 address needs brackets before a port. */}}
{{- define "kscheduler.plainAddress" -}}
{{- $address := default "0.0.0.0" .Values.server.bindAddress }}
{{- ternary (printf "[%s]" $address) $address (contains ":" $address) }}
{{- end }}

{{- define "kscheduler.tlsArgs" }}
{{- if include "kscheduler.certificateSecret" . }}
- --tls-cert-file=/etc/kscheduler/tls/tls.crt
- --tls-private-key-file=/etc/kscheduler/tls/tls.key
{{- end }}
{{- with .Values.tls.minVersion }}
- --tls-min-version={{ . }}
{{- end }}
{{- with .Values.tls.cipherSuites }}
- --tls-cipher-suites={{ join "," . }}
{{- end }}
{{- if .Values.tls.clientCAConfigMap }}
- --client-ca-file=/etc/kscheduler/client-ca/ca.crt
{{- end }}
- --authorization-always-allow-paths={{ join "," .Values.auth.alwaysAllowPaths }}
{{- end }}

{{- define "kscheduler.recordedBytes" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- $size := .Values.recorder.maxSize }}
{{- $number := regexFind "[1-9][0-9]*" $size | default "0" }}
{{- printf "%.0f" (mulf $number (get $units (regexFind "[A-Za-z]*$" $size))) }}
{{- end }}

{{/*
What the recording takes of the node's disk where it has no volume of its own: a quarter more than recorder.maxSize,
since a pod that exceeds it is evicted. Empty: there is a volume, or no recording.
*/}}
{{- define "kscheduler.recordingOnNode" -}}
{{- if and .Values.recorder.enabled (not .Values.recorder.volume) }}
{{- printf "%.0fMi" (divf (mulf (include "kscheduler.recordedBytes" .) 1.25) 1048576.0 | ceil) }}
{{- end }}
{{- end }}

{{/* The container's resources; who gives ephemeral-storage has thought of the recording. */}}
{{- define "kscheduler.resources" -}}
{{- $resources := deepCopy (.Values.resources | default dict) }}
{{- $requests := $resources.requests | default dict }}
{{- $limits := $resources.limits | default dict }}
{{- with include "kscheduler.recordingOnNode" . }}
{{- if not (or (hasKey $requests "ephemeral-storage") (hasKey $limits "ephemeral-storage")) }}
{{- $_ := set $resources "requests" (merge (dict "ephemeral-storage" .) $requests) }}
{{- end }}
{{- end }}
{{- with $resources }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* Refusals that a schema cannot express: values that contradict each other. */}}
{{- define "kscheduler.refusals" -}}
{{- if and (not .Values.leaderElection.enabled) (gt (int .Values.replicas) 1) }}
{{- fail "replicas: more than one without leaderElection.enabled: all of them would schedule, and give the same room away twice" }}
{{- end }}
{{- if and (eq .Values.mode "replace") (not .Values.leaderElection.enabled) }}
{{- fail "mode: replace needs leaderElection.enabled: the Lease is what keeps kube-scheduler from deciding at the same time" }}
{{- end }}
{{- if eq .Values.mode "shadow" }}
{{- if or .Values.leaderElection.enabled (gt (int .Values.replicas) 1) }}
{{- fail "mode: shadow decides nothing, so that there is nothing to elect: set leaderElection.enabled: false and replicas: 1 (ci/shadow.yaml)" }}
{{- end }}
{{- if ne .Values.server.scheme "HTTP" }}
{{- fail "mode: shadow needs server.scheme HTTP: a login would create reviews, and a shadow creates nothing (ci/shadow.yaml)" }}
{{- end }}
{{- if .Values.metrics.prometheusRule.enabled }}
{{- fail "mode: shadow: the alerts are about a scheduler that decides; leave metrics.prometheusRule.enabled false, and look at kscheduler_shadow_differences_total" }}
{{- end }}
{{- if .Values.recorder.enabled }}
{{- fail "mode: shadow decides nothing that could be recorded: leave recorder.enabled false" }}
{{- end }}
{{- if or .Values.repairOverfilledNodes .Values.flowSchema.enabled }}
{{- fail "mode: shadow evicts nobody, and does not go before others at the API server: set repairOverfilledNodes and flowSchema.enabled to false (ci/shadow.yaml)" }}
{{- end }}
{{- end }}
{{- if and .Values.config.existingConfigMap (or .Values.config.profiles .Values.config.policies .Values.config.extenders) }}
{{- fail "config.existingConfigMap: profiles and extenders are taken from there; give one or the other" }}
{{- end }}
{{- include "kscheduler.droppedValues" . }}
{{- if and .Values.config.existingConfigMap .Values.plugins }}
{{- fail "config.existingConfigMap: its pluginSources are taken; mount the files by extraVolumes and allow them with extraArgs: [--plugin-directory=...]" }}
{{- end }}
{{- if and .Values.tls.existingSecret .Values.tls.certManager.enabled }}
{{- fail "tls.existingSecret and tls.certManager.enabled are two certificates; give one" }}
{{- end }}
{{- if and .Values.tls.certManager.enabled (not .Values.tls.certManager.issuerRef.name) }}
{{- fail "tls.certManager.issuerRef.name: which issuer?" }}
{{- end }}
{{- include "kscheduler.gateRefusals" . }}
{{- range $who := list "asker" "operator" }}
{{- include "kscheduler.accountRefusals" (list $ $who) }}
{{- end }}
{{- if and .Values.rbac.asker.create (not .Values.service.enabled) }}
{{- fail "rbac.asker.create needs service.enabled: kubectl kscheduler asks through the API server's proxy to the Service" }}
{{- end }}
{{- include "kscheduler.electionRefusals" . }}
{{- include "kscheduler.sameNames" . }}
{{- if lt (include "kscheduler.recordedBytes" . | float64) 1048576.0 }}
{{- fail (printf "recorder.maxSize: %s is too little for a recording; 1Mi at least" .Values.recorder.maxSize) }}
{{- end }}
{{- if gt (len .Values.recorder.volume) 1 }}
{{- fail "recorder.volume: a volume has one source" }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.service.enabled) }}
{{- fail "metrics.serviceMonitor.enabled needs service.enabled; metrics.podMonitor works without a Service" }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled }}
{{- fail "metrics.serviceMonitor and metrics.podMonitor would scrape every series twice; enable one" }}
{{- end }}
{{- if and (eq .Values.server.scheme "HTTP") .Values.metrics.plain.enabled }}
{{- fail "metrics.plain.enabled: server.scheme HTTP serves the metrics already; one plain port is all there is" }}
{{- end }}
{{- $others := without (include "kscheduler.profileNames" . | fromJsonArray) "default-scheduler" }}
{{- if and (has .Values.podSchedulerName (append $others (include "kscheduler.schedulerName" .))) (eq .Values.mode "second") }}
{{- fail "podSchedulerName: the scheduler would wait for itself to be scheduled" }}
{{- end }}
{{- end }}

{{/* Values that nothing would come of, since another one switches off what they are about. */}}
{{- define "kscheduler.droppedValues" -}}
{{- $config := .Values.config }}
{{- if $config.existingConfigMap }}
{{- range $name := list "parallelism" "percentageOfNodesToScore" "podInitialBackoffSeconds" "podMaxBackoffSeconds" "honorSchedulerNameAnnotation" "topologyLevels" }}
{{- if index $config $name }}
{{- fail (printf "config.existingConfigMap: %s is taken from there; take config.%s out, and write it into that ConfigMap" $name $name) }}
{{- end }}
{{- end }}
{{- range $name := list "qps" "burst" }}
{{- if index $config.clientConnection $name }}
{{- fail (printf "config.existingConfigMap: clientConnection.%s is taken from there; take config.clientConnection.%s out, and write it into that ConfigMap" $name $name) }}
{{- end }}
{{- end }}
{{- if $config.rollOnChange }}
{{- fail "config.rollOnChange: the chart does not see when config.existingConfigMap changes; running pods take the change over" }}
{{- end }}
{{- else if and $config.clientConnection.burst (not $config.clientConnection.qps) }}
{{- fail "config.clientConnection.burst needs config.clientConnection.qps: without a rate there is no limit to burst" }}
{{- end }}
{{- if ne .Values.server.scheme "HTTPS" }}
{{- $tls := .Values.tls }}
{{- range $name, $given := dict "existingSecret" $tls.existingSecret "certManager.enabled" $tls.certManager.enabled "minVersion" $tls.minVersion "cipherSuites" $tls.cipherSuites "clientCAConfigMap" $tls.clientCAConfigMap }}
{{- if $given }}
{{- fail (printf "tls.%s needs server.scheme HTTPS: over HTTP nothing is encrypted and nobody is asked who he is" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- if not .Values.networkPolicy.enabled }}
{{- if or .Values.networkPolicy.ingressFrom .Values.networkPolicy.egress.enabled .Values.networkPolicy.egress.extraRules }}
{{- fail "networkPolicy.ingressFrom and networkPolicy.egress need networkPolicy.enabled: without it nothing is fenced" }}
{{- end }}
{{- else if and .Values.networkPolicy.egress.extraRules (not .Values.networkPolicy.egress.enabled) }}
{{- fail "networkPolicy.egress.extraRules needs networkPolicy.egress.enabled: without it pods may reach everything" }}
{{- end }}
{{- if and .Values.rbac.metricsReader.subjects (not (and .Values.rbac.create .Values.rbac.metricsReader.create)) }}
{{- fail "rbac.metricsReader.subjects needs rbac.create and rbac.metricsReader.create: nobody would get the role" }}
{{- end }}
{{- if and (not .Values.rbac.create) (or .Values.rbac.extraRules .Values.rbac.nodeMetrics) }}
{{- fail "rbac.extraRules and rbac.nodeMetrics need rbac.create: without it no roles are made" }}
{{- end }}
{{- end }}

{{/* The gates that the flags name, as JSON. */}}
{{- define "kscheduler.gates" -}}
{{- $gates := deepCopy .Values.featureGates }}
{{- if has "kubernetes" .Values.podGroups }}
{{- $_ := set $gates "GenericWorkload" true }}
{{- end }}
{{- toJson $gates }}
{{- end }}

{{/* The one version that is followed, where the flags say so. */}}
{{- define "kscheduler.emulatedVersion" -}}
{{- regexFind "--emulated-version[= ][^ ]+" (join " " .Values.extraArgs) | regexFind "[0-9]+[.][0-9]+" }}
{{- end }}

{{/* Whether a gate is on: (list TABLE GIVEN NAME). Its own setting wins over those of its stage. Empty: it is off. */}}
{{- define "kscheduler.gateIsOn" -}}
{{- $given := index . 1 }}
{{- $gate := get (index . 0) (index . 2) }}
{{- if hasKey $given (index . 2) }}
{{- ternary "on" "" (get $given (index . 2)) }}
{{- else if hasKey $given ($gate.all | default "no gate") }}
{{- ternary "on" "" (get $given $gate.all) }}
{{- else if $gate.default }}
{{- "on" }}
{{- end }}
{{- end }}

{{/*
What each version of Kubernetes that may be followed has against the gates, as JSON: {VERSION: [PROBLEM, ...]}. The service
judges by the same rules, and so does `kscheduler config check`: one version that takes them is enough for a start.
*/}}
{{- define "kscheduler.gateProblems" -}}
{{- $tables := .Files.Get "files/feature-gates.json" | fromJson }}
{{- $given := include "kscheduler.gates" . | fromJson }}
{{- $problems := dict }}
{{- range $version, $table := $tables }}
{{- if has (include "kscheduler.emulatedVersion" $) (list "" $version) }}
{{- $found := list }}
{{- range $name, $on := $given }}
{{- $gate := get $table $name | default dict }}
{{- $others := list }}
{{- range $other, $_ := $tables }}
{{- if hasKey (get $tables $other) $name }}
{{- $others = append $others $other }}
{{- end }}
{{- end }}
{{- if not $others }}
{{- $found = append $found (printf "featureGates.%s: there is no feature gate of this name (files/feature-gates.json in the chart lists them)" $name) }}
{{- else if not (hasKey $table $name) }}
{{- $found = append $found (printf "featureGates.%s: only Kubernetes %s %s it" $name (join " and " $others) (eq (len $others) 1 | ternary "has" "have")) }}
{{- else if and $gate.locked (ne $on ($gate.default | default false)) }}
{{- $found = append $found (printf "featureGates.%s: cannot be set to %t, it is locked to %t" $name $on ($gate.default | default false)) }}
{{- else if and $on $gate.notBuilt }}
{{- $found = append $found (printf "featureGates.%s: cannot be switched on, it is not built: %s" $name $gate.notBuilt) }}
{{- end }}
{{- end }}
{{- range $name, $gate := ternary $table dict (gt (len $given) 0) }}
{{- range $need := $gate.needs }}
{{- if and (include "kscheduler.gateIsOn" (list $table $given $name)) (not (include "kscheduler.gateIsOn" (list $table $given $need))) }}
{{- $found = append $found (printf "featureGates.%s needs featureGates.%s%s" $name $need (ternary ", which podGroups: [kubernetes] sets" "" (eq $need "GenericWorkload"))) }}
{{- end }}
{{- end }}
{{- end }}
{{- $_ := set $problems $version $found }}
{{- end }}
{{- end }}
{{- toJson $problems }}
{{- end }}

{{/* Gates that no version takes: the process would end at its start. */}}
{{- define "kscheduler.gateRefusals" -}}
{{- $problems := include "kscheduler.gateProblems" . | fromJson }}
{{- $told := list }}
{{- $same := list }}
{{- $taken := eq (len $problems) 0 }}
{{- range $version := keys $problems | sortAlpha | reverse }}
{{- $text := join "; " (get $problems $version) }}
{{- $taken = or $taken (eq $text "") }}
{{- $same = append $same $text | uniq }}
{{- $told = append $told (printf "with Kubernetes %s: %s" $version $text) }}
{{- end }}
{{- if not $taken }}
{{- fail (ternary (first $same) (join ". And " $told) (eq (len $same) 1)) }}
{{- end }}
{{- end }}

{{/* An account to ask in, (list . NAME) of rbac, needs a door to ask at: HTTPS with a login, and roles. */}}
{{- define "kscheduler.accountRefusals" -}}
{{- $values := (index . 0).Values }}
{{- $name := index . 1 }}
{{- $account := index $values.rbac $name }}
{{- if and $account.subjects (not $account.create) }}
{{- fail (printf "rbac.%s.subjects without rbac.%s.create: nobody would get the role" $name $name) }}
{{- end }}
{{- if $account.create }}
{{- if ne $values.server.scheme "HTTPS" }}
{{- fail (printf "rbac.%s.create needs server.scheme HTTPS: over HTTP only health and metrics are served" $name) }}
{{- end }}
{{- if not $values.rbac.create }}
{{- fail (printf "rbac.%s.create needs rbac.create: without it no roles are made" $name) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The nanoseconds of a duration such as 1m30s or 1.5h, which the schema has checked. */}}
{{- define "kscheduler.nanoseconds" -}}
{{- $units := dict "ns" 1 "us" 1000 "ms" 1000000 "s" 1000000000 "m" 60000000000 "h" 3600000000000 }}
{{- $total := 0.0 }}
{{- range regexFindAll "[0-9.]+[a-z]+" . -1 }}
{{- $total = addf $total (mulf (regexFind "^[0-9.]+" . | float64) (get $units (regexFind "[a-z]+$" .))) }}
{{- end }}
{{- printf "%.0f" $total }}
{{- end }}

{{/* Times of the election that the process refuses: each new pod would end at its start. */}}
{{- define "kscheduler.electionRefusals" -}}
{{- $election := .Values.leaderElection }}
{{- if $election.enabled }}
{{- $lease := include "kscheduler.nanoseconds" $election.leaseDuration | float64 }}
{{- $renew := include "kscheduler.nanoseconds" $election.renewDeadline | float64 }}
{{- $retry := include "kscheduler.nanoseconds" $election.retryPeriod | float64 }}
{{- if lt $lease 1e9 }}
{{- fail (printf "leaderElection.leaseDuration: %s is too short; 1s at least" $election.leaseDuration) }}
{{- end }}
{{- if lt $renew 5e8 }}
{{- fail (printf "leaderElection.renewDeadline: %s is too short; 500ms at least" $election.renewDeadline) }}
{{- end }}
{{- if lt $retry 1e8 }}
{{- fail (printf "leaderElection.retryPeriod: %s is too short; 100ms at least" $election.retryPeriod) }}
{{- end }}
{{- if le $lease $renew }}
{{- fail (printf "leaderElection.leaseDuration: %s must be greater than leaderElection.renewDeadline, %s" $election.leaseDuration $election.renewDeadline) }}
{{- end }}
{{- if le $renew (mulf $retry 1.2) }}
{{- fail (printf "leaderElection.renewDeadline: %s must be greater than 1.2 times leaderElection.retryPeriod, %s" $election.renewDeadline $election.retryPeriod) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Two profiles of one name, of config.profiles or of a ready policy: the process would end at its start. */}}
{{- define "kscheduler.sameNames" -}}
{{- $seen := list }}
{{- range $index, $profile := .Values.config.profiles }}
{{- if has $profile.schedulerName $seen }}
{{- fail (printf "config.profiles[%d].schedulerName: %s is the name of another profile" $index $profile.schedulerName) }}
{{- end }}
{{- $seen = append $seen $profile.schedulerName }}
{{- end }}
{{- range .Values.config.policies }}
{{- if has . ($seen | default (list (include "kscheduler.schedulerName" $))) }}
{{- fail (printf "config.policies: %s is the name of another profile" .) }}
{{- end }}
{{- end }}
{{- end }}
