#!/usr/bin/env python3
"""Finds circles between the modules of a crate: a module that uses another one that, over however many others, uses it. And checks
that the picture of the house in CONTRIBUTING.md is true.

usage: modules.py CRATE_FOLDER...   exits with 1 where there is a circle
       modules.py --picture FILE    exits with 1 where the picture in a page does not show what is there
       modules.py --self-test       shows itself what is bad

A module is a folder or a file beside lib.rs or main.rs, with all that is below it. What counts is every path that begins with
crate, self or super, in a `use` or in the middle of the code; a name that the root of the crate passes on counts for the module
that it comes from. Parents and children may use each other, and tests may use everything.
"""

import re
import sys
import tempfile
import tomllib
from pathlib import Path

TOKEN = re.compile(
    r"""
      //[^\n]* | /\*.*?\*/                                  # comments
    | b?r(?P<hashes>\#*)".*?"(?P=hashes)                    # raw strings
    | b?"(?:\\.|[^"\\])*"                                   # strings
    | b?'(?:\\.[^']*|[^\\'])'                               # characters
    | '\w+                                                  # lifetimes
    | (?P<token>(?:r\#)?[A-Za-z_]\w* | :: | [{}()\[\],;*\#=!<>&|+\-/.?:@$%^~] | \d\w*)
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(text):
    return [found["token"] for found in TOKEN.finditer(text) if found["token"]]


def matching(tokens, start):
    """The place of the bracket that closes the one at `start`."""
    pairs = {"{": "}", "(": ")", "[": "]"}
    opening, closing, depth = tokens[start], pairs[tokens[start]], 0
    for place in range(start, len(tokens)):
        depth += (tokens[place] == opening) - (tokens[place] == closing)
        if depth == 0:
            return place
    raise SyntaxError(f"a {opening} is never closed")


def is_for_tests(attribute):
    """Whether `cfg(test)`, or an `all(...)` of it, is what the attribute says."""
    return attribute[0] == "cfg" and "test" in attribute and "not" not in attribute and "any" not in attribute


def skip_item(tokens, place):
    """The place behind the item that begins here."""
    while place < len(tokens):
        if tokens[place] in "([":
            place = matching(tokens, place)
        elif tokens[place] == "{":
            # A `use` goes on behind its braces; a function ends there.
            end = matching(tokens, place) + 1
            return end + 1 if tokens[end : end + 1] == [";"] else end
        elif tokens[place] == ";":
            return place + 1
        place += 1
    return place


def use_tree(tokens, place, prefix):
    """All paths of a use tree, each with the name that it gets, and the place behind it."""
    path = list(prefix)
    while True:
        token = tokens[place]
        if token == "{":
            end, found, place = matching(tokens, place), [], place + 1
            while place < end:
                more, place = use_tree(tokens, place, path)
                found += more
                if tokens[place] == ",":
                    place += 1
            return found, end + 1
        path.append(token)
        place += 1
        if tokens[place] == "::":
            place += 1
            continue
        name = path[-1] if path[-1] != "self" else path[-2]
        if tokens[place] == "as":
            name, place = tokens[place + 1], place + 2
        return [(path if path[-1] != "self" or len(path) == 1 else path[:-1], name)], place


class Crate:
    """The modules of a crate, and which paths each of them uses."""

    def __init__(self, root):
        self.paths = {}
        self.passed_on = {}
        self.read(root, ())

    def read(self, file, module):
        folder = file.parent if file.name in ("mod.rs", "lib.rs", "main.rs") else file.parent / file.stem
        self.walk(tokens(file.read_text()), module, folder)

    def walk(self, tokens, module, folder):
        self.paths.setdefault(module, [])
        place, skip = 0, False
        while place < len(tokens):
            token = tokens[place]
            if token == "#" and tokens[place + 1] in "[!":
                start = place + 1 + (tokens[place + 1] == "!")
                end = matching(tokens, start)
                skip = skip or (start == place + 1 and is_for_tests(tokens[start + 1 : end]))
                place = end + 1
                continue
            if skip:
                place, skip = skip_item(tokens, place), False
                continue
            if token == "mod" and place + 2 < len(tokens) and tokens[place + 2] in "{;":
                name = tokens[place + 1]
                if tokens[place + 2] == "{":
                    end = matching(tokens, place + 2)
                    self.walk(tokens[place + 3 : end], (*module, name), folder / name)
                    place = end + 1
                    continue
                files = [folder / f"{name}.rs", folder / name / "mod.rs"]
                there = [file for file in files if file.exists()]
                if not there:
                    raise FileNotFoundError(f"module {name}: neither {files[0]} nor {files[1]} is there")
                self.read(there[0], (*module, name))
                place += 3
                continue
            if token == "use":
                found, end = use_tree(tokens, place + 1, ())
                for path, name in found:
                    self.note(path, module)
                    if module == ():
                        self.passed_on[name] = path
                place = end
                continue
            if token in ("crate", "super", "self") and tokens[place + 1 : place + 2] == ["::"]:
                path = [token]
                while tokens[place + 1 : place + 2] == ["::"] and re.match(r"\w", tokens[place + 2]):
                    path.append(tokens[place + 2])
                    place += 2
                self.note(path, module)
            place += 1

    def note(self, path, module):
        """Writes a path down as seen from the root of the crate."""
        if path[0] == "crate":
            base, rest = (), path[1:]
        elif path[0] in ("self", "super"):
            base, rest = module, path[path[0] == "self" :]
            while rest and rest[0] == "super":
                base, rest = base[:-1], rest[1:]
        else:
            # A child by its name alone, or another crate.
            base, rest = module, path
            if (*module, path[0]) not in self.paths and module != ():
                return
        self.paths[module].append((*base, *rest))

    def edges(self):
        """Which top-level module uses which, with an example of it."""
        tops = {module[0] for module in self.paths if module}
        edges = {}
        for module, paths in self.paths.items():
            for path in paths:
                target = self.top(path, tops)
                if module and target and target != module[0]:
                    edges.setdefault((module[0], target), ("::".join(module), "::".join(path)))
        return edges

    def top(self, path, tops, depth=8):
        """The top-level module of a path; what the root passes on is followed to where it comes from."""
        if not path or depth == 0:
            return None
        if path[0] in tops:
            return path[0]
        passed_on = self.passed_on.get(path[0])
        if passed_on and passed_on[0] in ("crate", "self"):
            passed_on = passed_on[1:]
        return self.top(passed_on, tops, depth - 1) if passed_on and list(passed_on) != list(path) else None


def circles(edges):
    """The sets of modules that reach each other (Tarjan's strongly connected components)."""
    graph = {}
    for a, b in edges:
        graph.setdefault(a, set()).add(b)
        graph.setdefault(b, set())
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            members = []
            while True:
                members.append(stack.pop())
                if members[-1] == node:
                    break
            if len(members) > 1:
                found.append(sorted(members))

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


def missing(folder, text):
    """What a picture of a crate says wrong, a line each. It has the crate's modules, each of which uses only those behind a later `>`."""
    floors = [floor.split() for floor in text.split(">")]
    place = {module: number for number, floor in enumerate(floors) for module in floor}
    crate = Crate(root_of(folder))
    there = {module[0] for module in crate.paths if module}
    lines = [f"{folder} has a module {module}" for module in sorted(there - set(place))]
    lines += [f"{folder} has no module {module}" for module in sorted(set(place) - there)]
    for (a, b), (where, what) in sorted(crate.edges().items()):
        if place.get(a, -1) >= place.get(b, len(floors)):
            lines.append(f"in {folder} {a} uses {b}: {where} names {what}")
    return lines


def uses(folder):
    """The crates of the workspace that a crate depends on, but for its tests."""
    manifest = tomllib.loads((folder / "Cargo.toml").read_text())
    return {name.removeprefix("assay-") for name in manifest.get("dependencies", {}) if name.startswith("assay-")}


def check_picture(page, root=Path()):
    """What is not true in the picture of a page, a line each: crates as `FOLDER -> CRATE...`, their modules indented below."""
    block = re.search(r"## The house\n.*?```text\n(.*?)```", page.read_text(), re.DOTALL)
    if not block:
        return [f"borders: {page} has no picture of the house"]
    crates, lines = {}, []
    for line in block[1].splitlines():
        if line.startswith(" "):
            crates[name] += line
        elif "->" in line:
            # What a crate is for stands behind two spaces.
            name, used = re.match(r"(.*)-> (.*?)(?:  .*)?$", line).groups()
            name = root / name.strip()
            crates[name] = ""
            if set(used.split()) - {"nothing"} != uses(name):
                lines.append(f"{name} depends on {' '.join(sorted(uses(name))) or 'nothing'}")
    there = {manifest.parent for manifest in root.glob("*/*/Cargo.toml")}
    lines += [f"{folder} is a crate" for folder in sorted(there - set(crates))]
    for folder, modules in crates.items():
        lines += missing(folder, modules)
    return [f"borders: the picture in {page} is not true: {line}" for line in lines]


def root_of(folder):
    for name in ("lib.rs", "main.rs"):
        if (folder / "src" / name).exists():
            return folder / "src" / name
    raise FileNotFoundError(f"{folder} has no src/lib.rs and no src/main.rs")


def check(folder):
    """What is wrong with the crate in a folder, a line each."""
    edges = Crate(root_of(folder)).edges()
    lines = []
    for members in circles(edges):
        lines.append(f"borders: modules of {folder} use each other in a circle: {', '.join(members)}")
        for (a, b), (where, what) in sorted(edges.items()):
            if a in members and b in members:
                lines.append(f"borders:   {a} uses {b}: {where} names {what}")
    return lines


def self_test():
    def lines(files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                file = Path(folder) / "src" / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            return check(Path(folder))

    lib = "mod a; mod b; pub mod c { pub struct C; }"
    good = {
        "lib.rs": lib + " pub use a::A;",
        "a/mod.rs": "//! uses crate::b\nmod d; /* crate::b */ pub struct A; const S: &str = \"crate::b::B\"; use std::b;",
        "a/d.rs": "use super::A; use crate::c::C;\n#[cfg(test)] mod tests { use crate::b::B; }\n#[cfg(test)]\nuse crate::b;",
        "b.rs": "use crate::{a::A, c}; pub struct B;",
    }
    assert lines(good) == [], lines(good)
    for bad in (
        "use crate::b::B;",
        "use super::super::{c::C, b::{self, B as D}};",
        "fn f() { crate::b::g::<u8>() }",
        "pub(in crate::b) fn f() {}",
        "#[cfg(not(test))] use crate::b;",
        "fn f<'a>(c: char, x: &'a str) { c == '\"'; super::super::b::f(x) }",
    ):
        found = lines({**good, "a/d.rs": bad})
        assert len(found) == 3 and "a, b" in found[0] and "a uses b: a::d names" in found[1], (bad, found)
    passed_on = {**good, "lib.rs": lib + " pub use self::b::B as Bee;", "a/d.rs": "use crate::Bee;"}
    assert len(lines(passed_on)) == 3, "what the root passes on is followed"
    longer = {**good, "lib.rs": "mod a; mod b; mod c;", "a/d.rs": "", "b.rs": "use crate::a;", "c.rs": "use crate::b;"}
    assert lines(longer) == []
    assert "a, b, c" in lines({**longer, "a/d.rs": "use crate::c;"})[0]
    self_test_picture(good)


def self_test_picture(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            file = Path(folder) / "x/y/src" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (Path(folder) / "x/y/Cargo.toml").write_text("[dependencies]\nassay-z.workspace = true\nserde = '1'\n")
        page = Path(folder) / "page.md"

        def lines(picture):
            page.write_text(f"## The house\n\n```text\n{picture}\n```\n")
            return check_picture(page, Path(folder))

        assert lines("x/y -> z   what y is\n    b > a > c") == []
        for bad in ("", "x/y -> nothing\n b > a > c", "x/y -> z\n b a > c", "x/y -> z\n a > b > c", "x/y -> z\n b > a",
                    "x/y -> z\n b > a > c > d"):
            assert len(lines(bad)) == 1, (bad, lines(bad))


if sys.argv[1:] == ["--self-test"]:
    self_test()
elif sys.argv[1:]:
    if sys.argv[1] == "--picture":
        wrong = check_picture(Path(sys.argv[2]))
    else:
        wrong = [line for folder in sys.argv[1:] for line in check(Path(folder))]
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    sys.exit(1 if wrong else 0)
else:
    sys.exit("usage: modules.py CRATE_FOLDER... | --picture FILE | --self-test")
