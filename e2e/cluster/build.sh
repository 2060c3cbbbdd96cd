#!/bin/sh
# Builds Kubernetes, etcd and KWOK from the Go module proxy, once per version, and prints the folder that has the programs.
cd "$(dirname "$0")"
. ./settings.sh

kubernetes=$(sed -n 's/^\tk8s.io\/kubernetes v//p' kubernetes/go.mod)
kwok=$(sed -n 's/^\tsigs.k8s.io\/kwok v\([^ ]*\).*/\1/p' kubernetes/go.mod)
key=$(cat kubernetes/go.mod kubernetes/go.sum kubernetes/main.go kubernetes/pause/main.go build.sh | sha256sum | cut -c1-12)
bin=$cache/cluster/kubernetes-$kubernetes-kwok-$kwok-$key/bin

build() {
    find_go
    say "building Kubernetes $kubernetes and KWOK $kwok once, into ${bin%/bin}: about 4 minutes on 2 idle cores"
    # Static, so that pods can run these programs too, in images without libraries.
    export CGO_ENABLED=0 GOWORK=off
    new=$bin.new
    rm -rf "$new"
    mkdir "$new"
    # Clients read the version, and it is a variable of the linker's in the official builds too.
    version=k8s.io/component-base/version
    minor=${kubernetes#*.}
    (cd kubernetes && "$go" build -ldflags "-s -w -X $version.gitVersion=v$kubernetes -X $version.gitMajor=${kubernetes%%.*} \
-X $version.gitMinor=${minor%.*} -X $version.gitTreeState=clean" -o "$new/kubernetes" . &&
        "$go" build -ldflags '-s -w' -o "$new/pause" ./pause &&
        # With this Kubernetes' versions of what both need: with its own nearly all of that would be compiled a second time.
        "$go" build -ldflags '-s -w' -o "$new/kwok" sigs.k8s.io/kwok/cmd/kwok) >&2
    for program in etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl; do
        ln -s kubernetes "$new/$program"
    done
    mv "$new" "$bin"
}
once "$bin" build
echo "$bin"
