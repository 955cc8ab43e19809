{{/* Not empty if there is a receiver of notifications. */}}
{{- define "parallax.notify" -}}
{{- with .Values.notify }}{{ if or .events .webhooks .alertmanagers }}true{{ end }}{{ end }}
{{- end }}

{{/* Folder of the Secrets that the configuration names. */}}
{{- define "parallax.secretsFolder" -}}
/etc/parallax-secrets
{{- end }}

{{/* The aggregator's configuration. */}}
{{- define "parallax.configuration" -}}
{{ include "parallax.reloadedConfiguration" . }}
{{ include "parallax.startupConfiguration" . }}
{{- end }}

{{/* The sections that the aggregator applies while it runs. */}}
{{- define "parallax.reloadedConfiguration" -}}
intervalMs: {{ int64 .Values.intervalMs }}
timeoutMs: {{ int64 .Values.timeoutMs }}
{{- with pick .Values.configuration "balancers" "resolvers" "targets" "vantages" }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The sections that require a restart. */}}
{{- define "parallax.startupConfiguration" -}}
{{- $namespace := .Release.Namespace -}}
{{- $extra := .Values.configuration -}}
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
topology:
  kubernetes: {{ include "parallax.clusterTopology" . }}
tls:
  listen: '[::]:8443'
  hosts: {{ include "parallax.flowList" $hosts }}
  publish: {{ include "parallax.flowList" $published }}
  directory: /var/lib/parallax/tls
{{- if .Values.aggregator.volume }}
store:
  path: /var/lib/parallax/history.db
{{- with $extra.store }}
  {{- toYaml . | nindent 2 }}
{{- end }}
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
{{- with $extra.replicas }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- if or .Values.certManagerNamespace $extra.challenges }}
challenges:
{{- with .Values.certManagerNamespace }}
  certManagerNamespace: {{ . }}
{{- end }}
{{- with $extra.challenges }}
  {{- toYaml . | nindent 2 }}
{{- end }}
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
{{- with $extra.access }}
access:
  {{- include "parallax.accessConfiguration" . | nindent 2 }}
{{- end }}
{{- with $extra.forecast }}
forecast:
  interval: {{ ternary "off" .interval (kindIs "bool" .interval) | quote }}
{{- end }}
{{- with pick $extra "runs" "tenants" }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* How the aggregator watches the cluster, as a flow-style mapping. */}}
{{- define "parallax.clusterTopology" -}}
{{- $settings := list -}}
{{- if not (include "parallax.certManagerWatched" .) -}}
{{- $settings = append $settings "certManager: off" -}}
{{- end -}}
{{- with dig "topology" "kubernetes" "targets" "" .Values.configuration -}}
{{- $settings = append $settings (printf "targets: %s" .) -}}
{{- end -}}
{{- join ", " $settings | printf "{%s}" }}
{{- end }}

{{/* Access of people: `configuration.access` with the files of its Secrets. */}}
{{- define "parallax.accessConfiguration" -}}
{{- $access := omit . "tokenSecret" "proxy" -}}
{{- if .tokenSecret -}}
{{- $_ := set $access "tokenFile" (printf "%s/access_token" (include "parallax.secretsFolder" nil)) -}}
{{- end -}}
{{- with .proxy -}}
{{- $file := printf "%s/access_secret" (include "parallax.secretsFolder" nil) -}}
{{- $_ := set $access "proxy" (set (omit . "secret") "secretFile" $file) -}}
{{- end -}}
{{- toYaml $access }}
{{- end }}

{{/* Not empty if reading page and API requires no authentication. */}}
{{- define "parallax.openRead" -}}
{{- with .Values.configuration.access }}{{ if .openRead }}true{{ end }}{{ else }}true{{ end }}
{{- end }}

{{/* Host names of the page outside the cluster, separated by spaces. The aggregator refuses to serve others. */}}
{{- define "parallax.allowedHosts" -}}
{{- $hosts := .Values.configuration.allowedHosts | default list -}}
{{- with .Values.access -}}
{{- range list .ingress .httpRoute -}}
{{- with . }}{{ $hosts = append $hosts .host }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $hosts | uniq | join " " }}
{{- end }}

