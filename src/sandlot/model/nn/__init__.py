"""The decoder: one model module that the engine samples from and the trainer differentiates.

Read `decoder.py` first (a forward pass over flat tokens), then `attention.py` (who may see whom). Weights come in and go out by
`folder.py`, and `layout.py` knows which rows of ours are which tensor of Hugging Face's; `gguf.py` and `conversion.py` make a
folder of a GGUF file; `lora.py` adds adapters; `packed.py` makes a CPU quicker. Needs the `torch` extra, and imports nothing else
of Sandlot.
"""
