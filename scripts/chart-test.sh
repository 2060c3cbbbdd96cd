#!/bin/sh
# Checks charts/assay without a cluster: lint, what it renders in several sets of values, what it refuses, and that nothing in it that
# is made from something else is stale. Each check is shown something wrong, too: one that lets everything pass would not be noticed.
#
# With ASSAY_UPDATE_GOLDEN=1 it writes charts/assay/tests/rules-*.txt anew instead of comparing them.
set -eu
cd "$(dirname "$0")/.."
chart=charts/assay
. scripts/cache.sh
helm=$(scripts/helm.sh)
# Kinds of others, and our own, whose schemas Kubernetes does not have.
kubeconform="$(scripts/kubeconform.sh) -skip TuningExperiment,ServiceMonitor,PodMonitor,PrometheusRule"
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
        wrong "can't render $name"
        return
    fi
    "$python" scripts/chart-check.py objects "$work/$name.yaml" || wrong "$name is rendered incorrectly"
    # shellcheck disable=SC2086 # words
    $kubeconform "$work/$name.yaml" >"$work/out" || wrong "$name is not valid for Kubernetes: $(cat "$work/out")"
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
        wrong "invalid values were accepted: $*"
    elif ! grep -q -- "$word" "$work/err"; then
        wrong "the error for $* does not mention $word: $(cat "$work/err")"
    fi
}
# complains WORDS COMMAND...: the command fails, and chart-check says these words
complains() {
    words=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        wrong "chart-check does not detect: $words"
    elif ! grep -q -- "^chart-check: .*$words" "$work/out"; then
        wrong "chart-check should say '$words', but says: $(cat "$work/out")"
    fi
}
# loose FILE SED WORDS: chart-check complains about the values of a chart with another such file
loose() {
    rm -rf "$work/chart"
    cp -r $chart "$work/chart"
    sed "$2" "$chart/$1" >"$work/chart/$1"
    complains "$3" "$python" scripts/chart-check.py values "$work/chart"
}
# panels RENDERED: Prometheus understands all that the dashboard asks
panels() {
    "$python" scripts/chart-check.py dashboard "$1" >"$work/panels.yaml" && "$promtool" check rules "$work/panels.yaml" >"$work/out" 2>&1
}
# notes COUNT PATTERN ARGUMENT...: lines of what an install says
notes() {
    count=$1
    pattern=$2
    shift 2
    "$helm" install assay "$chart" --namespace assay-system --dry-run=client "$@" >"$work/notes.yaml" || wrong "no notes with $*"
    has notes "$count" "$pattern"
}
# golden NAME: the rules that its roles have
golden() {
    "$python" scripts/chart-check.py rules "$work/$1.yaml" >"$work/rules"
    file=$chart/tests/rules-$1.txt
    if [ -n "${ASSAY_UPDATE_GOLDEN:-}" ]; then
        cp "$work/rules" "$file"
    else
        diff -u "$file" "$work/rules" || wrong "rights have changed: if this is intended, run ASSAY_UPDATE_GOLDEN=1 $0"
    fi
}

"$helm" lint --strict --quiet "$chart" || wrong "helm lint: see above"
"$python" scripts/chart-check.py values $chart || wrong "values.yaml and values.schema.json differ"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
grep -qx "version: $version" $chart/Chart.yaml && grep -qx "appVersion: $version" $chart/Chart.yaml ||
    wrong "the version in Chart.yaml is not that of Cargo.toml, $version"
