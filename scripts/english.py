#!/usr/bin/env python3
"""Finds phrases of scripts/phrases.txt in what users read: README, docs, the chart's page, help texts and messages; and pages that are too long."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", "docs/*.md", "charts/assay/README.md", "charts/assay/values.yaml", "charts/assay/templates/NOTES.txt", "examples/**/*.yaml"]
# Doc comments there are help texts, or descriptions of fields.
HELP = ["operator/cli/src/command/**/*.rs", "operator/controller/src/args.rs", "operator/agent/src/args.rs", "operator/api/src/**/*.rs"]
MESSAGES = ["operator/*/src/**/*.rs", "bench-image/*/src/**/*.rs"]
# Words of a page outside of code and tables. What is looked up and not read may be longer.
LONGEST = 1500
LOOKED_UP = ["reference.md", "statistics.md"]
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)


def phrases():
    for line in (ROOT / "scripts/phrases.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, advice = line.split("\t")
            yield re.compile(rf"\b(?:{pattern})\b", re.I), advice


def prose(text):
    """Lines of a page outside of code blocks, with their numbers."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def messages(text):
    """Strings of a Rust file outside of its tests, with the numbers of their lines."""
    code = text.split("#[cfg(test)]\nmod tests {")[0]
    # A quotation mark alone would turn the rest of the file inside out.
    code = code.replace("'\"'", "' '").replace("'\\\"'", "'  '")
    # Comments stay as many lines, but may hold apostrophes and quotation marks.
    code = re.sub(r"^\s*//[^\n]*", "", code, flags=re.M)
    for found in STRING.finditer(code):
        number = code.count("\n", 0, found.start()) + 1
        yield number, re.sub(r"\\\n\s*", "", found.group(1))


def help_texts(text):
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("///"):
            yield number, line


def files(patterns):
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.name != "tests.rs" and "/tests/" not in str(path)})


def found(known):
    for patterns, read in ((PAGES, prose), (HELP, help_texts), (MESSAGES, messages)):
        for path in files(patterns):
            for number, text in read(path.read_text()):
                for pattern, advice in known:
                    hit = pattern.search(text)
                    if hit:
                        yield f"{path.relative_to(ROOT)}:{number}: {hit.group(0)!r}: {advice}"


def words(text):
    return sum(len(line.split()) for _, line in prose(text) if not line.startswith("|"))


def too_long():
    for path in files(["README.md", "docs/*.md"]):
        count = words(path.read_text())
        if path.name not in LOOKED_UP and count > LONGEST:
            yield f"{path.relative_to(ROOT)}: {count} words: at most {LONGEST}; shorten it, or move a part to another page"


def main():
    known = list(phrases())
    if not hits_as_planted(known):
        sys.exit("english: the check itself is broken")
    bad = [*found(known), *too_long()]
    print("\n".join(bad), end="\n" if bad else "", file=sys.stderr)
    sys.exit(1 if bad else 0)


def hits_as_planted(known):
    """A check that can't fail checks nothing."""

    def hits(texts):
        return [number for number, text in texts if any(pattern.search(text) for pattern, _ in known)]

    page = "It goes on.\n```\ngoes on\n```\n"
    code = 'say("to \\\n    mend it");\n#[cfg(test)]\nmod tests {\n"mend"'
    counted = words("one two\n```\nthree\n```\n| four |\n") == 2
    return counted and hits(prose(page)) == [1] and hits(messages(code)) == [1] and hits(help_texts("/// Shall end\n// shall")) == [1]


main()
