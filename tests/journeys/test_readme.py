"""Every command and every line of Python in the README works as printed (with a smaller model and fewer steps)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import make_pairs, small_recipe, write_tsv

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SMALLER = {"--pairs 20000": "--pairs 300 --small 20", "steps=300": "steps=4", "validate_every=100": "validate_every=4"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model where the demo would have put its own."""
    from regard.api import train

    folder = tmp_path_factory.mktemp("reader")
    pairs = make_pairs()
    train(small_recipe(steps=4), pairs=pairs[:200], dev=pairs[200:], out=folder / "runs/demo", quiet=True)
    (folder / "runs/demo/data").mkdir()
    write_tsv(folder / "runs/demo/data/compositional.tsv", pairs[:5])
    return folder


def environment() -> dict[str, str]:
    return os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }


def test_the_commands_of_the_readme_work(place: Path) -> None:
    commands = [line.split("  #")[0] for block in blocks("sh") for line in block.splitlines()]
    commands = [line for line in commands if line and not line.startswith("make ")]
    assert len(commands) >= 9
    for command in commands:
        for printed, smaller in SMALLER.items():
            command = command.replace(printed, smaller)
        if command.startswith("regard serve"):
            assert serves(place, command.replace("--port 5000", "--port 0"))
            continue
        if "--against" in command:  # the demo's model has a test set of its own; the small one does not
            command = command.replace("runs/demo --", "runs/demo runs/demo/data/compositional.tsv --")
        done = subprocess.run(
            command, shell=True, cwd=place, env=environment(), capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
    assert (place / "runs/mine/model/model.safetensors").exists()
    assert "<html" in (place / "attention.html").read_text(encoding="utf-8")


def serves(place: Path, command: str) -> bool:
    """Whether it says that it is ready, and ends in peace when it is told to."""
    with subprocess.Popen(
        command.split(), cwd=place, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        ready = server.stdout.readline().startswith("Regard is ready at http://127.0.0.1:")
        server.terminate()
        return server.wait(30) == 0 and ready


def test_the_python_of_the_readme_works(place: Path) -> None:
    (code,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=place,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Translation(text=" in done.stdout


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("sh")), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
