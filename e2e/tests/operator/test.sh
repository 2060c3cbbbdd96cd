#!/bin/sh
# Tests the operator on the cluster of e2e/cluster, as root or with sudo. A cluster that is up is used and left; else one is started
# and ended.
#
# usage: test.sh [--fake-nodes | --real-node | --slow | --images [FILTER...] | --limits [FILTER...] | --fleet FLEET... | --soak | --upgrade COMMIT [FILTER...] | FILTER...]
#   --fake-nodes   only tests in which trials are played: they need no image of the bench, and what else this machine does is no matter.
#                  Without the small fleet, which takes a tenth of their CPU time and is in all of them together
#   --real-node    only the others
#   --slow         those on fake nodes that take longest and rarely fail; no other run has these tests
#   --images       the images of sweeps, with a real registry; no other run has these tests
#   --limits       how much the operator takes at its worst, on fake nodes; no other run has these tests
#   --fleet        measures fleets, on a cluster for that: how fast the operator runs NODES/EXPERIMENTS/TRIALS/SECONDS, and how fast a control
#                  does. Figures are added to target/fleet/COMMIT.csv
#   --soak         a fleet through killed leaders, lost nodes and a killed API server, on a cluster for that
#   --upgrade      from the programs and the chart of a commit to these and back, and objects that others wrote or damaged; no other run
#                  has these tests
#   FILTER...      only tests whose name has one of the words
# ASSAY_OPERATOR, ASSAY_AGENT and ASSAY are the programs, those in bin/ unless told. Images are those of `make images`.
# ASSAY_CLUSTER_KUBERNETES chooses the cluster: newest or oldest.
# ASSAY_ROUNDS is how many experiments each of the long tests does.
set -eu
cd "$(dirname "$0")/../../.."
cluster=$PWD/e2e/cluster/cluster.sh
target=${CARGO_TARGET_DIR:-target}
. scripts/cache.sh
ASSAY=${ASSAY:-$PWD/bin/assay}
ASSAY_OPERATOR=${ASSAY_OPERATOR:-$PWD/bin/assay-operator}
ASSAY_AGENT=${ASSAY_AGENT:-$PWD/bin/assay-agent}
ASSAY_VERSION=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
export ASSAY ASSAY_OPERATOR ASSAY_AGENT ASSAY_VERSION
fail() {
    echo "operator-test: $*" >&2
    exit 1
}
for program in "$ASSAY" "$ASSAY_OPERATOR" "$ASSAY_AGENT"; do
    [ -x "$program" ] || fail "there is no $program; \`make operator\` makes it"
done
earlier=
case ${1:-} in
--fake-nodes | --real-node | --slow | --images | --limits)
    part=$1
    shift
    ;;
--fleet)
    part=$1
    shift
    [ $# -gt 0 ] || fail "--fleet needs fleets, such as 20/1/240/2"
    export ASSAY_CLUSTER_FOR=fleet
    ;;
--soak)
    part=$1
    shift
    export ASSAY_CLUSTER_FOR=fleet
    ;;
--upgrade)
    part=$1
    [ $# -gt 1 ] || fail "--upgrade needs a commit"
    earlier=$(scripts/earlier.sh "$2")
    shift 2
    ;;
*) part= ;;
esac
images="$target/images/assay-operator.tar"
case $part in --fake-nodes | --slow | --limits | --fleet | --soak | --upgrade) benches= ;; *) benches=$target/images/assay-bench.tar ;; esac
images="$images $benches"
# Its pods only seem to run, and its operator is a program of this machine.
case $part in --fleet | --soak) images= ;; esac
for image in $images; do
    [ -f "$image" ] || fail "there is no $image; \`make images\` makes it"
done

# A real Prometheus for metrics that only one of them knows.
ASSAY_PROMETHEUS=$cache/prometheus/usr/bin/prometheus
export ASSAY_PROMETHEUS
[ -x "$ASSAY_PROMETHEUS" ] || fail "there is no $ASSAY_PROMETHEUS; \`scripts/setup.sh cluster\` unpacks it"

# With it the operator is installed on the real node.
ASSAY_HELM=$(scripts/helm.sh)
export ASSAY_HELM

# Who pulls from a registry has a real one.
ASSAY_REGISTRY=
[ "$part" != --images ] || ASSAY_REGISTRY=$(scripts/registry.sh)
export ASSAY_REGISTRY

# Compiled first, and as whoever calls: a cluster that is up takes CPU time, and root's files would be in the way later.
e2e/cluster/build.sh >/dev/null
# As `make test` compiles tests, so that nothing is compiled anew.
how="--workspace --features assay-e2e/cluster,assay-bench/planted"
# Nobody may wait for what plays the trials of a fleet. As `make operator` compiles programs.
case $part in --fleet | --soak) how="--release -p assay-e2e -p assay-cli -p assay-controller -p assay-agent --features assay-e2e/cluster" ;; esac
# compile TEST...: prints what cargo says.
# shellcheck disable=SC2086 # words
compile() { cargo test --locked $how "$@" --no-run --message-format=json; }
if [ -n "$benches" ]; then
    # The bench that comes with its tests: its own code is not optimised there, which makes it a build of which a night has to say
    # that it is worse.
    compile --test options >/dev/null
    worse=$target/e2e/assay-bench-unoptimised.tar
    IMAGE_ARGS="VERSION=$ASSAY_VERSION-unoptimised ROCKSDB_VERSION=as-in-assay-bench" \
        scripts/image.sh "localhost/assay-bench-unoptimised:$ASSAY_VERSION" bench-image/Containerfile "$worse" "$target/debug/assay-bench"
    images="$images $worse"
