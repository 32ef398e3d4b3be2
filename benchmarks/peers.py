"""Peers, each in an environment of its own under benchmarks/envs, made from the pinned list peers/NAME.txt."""

import subprocess
import sys
import venv
from pathlib import Path

from regard.errors import UserError

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / "envs"
NAMES = {  # what a peer's package is called, and what it is imported as
    "opennmt": ("OpenNMT-py", "onmt"),
    "joeynmt": ("joeynmt", "joeynmt"),
    "transformers": ("transformers", "transformers"),
    "libretranslate": ("libretranslate", "libretranslate"),
}


def python(name: str) -> Path:
    """The interpreter of a peer's environment, which is made the first time it is asked for."""
    folder, listed = ENVIRONMENTS / name, HERE / "peers" / f"{name}.txt"
    ready, interpreter = folder / "installed.txt", folder / "bin" / "python"
    if not ready.exists() or ready.read_text() != listed.read_text():
        print(f"installing {name} in {folder.relative_to(HERE.parent)}", file=sys.stderr)
        pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        try:
            venv.create(folder, with_pip=True, clear=True, symlinks=True)
            subprocess.run([*pip, "--no-deps", "-r", str(listed)], check=True)
            if torch := pinned(name).get("torch"):  # a build for CUDA needs packages that the list does not have
                subprocess.run([*pip, "-c", str(listed), f"torch=={torch}"], check=True)
            subprocess.run([str(interpreter), "-W", "ignore", "-c", f"import {NAMES[name][1]}"], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            hint = "" if sys.version_info[:2] == (3, 11) else " (its versions are pinned for Python 3.11)"
            raise UserError(f"{name} could not be installed{hint}: {error}") from None
        ready.write_text(listed.read_text())
    return interpreter


def pinned(name: str) -> dict[str, str]:
    """The versions of all packages in a peer's environment."""
    lines = (HERE / "peers" / f"{name}.txt").read_text().splitlines()
    return {package: version for package, _, version in (line.partition("==") for line in lines) if version}


def versions(*names: str) -> dict[str, str]:
    """The versions of peers, for a results file."""
    packages = {name: NAMES[name][0] for name in names}
    return {package: pinned(name)[package] for name, package in packages.items()}
