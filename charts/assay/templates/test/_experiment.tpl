{{/*
  A real experiment of a few minutes. The baseline's write buffer is so small that a larger one is a Win on any machine; the
  margin is so small that nothing here is proven equal, so that exit code 0 says Win and nothing else.
*/}}
{{- define "assay.testExperiment" -}}
baseline: cramped
configs:
- name: cramped
  columnFamilies:
  - match: ["*"]
    options: {write_buffer_size: 262144}
- name: roomy
  columnFamilies:
  - match: ["*"]
    options: {write_buffer_size: 67108864}
scenarios:
- name: overwrite
  workload:
    keyValue:
      keys: 50000
      valueBytes: {fixed: 400}
      roles:
      - {name: writer, steps: 200000, warmupSteps: 5000, mix: {put: 1}}
repetitions: 8
objectives:
- {metric: throughput, margin: 1%}
defaultGuardrails: Remove
placement:
  # It asks whether all parts work, not how quiet the nodes are: disturbed runs count, with a note.
  environment: Shared
  cpus: 1
  memory: 512Mi
  {{- with .Values.test.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.test.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
