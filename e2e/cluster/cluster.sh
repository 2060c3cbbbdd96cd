#!/bin/sh
# A real Kubernetes on this machine, for tests: one real node that gives whole CPUs to pods, and as many fake ones as wanted.
# See README.md beside this file. Run as root.
usage="usage: cluster.sh COMMAND
  possible                  check whether this machine can be a node, or say why not
  up                        start what is not running; print variables for your shell
  down                      stop everything and remove the state folder
  status                    show what is running
  env                       print the variables again
  fake-nodes N [untainted]  set the number of fake nodes to N
  load ARCHIVE...           import images from \`make images\`
  start COMPONENT           start a stopped component
  stop COMPONENT [SIGNAL]   stop a component, by default with TERM
  exec COMMAND...           run a command on the node, for example ctr or iptables"
from=$PWD
cd "$(dirname "$0")"
. ./settings.sh
. ./node.sh
. ./credentials.sh
. ./components.sh
. ./storage.sh
pki=$state/pki

require() {
    [ "$(stat -c %u /proc/self)" = 0 ] || fail "a node needs namespaces and mounts: run this as root"
    [ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ] || fail "this machine has one CPU: none would be left for pods"
    for tool in containerd ctr runc iptables ip nsenter unshare taskset setsid openssl pgrep flock sysctl buildah; do
        command -v $tool >/dev/null || missing="${missing:-} $tool"
    done
    [ -x /usr/lib/cni/bridge ] || missing="${missing:-} /usr/lib/cni/bridge"
    [ -z "${missing:-}" ] || fail "missing:$missing; run \`scripts/setup.sh cluster\` to install them"
}
# Inside of most containers nobody may do what a node does.
possible() {
    [ "$(stat -c %u /proc/self)" = 0 ] || fail "a node needs namespaces and mounts, which need root"
    [ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ] || fail "this machine has one CPU: none would be left for pods"
    unshare --mount --net --pid --uts --ipc --fork --mount-proc true 2>/dev/null || fail "can't create namespaces here"
    for cgroup in $(cgroups); do
        { mkdir "$cgroup/$name-possible" && rmdir "$cgroup/$name-possible"; } 2>/dev/null || fail "can't create cgroups in $cgroup"
    done
}
# One `up` or `down` at a time.
lock() {
    mkdir -p "$(dirname "$state")"
    exec 9<"$(dirname "$state")"
    flock 9
}
# The folder is removed at the end, so it must be ours from the start.
fresh_state() {
    if [ -d "$state" ] && [ ! -f "$state/assay-cluster" ] && [ -n "$(ls -A "$state")" ]; then
        fail "$state has files that are not the cluster's; point ASSAY_CLUSTER_STATE at an empty folder"
    fi
    # Of a cluster that was not ended by `down`.
    remove_node
    rm -rf "$state"
    [ ! -e "/sys/class/net/$name" ] || fail "the link $name already exists, for a cluster whose state is not in $state. \
For a second cluster, set ASSAY_CLUSTER_NAME and ASSAY_CLUSTER_NET"
    mkdir -p "$log" "$state/volumes"
    for folder in lib log cache tmp; do mkdir -p "$state/var/$folder"; done
    ln -s /run "$state/var/run"
    : >"$state/assay-cluster"
}
# in_cluster: the node, or an end
in_cluster() { find_node || fail "no cluster is running; \`make cluster-up\` starts one"; }

up() {
    require
    bin=$(./build.sh)
    images=$(./images.sh "$bin")
    lock
    began=$(date +%s)
    if ! find_node; then
        fresh_state
        echo "$bin" >"$state/bin"
        make_credentials
        write_config
        make_node
    elif [ "$(cat "$state/bin")" != "$bin" ]; then
        fail "the running cluster has another version; run \`make cluster-down\` first"
    fi
    start etcd
    start containerd
    start kube-apiserver
    within 30 in_node ctr version || fail "containerd does not answer; see $log/containerd.log"
    for image in pause tools; do load "$images/$image.tar"; done
    within 60 "$bin/kubectl" get --raw /readyz || fail "the API server does not become ready; see $log/kube-apiserver.log"
    for component in $components; do start "$component"; done
    within 60 "$bin/kubectl" get node "$name" || fail "the node does not register; see $log/kubelet.log"
    apply_storage
    "$bin/kubectl" wait --for condition=Ready "node/$name" --timeout 60s >/dev/null ||
        fail "the node does not become ready; see $log/kubelet.log and $log/containerd.log"
    # Made soon after the namespace, and pods are refused before.
    within 30 "$bin/kubectl" get serviceaccount default || fail "the controller manager does not work; see its log in $log"
    say "up after $(($(date +%s) - began)) s; state and logs are in $state"
    environment
}

down() {
    require
    lock
    remove_node
    if [ -f "$state/assay-cluster" ]; then rm -rf "$state"; fi
    say "down"
}

environment() {
    echo "export KUBECONFIG=$KUBECONFIG"
    echo "export KUBECACHEDIR=$KUBECACHEDIR"
    echo "export PATH=$bin:\$PATH"
    echo "export ASSAY_NODE=$name ASSAY_MACHINE_IP=$machine_ip"
}

status() {
    code=0
    for component in $components; do
        if running "$component"; then
            printf '%-24s running\n' "$component"
        else
            printf '%-24s not running; see %s\n' "$component" "$log/$component.log"
            code=1
        fi
    done
    "$bin/kubectl" get nodes || code=1
    return $code
}

load() {
    case $1 in /*) archive=$1 ;; *) archive=$from/$1 ;; esac
    in_node ctr --namespace k8s.io images import - <"$archive" >&2
}

is_component() {
    for component in $components; do [ "$component" != "$1" ] || return 0; done
    fail "unknown component \`$1\`; choose from: $components"
}

command=${1:-}
[ $# = 0 ] || shift
case $command in
possible | up | down) $command ;;
status | env | fake-nodes | load | start | stop | exec)
    in_cluster
    bin=$(cat "$state/bin")
    case $command in
    status) status ;;
    env) environment ;;
    fake-nodes) fake_nodes "${1:?how many fake nodes}" "${2:-}" ;;
    load) for archive; do load "$archive"; done ;;
    start) is_component "${1:?which component}" && start "$1" ;;
    stop) is_component "${1:?which component}" && stop "$1" "${2:-TERM}" ;;
    exec) in_node "$@" ;;
    esac
    ;;
*)
    echo "$usage" >&2
    exit 2
    ;;
esac
