#!/bin/sh
# The node's first process. Usage, by node.sh only, in new namespaces: init.sh NAME VAR
set -eu
hostname "$1"
# Mounts of pods go to the kubelet and back, as on any node; of the machine's mounts this is a copy.
mount --make-rshared /
# Programs and libraries are the machine's. What they write goes to folders of the node's own.
mount --bind "$2" /var
mount -t tmpfs -o mode=755 run /run
mkdir /run/assay /run/lock
# Orphans become this process' children, and waiting reaps them.
while :; do
    sleep 86400 &
    wait
done