{{/* The CA certificates that a receiver has in addition, as a field of a flow-style mapping. Arguments: name, receiver. */}}
{{- define "parallax.caFile" -}}
{{- if .receiver.ca }}, caFile: '{{ include "parallax.secretsFolder" nil }}/{{ .name }}.ca.crt'{{ end }}
{{- end }}

{{/* The source of these certificates in the volume. Arguments: name, receiver. */}}
{{- define "parallax.caSource" -}}
{{- $name := .name -}}
{{- with .receiver.ca }}
- configMap:
    name: {{ .configMap | quote }}
    items:
      - key: {{ .key | default "ca.crt" | quote }}
        path: {{ printf "%s.ca.crt" $name | quote }}
{{- end }}
{{- end }}

{{/* The receivers of notifications in it. */}}
{{- define "parallax.notifyConfiguration" -}}
{{- $namespace := .Release.Namespace -}}
{{- if or (include "parallax.notify" .) .Values.notify.heartbeat }}
notify:
{{- if include "parallax.notify" . }}
  configMap: {{ $namespace }}/parallax-notifications
{{- end }}
{{- with .Values.notify.heartbeat }}
  heartbeat: {urlFile: '{{ include "parallax.secretsFolder" nil }}/heartbeat'
    {{- with .intervalSeconds }}, intervalSeconds: {{ int64 . }}{{ end }}
    {{- include "parallax.caFile" (dict "name" "heartbeat" "receiver" .) }}}
{{- end }}
{{- if .Values.notify.events }}
  events: true
{{- end }}
{{- with .Values.notify.webhooks }}
  webhooks:
{{- range . }}
  - {name: '{{ .name }}', url: {{ include "parallax.quotedUrl" .url }}, secretFile: '{{ include "parallax.secretsFolder" nil }}/{{ .name }}'
    {{- include "parallax.caFile" (dict "name" .name "receiver" .) }}}
{{- end }}
{{- end }}
{{- with .Values.notify.alertmanagers }}
  alertmanagers:
{{- range . }}
  - {name: '{{ .name }}', url: {{ include "parallax.quotedUrl" .url }}, job: {{ $namespace }}/parallax-aggregator
    {{- with .resendSeconds }}, resendSeconds: {{ int64 . }}{{ end }}
    {{- with .labels }}, labels: {{ toJson . }}{{ end }}
    {{- if .tokenSecret }}, tokenFile: '{{ include "parallax.secretsFolder" nil }}/{{ .name }}.token'{{ end }}
    {{- include "parallax.caFile" (dict "name" .name "receiver" .) }}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Digest of the sections that require a restart of the aggregator; a change of it in the Pod template causes a rollout.
*/}}
{{- define "parallax.configurationDigest" -}}
sha256:{{ include "parallax.startupConfiguration" . | sha256sum | trunc 16 }}
{{- end }}

{{/* Sources of the volume with the Secrets and CA certificates that the configuration names; empty if it names none. */}}
{{- define "parallax.secretSources" -}}
{{- range .Values.notify.webhooks }}
- secret:
    name: {{ .secret | quote }}
    items:
      - key: secret
        path: {{ .name | quote }}
{{- include "parallax.caSource" (dict "name" .name "receiver" .) }}
{{- end }}
{{- range .Values.notify.alertmanagers }}
{{- if .tokenSecret }}
- secret:
    name: {{ .tokenSecret | quote }}
    items:
      - key: token
        path: {{ printf "%s.token" .name | quote }}
{{- end }}
{{- include "parallax.caSource" (dict "name" .name "receiver" .) }}
{{- end }}
{{- with .Values.notify.heartbeat }}
- secret:
    name: {{ .secret | quote }}
    items:
      - key: url
        path: heartbeat
{{- include "parallax.caSource" (dict "name" "heartbeat" "receiver" .) }}
{{- end }}
{{- with .Values.configuration.access }}
{{- with .tokenSecret }}
- secret:
    name: {{ . | quote }}
    items:
      - key: token
        path: access_token
{{- end }}
{{- with .proxy }}
- secret:
    name: {{ .secret | quote }}
    items:
      - key: secret
        path: access_secret
{{- end }}
{{- end }}
{{- end }}
