{{/* What everything of a release is named after. Short, as suffixes and names of pods come after it. */}}
{{- define "assay.name" -}}
{{- $release := .Release.Name | replace "." "-" }}
{{- if contains "assay" $release }}{{ $release | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-assay" ($release | trunc 34 | trimSuffix "-") }}
{{- end }}
{{- end }}

{{/* What the names of trials' pods begin with, and of no others. */}}
{{- define "assay.podPrefix" -}}
{{- if hasPrefix "assay-trial-" (printf "%s-" .Release.Name) }}
{{- fail "release names that begin with assay-trial are reserved, as only trials' pods may have such names" }}
{{- end -}}
assay-trial-
{{- end }}

{{/* Cluster-wide objects of two releases of one name are told apart by their namespace. */}}
{{- define "assay.clusterName" -}}
{{ include "assay.name" . }}:{{ .Release.Namespace }}
{{- end }}

{{- define "assay.serviceAccount" -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.name is required because serviceAccount.create is false" }}
{{- end }}
{{- .Values.serviceAccount.name | default (include "assay.name" .) }}
{{- end }}

{{/* The account with which kubelets are asked. */}}
{{- define "assay.kubelets" -}}
{{ include "assay.name" . }}-kubelets
{{- end }}

{{- define "assay.selector" -}}
app.kubernetes.io/name: assay-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "assay.agent" -}}
{{ include "assay.name" . }}-agent
{{- end }}

{{- define "assay.agentSelector" -}}
app.kubernetes.io/name: assay-agent
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* Not app.kubernetes.io/managed-by=assay, by which the operator finds what is its own. */}}
{{- define "assay.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: assay
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* image (list . "assay-bench" digest) */}}
{{- define "assay.image" -}}
{{- $context := index . 0 }}
{{- with $context.Values.image }}
{{- printf "%s/%s" .registry (index $ 1) }}
{{- if index $ 2 }}@{{ index $ 2 }}{{ else }}:{{ .tag | default $context.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "assay.nodeLeaseNamespace" -}}
{{ .Values.nodeLeases.namespace | default .Release.Namespace }}
{{- end }}

{{- define "assay.testNamespace" -}}
{{- if and .Values.test.namespace .Values.namespaces (not (has .Values.test.namespace .Values.namespaces)) }}
{{- fail (printf "test.namespace: %s is not in namespaces, so the test would never run" .Values.test.namespace) }}
{{- end }}
{{- .Values.test.namespace | default (first .Values.namespaces) | default .Release.Namespace }}
{{- end }}

{{/* What pods and containers of Assay may do: nothing. */}}
{{- define "assay.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "assay.containerSecurity" -}}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end }}
