#!/bin/sh
# Checks charts/assay without a cluster: lint, what it renders in several sets of values, what it refuses, and that nothing in it that
# is made from something else is stale.
#
# With ASSAY_UPDATE_GOLDEN=1 it writes charts/assay/tests/rules-*.txt anew instead of comparing them.
set -eu
cd "$(dirname "$0")/.."
chart=charts/assay
cache=${ASSAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/assay}
helm=$(scripts/helm.sh)
# Kinds of others, and our own, whose schemas Kubernetes does not have.
kubeconform="$(scripts/kubeconform.sh) -skip TuningExperiment,ServiceMonitor,PrometheusRule"
# The system's has Debian's packages, also where another one comes first.
python=python3
python3 -c 'import yaml' 2>/dev/null || python=/usr/bin/python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Nothing of what a user has configured for Helm.
HELM_CONFIG_HOME=$work/config HELM_CACHE_HOME=$work/cache HELM_DATA_HOME=$work/data
KUBECONFIG=/dev/null
export HELM_CONFIG_HOME HELM_CACHE_HOME HELM_DATA_HOME KUBECONFIG

failed=
wrong() {
    echo "chart-test: $*" >&2
    failed=yes
}
# render NAME ARGUMENT...: what Helm makes of these values, checked
render() {
    name=$1
    shift
    if ! "$helm" template assay "$chart" --namespace assay-system "$@" >"$work/$name.yaml"; then
        wrong "$name is not rendered"
        return
    fi
    "$python" scripts/chart-check.py objects "$work/$name.yaml" || wrong "$name is rendered wrong"
    # shellcheck disable=SC2086 # words
    $kubeconform "$work/$name.yaml" >"$work/out" || wrong "$name is not what Kubernetes knows: $(cat "$work/out")"
}
# has NAME COUNT PATTERN: lines of what was rendered
has() {
    found=$(grep -cE "$3" "$work/$1.yaml" || true)
    [ "$found" = "$2" ] || wrong "$1 has $found lines like '$3' instead of $2"
}
# refused WORD ARGUMENT...: Helm refuses these values and names the word
refused() {
    word=$1
    shift
    if "$helm" template assay "$chart" "$@" >"$work/out" 2>"$work/err"; then
        wrong "accepted, though wrong: $*"
    elif ! grep -q -- "$word" "$work/err"; then
        wrong "the refusal of $* does not name $word: $(cat "$work/err")"
    fi
}
# golden NAME: the rules that its roles have
golden() {
    "$python" scripts/chart-check.py rules "$work/$1.yaml" >"$work/rules"
    file=$chart/tests/rules-$1.txt
    if [ -n "${ASSAY_UPDATE_GOLDEN:-}" ]; then
        cp "$work/rules" "$file"
    else
        diff -u "$file" "$work/rules" || wrong "rights have changed: if that is meant, ASSAY_UPDATE_GOLDEN=1 $0"
    fi
}

"$helm" lint --strict --quiet "$chart" || wrong "helm lint: see above"
"$python" scripts/chart-check.py values || wrong "values.yaml and values.schema.json differ"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
grep -qx "version: $version" $chart/Chart.yaml && grep -qx "appVersion: $version" $chart/Chart.yaml ||
    wrong "Chart.yaml has another version than Cargo.toml, $version"
