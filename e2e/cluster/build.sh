#!/bin/sh
# Builds Kubernetes and etcd from the Go module proxy, once per version, and KWOK, and prints the folder that has the programs.
cd "$(dirname "$0")"
. ./settings.sh

kubernetes=$(sed -n 's/^\tk8s.io\/kubernetes v//p' "kubernetes/$modules.mod")
kwok=$(sed -n 's/^\tsigs.k8s.io\/kwok v\([^ ]*\).*/\1/p' kubernetes/go.mod)
key=$(cat "kubernetes/$modules.mod" "kubernetes/$modules.sum" kubernetes/*.go kubernetes/pause/main.go build.sh | sha256sum | cut -c1-12)
bin=$cache/cluster/kubernetes-$kubernetes-kwok-$kwok-$key/bin

build() {
    find_go
    # Nodes are played by the same KWOK everywhere. It is built with the newest Kubernetes' versions of what both need: with its own
    # nearly all of that would be compiled a second time.
    [ "$modules" = go ] || newest=$(ASSAY_CLUSTER_KUBERNETES=newest ./build.sh)
    say "building Kubernetes $kubernetes once, into ${bin%/bin}: about 4 minutes on 2 idle cores"
    # Static, so that pods can run these programs too, in images without libraries.
    export CGO_ENABLED=0 GOWORK=off
    new=$bin.new
    rm -rf "$new"
    mkdir "$new"
    # Clients read the version, and it is a variable of the linker's in the official builds too.
    version=k8s.io/component-base/version
    minor=${kubernetes#*.}
    (cd kubernetes && "$go" build -modfile "$modules.mod" -tags "$ASSAY_CLUSTER_KUBERNETES" -ldflags "-s -w -X $version.gitVersion=v$kubernetes -X $version.gitMajor=${kubernetes%%.*} \
-X $version.gitMinor=${minor%.*} -X $version.gitTreeState=clean" -o "$new/kubernetes" . &&
        "$go" build -ldflags '-s -w' -o "$new/pause" ./pause &&
        if [ "$modules" = go ]; then "$go" build -ldflags '-s -w' -o "$new/kwok" sigs.k8s.io/kwok/cmd/kwok; else cp "$newest/kwok" "$new"; fi) >&2
    for program in etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl; do
        ln -s kubernetes "$new/$program"
    done
    mv "$new" "$bin"
}
once "$bin" build
echo "$bin"
