{{/*
  Alerts on what operator/controller/src exports in its files metrics.rs. Only the leader knows experiments; a sum over replicas that
  have lead one after the other would count twice for a moment, a maximum does not.
*/}}
{{- define "assay.alerts" -}}
{{- /* Whoever scrapes without our ServiceMonitor chooses the labels. */}}
{{- $own := ternary (printf "{job=\"%s-metrics\", namespace=\"%s\"}" (include "assay.name" .) .Release.Namespace) "" .Values.metrics.serviceMonitor.enabled }}
{{- $key := "(namespace, experiment)" }}
{{- $open := printf "max by %s (assay_experiment_condition{condition=\"Finished\"}) == 0" $key }}
{{- $suspended := printf "max by %s (assay_experiment_condition{condition=\"Suspended\"}) == 1" $key }}
{{- $progressing := printf "max by %s (assay_experiment_condition{condition=\"Progressing\"})" $key }}
{{- $attempts := printf "max by %s (assay_attempts)" $key }}
{{- $invalid := printf "max by %s (assay_attempts_without_result{outcome=\"invalid\"})" $key }}
{{- $namespace := .Release.Namespace }}
{{- with .Values.metrics.prometheusRule -}}
groups:
- name: assay
  rules:
  - alert: AssayOperatorDown
    expr: absent(max(assay_leader{{ $own }}) == 1)
    for: 5m
    labels: {severity: warning, namespace: {{ $namespace }}}
    annotations:
      summary: No operator replica is leading.
      description: >-
        Running trials continue, but nothing is collected, judged or started until a replica leads. If replicas are up, their log
        says what they wait for: permissions, CRDs, or another release's lease.
  - alert: AssayExperimentWaiting
    expr: |-
      min by {{ $key }} (max by (namespace, experiment, condition)
        (assay_experiment_condition{condition=~"Accepted|Progressing", reason!~"NodeHeld|NodeLimit|Queued"})) == 0
      and {{ $open }}
      unless {{ $suspended }}
    for: {{ .waiting }}
    labels: {severity: warning}
    annotations:
      summary: {{ `Experiment {{ $labels.namespace }}/{{ $labels.experiment }} is making no progress.` | quote }}
      description: >-
        {{ `Its conditions Accepted and Progressing say why: kubectl describe tune -n {{ $labels.namespace }} {{ $labels.experiment }}` }}
  - alert: AssayExperimentStuck
    expr: |-
      {{ $attempts }} == max by {{ $key }} (assay_attempts offset {{ .stuck }})
      and min_over_time(({{ $progressing }})[{{ .stuck }}:1m]) == 1
      and {{ $open }}
    for: 5m
    labels: {severity: warning}
    annotations:
      summary: {{ printf "No attempt of %s has ended for %s." `{{ $labels.namespace }}/{{ $labels.experiment }}` .stuck | quote }}
      description: >-
        {{ `Check its pods: kubectl get pods -n {{ $labels.namespace }} -l assay.rocks/experiment={{ $labels.experiment }}` }}
  - alert: AssayReconcileErrors
    expr: sum(increase(assay_reconcile_duration_seconds_count{result="error"}[15m])) >= 2
    for: 30m
    labels: {severity: warning, namespace: {{ $namespace }}}
    annotations:
      summary: The operator fails again and again.
      description: >-
        What it last wrote about some experiment or sweep may be old. Its log names the object and the error in lines with "will retry".
  # A night is hours long and a new leader is seconds away: none of these may resolve because nobody exports its series meanwhile.
  - alert: AssaySweepRefused
    expr: max by (namespace, sweep) (assay_sweep_state{state=~"Refused|Unreadable"}) == 1
    for: 15m
    keep_firing_for: 15m
    labels: {severity: warning}
    annotations:
      summary: {{ `Sweep {{ $labels.namespace }}/{{ $labels.sweep }} is refused, and no night of it begins.` | quote }}
      description: >-
        {{ `Its condition Ready says why: kubectl describe sweep -n {{ $labels.namespace }} {{ $labels.sweep }}` }}
  - alert: AssaySweepHistoryUnreadable
    expr: max by (namespace, sweep) (assay_sweep_state{state="HistoryUnreadable"}) == 1
    for: 15m
    keep_firing_for: 15m
    labels: {severity: warning}
    annotations:
      summary: {{ `The history of sweep {{ $labels.namespace }}/{{ $labels.sweep }} can't be read.` | quote }}
      description: >-
        {{ `Regressions may go unnoticed. Its condition Ready names the objects: kubectl describe sweep -n {{ $labels.namespace }} {{ $labels.sweep }}` }}
  - alert: AssaySweepStale
    expr: time() > max by (namespace, sweep) (assay_sweep_stale_after_timestamp_seconds)
    for: 15m
    keep_firing_for: 15m
    labels: {severity: warning}
    annotations:
      summary: {{ `No night of sweep {{ $labels.namespace }}/{{ $labels.sweep }} was measured for too long.` | quote }}
      description: >-
        {{ `Its status says why nights were skipped or failed: kubectl describe sweep -n {{ $labels.namespace }} {{ $labels.sweep }}` }}
  - alert: AssayRegressionConfirmed
    expr: max by (namespace, sweep, change, subject) (assay_sweep_regression_confirmed) == 1
    keep_firing_for: 15m
    labels: {severity: warning}
    annotations:
      summary: {{ `{{ $labels.subject }} of sweep {{ $labels.namespace }}/{{ $labels.sweep }} has become worse.` | quote }}
      description: >-
        {{ `Fresh trials confirm it. Why: assay sweep explain -n {{ $labels.namespace }} {{ $labels.sweep }} {{ $labels.change }}` }}
  - alert: AssayReferenceBroken
    expr: max by (namespace, sweep) (assay_sweep_reference_broken) == 1
    keep_firing_for: 15m
    labels: {severity: warning}
    annotations:
      summary: {{ `All series of sweep {{ $labels.namespace }}/{{ $labels.sweep }} have moved.` | quote }}
      description: >-
        {{ `No subject changed, so look at the reference and the machines: assay sweep status -n {{ $labels.namespace }} {{ $labels.sweep }}` }}
  - alert: AssaySweepBudgetSpent
    expr: max by (namespace, sweep) (assay_sweep_confirmations_spent_timestamp_seconds) > 0
    keep_firing_for: 15m
    labels: {severity: warning}
    annotations:
      summary: {{ `Sweep {{ $labels.namespace }}/{{ $labels.sweep }} can confirm nothing since {{ $value | humanizeTimestamp }}.` | quote }}
      description: >-
        {{ `The confirmations of a year are used up, so regressions stay suspicions: assay sweep status -n {{ $labels.namespace }} {{ $labels.sweep }}` }}
  - alert: AssaySweepNoisy
    expr: max by (namespace, sweep) (assay_sweep_noisy) == 1
    keep_firing_for: 15m
    labels: {severity: info}
    annotations:
      summary: {{ `Sweep {{ $labels.namespace }}/{{ $labels.sweep }} suspects changes that are none.` | quote }}
      description: >-
        {{ `Of its latest six confirmations, more than half were refuted. Look at the reference and the machines.` }}
  - alert: AssayConfigRejected
    expr: max by (namespace, experiment, config, reason) (assay_verdict{verdict="Reject"}) == 1
    labels: {severity: info}
    annotations:
      summary: {{ `Config {{ $labels.config }} of experiment {{ $labels.namespace }}/{{ $labels.experiment }} was rejected.` | quote }}
      description: {{ `It is proven harmful: {{ $labels.reason }}. The alert clears when the experiment is deleted.` | quote }}
  - alert: AssayManyInvalidAttempts
    expr: |-
      {{ $invalid }} / {{ $attempts }} > {{ .invalidShare }}
      and {{ $attempts }} >= 10
      and {{ $open }}
    for: 5m
    labels: {severity: warning}
    annotations:
      summary: {{ `{{ $value | humanizePercentage }} of the attempts of {{ $labels.namespace }}/{{ $labels.experiment }} are invalid.` | quote }}
      description: >-
        {{ `Something disturbs its trials. The gates show what: kubectl get tuningtrials -n {{ $labels.namespace }} -l assay.rocks/experiment={{ $labels.experiment }} -o yaml` }}
{{- end }}
{{- end }}
