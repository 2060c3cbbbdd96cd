#!/bin/sh
# Twenty real nights on the real node of e2e/cluster, with a regression that is planted in the tenth, from the first suspicion to the
# culprit and its acceptance: mornings.py. Interrupted, it goes on where it was, as long as the cluster is up; what is left of it is removed
# by `make cluster-down` and by removing the folder of mornings in Assay's cache.
set -eu
cd "$(dirname "$0")/../.."
cluster=$PWD/e2e/cluster/cluster.sh
target=${CARGO_TARGET_DIR:-target}
. scripts/cache.sh
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
[ "$(id -u)" = 0 ] || {
    echo "mornings: a node needs root" >&2
    exit 1
}
helm=$(scripts/helm.sh)
registry=$(scripts/registry.sh)
# The bench of users, but for the effects that it can have.
planted=$target/e2e/assay-bench-planted.tar
[ "$planted" -nt "$target/planted/assay-bench" ] ||
    IMAGE_ARGS="VERSION=$version-planted ROCKSDB_VERSION=as-in-assay-bench" scripts/image.sh "localhost/assay-bench-planted:$version" \
        bench-image/Containerfile "$planted" "$target/planted/assay-bench"
exports=$("$cluster" up)
eval "$exports"
for image in "$target/images/assay-operator.tar" "$target/images/assay-bench.tar" "$planted"; do "$cluster" load "$image"; done

state=$cache/mornings
address=$ASSAY_MACHINE_IP:5055
mkdir -p "$state/images"
cat >"$state/registry.json" <<EOF
{"version": "0.1", "log": {"level": "warn", "accesslog": {"disabled": true}}, "http": {"addr": "$address"},
 "storage": {"filesystem": {"rootdirectory": "$state/images"}}}
EOF
hosts=$(dirname "$KUBECONFIG")/config/certs.d/$address
mkdir -p "$hosts"
printf 'server = "http://%s"\n[host."http://%s"]\ncapabilities = ["pull", "resolve"]\n' "$address" "$address" >"$hosts/hosts.toml"
OTEL_TRACES_EXPORTER=none "$registry" serve "$state/registry.json" >"$state/registry.log" 2>&1 &
served=$!
trap 'kill $served' EXIT
trap 'exit 130' INT TERM

kubectl create namespace mornings --dry-run=client --output yaml | kubectl apply --filename - >&2
"$helm" upgrade --install assay charts/assay --namespace mornings --wait --set "namespaces={mornings}" --set "image.allowed={*}" >&2
# The reference is another program than what is measured against it, or there would be nothing to measure.
push() { "$cluster" exec ctr --namespace k8s.io images push --plain-http "$address/lab/bench:$1" "$2:$version" >&2; }
push release localhost/assay-bench
push base localhost/assay-bench-planted
# Whatever else this machine does is told apart from the CPU of trials.
taskset --cpu-list "${ASSAY_CLUSTER_RESERVED_CPUS:-0}" e2e/mornings/mornings.py "$PWD/bin/assay" "http://$address" "$ASSAY_NODE"
