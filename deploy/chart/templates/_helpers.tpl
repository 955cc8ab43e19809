{{/* Reference of the image: REGISTRY/REPOSITORY:TAG@DIGEST, of which registry and digest are optional. */}}
{{- define "parallax.image" -}}
{{- with .Values.image -}}
{{- with .registry }}{{ . }}/{{ end }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- with .digest }}@{{ . }}{{ end }}
{{- end }}
{{- end }}

{{/* Labels that select the Pods of a component. */}}
{{- define "parallax.componentLabels" -}}
app.kubernetes.io/component: {{ . }}
app.kubernetes.io/name: parallax
{{- end }}

{{/* Labels of an object that belongs to the whole installation. */}}
{{- define "parallax.installationLabels" -}}
app.kubernetes.io/name: parallax
{{- end }}

{{/* Labels of a namespace whose Pod Security level is the argument. */}}
{{- define "parallax.namespaceLabels" -}}
{{ include "parallax.installationLabels" nil }}
pod-security.kubernetes.io/audit: {{ . }}
pod-security.kubernetes.io/enforce: {{ . }}
pod-security.kubernetes.io/warn: {{ . }}
{{- end }}

{{/* Namespace of the host probers. */}}
{{- define "parallax.hostNamespace" -}}
{{ .Release.Namespace }}-host
{{- end }}

{{/* Namespaces with probers, separated by spaces. */}}
{{- define "parallax.proberNamespaces" -}}
{{ .Release.Namespace }}{{ if .Values.hostVantage }} {{ include "parallax.hostNamespace" . }}{{ end }}
{{- end }}

{{/* Not empty if leader election is enabled. */}}
{{- define "parallax.leaderElection" -}}
{{- if gt (int64 .Values.aggregator.replicas) 1 }}true{{ end }}
{{- end }}

{{/* Not empty if preflights are enabled; {} enables them, too. */}}
{{- define "parallax.preflightEnabled" -}}
{{- if kindIs "map" .Values.preflight }}true{{ end }}
{{- end }}

{{/* Not empty if cert-manager's objects are watched. YAML 1.1 reads an unquoted `off` as false. */}}
{{- define "parallax.certManagerWatched" -}}
{{- if eq (toString .Values.certManager) "auto" }}true{{ end }}
{{- end }}

{{/* Host name by which probers reach the aggregator. Without the cluster domain, so that it works with any. */}}
{{- define "parallax.reportHost" -}}
parallax-aggregator.{{ .Release.Namespace }}.svc
{{- end }}

{{/* A URL as the aggregator writes it: host in lower case, no default port, and at least the path `/`. */}}
{{- define "parallax.url" -}}
{{- $origin := regexFind "^https?://[^/?]+" . -}}
{{- $rest := trimPrefix $origin . -}}
{{- $defaultPort := ternary ":443" ":80" (hasPrefix "https:" $origin) -}}
{{- $origin | lower | trimSuffix $defaultPort }}{{ if not (hasPrefix "/" $rest) }}/{{ end }}{{ $rest }}
{{- end }}

{{/* A URL between single quotes, for the configuration. */}}
{{- define "parallax.quotedUrl" -}}
'{{ include "parallax.url" . | replace "'" "''" }}'
{{- end }}

{{/* Port of a URL. */}}
{{- define "parallax.urlPort" -}}
{{- $port := regexFind "^https?://[^/?]+" . | regexFind ":[0-9]+$" | trimPrefix ":" -}}
{{- $port | default (ternary "443" "80" (hasPrefix "https:" .)) }}
{{- end }}

{{/* Flow-style list of a configuration. Kubernetes names need no quotes, IPv6 addresses do. */}}
{{- define "parallax.flowList" -}}
{{- $items := list -}}
{{- range . }}{{ $items = append $items (ternary (printf "'%s'" .) . (contains ":" .)) }}{{ end -}}
[{{ join ", " $items }}]
{{- end }}

{{/* A quantity as text. A number of a values file is a float64, which prints 134217728 as 1.34217728e+08. */}}
{{- define "parallax.quantity" -}}
{{- if kindIs "float64" . }}{{ ternary (int64 .) . (eq . (floor .)) }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* Requests and limits of a container. */}}
{{- define "parallax.resources" -}}
{{- $resources := dict -}}
{{- range $kind := list "limits" "requests" }}
  {{- $quantities := dict -}}
  {{- range $name, $quantity := dig $kind dict ($ | default dict) | default dict }}
    {{- if not (kindIs "invalid" $quantity) }}
      {{- $_ := set $quantities $name (include "parallax.quantity" $quantity) }}
    {{- end }}
  {{- end }}
  {{- with $quantities }}{{ $_ := set $resources $kind . }}{{ end }}
{{- end }}
{{- toYaml $resources }}
{{- end }}

{{/* Properties of all containers: one image, no permissions. Arguments: root, resources. */}}
{{- define "parallax.container" -}}
image: {{ include "parallax.image" .root | quote }}
{{- with .root.Values.imagePullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
resources:
  {{- include "parallax.resources" .resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
  readOnlyRootFilesystem: true
{{- end }}

{{/* User id and group id of all Pods; empty if the platform chooses them. */}}
{{- define "parallax.userId" -}}
{{- if ne (toString .Values.userId) "auto" }}{{ int64 .Values.userId }}{{ end }}
{{- end }}

{{/* Security context of all Pods. UID and GID can be any but root. */}}
{{- define "parallax.podSecurityContext" -}}
{{- $id := include "parallax.userId" . -}}
{{- with $id -}}
runAsGroup: {{ . }}
{{ end -}}
runAsNonRoot: true
{{- with $id }}
runAsUser: {{ . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Credentials and placement of a Pod. Arguments: root, placement. */}}
{{- define "parallax.podPlacement" -}}
# Pods that need the API server mount its token explicitly.
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- with .placement.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .placement.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .placement.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Explicit form of what `automountServiceAccountToken` would mount: the Pod's API server credentials. */}}
{{- define "parallax.apiCredentialsVolume" -}}
name: api
projected:
  sources:
    - serviceAccountToken:
        expirationSeconds: 3607
        path: token
    - configMap:
        name: kube-root-ca.crt
        items:
          - {key: ca.crt, path: ca.crt}
    - downwardAPI:
        items:
          - path: namespace
            fieldRef:
              fieldPath: metadata.namespace
{{- end }}

{{/* Mount of the API server credentials, at the path where clients look for them. */}}
{{- define "parallax.apiCredentialsMount" -}}
name: api
mountPath: /var/run/secrets/kubernetes.io/serviceaccount
readOnly: true
{{- end }}
