# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUntypedBaseClass=false
"""Exported conversations for verl's SFT trainer, which does not decode JSON values in Parquet.

    data.custom_cls.path=pkg://sandlot.interop.verl data.custom_cls.name=Conversations

Conversations without tools do not need this class, and `RLHFDataset` reads every export. Nothing of Sandlot is imported, so the
path of this file works too.
"""

import json
from typing import Any

from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset


class Conversations(MultiTurnSFTDataset):
    """verl's multi-turn dataset over `sandlot export sft RUN`: messages and tools are decoded to objects."""

    def _read_files_and_process(self) -> None:
        super()._read_files_and_process()
        self.messages = [_objects(row) for row in self.messages]
        self.tools = [_objects(row) for row in self.tools] if self.tools is not None else None

    def _build_messages(self, example: dict[str, Any]) -> list[dict[str, Any]]:
        return super()._build_messages({**example, self.messages_key: _objects(example[self.messages_key])})


def _objects(values: list[Any]) -> list[Any]:
    """The decoded JSON values."""
    return [json.loads(value) if isinstance(value, str) else value for value in values]
