{{/* DNS to any address: resolvers may run in the cluster, on the node or outside. */}}
{{- define "parallax.dnsEgress" -}}
ports:
  {{- range .Values.dnsPorts }}
  - {port: {{ int64 . }}, protocol: UDP}
  - {port: {{ int64 . }}, protocol: TCP}
  {{- end }}
{{- end }}

{{/* The API server's address matches no selector; only its port is known. */}}
{{- define "parallax.apiServerEgress" -}}
ports:
  {{- range .Values.apiServerPorts }}
  - {port: {{ int64 . }}, protocol: TCP}
  {{- end }}
{{- end }}

{{/* The ports of the receivers of notifications, in ascending order, separated by spaces. */}}
{{- define "parallax.notifyPorts" -}}
{{- $ports := list -}}
{{- range concat .Values.notify.webhooks .Values.notify.alertmanagers -}}
{{- $ports = append $ports (include "parallax.urlPort" .url | atoi | printf "%05d") -}}
{{- end -}}
{{- with .Values.notify.heartbeat -}}
{{- $ports = append $ports (.port | default 443 | int64 | printf "%05d") -}}
{{- end -}}
{{- $ports | uniq | sortAlpha | join " " }}
{{- end }}
