#!/bin/sh
# Runs a command, and behind it, at the lowest priority, another one that does ahead of time what the first will need: it gets the CPU
# time that the first leaves while it waits, and is ended with it, however that ends.
#
# What the other one says is thrown away: what it could not do the first does again, and then says why it can't either.
#
# usage: behind.sh 'OTHER COMMAND' COMMAND...
set -eu
# In a process group of its own, which no signal for the first reaches, and which can be ended as a whole.
# shellcheck disable=SC2016 # expanded there
setsid sh -c '
    # Many kernels share the CPUs between sessions first, and heed niceness within each only.
    { echo 19 >/proc/$$/autogroup; } 2>/dev/null || :
    nice -n 19 sh -c "$1" &
    while kill -0 $! && kill -0 "$2"; do sleep 1; done
    kill -s TERM 0
' sh "$1" $$ </dev/null >/dev/null 2>&1 &
shift
exec "$@"
