# shellcheck shell=sh disable=SC2034 # sourced by the scripts beside it
# Where things are, which addresses they have, and how a script talks and fails. Sourced with this folder as the working folder.
set -eu
umask 022
here=$PWD
# Tools for networks and namespaces are in sbin, which a user's PATH often lacks.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { printf 'cluster: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}
# within SECONDS COMMAND...: tries until it succeeds.
within() {
    tries=$(($1 * 5))
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.2
    done
}

cd ../..
. scripts/cache.sh
cd "$here"
# Each version has a cluster of its own, so that one can stay up while the other is tested.
case ${ASSAY_CLUSTER_KUBERNETES:=newest} in
newest)
    modules=go default_state=state default_name=assay-e2e default_net=10.231
    # What tests need and this version has only if it is told to.
    api_server_flags=
    ;;
oldest)
    modules=oldest default_state=state-oldest default_name=assay-oldest default_net=10.232
    # Stable since 1.36: it stands in for the webhook of a queue.
    api_server_flags="--feature-gates MutatingAdmissionPolicy=true --runtime-config admissionregistration.k8s.io/v1alpha1=true"
    ;;
*) fail "ASSAY_CLUSTER_KUBERNETES must be newest or oldest, not $ASSAY_CLUSTER_KUBERNETES" ;;
esac
# Tests share the machine with real trials. Where the speed of a fleet is measured, nothing but the machine may be its limit, fake nodes
# say rarely that they live, and everybody's writes are counted.
case ${ASSAY_CLUSTER_FOR:=tests} in
tests)
    audit=audit.yaml node_lease=40 node_grace=20s client_flags=
    ;;
fleet)
    audit=audit-all.yaml node_lease=4000 node_grace=12000s client_flags="--kube-api-qps 5000 --kube-api-burst 10000"
    api_server_flags="$api_server_flags --max-requests-inflight 0 --max-mutating-requests-inflight 0 --enable-priority-and-fairness=false --audit-log-maxsize 100000"
    default_state=$default_state-fleet default_name=$default_name-f default_net=10.24${default_net#10.23}
    ;;
*) fail "ASSAY_CLUSTER_FOR must be tests or fleet, not $ASSAY_CLUSTER_FOR" ;;
esac
# Commands that these scripts call are about the same cluster.
export ASSAY_CLUSTER_KUBERNETES ASSAY_CLUSTER_FOR
state=${ASSAY_CLUSTER_STATE:-$cache/cluster/$default_state}
for folder in "$state" "$cache" "$here"; do
    case $folder in
    /var/* | /run/*) fail "$folder is under /var or /run, which the node replaces with its own folders" ;;
    /*) ;;
    *) fail "ASSAY_CLUSTER_STATE must be an absolute path, not $state" ;;
    esac
done

# Names the network link, the cgroup and the real node. At most 15 characters: the kernel's limit for a link.
name=${ASSAY_CLUSTER_NAME:-$default_name}
# Everything but pods runs here, so that the other CPUs are quiet when a pod holds them exclusively. Fleets have no such pods.
reserved=${ASSAY_CLUSTER_RESERVED_CPUS:-0}
components_cpus=$reserved
[ "$ASSAY_CLUSTER_FOR" = tests ] || components_cpus=0-$(($(getconf _NPROCESSORS_ONLN) - 1))

# The first two numbers of all addresses. .0.1 is the machine, .0.2 the node; then services, pods, pods of fake nodes.
net=${ASSAY_CLUSTER_NET:-$default_net}
machine_ip=$net.0.1
node_ip=$net.0.2
service_ip=$net.64.1
service_cidr=$net.64.0/20
pod_cidr=$net.128.0/20
fake_cidr=$net.192.0/20
server=https://$node_ip:6443

log=$state/log
KUBECONFIG=$state/kubeconfig
# Otherwise kubectl leaves one in the home folder.
KUBECACHEDIR=$state/kubectl-cache
export KUBECONFIG KUBECACHEDIR
