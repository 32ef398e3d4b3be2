"""Which language: among the served ones, and how sure."""

import pytest

from regard.serve.detect import Detector
from regard.serve.languages import name_of


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(["en", "es", "pt-BR", "xx"])


ENGLISH = "The weather is lovely today, isn't it?"
SPANISH = "Hoy hace muy buen tiempo, ¿no te parece?"


def test_it_knows_the_served_languages_apart(detector: Detector) -> None:
    assert detector.detect(ENGLISH)[0].language == "en"
    assert detector.detect(SPANISH)[0].language == "es"
    assert detector.detect("Hoje o tempo está muito bom, não é verdade?")[0].language == "pt-BR"
    assert detector.detect(ENGLISH)[0].confidence > 50


def test_confidences_are_percent_and_fall(detector: Detector) -> None:
    for text in (ENGLISH, SPANISH, "no", "a"):
        confidences = [d.confidence for d in detector.detect(text)]
        assert confidences == sorted(confidences, reverse=True)
        assert all(0 <= c <= 100 for c in confidences)


def test_another_language_is_not_taken_for_a_served_one_with_confidence(detector: Detector) -> None:
    found = detector.detect("Das Wetter ist heute wirklich sehr schön, findest du nicht auch?")
    assert found[0].language in ("en", "es", "pt-BR")
    assert found[0].confidence < 10


@pytest.mark.parametrize("text", ["", "   ", "\n", "12345", "?!"])
def test_what_says_nothing_is_the_first_language_without_confidence(detector: Detector, text: str) -> None:
    assert [d.to_dict() for d in detector.detect(text)] == [{"confidence": 0.0, "language": "en"}]


def test_short_texts_are_judged_by_their_company(detector: Detector) -> None:
    found = detector.detect_each(["no", SPANISH + " " + SPANISH, "sin"])
    assert [d.language for d in found] == ["es", "es", "es"]


def test_languages_that_the_library_does_not_know() -> None:
    detector = Detector(["xx", "tlh"])
    assert [d.to_dict() for d in detector.detect(ENGLISH)] == [{"confidence": 0.0, "language": "xx"}]


def test_a_long_text_takes_no_longer(detector: Detector) -> None:
    assert detector.detect(ENGLISH * 1000)[0].language == "en"


def test_names() -> None:
    assert name_of("es") == "Spanish"
    assert name_of("pt-BR") == "Portuguese (BR)"
    assert name_of("xx") == "xx"
