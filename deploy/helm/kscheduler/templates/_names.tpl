{{/* Names, labels and what follows from the mode. A value is read here once, and by name everywhere else. */}}

{{/*
Fills in what somebody's `null` has taken away, as Helm does with defaults: a section or a number its default again, a list
or a map nothing. Every template begins with it, since Helm may render any of them first.
*/}}
{{- define "kscheduler.complete" -}}
{{- include "kscheduler.fill" (list .Values (.Files.Get "files/defaults.json" | fromJson)) }}
{{- end }}

{{- define "kscheduler.fill" -}}
{{- $values := index . 0 }}
{{- range $name, $default := index . 1 }}
{{- if or (not (hasKey $values $name)) (kindIs "invalid" (index $values $name)) }}
{{- $_ := set $values $name $default }}
{{- else if and (kindIs "map" $default) (kindIs "map" (index $values $name)) }}
{{- include "kscheduler.fill" (list (index $values $name) $default) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kscheduler.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The objects' name: the release's where that says enough. 52 characters leave room for suffixes. */}}
{{- define "kscheduler.fullname" -}}
{{- $name := include "kscheduler.name" . }}
{{- $joined := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $joined .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "kscheduler.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "kscheduler.serviceAccountName" -}}
{{- default (include "kscheduler.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{- define "kscheduler.schedulerName" -}}
{{- default (ternary "default-scheduler" "kscheduler" (eq .Values.mode "replace")) .Values.schedulerName }}
{{- end }}

{{/* The names by which pods may ask for it, as JSON: of all profiles. Empty: a ConfigMap of the user's says them. */}}
{{- define "kscheduler.profileNames" -}}
{{- $names := list }}
{{- if not .Values.config.existingConfigMap }}
{{- range .Values.config.profiles | default (list (dict "schedulerName" (include "kscheduler.schedulerName" .))) }}
{{- $names = append $names .schedulerName }}
{{- end }}
{{- $names = concat $names .Values.config.policies }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{/* Beside kube-scheduler a Lease of our own; in its place its own Lease, so that the two take turns. */}}
{{- define "kscheduler.leaseName" -}}
{{- $default := ternary "kube-scheduler" (include "kscheduler.schedulerName" .) (eq .Values.mode "replace") }}
{{- default $default .Values.leaderElection.resourceName }}
{{- end }}

{{- define "kscheduler.leaseNamespace" -}}
{{- $default := ternary "kube-system" (include "kscheduler.namespace" .) (eq .Values.mode "replace") }}
{{- default $default .Values.leaderElection.resourceNamespace }}
{{- end }}

{{- define "kscheduler.configMapName" -}}
{{- default (include "kscheduler.fullname" .) .Values.config.existingConfigMap }}
{{- end }}

{{- define "kscheduler.pluginsName" -}}
{{- printf "%s-plugins" (include "kscheduler.fullname" . | trunc 55 | trimSuffix "-") }}
{{- end }}

{{/* The Secret with the certificate; empty where the process signs its own. */}}
{{- define "kscheduler.certificateSecret" -}}
{{- if .Values.tls.existingSecret }}
{{- .Values.tls.existingSecret }}
{{- else if .Values.tls.certManager.enabled }}
{{- include "kscheduler.fullname" . }}-tls
{{- end }}
{{- end }}

{{- define "kscheduler.image" -}}
{{- $registry := default .Values.image.registry .Values.global.imageRegistry }}
{{- $path := ternary (printf "%s/%s" $registry .Values.image.repository) .Values.image.repository (ne $registry "") }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $path .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $path (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "kscheduler.imagePullSecrets" -}}
{{- $names := list }}
{{- range concat .Values.global.imagePullSecrets .Values.imagePullSecrets }}
{{- $names = append $names (get (kindIs "map" . | ternary . (dict "name" .)) "name") }}
{{- end }}
{{- range uniq $names }}
- name: {{ . }}
{{- end }}
{{- end }}

{{/* The name of the port says what is spoken on it. */}}
{{- define "kscheduler.portName" -}}
{{- lower .Values.server.scheme }}
{{- end }}

{{/* What a Deployment and a Service select by; never changed by an upgrade. */}}
{{- define "kscheduler.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kscheduler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: scheduler
{{- end }}

{{/* Of pods. Neither the chart's version nor the image's: an upgrade that changes no pod restarts none. */}}
{{- define "kscheduler.podLabels" -}}
{{ include "kscheduler.selectorLabels" . }}
app.kubernetes.io/part-of: {{ include "kscheduler.name" . }}
{{- with mergeOverwrite (deepCopy .Values.commonLabels) .Values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kscheduler.labels" -}}
{{ include "kscheduler.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: {{ include "kscheduler.name" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
Metadata of an object: (list . NAME NAMESPACE EXTRA-LABELS EXTRA-ANNOTATIONS). An empty namespace: a cluster's object.
*/}}
{{- define "kscheduler.metadata" -}}
{{- $root := index . 0 }}
metadata:
  name: {{ index . 1 }}
  {{- with index . 2 }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "kscheduler.labels" $root | nindent 4 }}
    {{- with index . 3 }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with mergeOverwrite (deepCopy $root.Values.commonAnnotations) (index . 4) }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
