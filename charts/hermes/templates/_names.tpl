{{/* Every name of the chart. Secrets of the installation are named in libs/hermes_contracts/installation.py alike. */}}
{{- define "hermes.name" -}}
{{- if gt (len .root.Release.Name) 40 -}}
{{- fail (printf "release name %q has more than 40 characters; choose a shorter one" .root.Release.Name) -}}
{{- end -}}
{{ .root.Release.Name }}-{{ .component }}
{{- end -}}

{{/* Namespaces served, as JSON. */}}
{{- define "hermes.tenants" -}}
{{ default (list .Release.Namespace) .Values.tenants | toJson }}
{{- end -}}

{{- define "hermes.busUrl" -}}
{{ default (printf "nats://%s-bus.%s.svc:4222" .Release.Name .Release.Namespace) .Values.external.bus.url }}
{{- end -}}

{{- define "hermes.modelsUrl" -}}
http://{{ .Release.Name }}-models.{{ .Release.Namespace }}.svc:8645
{{- end -}}

{{- define "hermes.scriptedUrl" -}}
http://{{ .Release.Name }}-scripted-model.{{ .Release.Namespace }}.svc:8646/v1
{{- end -}}

{{- define "hermes.databaseHost" -}}
{{ default (printf "%s-database.%s.svc" .Release.Name .Release.Namespace) .Values.external.database.host }}
{{- end -}}

{{/* Image reference of .image, a key of `images`. */}}
{{- define "hermes.image" -}}
{{- $image := get .root.Values.images .image -}}
{{- with .root.Values.images.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default .root.Chart.AppVersion $image.tag }}{{ end -}}
{{- end -}}
