{{- define "cairn.labels" -}}
app.kubernetes.io/name: cairn
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "cairn.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end }}
{{- define "cairn.controller" -}}
imagePullPolicy: IfNotPresent
resources:
  requests: {cpu: 10m, memory: 32Mi}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: socket, mountPath: /csi}
  - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}
{{- define "cairn.pool" -}}
- {name: pool, mountPath: {{ .Values.pool.directory }}, mountPropagation: Bidirectional}
- {name: devices, mountPath: /dev}
- {name: run, mountPath: /run}
- {name: tmp, mountPath: /tmp}
{{- end }}
{{- define "cairn.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .root.Release.Name }}-{{ .role }}
  labels: {{- include "cairn.labels" .root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ .root.Release.Name }}-{{ .role }}}
subjects: [{kind: ServiceAccount, name: {{ .root.Release.Name }}-driver, namespace: {{ .root.Release.Namespace }}}]
{{- end }}
