#!/bin/sh
# Builds kubeconform and the schemas that it checks by, once per version, from the Go module proxy: those of the Kubernetes that
# the tests run, and our own. Prints the command that checks files.
set -eu
cd "$(dirname "$0")/.."
. scripts/cache.sh
kubeconform=$(scripts/go-tool.sh kubeconform 0.7.0 github.com/yannh/kubeconform/cmd/kubeconform)
kubernetes=$(sed -n 's/^\tk8s.io\/kubernetes v//p' e2e/cluster/kubernetes/go.mod)
schemas=$(dirname "$kubeconform")/schemas-$kubernetes

write_schemas() {
    find_go
    module=$(cd / && GOWORK=off "$go" mod download -json "k8s.io/kubernetes@v$kubernetes" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    rm -rf "$schemas.new"
    python3 scripts/kubeconform-schemas.py "$module/api/openapi-spec/swagger.json" "$schemas.new"
    mv "$schemas.new" "$schemas"
}
once "$schemas" write_schemas
echo "$kubeconform -strict -summary -schema-location $schemas/{{.ResourceKind}}{{.KindSuffix}}.json"
