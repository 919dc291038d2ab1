"""Runs nvcc's own steps, those for the device beside those for the host.

nvcc works one after the other through two compilers that wait for each other only at the end: cudafe++ separates the
host's code, cicc makes PTX of the device's. `nvcc --dryrun` lists the commands; run side by side on two cores they take
about two thirds of the time and make the same object.

The two share one file: a name for the module, which cudafe++ invents and cicc reads. It is written here first instead.
Where the list is not of the known form, nvcc runs as it is.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

_MARK = "#$ "
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)")
_INVENTS_NAME = " --gen_module_id_file"
_NAME_FILE = re.compile(r'--module_id_file_name "([^"]+)"')


class Steps(NamedTuple):
    variables: Dict[str, str]
    host: List[str]  # up to the host's code as C++
    device: List[str]  # up to PTX, packed
    last: str  # the object, of both
    name_file: str


def parse(listing: str) -> Optional[Steps]:
    """The steps of `nvcc --dryrun`; None where they are not one host and one device compilation."""
    variables: Dict[str, str] = {}
    commands: List[str] = []
    for line in listing.splitlines():
        if not line.startswith(_MARK):
            continue
        text = line[len(_MARK) :]
        variable = _VARIABLE.fullmatch(text)
        if variable:
            variables[variable.group(1)] = variable.group(2).strip()
        else:
            commands.append(text)
    naming = [number for number, command in enumerate(commands) if _INVENTS_NAME in command]
    if len(naming) != 1 or naming[0] != 1:
        return None
    host, device, last = commands[:2], commands[2:-1], commands[-1]
    name_file = _NAME_FILE.search(host[1])
    known = (
        host[1].startswith("cudafe++ ")
        and sum("cicc" in command.split(" ")[0] for command in device) == 1
        and name_file is not None
        and re.search(r" -c\b", last) is not None
    )
    if not known:
        return None
    host[1] = host[1].replace(_INVENTS_NAME, "")
    return Steps(variables, host, device, last, name_file.group(1))


def compile(command: Sequence[str], source: str, folder: str, environment: Dict[str, str]) -> Tuple[int, str]:
    """Runs a command of nvcc that compiles `source`; its status and what was written. `folder`: for temporary files."""
    scratch = tempfile.mkdtemp(dir=folder)
    try:
        listed = _run([*command, "--dryrun", "--keep", "--keep-dir", scratch], environment)
        steps = parse(listed[1]) if listed[0] == 0 else None
        if steps is None:
            return _run(command, environment)
        with open(steps.name_file, "w", encoding="ascii") as file:
            file.write(_module_name(source))
        variables = {**environment, **steps.variables}
        with ThreadPoolExecutor(max_workers=2) as pool:
            host, device = pool.map(lambda chain: _chain(chain, variables), (steps.host, steps.device))
        # An error in the source is one for both; nvcc would not have come to the second.
        if host[0] != 0:
            return host
        if device[0] != 0:
            return device[0], host[1] + device[1]
        status, output = _shell(steps.last, variables)
        return status, host[1] + device[1] + output
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _module_name(source: str) -> str:
    """A name for a module in the form of cudafe++'s, the same for the same file."""
    digest = hashlib.sha256(os.path.abspath(source).encode("utf-8", "surrogateescape")).hexdigest()
    name = re.sub(r"\W", "_", os.path.basename(source), flags=re.ASCII)
    return f"_{digest[:8]}_{len(name)}_{name}_{digest[8:16]}"


def _chain(commands: Sequence[str], environment: Dict[str, str]) -> Tuple[int, str]:
    output = ""
    for command in commands:
        status, text = _shell(command, environment)
        output += text
        if status != 0:
            return status, output
    return 0, output


def _shell(command: str, environment: Dict[str, str]) -> Tuple[int, str]:
    return _run(["/bin/sh", "-c", command], environment)


def _run(command: Sequence[str], environment: Dict[str, str]) -> Tuple[int, str]:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
    )
    return done.returncode, done.stdout
