{{- define "cairn.labels" -}}
app.kubernetes.io/name: cairn
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- /* Of one part of it: (dict "root" . "name" NAME). */}}
{{- define "cairn.part" -}}
{{ include "cairn.labels" .root }}
app.kubernetes.io/component: {{ .name }}
{{- end }}
{{- define "cairn.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end }}
{{- define "cairn.plugin" -}}
{{ .Values.kubeletDirectory }}/plugins/{{ .Values.driverName }}
{{- end }}
{{- define "cairn.tls" -}}
{{ .Values.snapshotMetadata.tlsSecret | default (printf "%s-snapshot-metadata-tls" .Release.Name) }}
{{- end }}
{{- define "cairn.pool" -}}
- {name: pool, mountPath: {{ .Values.pool.directory }}, mountPropagation: Bidirectional}
- {name: devices, mountPath: /dev}
- {name: run, mountPath: /run}
- {name: tmp, mountPath: /tmp}
{{- end }}
{{- define "cairn.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "cairn.labels" .root | nindent 4 }}
automountServiceAccountToken: false
{{- end }}
{{- /* A ClusterRole and the account that it is for: (dict "root" . "role" ROLE "name" NAME). */}}
{{- define "cairn.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .root.Release.Name }}-{{ .role }}
  labels: {{- include "cairn.labels" .root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ .root.Release.Name }}-{{ .role }}}
subjects: [{kind: ServiceAccount, name: {{ .root.Release.Name }}-{{ .name }}, namespace: {{ .root.Release.Namespace }}}]
{{- end }}
{{- /* What all pods beside the driver have in common: (dict "root" . "name" NAME). */}}
{{- define "cairn.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "cairn.part" . | nindent 4 }}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector:
    matchLabels: {{- include "cairn.part" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "cairn.part" . | nindent 8 }}
    spec:
      serviceAccountName: {{ .root.Release.Name }}-{{ .name }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      nodeSelector: {{- toYaml .root.Values.nodeSelector | nindent 8 }}
      {{- with .root.Values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end }}
{{- define "cairn.user" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
supplementalGroups: [65533]
seccompProfile: {type: RuntimeDefault}
{{- end }}
{{- define "cairn.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}
{{- define "cairn.socket" -}}
- name: socket
  persistentVolumeClaim: {claimName: {{ .Release.Name }}-socket}
{{- end }}
