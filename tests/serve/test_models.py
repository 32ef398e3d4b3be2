"""Several models: directions, ways through a third language, ensembles, engines."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serve.servers import Held, Start, untrained

from regard.api import Model, load
from regard.errors import UserError
from regard.serve.models import Models, Served, load_models


@pytest.fixture(scope="module")
def several(models: Models) -> Models:
    return Models([models.by_direction["en", "es"], untrained("es", "fr", 1), untrained("es", "en", 2)])


def test_directions_and_what_can_be_reached(several: Models) -> None:
    assert several.languages == ["en", "es", "fr"]
    assert several.targets("en") == ["es", "fr"]
    assert several.targets("es") == ["en", "fr"]
    assert several.targets("fr") == []


def test_each_direction_is_its_own_models(start: Start, several: Models) -> None:
    client = start(served=several)
    for (source, target), served in several.by_direction.items():
        text = "the man eats the bread" if source == "en" else "el hombre come el pan"
        answer = client.post("/translate", json={"q": text, "source": source, "target": target}).json()
        assert answer["translatedText"] == served.model.translate(text)


@pytest.mark.parametrize("format", ["text", "html"])
def test_a_way_through_a_third_language(start: Start, several: Models, format: str) -> None:
    client = start(served=several)
    text = "the man eats the bread"
    first, second = (several.by_direction[d].model for d in (("en", "es"), ("es", "fr")))
    asked = {"q": text, "source": "en", "target": "fr", "format": format, "alternatives": 1}
    answer = client.post("/translate", json=asked).json()
    assert answer["translatedText"] == second.translate(first.translate(text))
    assert len(answer["alternatives"]) == 1


def test_texts_of_several_languages_in_one_request(start: Start, several: Models) -> None:
    texts = [
        "this is the English language, my friend, and nothing else",
        "esto es la lengua española, mi amigo, y nada más",
    ]
    answer = start(served=several).post("/translate", json={"q": texts, "source": "auto", "target": "fr"}).json()
    assert [d["language"] for d in answer["detectedLanguage"]] == ["en", "es"]
    assert len(answer["translatedText"]) == 2


@pytest.mark.parametrize("format", ["text", "html"])
def test_what_is_in_the_language_already_comes_back_as_it_is(start: Start, several: Models, format: str) -> None:
    """Both directions are served: it does not go there and back."""
    client, text = start(served=several), "this is the English language, my friend, and nothing else"
    for source in ("en", "auto"):
        asked = {"q": text, "source": source, "target": "en", "format": format}
        assert client.post("/translate", json=asked).json()["translatedText"] == text


def test_who_summarises_reads_a_document_as_one_text(start: Start) -> None:
    bundle = replace(untrained("en", "en").model.bundle, task="summarisation")
    held = Held(Served(Model([bundle]), "short"))
    held.gate.set()
    client = start(served=Models([held]))
    assert client.get("/api/info").json()["languages"][0]["targets"] == ["en"]
    assert client.get("/languages").json()[0]["targets"] == ["en"]
    document = "the man eats. The man eats the pan!\n\nthe man"
    asked = {"q": f" {document}\n", "source": "en", "target": "en"}
    answer = client.post("/translate", json=asked)
    assert answer.json() == {"translatedText": f" {held.model.translate(document)}\n"}
    told = client.post("/api/translate", json={"text": document, "source": "en", "target": "en"}).json()
    assert [sentence["source"] for sentence in told["sentences"]] == [document]
    client.post("/translate_file", files={"file": ("a.txt", document.encode())}, data={"source": "en", "target": "en"})
    assert held.asked == [[document]] * 3
    refused = client.post("/translate", json=asked | {"q": "<p>the <b>man</b></p>", "format": "html"})
    assert refused.status_code == 400
    assert "send the document as text" in refused.json()["error"]


def test_two_writers_of_one_name_are_a_mistake(writer: Model, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        writer.bundle.save(tmp_path / folder / "gpt")
    with pytest.raises(UserError, match="two language models are called gpt"):
        load_models([tmp_path / "a" / "gpt", tmp_path / "b" / "gpt"])


@pytest.mark.parametrize(
    "asked", [{"engine": "ctranslate2"}, {"precision": "int8"}, {"beam": 7}, {"ensemble": True}], ids=str
)
def test_what_language_models_do_not_heed_is_told(writer: Model, tmp_path: Path, asked: dict[str, Any]) -> None:
    writer.bundle.save(tmp_path / "gpt")
    with pytest.raises(UserError, match=f"--{next(iter(asked))}.* is for models that translate"):
        load_models([tmp_path / "gpt"], **asked)


def test_two_models_of_one_direction_are_a_mistake_unless_wanted(trained: Path) -> None:
    with pytest.raises(UserError, match=r"small and small both translate en to es.*--ensemble"):
        load_models([trained, trained], "torch")
    together = load_models([trained, trained], "torch", ensemble=True)
    served = together.by_direction["en", "es"]
    assert served.name == "small + small"
    assert served.model.translate("the man eats the bread") == "el hombre come el pan"


def test_an_ensemble_serves_html_but_not_looks(start: Start, trained: Path) -> None:
    client = start(served=load_models([trained, trained], "torch", ensemble=True))
    asked = {"q": "the man eats the <b>bread</b>", "source": "en", "target": "es", "format": "html"}
    assert client.post("/translate", json=asked).json()["translatedText"] == "el hombre come el <b>pan</b>"
    answer = client.post("/api/look", json={"text": "the man", "source": "en", "target": "es"})
    assert answer.status_code == 400
    assert "one model" in answer.json()["error"]


def test_auto_is_ctranslate2_where_it_can_be(trained: Path, start: Start) -> None:
    served = load_models([trained]).by_direction["en", "es"]
    assert served.engine == "ctranslate2"
    client = start(served=Models([served]))
    text = "<p>the man eats the <b>bread</b></p>"
    answer = client.post("/translate", json={"q": text, "source": "en", "target": "es", "format": "html"})
    assert answer.json()["translatedText"] == "<p>el hombre come el <b>pan</b></p>"
    assert client.post("/api/look", json={"text": "the man", "source": "en", "target": "es"}).status_code == 200


def test_auto_falls_back_to_torch(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise UserError("CTranslate2 is not installed")

    monkeypatch.setattr("regard.hub.ctranslate2._library", missing)
    assert load_models([trained]).by_direction["en", "es"].engine == "torch"
    with pytest.raises(UserError, match="not installed"):
        load_models([trained], "ctranslate2")


def test_nobody_decodes_with_a_network_that_is_looked_into(models: Models) -> None:
    served = models.by_direction["en", "es"]
    looking, done = threading.Event(), threading.Event()
    meanwhile: list[bool] = []

    def work(model: Model) -> None:
        looking.set()
        meanwhile.append(done.wait(0.2))

    look = threading.Thread(target=served.look, args=(work,))
    look.start()
    assert looking.wait(20)
    decode = threading.Thread(target=lambda: (served.decode(["the man"], served.options(0)), done.set()))
    decode.start()
    look.join(20)
    assert done.wait(20)
    assert meanwhile == [False]


def test_the_beam_can_be_chosen(trained: Path) -> None:
    served = load_models([trained], "torch", beam=1).by_direction["en", "es"]
    assert (served.options(0).beam, served.options(0).n_best) == (1, 1)
    assert (served.options(3).beam, served.options(3).n_best) == (4, 4)
    assert load(trained).options().beam == 3


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    """Fault 19: a pickle that poses as a model is not opened."""
    import pickle

    with pytest.raises(UserError, match="no model"):
        load_models([])
    folder = tmp_path / "model"
    folder.mkdir()
    mark = tmp_path / "executed"
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Exploding(str(mark))))
    with pytest.raises(UserError, match=r"model\.json"):
        load_models([folder])
    (folder / "model.json").write_bytes(pickle.dumps(Exploding(str(mark))))
    with pytest.raises(UserError, match="damaged"):
        load_models([folder])
    assert not mark.exists()


class Exploding:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return (open, (self.path, "w"))
