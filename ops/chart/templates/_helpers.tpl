{{- define "postdate.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "postdate.labels" -}}
app.kubernetes.io/name: postdate
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end -}}

{{- /* The account that pods run as; empty: the namespace's own. */ -}}
{{- define "postdate.serviceAccount" -}}
{{- $default := ternary (include "postdate.name" .) "" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $default -}}
{{- end -}}

{{- /* What tells the pods of a role: given a list of the root and the role. */ -}}
{{- define "postdate.selector" -}}
app.kubernetes.io/name: postdate
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- /* The pod of a role; what differs comes from its values. */ -}}
{{- define "postdate.pod" -}}
{{- $root := index . 0 -}}
{{- $role := index . 1 -}}
{{- $of := index $root.Values $role -}}
metadata:
  labels:
    {{- include "postdate.selector" . | nindent 4 }}
  {{- with $root.Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with include "postdate.serviceAccount" $root }}
  serviceAccountName: {{ . | quote }}
  {{- end }}
  automountServiceAccountToken: false
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  terminationGracePeriodSeconds: {{ $of.terminationGracePeriodSeconds | default 30 }}
  topologySpreadConstraints:
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "postdate.selector" (list $root $role) | nindent 10 }}
    {{- end }}
  containers:
    - name: {{ $role }}
      image: "{{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}"
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: [{{ $role }}, --json]
      env:
        - name: POSTDATE_REDIS_URL
          {{- if $root.Values.redis.existingSecret }}
          valueFrom:
            secretKeyRef:
              name: {{ $root.Values.redis.existingSecret | quote }}
              key: {{ $root.Values.redis.key | quote }}
          {{- else }}
          value: {{ required "Say where the store is: redis.existingSecret or redis.url" $root.Values.redis.url | quote }}
          {{- end }}
        {{- range $name, $value := $root.Values.env }}
        - name: {{ $name }}
          {{- if kindIs "map" $value }}
          {{- toYaml $value | nindent 10 }}
          {{- else }}
          value: {{ $value | quote }}
          {{- end }}
        {{- end }}
      {{- with $root.Values.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- if eq $role "api" }}
        - {name: http, containerPort: 8000}
        {{- end }}
        - {name: metrics, containerPort: 9464}
      startupProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 2
        failureThreshold: 30
      # Never the store: while it is away, workers keep what they hold.
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 3
        timeoutSeconds: 3
        failureThreshold: 2
      {{- with $of.preStopSeconds }}
      lifecycle:
        preStop:
          exec: {command: [sleep, {{ . | quote }}]}
      {{- end }}
      resources:
        {{- toYaml $of.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      {{- with $root.Values.extraVolumeMounts }}
      volumeMounts:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  {{- with $root.Values.extraVolumes }}
  volumes:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
