#!/usr/bin/env python3
"""Writes what is in an image, as a CycloneDX document: its crates, its shared libraries with the Debian packages they come from, and
the RocksDB that is compiled in.

usage: sbom.py ARCHIVE PACKAGE...    prints it; ARCHIVE is a docker archive, PACKAGE a crate whose program is in it

Fails where the image has a file that it should not have: nothing but programs, their libraries, and who user 65532 is.
"""

import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile

ALLOWED = re.compile(r"^(usr/bin/assay[a-z-]*|etc/(passwd|group)|(usr/)?lib(64)?/([a-z0-9_-]+/)?[^/]+\.so[.0-9]*)$")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def files(archive):
    """The files of an image, with their contents."""
    with tarfile.open(archive) as outer:
        manifest = json.load(outer.extractfile("manifest.json"))[0]
        config = json.load(outer.extractfile(manifest["Config"]))
        found = {}
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(outer.extractfile(layer).read())) as inner:
                for member in inner.getmembers():
                    if not member.isdir():
                        path = member.name.removeprefix("./")
                        found[path] = inner.extractfile(member).read() if member.isfile() else b""
    return config["config"].get("Labels") or {}, found


def crates(packages):
    """Every crate that is compiled into the programs of these packages."""
    tree = output("cargo", "tree", "--locked", "--edges", "normal", "--prefix", "none", "--no-dedupe", "--format", "{p}|{l}",
                  *[word for package in packages for word in ("--package", package)])
    found = {}
    for line in tree.splitlines():
        crate, _, licence = line.partition("|")
        parts = crate.split()
        if len(parts) >= 2:
            found[parts[0], parts[1].removeprefix("v")] = licence
    for (name, version), licence in sorted(found.items()):
        component = {"type": "library", "name": name, "version": version, "purl": f"pkg:cargo/{name}@{version}"}
        if licence:
            component["licenses"] = [{"expression": licence.replace("/", " OR ")}]
        yield component


def libraries(paths):
    """Shared libraries, with the Debian packages that they come from."""
    for path in paths:
        component = {"type": "file", "name": f"/{path}"}
        # The same file has two names where /lib is a link to /usr/lib.
        for name in (f"/{path}", f"/usr/{path}"):
            owner = subprocess.run(["dpkg-query", "--search", name], capture_output=True, text=True)
            if owner.returncode == 0:
                package = owner.stdout.split(":")[0]
                version = output("dpkg-query", "--show", "--showformat", "${Version}", package)
                component |= {"type": "library", "version": version, "purl": f"pkg:deb/debian/{package}@{version}"}
                break
        yield component


def main():
    archive, *packages = sys.argv[1:]
    labels, found = files(archive)
    strange = sorted(path for path in found if not ALLOWED.match(path))
    if strange:
        sys.exit(f"sbom: {archive} has files that it should not have: {', '.join(strange)}")
    components = list(crates(packages))
    shared = sorted(path for path in found if ".so" in path)
    components += libraries(shared)
    if any(name == "librocksdb-sys" for name in (component["name"] for component in components)):
        version = labels["rocks.assay.rocksdb-version"]
        components.append({"type": "library", "name": "rocksdb", "version": version, "purl": f"pkg:github/facebook/rocksdb@v{version}"})
    for path in sorted(found):
        if path.startswith("usr/bin/"):
            digest = hashlib.sha256(found[path]).hexdigest()
            components.append({"type": "application", "name": f"/{path}", "hashes": [{"alg": "SHA-256", "content": digest}]})
    title, version = labels["org.opencontainers.image.title"], labels["org.opencontainers.image.version"]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": title, "version": version}},
        "components": components,
    }
    print(json.dumps(document, indent=2))


main()
