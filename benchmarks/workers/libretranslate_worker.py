"""LibreTranslate's own server with one model of ours, in its own environment: FOLDER PORT.

The folder holds `model`, our export for CTranslate2. Here it gets what Argos Translate needs beside it: a SentencePiece
model that cuts a text into the same tokens. Its sentence splitter needs a model from the network; in its place a text
is taken as one sentence, as all of the benchmark's are, which spares it that work.
"""

import json
import os
import sys
from pathlib import Path

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")


def pieces(folder: Path) -> set[str]:
    """Our tokens as SentencePiece writes them, in the exported vocabularies too."""
    found: set[str] = set()
    for file in folder.glob("model/*vocabulary.json"):
        words = [w if w in SPECIALS else w.replace(" ", "▁") for w in json.loads(file.read_text(encoding="utf-8"))]
        file.write_text(json.dumps(words, ensure_ascii=False), encoding="utf-8")
        found |= {word for word in words if word not in SPECIALS}
    return found


def tokenizer(words: set[str]) -> bytes:
    """Of all cuts the one into fewest pieces: every word is as likely as any other."""
    from sentencepiece import sentencepiece_model_pb2 as library

    model = library.ModelProto()
    kinds = library.ModelProto.SentencePiece
    for name, kind in (("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)):
        model.pieces.add(piece=name, score=0.0, type=kind)
    for word in sorted(words):
        model.pieces.add(piece=word, score=-1.0)
    model.trainer_spec.model_type = library.TrainerSpec.UNIGRAM
    model.trainer_spec.vocab_size = len(model.pieces)
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.precompiled_charsmap = b""
    return bytes(model.SerializeToString())


def main() -> None:
    folder, port = Path(sys.argv[1]).resolve(), sys.argv[2]
    package = folder / "packages" / "en_es"
    words = pieces(folder)
    package.mkdir(parents=True)
    (folder / "model").rename(package / "model")
    (package / "sentencepiece.model").write_bytes(tokenizer(words))
    facts = {"package_version": "1.0", "argos_version": "1.9", "from_code": "en", "from_name": "English",
             "to_code": "es", "to_name": "Spanish"}  # fmt: skip
    (package / "metadata.json").write_text(json.dumps(facts), encoding="utf-8")
    os.chdir(folder)  # it keeps its sessions in the folder where it was started
    os.environ |= {"ARGOS_PACKAGES_DIR": str(folder / "packages")}
    os.environ |= {f"XDG_{kind}_HOME": str(folder / "home") for kind in ("DATA", "CONFIG", "CACHE")}
    # One thread a worker and a worker a core is what is fastest here; its default is one worker with many threads.
    os.environ |= {"ARGOS_INTER_THREADS": str(os.cpu_count()), "ARGOS_INTRA_THREADS": "1"}

    import libretranslate.init
    from argostranslate import sbd
    from libretranslate.main import main as serve

    libretranslate.init.check_and_install_models = lambda *_, **__: None  # it would look for more on the network
    sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]
    sys.argv = ["libretranslate", "--port", port, "--load-only", "en,es"]
    serve()


if __name__ == "__main__":
    main()
