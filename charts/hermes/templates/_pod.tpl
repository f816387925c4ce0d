{{/* Head of a pod's spec: who it is, where it may run, and what it may not do. Takes root, component, uid, token. */}}
{{- define "hermes.podHead" -}}
serviceAccountName: {{ include "hermes.name" . }}
automountServiceAccountToken: {{ default false .token }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .uid }}
  runAsGroup: {{ .uid }}
  fsGroup: {{ .uid }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{/* With one replica too: otherwise a second one would change, and so restart, the first. */}}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "hermes.selector" $ | nindent 8 }}
  {{- end }}
{{- with .root.Values.scheduling.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.scheduling.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.scheduling.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Image and security context of a container. Takes root, image. */}}
{{- define "hermes.containerHead" -}}
image: {{ include "hermes.image" . }}
imagePullPolicy: {{ .root.Values.images.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* Probes of a process of ours, on its operations port. A slow start is not a hang. */}}
{{- define "hermes.probes" -}}
startupProbe:
  httpGet:
    path: /livez
    port: operations
  periodSeconds: 1
  timeoutSeconds: 2
  failureThreshold: 120
readinessProbe:
  httpGet:
    path: /readyz
    port: operations
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 3
livenessProbe:
  httpGet:
    path: /livez
    port: operations
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}

{{/* Environment that every process on the bus has. */}}
{{- define "hermes.env" -}}
- name: HERMES_LOG_LEVEL
  value: {{ .Values.logLevel }}
- name: HERMES_BUS_URL
  value: {{ include "hermes.busUrl" . }}
{{- with .Values.tracing.endpoint }}
- name: HERMES_TRACE_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Ports, resources and probes differ; the update does not: a new pod is ready before an old one goes. */}}
{{- define "hermes.strategy" -}}
strategy:
  type: RollingUpdate
  rollingUpdate:
    maxSurge: 1
    maxUnavailable: 0
{{- end -}}

{{/* A Secret mounted as files. Takes name, secret. */}}
{{- define "hermes.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
{{- end -}}

{{/* Disruption budget where there is more than one. Takes root, component, replicas. */}}
{{- define "hermes.disruptionBudget" -}}
{{- if gt (int .replicas) 1 }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "hermes.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "hermes.selector" . | nindent 6 }}
{{- end }}
{{- end -}}
