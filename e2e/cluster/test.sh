#!/bin/sh
# Checks that the cluster is what tests of the operator take for granted. Starts and ends it, so none may be up.
# Usage, as root: test.sh [BENCH_ARCHIVE]; with the archive of the bench's image that image is checked too.
# shellcheck disable=SC2317 # functions are called by check
bench=${1:+$(realpath "$1")}
cd "$(dirname "$0")"
. ./settings.sh
. ./node.sh

passed=0
failed=0
# check WHAT COMMAND...
check() {
    what=$1
    shift
    if output=$("$@" 2>&1); then
        passed=$((passed + 1))
        echo "ok: $what"
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\n%s\n' "$what" "$output"
    fi
}
not() { ! "$@"; }
equal() { [ "$1" = "$2" ] || { echo "\`$1\` is not \`$2\`" && false; }; }

# What a cluster could leave on a machine, a line each. Cgroups with processes in them are others': none of the node's is alive by then.
traces() {
    {
        ip -brief link | cut -d ' ' -f 1 | sed 's/^/link /'
        ip route | sed 's/^/route /'
        cut -d ' ' -f 3- /proc/self/mountinfo | sed 's/^/mount /'
        # Without the counters of packets.
        { iptables-save 2>/dev/null | sed '/^#/d; s/ \[[0-9:]*\]//'; ip netns list; } | sed 's/^/firewall /'
        empty_cgroups | sed 's/^/cgroup /'
        # shellcheck disable=SC2009 # pgrep can name none of them that is longer than 15 letters
        ps -e -o pid=,comm= | { grep -E 'etcd|kube|containerd|kwok|pause' || true; } | sed 's/^/process /'
        # shellcheck disable=SC2086 # words
        sysctl $kernel_settings net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables 2>&1 | sed 's/^/setting /'
        # Not /etc/cni/net.d itself, in which buildah puts a lock.
        ls -d /var/lib/kubelet /var/lib/etcd /var/lib/cni /var/log/pods /run/containerd /opt/cni/bin /etc/cni/net.d/*.conf* \
            /usr/libexec/kubernetes ~/.kube 2>/dev/null | sed 's/^/folder /'
    } | LC_ALL=C sort
}
empty_cgroups() {
    for tree in $(cgroups); do
        for cgroup in "$tree"/*/; do
            if [ -d "$cgroup" ] && [ -z "$(find "$cgroup" -name cgroup.procs -exec cat {} + 2>/dev/null)" ]; then echo "$cgroup"; fi
        done
    done
}
# changes: what differs from before, after a tab where it is new; what others ended meanwhile is no matter.
changes() { traces | LC_ALL=C comm -3 "$before" - | grep -vE '^(cgroup|process) '; }
# Links and the last cgroups end a moment after the processes that used them.
nothing_left() { within 30 not changes || not changes; }

kubectl() { "$bin/kubectl" "$@"; }
# pods FILE [POD] [LIMITS]
pods() { sed "s|@bin@|$bin|g; s|@name@|$name|g; s|@pod@|${2:-}|g; s|@limits@|${3:-}|g; s|@image@|${image:-}|g" "test/$1.yaml" | kubectl apply --server-side --filename - >/dev/null; }
phase() { kubectl wait "pod/$1" --for "jsonpath={.status.phase}=$2" --timeout "${3:-30}s"; }
message() { kubectl get pod "$1" --output 'jsonpath={.status.containerStatuses[0].state.terminated.message}'; }
condition() { kubectl get pod "$1" --output "jsonpath={.status.conditions[?(@.type==\"$2\")].$3}"; }
remove() { kubectl delete --wait --ignore-not-found --timeout 60s "$@" >/dev/null; }

not find_node || fail "a cluster is running; run \`make cluster-down\` first"
before=$(mktemp)
traces >"$before"
began=$(date +%s)
exports=$(./cluster.sh up) || fail "the cluster does not start; see above"
echo "up took $(($(date +%s) - began)) s"
trap './cluster.sh down; rm "$before"' EXIT
trap 'exit 130' INT TERM
eval "$exports"
bin=$(cat "$state/bin")

check "a running cluster is visible on the machine" changes
same_image() {
    image=$(mktemp -d) && ../../scripts/image.sh localhost/pause:1 config/pause.Containerfile "$image/pause.tar" "$bin/pause" &&
        cmp "$image/pause.tar" "${bin%/bin}/images/pause.tar" && rm -r "$image"
}
check "the same program gives the same image" same_image
ready() { kubectl wait --for condition=Ready "node/$name" --timeout 10s; }
check "the node is ready" ready
check "up again changes nothing and works" ./cluster.sh up
check "status shows that everything is running" ./cluster.sh status

# All CPUs but the first, which is reserved.
online=$(cat /sys/devices/system/cpu/online)
count=${online#0-}
if [ "$count" = 1 ]; then free=1; else free=1-$count; fi
# cpus POD LIMITS CPUS: the pod may use these.
cpus() {
    pods cpus "$1" "$2" && phase "$1" Succeeded && equal "$(message "$1" | tr -d '[:space:]')" "Cpus_allowed_list:$3"
}
waits() {
    pods whole-cpus first "$whole" && phase first Running && pods whole-cpus second "$whole" &&
        kubectl wait pod/second --for 'condition=PodScheduled=False' --timeout 20s &&
        case $(condition second PodScheduled message) in *'Insufficient cpu'*) ;; *) false ;; esac
}
then_runs() { remove pod/first && phase second Running; }
whole="cpu: \"$count\", memory: 64Mi"
check "a pod that asks for $count whole CPUs gets CPU $free" cpus whole "$whole" "$free"
check "a second pod waits for the first" waits
check "another pod does not use the CPUs of the first" cpus other 'memory: 64Mi' 0
check "the second runs when the first is gone" then_runs
others() { equal "$(./cluster.sh exec taskset -cp "$(./cluster.sh exec cat /run/assay/"$1".pid)" | sed 's/.*: //')" "$reserved"; }
for component in etcd containerd kube-apiserver kubelet kwok; do check "$component stays on CPU $reserved" others $component; done
remove pod --all

