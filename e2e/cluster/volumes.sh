#!/bin/sh
# The life of local volumes: a claim ends, its volume is wiped and offered again. Usage: volumes.sh FOLDER KUBECTL KUBECONFIG
# Folders of one disk share its space, so the size of a volume is a number that nobody enforces.
set -eu
folder=$1
kubectl=$2
export KUBECONFIG="$3"

offer_again() {
    echo "wiping $1"
    # A fake node's volume has no folder.
    if [ -d "${folder:?}/$1" ]; then
        rm -rf "${folder:?}/$1"
        mkdir "$folder/$1"
    fi
    "$kubectl" patch persistentvolume "$1" --type merge --patch '{"spec": {"claimRef": null}}'
}

# Each watch starts with all volumes, so what happened between two watches is seen too.
while :; do
    "$kubectl" get persistentvolumes --selector assay.rocks/e2e=volume --watch \
        --output jsonpath='{.metadata.name} {.status.phase}{"\n"}' |
        while read -r volume phase; do
            # A claim's protection holds until no pod uses it, so nobody reads what is wiped.
            if [ "$phase" = Released ]; then offer_again "$volume" || echo "can't offer $volume again" >&2; fi
        done || true
    sleep 1
done
