#!/usr/bin/env python3
"""Checks that sbom.py refuses an image with a file that none of ours should have."""

import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile


def tar(files):
    """An archive of these files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


script = pathlib.Path(__file__).with_name("sbom.py")
for strange in ("usr/bin/sh", "root/.netrc", "usr/share/doc/assay"):
    image = {
        "manifest.json": json.dumps([{"Config": "config", "Layers": ["layer"]}]).encode(),
        "config": json.dumps({"config": {}}).encode(),
        "layer": tar({"usr/bin/assay-bench": b"", "etc/passwd": b"", strange: b""}),
    }
    with tempfile.NamedTemporaryFile() as archive:
        archive.write(tar(image))
        archive.flush()
        ran = subprocess.run([sys.executable, script, archive.name], capture_output=True, text=True)
    expected = f"sbom: {archive.name} has files that it should not have: {strange}\n"
    if ran.returncode == 0 or ran.stderr != expected:
        sys.exit(f"sbom-test: {strange} passed, or for another reason: {ran.returncode} {ran.stderr}")
