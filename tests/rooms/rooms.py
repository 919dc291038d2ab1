#!/usr/bin/env python3
"""Compares the rooms under src/ with the table of rooms in docs/architecture.md.

The table draws the arrows: which rooms a room uses, and which of its headers others may include. This test reads
every #include under src/ and every list of linked rooms in CMake, and fails on

  - an include of a room that the table does not let this room use;
  - an include of another room's private header;
  - a link list in CMake that is not what the table says;
  - a row that uses a room further down: dependencies point one way;
  - an arrow that no include needs, a header that does not exist, a room without a row.

usage: rooms.py ROOT
"""

import pathlib
import re
import sys

ALL = "all"  # every header of the room is public


def rooms_drawn(page):
    """The rows of the table: {room: (uses, public headers)}, in their order."""
    rows = {}
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 4 and re.fullmatch(r"`\w+`", cells[0].strip("| ")):
            room = cells[0].strip("`| ")
            public = ALL if cells[2] == ALL else set(re.findall(r"`([^`]+)`", cells[2]))
            rows[room] = (set(re.findall(r"`(\w+)`", cells[1])), public)
    return rows


def includes(folder):
    """(file, line number, included path) of every quoted include under a folder."""
    for file in sorted(folder.rglob("*")):
        if file.suffix not in (".h", ".cpp", ".def", ".inc"):
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if found := re.match(r'\s*#\s*include\s+"([^"]+)"', line):
                yield file, number, found[1]


def rooms_linked(root, rooms):
    """What CMake links: {room: rooms}."""
    linked = {}
    text = re.sub(r"#.*", "", (root / "CMakeLists.txt").read_text())
    for room, uses in re.findall(r"assay_room\((\w+)(?:\s+USES\s+([^)]*))?\)", text):
        linked[room] = set(uses.split())
    # Rooms that are programs or shared libraries list what they link themselves.
    for room in rooms:
        cmake = root / "src" / room / "CMakeLists.txt"
        if room in linked or not cmake.exists():
            continue
        text = re.sub(r"#.*", "", cmake.read_text())
        lists = re.findall(r"target_link_libraries\(([^)]*)\)", text)
        linked[room] = {name for words in lists for name in re.findall(r"\bassay_(\w+)", words)} - {room}
    return linked


def wrong_includes(root, rooms):
    used = {room: set() for room in rooms}
    for room, (uses, _) in rooms.items():
        for file, number, path in includes(root / "src" / room):
            other, _, header = path.partition("/")
            if other == room or other not in rooms:
                continue
            used[room].add(other)
            place = f"{file.relative_to(root)}:{number}"
            public = rooms[other][1]
            if other not in uses:
                yield f"{place}: {room} does not use {other}, so it may not include {path}"
            elif public != ALL and header not in public:
                yield f"{place}: {path} is private to {other}"
    for room, (uses, _) in rooms.items():
        for other in sorted(uses - used[room]):
            yield f"docs/architecture.md: {room} uses {other}, but includes nothing of it"


def wrong_rows(root, rooms):
    folders = {folder.name for folder in (root / "src").iterdir() if folder.is_dir()}
    for room in sorted(folders - rooms.keys()):
        yield f"docs/architecture.md: the room {room} has no row"
    seen = set()
    for room, (uses, public) in rooms.items():
        seen.add(room)
        if room not in folders:
            yield f"docs/architecture.md: there is no room {room}"
        for other in sorted(uses - seen):
            yield f"docs/architecture.md: {room} uses {other}, which stands below it"
        for header in sorted(public if public != ALL else ()):
            if not (root / "src" / room / header).exists():
                yield f"docs/architecture.md: there is no src/{room}/{header}"


def wrong_links(root, rooms):
    linked = rooms_linked(root, rooms)
    for room, (uses, _) in rooms.items():
        for other in sorted(linked.get(room, set()) - uses):
            yield f"CMake links {other} to {room}; docs/architecture.md draws no such arrow"
        for other in sorted(uses - linked.get(room, set())):
            yield f"docs/architecture.md: {room} uses {other}; CMake does not link it"


def main():
    root = pathlib.Path(sys.argv[1])
    rooms = rooms_drawn(root / "docs" / "architecture.md")
    if not rooms:
        sys.exit("docs/architecture.md: no table of rooms")
    wrong = [*wrong_rows(root, rooms), *wrong_includes(root, rooms), *wrong_links(root, rooms)]
    for line in wrong:
        print(line)
    print(f"{len(rooms)} rooms, {sum(len(uses) for uses, _ in rooms.values())} arrows")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
