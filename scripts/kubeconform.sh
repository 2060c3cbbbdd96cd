#!/bin/sh
# Builds kubeconform and the schemas that it checks by, once per version, from the Go module proxy: those of the Kubernetes that
# the tests run, and our own. Prints the command that checks files.
set -eu
cd "$(dirname "$0")/.."
version=0.7.0
kubernetes=$(sed -n 's/^\tk8s.io\/kubernetes v//p' e2e/cluster/kubernetes/go.mod)
cache=${ASSAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/assay}
case $cache in /*) ;; *) cache=$PWD/$cache ;; esac
folder=$cache/kubeconform-$version-$kubernetes
fail() {
    echo "kubeconform: $*" >&2
    exit 1
}

mkdir -p "$folder"
# One builder at a time: a second one waits here and then finds everything.
exec 8>"$folder/lock"
flock 8
if [ ! -d "$folder/schemas" ]; then
    # As scripts/setup.sh installs it, where the machine has none.
    go=$cache/go/bin/go
    [ -x "$go" ] || go=$(command -v go) || fail "there is no Go: run scripts/setup.sh chart"
    echo "kubeconform: building kubeconform $version and schemas of Kubernetes $kubernetes once, into $folder" >&2
    # From a folder without a go.mod, which could ask for another version.
    (cd / && CGO_ENABLED=0 GOFLAGS=-trimpath GOWORK=off GOBIN=$folder \
        "$go" install -ldflags '-s -w' "github.com/yannh/kubeconform/cmd/kubeconform@v$version" >&2) || fail "it can't be built; see above"
    module=$(cd / && GOWORK=off "$go" mod download -json "k8s.io/kubernetes@v$kubernetes" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    rm -rf "$folder/schemas.new"
    python3 scripts/kubeconform-schemas.py "$module/api/openapi-spec/swagger.json" "$folder/schemas.new" || fail "schemas can't be made"
    mv "$folder/schemas.new" "$folder/schemas"
fi
echo "$folder/kubeconform -strict -summary -schema-location $folder/schemas/{{.ResourceKind}}{{.KindSuffix}}.json"
