"""Programs that stand in for solvers: well-behaved ones and others."""

from __future__ import annotations

import sys
from pathlib import Path

import ibia
from ibia.formats import write_marginals, write_partition

__all__ = ["answering", "companion", "daemon", "runs", "script"]

# What the scripts below can do instead of answering.
MISCHIEF = {
    "silent": "import sys; sys.exit(3)",
    "broken": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "endless": "import time; time.sleep(1000)",
    "nonsense": "open('model.uai.MAR', 'w').write('MAR\\n1 2 0.5 0.5\\n')",
    "negative": "open('model.uai.MAR', 'w').write('MAR\\n5 2 -1 2 2 0.5 0.5 3 1 0 0 2 0.5 0.5 2 0.5 0.5\\n')",
    "greedy": "import time; hoard = bytearray(10**9); hoard[::4096] = b'x' * len(hoard[::4096]); time.sleep(1000)",
}


def script(folder: Path, name: str, text: str | None = None) -> Path:
    """Write a program, one of `MISCHIEF` or any other, and return its path."""
    path = folder / name
    path.write_text(f"#!{sys.executable} -S\n{MISCHIEF[name] if text is None else text}\n")
    path.chmod(0o755)
    return path


def daemon(mark: Path) -> str:
    """Return the lines of a program that start another one, which leaves its group and its parent.

    Parameters
    ----------
    mark
        The file that has the number of the other process when this one goes on.
    """
    return f"""import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open({str(mark)!r} + ".part", "w") as stream:
            stream.write(str(os.getpid()))
        os.rename({str(mark)!r} + ".part", {str(mark)!r})
        time.sleep(1000)
    os._exit(0)
os.wait()
while not os.path.exists({str(mark)!r}):
    time.sleep(0.01)
"""


def companion(mark: Path) -> str:
    """Return the lines of a program that start another one in its group, which heeds no signal that can be ignored.

    Parameters
    ----------
    mark
        The file that has the number of the other process when this one goes on.
    """
    return f"""import os, signal, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
other = os.fork()
if other == 0:
    time.sleep(1000)
with open({str(mark)!r}, "w") as stream:
    stream.write(str(other))
"""


def runs(number: int) -> bool:
    """Tell whether a process has not ended."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def answering(
    folder: Path, name: str, model: ibia.Model, evidence: dict[int, int], *, seconds: float = 0.0, before: str = ""
) -> Path:
    """Write a program that answers one model exactly, whatever it is asked, after some time and some other lines."""
    result = ibia.infer(model, evidence, bound=20)
    write_marginals(folder / f"{name}.MAR", result.marginals)
    write_partition(folder / f"{name}.PR", result.log10_z)
    text = f"{before}\nimport shutil, sys, time\ntime.sleep({seconds})\ntask = sys.argv[4]\n"
    text += f"shutil.copy(f'{folder}/{name}.{{task}}', f'{{sys.argv[1]}}.{{task}}')\n"
    return script(folder, name, text)
