"""Known public data sets by name: used in place from $REGARD_DATA, or downloaded once and checked."""

import difflib
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.download import Progress, Unpack, anki, download, gzipped, plain
from regard.errors import UserError
from regard.files import cache_folder, checksum

VARIABLE = "REGARD_DATA"
SOURCE = "SOURCE.json"  # beside downloaded files: where they came from and what they were


@dataclass(frozen=True)
class Remote:
    """One file on the network and what becomes of it."""

    url: str
    unpack: Unpack
    sha256: Mapping[str, str] = field(default_factory=dict)  # of the unpacked files, by name; those listed are checked


@dataclass(frozen=True)
class KnownSet:
    help: str
    licence: str
    citation: str
    remotes: tuple[Remote, ...]


@dataclass(frozen=True)
class LocalSet:
    """A data set on this machine."""

    name: str
    folder: Path
    paths: tuple[Path, ...]


MULTI30K = {
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.lc.tok.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
    "test_2016_flickr.lc.tok.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.lc.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "train.lc.tok.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.lc.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "val.lc.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
}


def _multi30k(name: str) -> Remote:
    """The tokenised files are called .lc.norm.tok in the repository; everybody calls them .lc.tok."""
    base = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"
    checked = {name: MULTI30K[name]}
    if ".tok." in name:
        return Remote(f"{base}/tok/{name.replace('.lc.tok.', '.lc.norm.tok.')}", plain(name), checked)
    return Remote(f"{base}/raw/{name}.gz", gzipped(name), checked)


KNOWN = {
    "multi30k": KnownSet(
        help="image captions, English and German: 29,000 pairs, 1,014 for validation, 1,000 for test (Flickr 2016)",
        licence="no licence is stated for the text; the images are Flickr30k's",
        citation="Elliott, Frank, Sima'an, Specia (2016): Multi30K: Multilingual English-German Image Descriptions",
        remotes=tuple(_multi30k(name) for name in MULTI30K),
    ),
    # The export grows with time, so there is no checksum to expect: what was downloaded first is written down in
    # SOURCE.json beside the files and verified at every later use.
    "tatoeba": KnownSet(
        help="short everyday sentences, English and Spanish: some 140,000 pairs",
        licence="CC BY 2.0 France; the third column names the authors of each pair",
        citation="Tatoeba (tatoeba.org), selected by manythings.org/anki",
        remotes=(Remote("https://www.manythings.org/anki/spa-eng.zip", anki("spa.txt", "en-es")),),
    ),
}


def get(name: str, *, root: str | Path | None = None, progress: Progress | None = None) -> LocalSet:
    """The files of a known set: those in $REGARD_DATA/NAME if there are any, else downloaded below `root` and kept."""
    if name not in KNOWN:
        near = difflib.get_close_matches(name.lower(), KNOWN, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UserError(f"no data set is called {name!r}; known are {', '.join(KNOWN)}{hint}")
    given = os.environ.get(VARIABLE)
    if given and (Path(given) / name).is_dir():
        return _local(name, Path(given) / name)
    folder = (cache_folder("data") if root is None else Path(root)) / name
    if folder.is_dir():
        _verify(folder)
    else:
        _fetch(name, folder, progress)
    return _local(name, folder)


def resolve(path: str, *, folder: str | Path | None = None) -> Path:
    """The file that a path in a recipe means: looked for beside the recipe, here, in $REGARD_DATA, among downloads."""
    given = os.environ.get(VARIABLE)
    places = (folder, Path.cwd(), given or None, cache_folder("data"))
    looked = list(dict.fromkeys(Path(place) / Path(path).expanduser() for place in places if place is not None))
    for candidate in looked:
        if candidate.exists():
            return candidate
    name = Path(path).parts[0] if Path(path).parts else ""
    hint = f"get it with: regard data get {name}" if name in KNOWN else f"correct the path, or set {VARIABLE}"
    raise UserError(f"{path} is not found; looked at {', '.join(map(str, looked))}; {hint}")


def _local(name: str, folder: Path) -> LocalSet:
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SOURCE)
    return LocalSet(name, folder, tuple(files))


def _fetch(name: str, folder: Path, progress: Progress | None) -> None:
    """Download and unpack into a sibling folder, check, and put it in place as a whole."""
    known = KNOWN[name]
    unfinished = folder.with_name(f".{name}.downloading-{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(parents=True)
        files: dict[str, str] = {}
        for remote in known.remotes:
            packed = unfinished / ".download"
            _download(name, remote.url, packed, progress)
            try:
                made = remote.unpack(packed, unfinished)
            except (EOFError, zlib.error, zipfile.BadZipFile, KeyError, RuntimeError, OSError) as error:
                raise UserError(f"{remote.url}: not the file that was expected ({error}); try again later") from None
            packed.unlink()
            for path in made:
                files[path.name] = checksum(path)
                expected = remote.sha256.get(path.name, files[path.name])
                if files[path.name] != expected:
                    raise UserError(
                        f"{remote.url}: {path.name} has sha256 {files[path.name]} instead of {expected}; "
                        "the file on the network is another one: do not use it"
                    )
        facts = {"urls": [remote.url for remote in known.remotes], "licence": known.licence, "files": files}
        (unfinished / SOURCE).write_text(json.dumps({**facts, "citation": known.citation}, indent=1), encoding="utf-8")
        unfinished.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot write the data set: {error.strerror or error}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _verify(folder: Path) -> None:
    """Downloaded files are still what they were. (A set that its publisher changes has no other known checksum.)"""
    again = "remove the folder and get it again"
    try:
        files: Any = json.loads((folder / SOURCE).read_text(encoding="utf-8"))["files"]
        expected = {str(name): str(value) for name, value in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{folder}: {SOURCE} is missing or damaged; {again}") from None
    for name, digest in expected.items():
        if checksum(folder / Path(name).name) != digest:
            raise UserError(f"{folder / name}: the file was changed since it was downloaded; {again}")


def _download(name: str, url: str, path: Path, progress: Progress | None) -> None:
    try:
        download(url, path, progress)
    except UserError as error:
        advice = f"without network, put the files into a folder called {name} and set {VARIABLE} to the folder above it"
        raise UserError(f"{error}; {advice}") from None
