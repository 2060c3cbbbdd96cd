#!/bin/sh
# Builds the images of the cluster itself once and prints their folder. Usage: images.sh BIN
cd "$(dirname "$0")"
. ./settings.sh
bin=$1
folder=${bin%/bin}/images
if [ ! -d "$folder" ]; then
    new=$folder.new
    rm -rf "$new"
    mkdir "$new"
    ../../scripts/image.sh localhost/pause:1 config/pause.Containerfile "$new/pause.tar" "$bin/pause" >&2
    # A shell and some tools for the pods of tests: those of this machine, with their libraries.
    tools=
    for tool in sh cat grep ls mkdir rm sleep touch; do tools="$tools $(command -v $tool)"; done
    # shellcheck disable=SC2086 # paths of the machine's own tools have no spaces
    ../../scripts/image.sh localhost/tools:1 config/tools.Containerfile "$new/tools.tar" $tools >&2
    mv "$new" "$folder"
fi
echo "$folder"
