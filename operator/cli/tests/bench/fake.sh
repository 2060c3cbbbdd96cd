#!/bin/sh
# Stands in for assay-bench where a test needs a certain answer: RocksDB's own are tested with the real bench.
# ASKED_WITH has the arguments that it shall be given.
[ "$*" = "$ASKED_WITH" ] || { echo "unexpected arguments: $*" >&2; exit 2; }
question=$(cat)
case $question in
*write_bufer_size*)
    echo '{"problems": [{"config": "small", "scope": "state", "option": "write_bufer_size", "message": "RocksDB has no such option",
        "suggestion": "write_buffer_size"}], "inert": [], "sanitised": [], "allInert": []}' ;;
*max_write_buffer_numbr*)
    echo '{"problems": [{"config": "large", "scope": "db", "option": "max_write_buffer_numbr", "message": "RocksDB has no such option",
        "suggestion": null}, {"config": "small", "scope": "db", "option": "max_write_buffer_numbr",
        "message": "RocksDB has no such option", "suggestion": null}], "inert": [], "sanitised": [], "allInert": []}' ;;
*level0_triger*)
    echo '{"problems": [{"config": "memtable-2-2m-jobs-1", "scope": "state", "option": "level0_triger", "message": "RocksDB has no such option",
        "suggestion": null}, {"config": "memtable-2-2m-jobs-tmp", "scope": "state", "option": "level0_triger",
        "message": "RocksDB has no such option", "suggestion": null}], "inert": [], "sanitised": [], "allInert": []}' ;;
*max_log_file_size*)
    echo '{"problems": [], "inert": [{"config": "small", "scope": "db", "option": "max_log_file_size", "message": "is 0 already"}],
        "sanitised": [], "allInert": ["small"]}' ;;
*crash*) echo "bench: out of memory" >&2; exit 1 ;;
*gibberish*) echo "Segmentation fault" ;;
*) echo '{"problems": [], "inert": [], "sanitised": [], "allInert": []}' ;;
esac