fi
if [ "$part" = --images ]; then
    # To push to a registry. What came from one a kubelet gives only to those who may pull it there, so no other test's image is one of them.
    for name in first second; do
        # Another program, which does the same.
        mkdir -p "$target/e2e/$name"
        cp bin/assay-bench "$target/e2e/$name"
        echo "$name" >>"$target/e2e/$name/assay-bench"
        IMAGE_ARGS="VERSION=$name ROCKSDB_VERSION=as-in-assay-bench" scripts/image.sh "localhost/assay-bench-$name:$ASSAY_VERSION" \
            bench-image/Containerfile "$target/e2e/assay-bench-$name.tar" "$target/e2e/$name/assay-bench"
        images="$images $target/e2e/assay-bench-$name.tar"
    done
fi
if [ "$part" = --upgrade ]; then
    IMAGE_ARGS="VERSION=earlier ROCKSDB_VERSION=as-in-assay-bench" scripts/image.sh localhost/assay-operator:earlier "$earlier/Containerfile" \
        "$target/e2e/assay-operator-earlier.tar" "$earlier/bin/assay-operator" "$earlier/bin/assay-agent" "$earlier/bin/assay"
    images="$images $target/e2e/assay-operator-earlier.tar"
fi
tests=$(compile --test operator | sed -n 's/.*"executable":"\([^"]*\/operator-[^"]*\)".*/\1/p')
root=
if [ "$(id -u)" != 0 ]; then root="sudo env HOME=/root PATH=$PATH ASSAY_CACHE=$cache ASSAY_CLUSTER_KUBERNETES=${ASSAY_CLUSTER_KUBERNETES:-} ASSAY_CLUSTER_FOR=${ASSAY_CLUSTER_FOR:-}"; fi
# Some tests have the cluster alone, and stop parts of it: another call waits until this one has ended.
mkdir -p "$cache"
exec 8>"$cache/operator-test.lock"
flock 8
if ! $root "$cluster" env >/dev/null 2>&1; then
    trap '$root "$cluster" down >/dev/null' EXIT
    trap 'exit 130' INT TERM
fi
exports=$($root "$cluster" up 8>&-) || fail "the cluster does not start; see above"
eval "$exports"
echo "operator-test: on Kubernetes $(kubectl version | sed -n 's/^Server Version: v//p')"
# shellcheck disable=SC2086 # paths below $target, which has no spaces
$root "$cluster" load $images
# run THREADS PROGRAM [ARGUMENT...]; without the lock, which parts of the cluster that a test starts again would keep.
run() {
    threads=$1
    shift
    $root env PATH="$PATH" KUBECONFIG="$KUBECONFIG" KUBECACHEDIR="$KUBECACHEDIR" ASSAY="$ASSAY" ASSAY_OPERATOR="$ASSAY_OPERATOR" ASSAY_AGENT="$ASSAY_AGENT" ASSAY_VERSION="$ASSAY_VERSION" \
        ASSAY_NODE="$ASSAY_NODE" ASSAY_MACHINE_IP="$ASSAY_MACHINE_IP" ASSAY_PROMETHEUS="$ASSAY_PROMETHEUS" ASSAY_HELM="$ASSAY_HELM" ASSAY_REGISTRY="$ASSAY_REGISTRY" ASSAY_ROUNDS="${ASSAY_ROUNDS:-1}" ASSAY_EARLIER="$earlier" \
        ASSAY_FLEET="${fleet:-}" ASSAY_FLEET_CSV="${figures:-}" \
        "$@" --quiet --test-threads "$threads" 8>&-
}
# On the CPUs that are reserved for everything but pods: a trial that shares its own is invalid, and rightly so.
beside_trials() { run 4 taskset --cpu-list "${ASSAY_CLUSTER_RESERVED_CPUS:-0}" "$tests" "$@"; }
case $part in
--limits | --upgrade)
    case $part in --limits) modules=limits:: ;; *) modules="upgrade:: mutations:: versions::" ;; esac
    # shellcheck disable=SC2086 # words
    [ $# -gt 0 ] || set -- $modules
    # One at a time, since they measure, or replace what all have in common.
    run 1 "$tests" "$@" --nocapture
    exit
    ;;
esac
if [ "$part" = --fleet ]; then
    figures=$PWD/$target/fleet/$(git describe --always --dirty).csv
    mkdir -p "$target/fleet"
    for fleet; do run 1 "$tests" --exact fleet::told --nocapture; done
    e2e/tests/operator/fleet/table.py "$figures"
    exit
fi
if [ "$part" = --soak ]; then
    run 1 "$tests" fleet::soak --nocapture
    exit
fi
if [ "$part" = --images ] && [ $# = 0 ]; then set -- images::; fi
if [ $# -gt 0 ]; then
    beside_trials "$@"
    exit
fi
slow="size:: pretenders:: rights::an_operator_of_all_namespaces tenants::an_experiment_that_another_version_planned nights::nights_that_are_due changes::what_brought"
if [ "$part" = --slow ]; then
    # shellcheck disable=SC2086 # words
    run 8 "$tests" $slow
    exit
fi
[ "$part" != --fake-nodes ] || slow="$slow fleet::a_small_fleet"
# Most have no real trials, and need not wait for those that have the cluster to themselves. They wait for the cluster, rarely for a CPU.
# shellcheck disable=SC2046,SC2086 # words
[ "$part" = --real-node ] || run 8 "$tests" --skip alone:: --skip images:: --skip install:: --skip real:: --skip limits:: --skip runbooks:: --skip upgrade:: --skip mutations:: --skip versions::thorough:: --skip ::long:: --skip fleet::told --skip fleet::soak $(printf -- '--skip %s ' $slow)
[ "$part" = --fake-nodes ] || beside_trials alone:: install:: real::
