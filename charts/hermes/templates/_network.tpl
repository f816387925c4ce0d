{{/* Name lookups. */}}
{{- define "hermes.egressDns" -}}
{{- with .Values.networkPolicy.dns }}
- to:
    {{- toYaml . | nindent 4 }}
  ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- end }}
{{- end -}}

{{/* The bundled bus by its pods; an external one by its port, since a policy cannot name a host. */}}
{{- define "hermes.egressBus" -}}
{{- if .Values.external.bus.url }}
- ports:
    - port: {{ regexFind "[0-9]+$" (default "nats://x:4222" .Values.external.bus.url) | default "4222" | int }}
      protocol: TCP
{{- else }}
- to:
    - podSelector:
        matchLabels:
          {{- include "hermes.selector" (dict "root" . "component" "bus") | nindent 10 }}
  ports:
    - port: 4222
      protocol: TCP
{{- end }}
{{- end -}}

{{/* Where spans are sent. */}}
{{- define "hermes.egressTracing" -}}
{{- toYaml .Values.tracing.egress }}
{{- end -}}

{{- define "hermes.egressApiServer" -}}
- ports:
    {{- range .Values.networkPolicy.apiServer.ports }}
    - port: {{ . }}
      protocol: TCP
    {{- end }}
  {{- with .Values.networkPolicy.apiServer.cidrs }}
  to:
    {{- range . }}
    - ipBlock:
        cidr: {{ . }}
    {{- end }}
  {{- end }}
{{- end -}}

{{- define "hermes.egressWeb" -}}
- ports:
    - port: 80
      protocol: TCP
    - port: 443
      protocol: TCP
{{- end -}}

{{- define "hermes.ingressMetrics" -}}
{{- with .Values.metrics.from }}
- from:
    {{- toYaml . | nindent 4 }}
  ports:
    - port: 9090
      protocol: TCP
{{- end }}
{{- end -}}

{{/* Agent pods of the tenants, as peers: those with a session and those that wait for one. */}}
{{- define "hermes.agentPeers" -}}
{{- range (include "hermes.tenants" . | fromJsonArray) }}
- namespaceSelector:
    matchLabels:
      kubernetes.io/metadata.name: {{ . }}
  podSelector:
    matchLabels:
      app.kubernetes.io/component: agent
      app.kubernetes.io/part-of: hermes
{{- end }}
{{- end -}}

{{/* Paths of the public listener: webhooks, and the chat platforms that are set up. */}}
{{- define "hermes.publicPaths" -}}
{{- $paths := list "/webhooks" }}
{{- if .Values.gateway.slackSecret }}{{ $paths = append $paths "/slack" }}{{ end }}
{{- if .Values.gateway.telegramSecret }}{{ $paths = append $paths "/telegram" }}{{ end }}
{{- toJson $paths }}
{{- end -}}
