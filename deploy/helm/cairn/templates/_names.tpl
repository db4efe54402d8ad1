{{- define "cairn.selector" -}}
app.kubernetes.io/name: cairn
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- /* Of every object; no selector has those that an upgrade changes. */}}
{{- define "cairn.labels" -}}
{{ include "cairn.selector" . }}
app.kubernetes.io/part-of: cairn
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}
{{- /* Names that are one for the whole cluster, or for the node: a release that is not called
       cairn has its own, so that two of them do not collide. */}}
{{- /* "true" if there is a pool on several nodes. */}}
{{- define "cairn.nodes" -}}
{{- if and (ne .Values.topology.nodes "one") (not .Values.ceph.pool) }}true{{ end }}
{{- end }}
{{- /* "true" if the driver runs on several nodes. */}}
{{- define "cairn.everywhere" -}}
{{- if or .Values.ceph.pool (include "cairn.nodes" .) }}true{{ end }}
{{- end }}
{{- /* The values of the keeper of certificates; routes between nodes need it. */}}
{{- define "cairn.certificates" -}}
{{- $settings := deepCopy .Values.generations.certificates }}
{{- if and (include "cairn.nodes" .) .Values.snapshotMetadata.enabled }}{{- $_ := set $settings "enabled" true }}{{- end }}
{{- toYaml $settings }}
{{- end }}
{{- define "cairn.nodeSelector" -}}
{{- if eq .Values.topology.nodes "all" }}kubernetes.io/os: linux{{ else }}{{ toYaml .Values.nodeSelector }}{{ end }}
{{- end }}
{{- define "cairn.driverName" -}}
{{- if .Values.driverName }}{{ .Values.driverName }}
{{- else if eq .Release.Name "cairn" }}cairn.csi.dev
{{- else }}{{ .Release.Name }}.cairn.csi.dev
{{- end }}
{{- end }}
{{- define "cairn.storageClass" -}}
{{ .Values.classes.storageClass | default .Release.Name }}
{{- end }}
{{- define "cairn.snapshotClass" -}}
{{ .Values.classes.snapshotClass | default .Release.Name }}
{{- end }}
{{- define "cairn.poolDirectory" -}}
{{ .Values.pool.directory | default (printf "/var/lib/%s" .Release.Name) }}
{{- end }}
{{- /* The value of --pool. */}}
{{- define "cairn.poolAddress" -}}
{{- if .Values.ceph.pool }}{{ .Values.ceph.pool }}:id={{ .Values.ceph.user }}{{ else }}{{ include "cairn.poolDirectory" . }}{{ end }}
{{- end }}
{{- define "cairn.podMetadata" -}}
labels:
  {{- include "cairn.part" . | nindent 2 }}
  {{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- /* Of one part of it: (dict "root" . "name" NAME). */}}
{{- define "cairn.part" -}}
{{ include "cairn.selector" .root }}
app.kubernetes.io/component: {{ .name }}
{{- end }}
{{- define "cairn.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}
{{- define "cairn.plugin" -}}
{{ .Values.kubeletDirectory }}/plugins/{{ include "cairn.driverName" . }}
{{- end }}
{{- define "cairn.tls" -}}
{{ .Values.snapshotMetadata.tlsSecret | default (printf "%s-snapshot-metadata-tls" .Release.Name) }}
{{- end }}
{{- /* Mounts of the pool: (dict "root" . "attaches" BOOL). */}}
{{- define "cairn.pool" -}}
{{- if .root.Values.ceph.pool }}
- {name: ceph, mountPath: /etc/ceph, readOnly: true}
{{- else }}
- {name: pool, mountPath: {{ include "cairn.poolDirectory" .root }}, mountPropagation: Bidirectional}
{{- end }}
{{- if .attaches }}
- {name: devices, mountPath: /dev}
{{- end }}
- {name: run, mountPath: /run}
- {name: tmp, mountPath: /tmp}
{{- end }}
{{- define "cairn.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  namespace: {{ .root.Release.Namespace | quote }}
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
subjects: [{kind: ServiceAccount, name: {{ .root.Release.Name }}-{{ .name }}, namespace: {{ .root.Release.Namespace | quote }}}]
{{- end }}
{{- /* What all pods beside the driver have in common: (dict "root" . "name" NAME "each" BOOL); `each`: one for
       each node where several nodes have pools. */}}
{{- define "cairn.deployment" -}}
{{- $each := and .each (include "cairn.nodes" .root) }}
apiVersion: apps/v1
kind: {{ ternary "DaemonSet" "Deployment" (not (empty $each)) }}
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "cairn.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  {{- if not $each }}
  replicas: {{ ternary 2 1 (not (empty .root.Values.ceph.pool)) }}
  strategy: {{- toYaml .root.Values.updateStrategy | nindent 4 }}
  {{- end }}
  selector:
    matchLabels: {{- include "cairn.part" . | nindent 6 }}
  template:
    metadata: {{- include "cairn.podMetadata" . | nindent 6 }}
    spec:
      serviceAccountName: {{ .root.Release.Name }}-{{ .name }}
      automountServiceAccountToken: true
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      enableServiceLinks: false
      nodeSelector: {{- include "cairn.nodeSelector" .root | nindent 8 }}
      {{- with .root.Values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if .root.Values.ceph.pool }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "cairn.selector" .root | nindent 14 }}
          matchLabelKeys: [app.kubernetes.io/component]
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
