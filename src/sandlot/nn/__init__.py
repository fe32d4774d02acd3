"""The decoder: one model module that the engine samples from and the trainer differentiates.

Read `decoder.py` first (a forward pass over flat tokens), then `attention.py` (who may see whom). Weights come in and go out by
`folder.py`; `lora.py` adds adapters. Needs the `torch` extra, and imports nothing else of Sandlot.
"""
