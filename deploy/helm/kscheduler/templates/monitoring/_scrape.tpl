{{/*
One endpoint of a ServiceMonitor or PodMonitor: (list . SETTINGS). The plain port, where there is one, needs neither
certificate nor token. `job` is set here, so that series, rules and dashboard agree however Prometheus names targets.
*/}}
{{- define "kscheduler.endpoint" -}}
{{- $root := index . 0 }}
{{- $settings := index . 1 }}
{{- $plain := $root.Values.metrics.plain.enabled }}
path: /metrics
{{- if $plain }}
port: metrics
scheme: http
{{- else }}
port: {{ include "kscheduler.portName" $root }}
scheme: {{ lower $root.Values.server.scheme }}
{{- if eq $root.Values.server.scheme "HTTPS" }}
{{- $tls := $settings.tlsConfig }}
{{- if or $tls.ca $tls.caFile $tls.serverName }}
{{- /* Helm merges values: the default `insecureSkipVerify: true` would stay beside them, and nothing be verified. */}}
{{- $tls = omit $tls "insecureSkipVerify" }}
{{- end }}
{{- with $tls }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $settings.authorization }}
authorization:
  {{- toYaml $settings.authorization | nindent 2 }}
{{- else if $settings.bearerTokenFile }}
bearerTokenFile: {{ $settings.bearerTokenFile }}
{{- end }}
{{- end }}
{{- end }}
{{- with $settings.interval }}
interval: {{ . }}
{{- end }}
{{- with $settings.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
relabelings:
  - action: replace
    targetLabel: job
    replacement: {{ $root.Values.metrics.jobName }}
  {{- with $settings.relabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $settings.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "kscheduler.scraped" -}}
selector:
  matchLabels:
    {{- include "kscheduler.selectorLabels" . | nindent 4 }}
namespaceSelector:
  matchNames: [{{ include "kscheduler.namespace" . }}]
{{- end }}
