#!/bin/sh
# Builds Helm from the Go module proxy, once per version, and prints the path of the program.
set -eu
version=4.3.1
cache=${ASSAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/assay}
case $cache in /*) ;; *) cache=$(cd "$(dirname "$0")/.." && pwd)/$cache ;; esac
helm=$cache/helm-$version/helm
fail() {
    echo "helm: $*" >&2
    exit 1
}

if [ ! -x "$helm" ]; then
    mkdir -p "${helm%/helm}"
    # One builder at a time: a second one waits here and then finds the program.
    exec 8>"${helm%/helm}/lock"
    flock 8
fi
if [ ! -x "$helm" ]; then
    # As scripts/setup.sh installs it, where the machine has none.
    go=$cache/go/bin/go
    [ -x "$go" ] || go=$(command -v go) || fail "there is no Go: run scripts/setup.sh chart"
    echo "helm: building Helm $version once, into ${helm%/helm}: about 2 minutes on 2 idle cores" >&2
    # From a folder without a go.mod, which could ask for another version.
    (cd / && CGO_ENABLED=0 GOFLAGS=-trimpath GOWORK=off GOBIN=${helm%/helm}/new \
        "$go" install -ldflags '-s -w' "helm.sh/helm/v4/cmd/helm@v$version" >&2) || fail "Helm can't be built; see above"
    mv "${helm%/helm}/new/helm" "$helm"
    rmdir "${helm%/helm}/new"
fi
echo "$helm"
