"""The JSON Schema of a rubric file, for editors and other programs."""

from typing import Any

import msgspec

from sandlot.core.rubric import Rubric


def rubric_schema() -> dict[str, Any]:
    """As published in `docs/reference/rubric.schema.json`."""
    schema = msgspec.json.schema(Rubric)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sandlot rubric, format 1", **schema}
