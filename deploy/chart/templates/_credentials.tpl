{{/*
The file of `parallax prober --credentials`: names, folders and hosts; no secrets. Every value is quoted, so that YAML
reads it as text.
*/}}
{{- define "parallax.credentials" -}}
credentials:
{{- range .Values.prober.credentials }}
- name: {{ .name | quote }}
  directory: {{ .name | quote }}
  hosts: [{{ range $i, $host := .hosts }}{{ if $i }}, {{ end }}{{ $host | quote }}{{ end }}]
  {{- with .header }}
  header: {{ . | quote }}
  {{- end }}
  {{- if .allowPlaintext }}
  allowPlaintext: true
  {{- end }}
{{- end }}
{{- end }}