cp $chart/README.md "$work/README.md"
scripts/chart-values.sh "$work/README.md"
cmp -s $chart/README.md "$work/README.md" || wrong "the table in $chart/README.md is stale: run \`make generate\`"
for file in crds/*.yaml; do
    cmp -s "$file" "$chart/files/$file" || wrong "$chart/files/$file is stale: run \`make generate\`"
done

monitoring='--api-versions monitoring.coreos.com/v1/ServiceMonitor --api-versions monitoring.coreos.com/v1/PrometheusRule'
render cluster
# shellcheck disable=SC2086 # words
render namespaced --set 'namespaces={team-a,team-b}' $monitoring
# shellcheck disable=SC2086 # words
render everything $monitoring --set metrics.dashboard.enabled=true --set prometheus.url=http://prometheus.monitoring:9090 \
    --set 'hostPaths={/mnt/nvme}' --set nodeLeases.namespace=leases --set 'networkPolicy.benchNamespaces={bench}' \
    --set 'networkPolicy.apiServer.cidrs={10.0.0.1/32}' --set networkPolicy.prometheus.cidr=10.0.0.2/32 \
    --set askKubelets=true --set 'image.allowed={registry.example/lab}' --set nodeSelector.pool=control --set 'tolerations[0].key=control' --set test.nodeSelector.pool=bench \
    --set 'test.tolerations[0].key=bench' --set 'test.tolerations[0].operator=Exists' --set 'image.pullSecrets={registry}' \
    --set "image.benchDigest=sha256:$(printf %064d 7)" --set serviceAccount.annotations.a=b --set podLabels.a=b --set podAnnotations.a=b
render agent --set agent.enabled=true --set agent.namespace=agents --set 'agent.trim={/mnt/nvme}' --set agent.nodeSelector.pool=bench \
    --set 'agent.tolerations[0].key=bench' --set nodeLeases.namespace=leases
# shellcheck disable=SC2086 # words
render nothing $monitoring --set rbac.create=false --set rbac.userRoles=false --set serviceAccount.create=false \
    --set serviceAccount.name=given --set crds.enabled=false --set networkPolicy.enabled=false \
    --set metrics.serviceMonitor.enabled=false --set metrics.prometheusRule.enabled=false --set replicas=1
golden cluster
golden namespaced
golden agent
# A check that lets everything pass would not be noticed.
sed 's/automountServiceAccountToken/automountToken/' "$work/cluster.yaml" >"$work/typo.yaml"
# shellcheck disable=SC2086 # words
if $kubeconform "$work/typo.yaml" >"$work/out"; then wrong 'kubeconform accepts a field that there is not'; fi
# shellcheck disable=SC2086 # words
$kubeconform examples/nightly.yaml >"$work/out" || wrong "examples/nightly.yaml: $(cat "$work/out")"

has cluster 0 'ServiceMonitor|PrometheusRule|grafana_dashboard'
has cluster 0 '^ +- --(namespace|host-path|prometheus)='
has namespaced 2 '^kind: (ServiceMonitor|PrometheusRule)$'
has namespaced 2 '^ +- --namespace=team-[ab]$'
has namespaced 2 'name: assay-bench$'
has everything 1 '^ +- --prometheus=http://prometheus.monitoring:9090$'
has everything 1 '^ +- --host-path=/mnt/nvme$'
has everything 1 '^ +- --allow-image=registry.example/lab$'
has everything 1 '^ +- --ask-kubelets$'
has everything 1 'resources: \[nodes/configz\]'
has everything 1 'port: 10250'
has cluster 0 'configz|10250|ask-kubelets'
has cluster 0 'DaemonSet|privileged|agent-namespace'
has agent 1 '^ +- --agent-namespace=agents$'
has agent 1 'pod-security.kubernetes.io/enforce: privileged$'
has agent 1 '^ +privileged: true$'
has agent 1 '^ +- --trim=/mnt/nvme$'
has agent 1 'path: "/var/lib/kubelet/pod-resources"'
has agent 1 '^ +- --mounts=/proc/1/ns/mnt$'
has everything 1 '^ +- --node-lease-namespace=leases$'
has everything 1 'bench-image=localhost/assay-bench@sha256:0'
has everything 1 'grafana_dashboard: "1"'
has everything 3 'namespace: (bench|leases)$'
# Roles of the test and the test itself are all that is left.
has nothing 2 '^kind: (Role|RoleBinding)$'
has nothing 0 '^kind: (ClusterRole|ClusterRoleBinding|CustomResourceDefinition|NetworkPolicy|ServiceMonitor|PrometheusRule)$'

refused replica --set replica=3
refused namespace --set 'namespace=team-a'
refused pullpolicy --set image.pullpolicy=Always
refused pullPolicy --set image.pullPolicy=Sometimes
refused limit --set resources.limit.cpu=1
refused waitng --set metrics.prometheusRule.waitng=1h
refused benchDigest --set image.benchDigest=latest
refused namespaces --set 'namespaces={Team_A}'
refused kubeVersion --kube-version 1.32.0

promtool=$cache/prometheus/usr/bin/promtool
cp $chart/tests/alerts.yaml "$work/alerts.yaml"
if "$python" scripts/chart-check.py alerts "$work/namespaced.yaml" >"$work/rules.yaml"; then
    "$promtool" test rules "$work/alerts.yaml" >"$work/out" 2>&1 || wrong "alerts: $(cat "$work/out")"
fi

[ -z "$failed" ] || exit 1
echo "chart-test: $chart is sound"
