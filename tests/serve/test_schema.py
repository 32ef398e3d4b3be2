"""The API keeps to its own description, whatever is sent to it."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from regard.api import Model
from regard.serve.app import make_app
from regard.serve.models import Models
from regard.serve.settings import Settings

HOW = settings(
    max_examples=20, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_answer_that_is_not_in_the_description(models: Models, writer: Model, mode: GenerationMode) -> None:
    served = Models(list(models.by_direction.values()), {"little": writer})
    schema = schemathesis.openapi.from_asgi("/openapi.json", make_app(served, Settings(token_limit=3)))
    tried = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        if mode == GenerationMode.NEGATIVE and not operation.body:
            continue  # there is nothing to get wrong

        @HOW
        @given(operation.as_strategy(mode, feedback=FeedbackSources()))
        def holds(case: Any) -> None:
            tried.add((case.path, case.call_and_validate(checks=CHECKS).status_code))

        holds()
    assert ("/translate", 200 if mode == GenerationMode.POSITIVE else 400) in tried
    assert ("/detect", 200 if mode == GenerationMode.POSITIVE else 400) in tried
