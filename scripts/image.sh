#!/bin/sh
# Builds a container image of programs and their shared libraries, nothing else, and writes it as an archive that
# docker, podman, skopeo and containerd import. The same programs give the same image, to the byte.
#
# usage: image.sh NAME:TAG CONTAINERFILE ARCHIVE PROGRAM...
# IMAGE_ARGS has build arguments, as KEY=VALUE words. IMAGE_BUILDER is buildah or docker; without it, the first that works here.
set -eu
umask 022
fail() {
    echo "image: $*" >&2
    exit 1
}
[ $# -ge 4 ] || fail "usage: image.sh NAME:TAG CONTAINERFILE ARCHIVE PROGRAM..."
tag=$1
containerfile=$2
archive=$3
shift 3

builder=${IMAGE_BUILDER:-}
if [ -z "$builder" ]; then
    if command -v buildah >/dev/null; then
        builder=buildah
    elif docker info >/dev/null 2>&1; then
        builder=docker
    else
        fail "neither buildah nor a running docker service found; \`scripts/setup.sh images\` installs buildah"
    fi
fi

folder=$(dirname "$archive")
mkdir -p "$folder"
work=$(mktemp -d "$folder/.image.XXXXXX")
# Layers keep their folders' modes, which forbid removing what is in them to all but root.
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# put FILE PATH_IN_IMAGE
put() {
    mkdir -p "$work/root$(dirname "$2")"
    cp -L "$1" "$work/root$2"
    chmod 755 "$work/root$2"
}
for program; do
    [ -f "$program" ] || fail "$program, which belongs in $tag, does not exist: build it first"
    put "$program" "/usr/bin/$(basename "$program")"
    # Its libraries and the loader, at the paths that it was linked with. A static program has none, and ldd then fails.
    libraries=$(ldd "$program" 2>/dev/null) || continue
    case $libraries in *'not found'*) fail "$program needs a library that this machine lacks: $libraries" ;; esac
    for library in $(printf '%s\n' "$libraries" | sed -n 's/.*\(=> \|\t\)\(\/[^ ]*\) (0x.*/\2/p'); do
        put "$library" "$library"
    done
done
# No image says who user 65532 is otherwise, and some programs ask.
mkdir -p "$work/root/etc"
echo 'assay:x:65532:65532::/:/sbin/nologin' >"$work/root/etc/passwd"
echo 'assay:x:65532:' >"$work/root/etc/group"
chmod 644 "$work/root/etc/passwd" "$work/root/etc/group"
find "$work/root" -exec touch --no-dereference --date @0 {} +

arguments=
for argument in ${IMAGE_ARGS:-}; do arguments="$arguments --build-arg $argument"; done
cp "$containerfile" "$work/Containerfile"
rm -f "$archive"
case $builder in
buildah)
    # With a store of its own, which goes with the other files of the build.
    store="--root $work/store --runroot $work/run --storage-driver vfs"
    # shellcheck disable=SC2086 # words
    buildah $store bud --quiet --isolation chroot --timestamp 0 $arguments \
        --tag "$tag" --file "$work/Containerfile" "$work" >/dev/null
    # shellcheck disable=SC2086 # words
    buildah $store push --quiet "$tag" "docker-archive:$archive:$tag"
    ;;
docker)
    # shellcheck disable=SC2086 # words
    docker build --quiet --build-arg SOURCE_DATE_EPOCH=0 $arguments \
        --tag "$tag" --file "$work/Containerfile" "$work" >/dev/null
    docker save --output "$archive" "$tag"
    ;;
*) fail "IMAGE_BUILDER must be buildah or docker, not $builder" ;;
esac
chmod 644 "$archive"
echo "$tag in $archive"
