"""Tiny models of `transformers` itself. Only where they are the point: to import it costs five CPU-seconds."""

from typing import Any

from transformers import AutoConfig, AutoModelForCausalLM

from fakes.peer_models import TINY, draw


def transformers_model(variant: dict[str, Any], seed: int = 0) -> Any:
    """The model that `peer` writes out, with the same numbers."""
    settings = TINY | variant
    family = settings.pop("model_type")
    return draw(AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **settings)), seed)
