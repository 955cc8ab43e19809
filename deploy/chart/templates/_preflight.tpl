{{/* Default values of the preflight controller. */}}
{{- define "parallax.preflightDefaults" -}}
namespaces: []
certManagerNamespace: cert-manager
resources:
  requests: {cpu: 10m, memory: 32Mi}
  limits: {memory: 128Mi}
nodeSelector: {kubernetes.io/os: linux}
{{- end }}

{{/* Values of the preflight controller as YAML. A quantity replaces the default of its resource; the others stay. */}}
{{- define "parallax.preflightValues" -}}
{{- $values := include "parallax.preflightDefaults" nil | fromYaml -}}
{{- range $key, $value := .Values.preflight -}}
{{- if eq $key "resources" -}}
{{- range $kind, $quantities := $value -}}
{{- range $name, $quantity := $quantities -}}
{{- if kindIs "invalid" $quantity -}}
{{- $_ := unset (get $values.resources $kind) $name -}}
{{- else -}}
{{- $_ := set (get $values.resources $kind) $name (include "parallax.quantity" $quantity) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- $_ := set $values $key $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $values }}
{{- end }}
