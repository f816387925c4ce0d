{{/* What never changes of an object's labels: selectors use these. */}}
{{- define "hermes.selector" -}}
app.kubernetes.io/name: hermes
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "hermes.labels" -}}
{{ include "hermes.selector" . }}
app.kubernetes.io/part-of: hermes
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{/* Metadata of an object named after its component. */}}
{{- define "hermes.metadata" -}}
name: {{ include "hermes.name" . }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "hermes.labels" . | nindent 2 }}
{{- end -}}
