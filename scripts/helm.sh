#!/bin/sh
# Builds Helm, once per version, and prints the path of the program.
exec "$(dirname "$0")/go-tool.sh" helm 4.3.1 helm.sh/helm/v4/cmd/helm