cp $chart/README.md "$work/README.md"
scripts/chart-values.sh "$work/README.md"
cmp -s $chart/README.md "$work/README.md" || wrong "the table in $chart/README.md is stale: run \`make generate\`"
for file in crds/*.yaml; do
    cmp -s "$file" "$chart/files/$file" || wrong "$chart/files/$file is stale: run \`make generate\`"
done
loose values.yaml 's/^  dashboard:/  dashbord:/' 'values.metrics and its schema differ'
loose values.schema.json 's/"additionalProperties": false,//' 'misspelt keys in all of them'
loose values.schema.json '/"quantities"/,/}/s/false/true/' 'misspelt keys in .definitions.quantities'
loose values.schema.json 's/{"type": "object", "additionalProperties": {.*}}/{"type": "object"}/' 'misspelt keys in .definitions.texts'

monitoring=
for kind in ServiceMonitor PodMonitor PrometheusRule; do
    monitoring="$monitoring --api-versions monitoring.coreos.com/v1/$kind"
done
render cluster
"$helm" template 12.3 "$chart" --namespace assay-system >"$work/numbers.yaml" || wrong "can't render a release with a numeric name"
# shellcheck disable=SC2086 # words
$kubeconform "$work/numbers.yaml" >"$work/out" || wrong "a release with a numeric name: $(cat "$work/out")"
if grep -n 'name: 12\.3' "$work/numbers.yaml"; then wrong "names of Services have no dots"; fi
# shellcheck disable=SC2086 # words
render namespaced --set 'namespaces={team-a,team-b}' --set metrics.podMonitor.enabled=true $monitoring
# shellcheck disable=SC2086 # words
render everything $monitoring --set metrics.dashboard.enabled=true --set prometheus.url=https://prometheus.monitoring:9090 \
    --set prometheus.caConfigMap.name=authorities --set prometheus.tokenSecret.name=queries --set 'prometheus.unconfinedNamespaces={lab}' \
    --set metrics.podMonitor.enabled=true --set replicas=3 --set metrics.tls.secretName=metrics-tls --set metrics.authorization=true \
    --set 'hostPaths={/mnt/nvme}' --set nodeLeases.namespace=leases --set 'networkPolicy.benchNamespaces={bench}' \
    --set 'networkPolicy.apiServer.cidrs={10.0.0.1/32}' --set networkPolicy.prometheus.cidr=10.0.0.2/32 \
    --set askKubelets=true --set 'image.allowed={registry.example/lab}' --set nodeSelector.pool=control --set 'tolerations[0].key=control' --set test.nodeSelector.pool=bench \
    --set 'test.tolerations[0].key=bench' --set 'test.tolerations[0].operator=Exists' --set 'image.pullSecrets={registry}' --set 'operators={system:serviceaccount:lab:assay}' \
    --set "image.benchDigest=sha256:$(printf %064d 7)" --set serviceAccount.annotations.a=b --set podLabels.a=b --set podAnnotations.a=b \
    --set priorityClassName=operators --set 'extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=http://proxy:3128' \
    --set affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=pool \
    --set affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists
render agent --set agent.enabled=true --set agent.namespace=agents --set 'agent.trim={/mnt/nvme}' --set agent.nodeSelector.pool=bench \
    --set 'agent.tolerations[0].key=bench' --set nodeLeases.namespace=leases --set askKubelets=true --set metrics.podMonitor.enabled=true \
    --set metrics.tls.secretName=metrics-tls --set metrics.authorization=true
# shellcheck disable=SC2086 # words
render nothing $monitoring --set rbac.create=false --set rbac.userRoles=false --set serviceAccount.create=false \
    --set serviceAccount.name=given --set crds.enabled=false --set networkPolicy.enabled=false \
    --set metrics.serviceMonitor.enabled=false --set metrics.prometheusRule.enabled=false
# What scrapes and what is asked are two things, and neither is set up by the chart.
# shellcheck disable=SC2086 # words
render asked $monitoring --set metrics.serviceMonitor.enabled=false --set prometheus.url=http://thanos-query.monitoring:10902 \
    --set networkPolicy.prometheus.port=10902 --set networkPolicy.prometheus.queryPodLabels.app=thanos
render webhooks --set 'namespaces={team-a}' --set 'sweeps.webhooks.allowedHosts={hooks.example.com,*.example.com:8443,http://[fd00::7],https://b.example}'
render closed --set-json 'networkPolicy.prometheus.namespaces=[]'
# One namespace with everything that a fence can say, an exception, and all others.
cat >"$work/fences-values.yaml" <<'EOF'
fences:
- {namespaces: [team-a], nodeSelector: {pool: nvme}, tolerations: [bench], images: [registry.example/lab], hostPaths: [/mnt/nvme],
   storageClasses: [local], queues: [short], priorityClasses: [low], customMetrics: false, maxBlockDurationSeconds: 7200}
- {namespaces: [platform, lab], maxNodes: 2}
- {storageClasses: [], tolerations: []}
EOF
render fences --values "$work/fences-values.yaml" --set hostPaths='{/mnt/nvme}'
render dropping --set agent.enabled=true
# Who grants the rights does not have to know what confines them.
render granted --set agent.enabled=true --set rbac.create=false --set rbac.userRoles=false
golden cluster
golden namespaced
golden agent
golden webhooks
sed 's/automountServiceAccountToken/automountToken/' "$work/cluster.yaml" >"$work/typo.yaml"
# shellcheck disable=SC2086 # words
if $kubeconform "$work/typo.yaml" >"$work/out"; then wrong 'kubeconform accepts an unknown field'; fi

# What sed makes of an object is unsound, and chart-check says in which way.
while read -r set kind change; do
    sed "/^kind: $kind\$/,/^---\$/${change%% => *}" "$work/$set.yaml" >"$work/unsound.yaml"
    complains "${change##* => }" "$python" scripts/chart-check.py objects "$work/unsound.yaml"
done <$chart/tests/unsound.txt
# The same of what users are told about metrics.
mkdir -p "$work/root/scripts" "$work/root/docs"
cp scripts/chart-check.py "$work/root/scripts"
ln -s "$PWD/operator" "$PWD/crds" "$PWD/bench-image" "$work/root"
sed 's/`assay_trials`/`assay_trails`/; s/`holder`/`owner`/' docs/operations.md >"$work/root/docs/operations.md"
complains 'operations.md tells of assay_trails' "$python" "$work/root/scripts/chart-check.py" objects "$work/cluster.yaml"
complains 'operations.md tells of the label owner' "$python" "$work/root/scripts/chart-check.py" objects "$work/cluster.yaml"

has cluster 0 'ServiceMonitor|PodMonitor|PrometheusRule|grafana_dashboard'
has cluster 0 '^ +- --(namespace|host-path|prometheus)='
has cluster 1 '^  replicas: 2$'
has cluster 3 '^kind: NetworkPolicy$'
has cluster 1 'podSelector: .*"prometheus"'
has cluster 1 'kubernetes.io/metadata.name, operator: In, values: \["monitoring"\]'
has closed 0 'podSelector: .*"prometheus"'
has closed 2 '^  ingress: \[\]$'
has namespaced 2 '^  sampleLimit: [1-9]0+$'
has everything 1 '^      priorityClassName: operators$'
has everything 1 'name: HTTPS_PROXY$'
has everything 1 '^        nodeAffinity:$'
has namespaced 3 '^kind: (ServiceMonitor|PodMonitor|PrometheusRule)$'
has namespaced 1 'matchNames: \["team-a","team-b"\]$'
has namespaced 3 'podSelector: .*"prometheus"'
has everything 1 '^kind: PodMonitor$'
has everything 1 '^    any: true$'
has agent 0 'PodMonitor'
has agent 6 '^  name: .*:(agent|answers)$'
has granted 0 '^  name: .*:(agent|answers)$'
has granted 6 '^kind: ValidatingAdmissionPolicyBinding$'
has namespaced 2 '^ +- --namespace=team-[ab]$'
has namespaced 2 'name: assay-bench$'
has asked 1 'podSelector: .*"thanos"'
has asked 1 'port: 10902'
has webhooks 4 '"--webhook-host='
has webhooks 1 'protocol: TCP, port: 8443}'
has webhooks 1 'protocol: TCP, port: 80}'
has webhooks 1 'except: \[169.254.0.0/16\]'
has webhooks 1 'protocol: UDP, port: 53}'
has webhooks 1 '^  resources: \[secrets\]$'
has cluster 0 'resources: \[secrets\]|--webhook-|port: 53}'
has asked 2 'absent\(max\(assay_leader\) == 1\)|podSelector: .*"prometheus"'
has everything 1 '^ +- --prometheus=https://prometheus.monitoring:9090$'
has everything 2 '^ +- --prometheus-(ca=/etc/assay/prometheus-ca/ca.crt|token=/etc/assay/prometheus-token/token)$'
has everything 2 'mountPath: /etc/assay/prometheus-(ca|token), readOnly: true'
has everything 2 '^ +- --(prometheus-label=namespace|unconfined-queries=lab)$'
has everything 2 '^ +- --(listen-tls=/etc/assay/metrics-tls|authorize-metrics)$'
has everything 1 '^ +secretName: metrics-tls$'
has everything 1 'mountPath: /etc/assay/metrics-tls, readOnly: true'
has everything 1 'ca: .secret: .name: metrics-tls, key: ca.crt'
has cluster 0 'scheme: (https|HTTPS)|tokenreviews|subjectaccessreviews'
has asked 0 '/etc/assay|--unconfined-queries'
has everything 1 '^  replicas: 3$'
has everything 1 '^ +- --host-path=/mnt/nvme$'
has everything 1 '^ +- --allow-image=registry.example/lab$'
has cluster 0 'fence-[0-9]'
has cluster 1 'username in \["system:serviceaccount:assay-system:assay"\]\)$'
has everything 1 'username in \["system:serviceaccount:assay-system:assay","system:serviceaccount:lab:assay"\]\)$'
has fences 6 '^  name: assay-fence-[0-2]\.assay-system$'
has fences 1 'operator: In, values: \["team-a"\]\}$'
has fences 1 'operator: In, values: \["platform","lab"\]\}$'
has fences 1 'operator: NotIn, values: \["team-a","platform","lab"\]\}$'
has fences 12 '^    message: ".*experiments of this namespace|^    message: ".*images of this namespace'
has fences 1 'may use no volumes"$'
has fences 3 '^ +- "--fence=[{].*[}]"$'
has fences 1 '\\"maxNodes\\":2,'
has fences 1 '\\"maxBlockDurationSeconds\\":7200,'
has everything 1 '^ +- --kubelet-account=assay-kubelets$'
has everything 1 'resources: \[nodes/configz\]'
has everything 1 'port: 10250'
has cluster 0 'configz|10250|kubelet-account|serviceaccounts/token'
has cluster 0 'DaemonSet|privileged: |agent-namespace'
has agent 1 '^ +- --agent-namespace=agents$'
has agent 1 'pod-security.kubernetes.io/enforce: privileged$'
has agent 1 '^ +privileged: true$'
has dropping 0 'privileged: true|hostPID: |--(mounts|trim)='
has dropping 2 '^ +- --(proc=/node/proc|sys=/node/sys)$'
has agent 1 '^ +- --trim=/mnt/nvme$'
has agent 1 'path: "/var/lib/kubelet/pod-resources"'
has agent 1 '^ +- --mounts=/proc/1/ns/mnt$'
has everything 1 '^ +- --node-lease-namespace=leases$'
has everything 1 'bench-image=localhost/assay-bench@sha256:0'
has everything 1 'grafana_dashboard: "1"'
has everything 3 'namespace: (bench|leases)$'
# Roles of the test and the test itself are all that is left.
has nothing 2 '^kind: (Role|RoleBinding)$'
has nothing 0 '^kind: (ClusterRole|ClusterRoleBinding|CustomResourceDefinition|NetworkPolicy|ServiceMonitor|PodMonitor|PrometheusRule)$'

# A misspelt value in every object among them.
"$python" scripts/chart-check.py levels $chart >"$work/levels"
grep -qx metrics.podMonitor.misspelt "$work/levels" || wrong 'chart-check misses objects in the values'
while read -r path; do
    refused misspelt --set "$path=x"
done <"$work/levels"
refused pullPolicy --set image.pullPolicy=Sometimes
refused benchDigest --set image.benchDigest=latest
refused namespaces --set 'namespaces={Team_A}'
refused operators --set "operators={it's me}"
refused interval --set metrics.podMonitor.interval=often
refused kubeVersion --kube-version 1.32.0
refused registry --set image.registry=registry.example/
refused allowedHosts --set 'sweeps.webhooks.allowedHosts={hooks.example.com/path}'
refused allowedHosts --set 'sweeps.webhooks.allowedHosts={*}'
refused hostPaths --set 'hostPaths={/mnt: x}'
refused trim --set 'agent.trim={/mnt:}'
refused allowed --set 'image.allowed={registry.example:}'
refused 'not in namespaces' --set 'namespaces={a,b}' --set test.namespace=c
refused serviceAccount.name --set serviceAccount.create=false
refused 'tokenSecret needs an https' --set prometheus.url=http://prometheus:9090 --set prometheus.tokenSecret.name=queries
refused 'authorization needs metrics.tls.secretName' --set metrics.authorization=true
refused metrics.tls.secretName --set metrics.tls.secretName=Not_A_Name
refused networkPolicy.prometheus.namespaces --set prometheus.url=http://prometheus:9090 --set-json 'networkPolicy.prometheus.namespaces=[]'
refused 'a namespace is in two entries' --set-json 'fences=[{"namespaces": ["a"]}, {"namespaces": ["b", "a"]}]'
refused fences.0.namespaces --set-json 'fences=[{"namespaces": ["Team_A"]}]'
refused namespaceLabel --set 'prometheus.namespaceLabel=a-b'

notes 1 'outside assay-system have no NetworkPolicy'
notes 1 'outside assay-system, team-a have no NetworkPolicy' --set 'networkPolicy.benchNamespaces={team-a}'
notes 0 'have no NetworkPolicy' --set 'namespaces={team-a}'
notes 0 'have no NetworkPolicy' --set networkPolicy.enabled=false

promtool=$cache/prometheus/usr/bin/promtool
cp $chart/tests/alerts.yaml "$work/alerts.yaml"
if "$python" scripts/chart-check.py alerts "$work/namespaced.yaml" >"$work/good.yaml"; then
    cp "$work/good.yaml" "$work/rules.yaml"
    "$promtool" test rules "$work/alerts.yaml" >"$work/out" 2>&1 || wrong "alerts: $(cat "$work/out")"
    sed 's/for: 30m/for: 3h/' "$work/good.yaml" >"$work/rules.yaml"
    if "$promtool" test rules "$work/alerts.yaml" >"$work/out" 2>&1; then wrong 'no test detects a late alert'; fi
    for alert in $(sed -n 's/^ *- alert: \(AssaySweep.*\|AssayRegression.*\|AssayReference.*\)/\1/p' "$work/good.yaml"); do
        sed "/alert: $alert$/,/keep_firing_for/s/keep_firing_for: .*/keep_firing_for: 0s/" "$work/good.yaml" >"$work/rules.yaml"
        if "$promtool" test rules "$work/alerts.yaml" >"$work/out" 2>&1; then wrong "no test detects that a new leader resolves $alert"; fi
    done
fi
panels "$work/everything.yaml" || wrong "the dashboard: $(cat "$work/out")"
sed 's/max by (node, holder)/max by (node, holder/' "$work/everything.yaml" >"$work/unsound.yaml"
if panels "$work/unsound.yaml" || ! grep -q 'could not parse' "$work/out"; then
    wrong 'promtool accepts a dashboard with a missing bracket'
fi

[ -z "$failed" ] || exit 1
echo "chart-test: $chart is valid"
