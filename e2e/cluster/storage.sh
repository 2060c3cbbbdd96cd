# shellcheck shell=sh disable=SC2154 # sourced, after settings.sh and with $bin set
# Static local volumes, and the fake nodes, which come with volumes too.

# volumes NODE COUNT
volumes() {
    number=0
    while [ "$number" -lt "$2" ]; do
        cat <<END
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: "$1-$number", labels: {assay.rocks/e2e: volume}}
spec:
  capacity: {storage: 1Ti}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: local-nvme
  local: {path: "$state/volumes/$1-$number"}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - {key: kubernetes.io/hostname, operator: In, values: ["$1"]}
END
        number=$((number + 1))
    done
}

apply() { "$bin/kubectl" apply --server-side --filename - >/dev/null; }

apply_storage() {
    count=${ASSAY_CLUSTER_VOLUMES:-8}
    number=0
    while [ "$number" -lt "$count" ]; do
        mkdir -p "$state/volumes/$name-$number"
        number=$((number + 1))
    done
    {
        # The volume is chosen with the node, as a claim made first could bind where the pod can't go.
        cat <<END
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local-nvme}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
END
        volumes "$name" "$count"
    } | apply
}

# fake_nodes COUNT [untainted]
fake_nodes() {
    # A pod that got onto a fake node by accident would seem to work.
    taints='[{key: kwok.x-k8s.io/node, value: fake, effect: NoSchedule}]'
    [ "$2" != untainted ] || taints='[]'
    index=0
    while [ "$index" -lt "$1" ]; do
        cat <<END
---
apiVersion: v1
kind: Node
metadata:
  name: fake-$index
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {kubernetes.io/hostname: fake-$index, kubernetes.io/os: linux, kubernetes.io/arch: amd64, assay.rocks/e2e: fake-node}
spec: {taints: $taints}
status:
  capacity: &resources {cpu: "16", memory: 64Gi, ephemeral-storage: 1Ti, pods: "110"}
  allocatable: *resources
END
        volumes "fake-$index" 4
        index=$((index + 1))
    done >"$state/fake-nodes.yaml"
    if [ "$1" -gt 0 ]; then
        apply <"$state/fake-nodes.yaml"
    fi
    "$bin/kubectl" get nodes,persistentvolumes --selector 'assay.rocks/e2e in (fake-node, volume)' --output name |
        while read -r object; do
            index=${object#*/fake-}
            if [ "$index" != "$object" ] && [ "${index%%-*}" -ge "$1" ]; then echo "$object"; fi
        done | xargs --no-run-if-empty "$bin/kubectl" delete --wait=false >/dev/null
    [ "$1" = 0 ] || "$bin/kubectl" wait --for condition=Ready node --selector assay.rocks/e2e=fake-node --timeout 60s >/dev/null
}
