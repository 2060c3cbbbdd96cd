# shellcheck shell=sh disable=SC2034 # sourced by other scripts
# Where what is built once per machine is kept, and how it comes there. Sourced with the project's folder as the working folder.
cache=${ASSAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/assay}
case $cache in /*) ;; *) cache=$PWD/$cache ;; esac

# once FILE COMMAND...: unless FILE is there, runs the command, which has to put it there whole.
once() {
    if [ -e "$1" ]; then return; fi
    file=$1
    shift
    mkdir -p "${file%/*}"
    # One builder at a time: a second one waits here and then finds the file.
    exec 9>"${file%/*}/lock"
    flock --nonblock 9 || {
        echo "waiting for another process to build $file" >&2
        flock 9
    }
    if [ ! -e "$file" ]; then "$@"; fi
    exec 9>&-
}

# The Go that scripts/setup.sh fetched, or the machine's own.
find_go() {
    # The compiler is a Go program that ends soon; to collect its garbage rarely takes a sixth off its time.
    export GOGC="${GOGC:-400}"
    # The same for all, or they can't share what they have in common. Nobody debugs them, and the linker would drop the notes for that.
    export GOFLAGS="-trimpath -gcflags=all=-dwarf=false"
    go=$cache/go/bin/go
    if [ ! -x "$go" ]; then
        go=$(command -v go) || {
            echo "Go not found: run scripts/setup.sh chart" >&2
            exit 1
        }
    fi
}
