import pytest

from builders.evidence import make_evidence, tool_call


@pytest.fixture
def evidence_of():
    return make_evidence


@pytest.fixture
def call_of():
    return tool_call
