#!/bin/sh
# Builds a registry of images, once per version, and prints the path of the program.
exec "$(dirname "$0")/go-tool.sh" registry 3.1.2 github.com/distribution/distribution/v3/cmd/registry
