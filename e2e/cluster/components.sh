# shellcheck shell=sh disable=SC2034,SC2154,SC2317 # sourced, after node.sh and with $bin set
# What runs on the node and with which flags. In tests all of it stays on the reserved CPUs: the kubelet keeps only pods off a pod's own.

# In the order of their start.
components="etcd containerd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kwok volumes"

run_etcd() {
    # What is in it ends with the cluster, so a power cut need not be survived, and trials should have the disk to themselves.
    launch "$bin/etcd" --data-dir /var/lib/etcd --unsafe-no-fsync --log-level warn \
        --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380
}
run_containerd() { launch containerd --config "$state/config/containerd.toml" --log-level warn; }
run_kube_apiserver() {
    # A lost node's pods go after 30 s, not 300: tests wait for it. Agents of nodes are privileged; what else may be, Pod Security says.
    # shellcheck disable=SC2086 # words
    launch "$bin/kube-apiserver" $api_server_flags --etcd-servers http://127.0.0.1:2379 --advertise-address "$node_ip" --secure-port 6443 \
        --service-cluster-ip-range "$service_cidr" --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
        --default-not-ready-toleration-seconds 30 --default-unreachable-toleration-seconds 30 --allow-privileged \
        --client-ca-file "$pki/ca.crt" --tls-cert-file "$pki/kube-apiserver.crt" --tls-private-key-file "$pki/kube-apiserver.key" \
        --kubelet-client-certificate "$pki/kubelet-client.crt" --kubelet-client-key "$pki/kubelet-client.key" \
        --kubelet-preferred-address-types InternalIP \
        --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$pki/service-accounts.pub" \
        --service-account-signing-key-file "$pki/service-accounts.key" \
        --audit-policy-file "$state/config/$audit" --audit-log-path "$log/audit.log"
}
run_kube_controller_manager() {
    # shellcheck disable=SC2086 # words
    launch "$bin/kube-controller-manager" $client_flags --kubeconfig "$pki/kube-controller-manager.kubeconfig" --leader-elect=false \
        --use-service-account-credentials --service-account-private-key-file "$pki/service-accounts.key" \
        --root-ca-file "$pki/ca.crt" --node-monitor-grace-period $node_grace --flex-volume-plugin-dir /var/lib/kubelet/volume-plugins
}
run_kube_scheduler() {
    # shellcheck disable=SC2086 # words
    launch "$bin/kube-scheduler" $client_flags --kubeconfig "$pki/kube-scheduler.kubeconfig" --leader-elect=false
}
run_kubelet() {
    launch "$bin/kubelet" --config "$state/config/kubelet.yaml" --kubeconfig "$pki/kubelet.kubeconfig" \
        --hostname-override "$name" --node-ip "$node_ip" --root-dir /var/lib/kubelet
}
run_kube_proxy() { launch "$bin/kube-proxy" --config "$state/config/kube-proxy.yaml"; }
run_kwok() {
    launch "$bin/kwok" --kubeconfig "$pki/kwok.kubeconfig" --config "$state/config/stages.yaml" \
        --manage-all-nodes=false --manage-nodes-with-annotation-selector kwok.x-k8s.io/node=fake \
        --cidr "$fake_cidr" --node-ip "$node_ip" --node-lease-duration-seconds "$node_lease"
}
run_volumes() { launch sh "$here/volumes.sh" "$state/volumes" "$bin/kubectl" "$pki/volumes.kubeconfig"; }

write_config() {
    mkdir -p "$state/config/cni"
    for file in containerd.toml kubelet.yaml kube-proxy.yaml "$audit" stages.yaml cni/bridge.conflist; do
        sed -e "s|@state@|$state|g" -e "s|@name@|$name|g" -e "s|@reserved@|$reserved|g" -e "s|@pod_cidr@|$pod_cidr|g" \
            "config/$file" >"$state/config/$file"
    done
}

# Pids are those of the node. One is believed only as long as it is the program that was started.
running() {
    pid=$(cat "/proc/$init/root/run/assay/$1.pid" 2>/dev/null) &&
        [ "$(in_node cat "/proc/$pid/stat" 2>/dev/null | sed 's/.*) //' | cut -d ' ' -f 20)" = \
            "$(cat "/proc/$init/root/run/assay/$1.since")" ]
}

# Used by the functions above, with component set.
launch() {
    # shellcheck disable=SC2016 # expanded in the node
    in_node taskset --cpu-list "$components_cpus" sh -c '
        name=$1 log=$2
        shift 2
        setsid "$@" </dev/null >>"$log/$name.log" 2>&1 &
        echo $! >"/run/assay/$name.pid"
        sed "s/.*) //" "/proc/$!/stat" | cut -d " " -f 20 >"/run/assay/$name.since"
    ' sh "$component" "$log" "$@" 9>&-
}
start() {
    component=$1
    running "$component" || "run_$(echo "$component" | tr - _)"
}
# stop COMPONENT SIGNAL
stop() {
    running "$1" || return 0
    # The group, since a loop of the shell has children; by the shell's own kill, which knows what -- means.
    # shellcheck disable=SC2016 # expanded in the node
    in_node sh -c 'kill -s "$1" -- "-$2"' sh "$2" "$pid"
    # The API server lets requests end before it does.
    within 90 stopped "$1" || fail "$1 does not stop"
}
stopped() { ! running "$1"; }
