{{/* Not empty if there is a receiver of notifications. */}}
{{- define "parallax.notify" -}}
{{- with .Values.notify }}{{ if or .events .webhooks .alertmanagers }}true{{ end }}{{ end }}
{{- end }}

{{/* The aggregator's configuration. */}}
{{- define "parallax.configuration" -}}
{{- $namespace := .Release.Namespace -}}
{{- $hosts := prepend .Values.externalHosts (include "parallax.reportHost" .) -}}
{{- $published := list -}}
{{- range include "parallax.proberNamespaces" . | splitList " " -}}
{{- $published = append $published (printf "%s/parallax-ca" .) -}}
{{- end -}}
{{- $probers := list (printf "%s/parallax-prober" $namespace) -}}
{{- if .Values.hostVantage -}}
{{- $probers = append $probers (printf "%s/parallax-prober-host" (include "parallax.hostNamespace" .)) -}}
{{- end -}}
listen: '[::]:8080'
intervalMs: {{ int64 .Values.intervalMs }}
timeoutMs: {{ int64 .Values.timeoutMs }}
topology:
  kubernetes: {{ if include "parallax.certManagerWatched" . }}{}{{ else }}{certManager: off}{{ end }}
tls:
  listen: '[::]:8443'
  hosts: {{ include "parallax.flowList" $hosts }}
  publish: {{ include "parallax.flowList" $published }}
{{- if .Values.aggregator.volume }}
  directory: /var/lib/parallax/tls
store:
  path: /var/lib/parallax/history.db
{{- end }}
identity:
  audience: {{ .Values.audience }}
  probers: {{ include "parallax.flowList" $probers }}
  vantages: {{ $namespace }}
{{- if .Values.responder }}
  responders: [{{ $namespace }}/parallax-responder]
{{- end }}
incidentActions:
  configMap: {{ $namespace }}/parallax-incident-actions
checkpoint:
  configMap: {{ $namespace }}/parallax-checkpoint
{{- include "parallax.notifyConfiguration" . }}
{{- if include "parallax.leaderElection" . }}
replicas:
  lease: {{ $namespace }}/parallax-aggregator
{{- end }}
{{- with .Values.certManagerNamespace }}
challenges:
  certManagerNamespace: {{ . }}
{{- end }}
{{- if .Values.customResources }}
customResources: true
{{- end }}
{{- if not .Values.metrics.classicBuckets }}
metrics: {classicBuckets: false}
{{- end }}
{{- $links := list -}}
{{- range $name := list "grafana" "page" -}}
{{- with dig $name "" ($.Values.links | default dict) -}}
{{- $links = append $links (printf "%s: %s" $name (include "parallax.quotedUrl" .)) -}}
{{- end -}}
{{- end -}}
{{- with $links }}
links: {{ printf "{%s}" (join ", " .) }}
{{- end }}
{{- with include "parallax.allowedHosts" . }}
allowedHosts: {{ splitList " " . | include "parallax.flowList" }}
{{- end }}
{{- end }}

{{/* Host names of the page outside the cluster, separated by spaces. The aggregator refuses to serve others. */}}
{{- define "parallax.allowedHosts" -}}
{{- $hosts := list -}}
{{- with .Values.access -}}
{{- range list .ingress .httpRoute -}}
{{- with . }}{{ $hosts = append $hosts .host }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $hosts | uniq | join " " }}
{{- end }}

{{/* The receivers of notifications in it. */}}
{{- define "parallax.notifyConfiguration" -}}
{{- $namespace := .Release.Namespace -}}
{{- if or (include "parallax.notify" .) .Values.notify.heartbeat }}
notify:
{{- if include "parallax.notify" . }}
  configMap: {{ $namespace }}/parallax-notifications
{{- end }}
{{- if .Values.notify.heartbeat }}
  heartbeat: {urlFile: '/etc/parallax-secrets/heartbeat'}
{{- end }}
{{- if .Values.notify.events }}
  events: true
{{- end }}
{{- with .Values.notify.webhooks }}
  webhooks:
{{- range . }}
  - {name: '{{ .name }}', url: {{ include "parallax.quotedUrl" .url }}, secretFile: '/etc/parallax-secrets/{{ .name }}'}
{{- end }}
{{- end }}
{{- with .Values.notify.alertmanagers }}
  alertmanagers:
{{- range . }}
  - {name: '{{ .name }}', url: {{ include "parallax.quotedUrl" .url }}, job: {{ $namespace }}/parallax-aggregator}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Digest of the settings that require a restart of the aggregator; a change of it in the Pod template causes a rollout.
Timing settings are reloaded at runtime.
*/}}
{{- define "parallax.configurationDigest" -}}
{{- $lines := list -}}
{{- range include "parallax.configuration" . | splitList "\n" -}}
{{- if not (regexMatch "^(intervalMs|timeoutMs): " .) }}{{ $lines = append $lines . }}{{ end -}}
{{- end -}}
sha256:{{ join "\n" $lines | sha256sum | trunc 16 }}
{{- end }}