pods volume
binds() { phase writes Succeeded && equal "$(kubectl get pvc block --output 'jsonpath={.status.phase}')" Bound; }
check "a claim binds, and the pod writes to its volume as a user who is not root" binds
volume=$(kubectl get pvc block --output 'jsonpath={.spec.volumeName}')
check "the file is in the volume's folder" test -s "$state/volumes/$volume/file"
recycled() {
    remove pod/writes pvc/block
    kubectl wait "pv/$volume" --for 'jsonpath={.status.phase}=Available' --timeout 20s && test ! -e "$state/volumes/$volume/file"
}
check "the volume is wiped and offered again when its claim is gone" recycled

pods network
asks() { phase asks Succeeded && case $(kubectl logs asks) in *"$name"*) ;; *) false ;; esac; }
check "a pod reaches the API as its service account, and kubectl logs shows its output" asks
exec_works() { phase shell Running && equal "$(kubectl exec shell -- cat /etc/hostname)" shell; }
check "kubectl exec works" exec_works
serves() {
    phase serves Running || return 1
    pod=$(kubectl get pod serves --output 'jsonpath={.status.podIP}')
    service=$(kubectl get service serves --output 'jsonpath={.spec.clusterIP}')
    for address in "$pod:8001" "$service"; do
        within 10 kubectl get --server "http://$address" --raw /version || { echo "$address does not answer" && return 1; }
    done
}
check "the machine reaches a pod and a service" serves
no_way_out() { not ./cluster.sh exec ip route get 192.0.2.1; }
check "the node has no way out of the machine" no_way_out
remove pod --all

./cluster.sh fake-nodes 3
pods fake
fakes() { equal "$(kubectl get nodes --selector assay.rocks/e2e=fake-node --output name | wc -l)" "$1"; }
check "there are three fake nodes" fakes 3
completes() { phase fake-ends Succeeded && equal "$(message fake-ends)" '{"planted": 1}'; }
fails() { phase fake-fails Failed && equal "$(message fake-fails)" 'out of memory'; }
hangs() {
    phase fake-hangs Running &&
        kubectl annotate pod fake-hangs fake.assay.rocks/exit-code=0 fake.assay.rocks/message=later && phase fake-hangs Succeeded &&
        equal "$(message fake-hangs)" later
}
check "a fake pod completes with its message" completes
check "a fake pod fails" fails
check "a fake pod runs until it is stopped" hangs
fake_volume() {
    remove pod/fake-ends pvc/fake-block
    kubectl wait pv --selector assay.rocks/e2e=volume --for 'jsonpath={.status.phase}=Available' --timeout 20s
}
check "a fake node's volume is offered again" fake_volume
remove pod --all
./cluster.sh fake-nodes 1
check "and one after two were removed" fakes 1
./cluster.sh fake-nodes 0

./cluster.sh stop kubelet
not_ready() { kubectl wait "node/$name" --for condition=Ready=Unknown --timeout 60s; }
check "a node whose kubelet is stopped becomes not ready" not_ready
check "status shows that the kubelet is not running" not ./cluster.sh status
./cluster.sh start kubelet
check "and is ready when it is started" kubectl wait "node/$name" --for condition=Ready --timeout 60s
./cluster.sh stop etcd KILL
./cluster.sh start etcd
objects() { within 30 kubectl get node "$name" && kubectl get storageclass local-nvme; }
check "etcd keeps its data when it is killed" objects

if [ -n "$bench" ]; then
    ./cluster.sh load "$bench"
    image=$(tar -xOf "$bench" manifest.json | sed 's/.*"RepoTags":\["\([^"]*\)".*/\1/')
    pods bench
    version() { phase bench Succeeded && case $(kubectl logs bench) in "assay-bench "*) ;; *) false ;; esac; }
    kubectl config set-context --current --namespace restricted >/dev/null
    refused() { not kubectl run root --image localhost/tools:1 && kubectl run root --image localhost/tools:1 2>&1 | grep -q PodSecurity; }
    check "a pod that may run as root is refused in that namespace" refused
    labelled() { tar -xO -f "$bench" --wildcards '*.json' | grep -q '"rocks.assay.rocksdb-version":"[0-9]'; }
    check "the bench's image names its RocksDB" labelled
    check "the bench runs restricted: not as root, with a read-only root" version
    remove pod/bench
    kubectl config set-context --current --namespace default >/dev/null
fi

# As by a power cut, or somebody's kill.
find_node
kill -KILL "$init"
check "everything ends with the first process" within 10 not find_node
check "status shows this" not ./cluster.sh status
again() { ./cluster.sh up && kubectl get node "$name" && not kubectl get service serves; }
check "up then creates a new cluster" again

trap - EXIT
check "down" ./cluster.sh down
check "down again" ./cluster.sh down
check "nothing is left on the machine" nothing_left
rm "$before"
check "the state folder is gone" test ! -e "$state"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
