# shellcheck shell=sh disable=SC2154 # sourced, after settings.sh
# The node is a set of namespaces with one first process. Mounts, processes, links, routes and firewall rules in it can't reach the
# machine, and all end with that process, so nothing can be left over whatever went wrong.

# The trees of cgroups: one in version 2, one per controller in version 1.
cgroups() {
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo /sys/fs/cgroup; else find /sys/fs/cgroup -mindepth 1 -maxdepth 1 -type d; fi
}
kernel_settings="vm.overcommit_memory kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys kernel.keys.root_maxbytes"

started_at() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

# Sets init to the node's first process, or fails. A pid alone may belong to somebody else by now.
find_node() {
    init=
    [ -f "$state/init" ] || return 1
    read -r pid since <"$state/init"
    [ "$(started_at "$pid")" = "$since" ] || return 1
    init=$pid
}

in_node() { nsenter --target "$init" --mount --net --pid --uts --ipc -- "$@"; }

make_node() {
    # The kubelet sets these for the whole machine and never sets them back.
    for setting in $kernel_settings; do
        printf '%s=%s\n' "$setting" "$(sysctl -n "$setting")"
    done >"$state/kernel-settings"
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        echo "+cpuset +cpu +io +memory +pids" >/sys/fs/cgroup/cgroup.subtree_control
    fi
    for cgroup in $(cgroups); do
        mkdir -p "$cgroup/$name"
        # In version 1 an empty set of CPUs takes no process.
        for file in cpuset.mems cpuset.cpus; do
            if [ -e "$cgroup/cgroup.controllers" ] || [ ! -e "$cgroup/$file" ]; then continue; fi
            cat "$cgroup/$file" >"$cgroup/$name/$file"
        done
    done

    setsid unshare --mount --net --pid --uts --ipc --fork --mount-proc sh "$here/init.sh" "$name" "$state/var" \
        </dev/null >"$log/node.log" 2>&1 9>&- &
    parent=$!
    within 5 pgrep -P "$parent" || fail "can't create the node's namespaces: $(cat "$log/node.log")"
    init=$(pgrep -P "$parent")
    echo "$init $(started_at "$init")" >"$state/init"
    within 5 test -e "/proc/$init/root/run/assay" || fail "the node did not start: $(cat "$log/node.log")"

    ip link add "$name" type veth peer name eth0 netns "$init"
    ip address add "$machine_ip/24" dev "$name"
    ip link set "$name" up
    in_node ip link set lo up
    in_node ip address add "$node_ip/24" dev eth0
    in_node ip link set eth0 up
    # The machine reaches pods and services. Pods have no way out: a test that needs the internet is a bad test.
    ip route add "$net.0.0/16" via "$node_ip" dev "$name"
    in_node sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
}

remove_node() {
    # Written first of all: without it there is nothing of ours, and what has our name is another cluster's.
    [ -f "$state/kernel-settings" ] || return 0
    if find_node; then
        # The kernel kills every process of the namespace first.
        kill -KILL "$init"
        within 60 test ! -e "/proc/$init" || fail "process $init, the node's first, does not end; see /proc/$init/stack"
    fi
    within 30 test ! -e "/sys/class/net/$name" || ip link delete "$name"
    for cgroup in $(cgroups); do
        [ -d "$cgroup/$name" ] || continue
        within 10 remove_cgroup "$cgroup/$name" || fail "can't remove the cgroup $cgroup/$name; see its cgroup.procs"
    done
    sysctl -qp "$state/kernel-settings" || say "can't restore kernel settings"
}
remove_cgroup() { find "$1" -depth -type d -exec rmdir {} +; }
