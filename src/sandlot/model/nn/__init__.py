"""The decoder: the one model module that the engine samples from and the trainer differentiates.

Read `decoder.py` first (a forward pass over flat tokens), then `attention.py` (which tokens see which). `folder.py` reads and
writes Hugging Face folders; `layout.py` maps their tensors to rows of our parameters. `gguf.py` and `conversion.py` turn a GGUF
file into a folder. `lora.py` adds adapters. `packed.py` makes bf16 faster on a CPU. Needs the `torch` extra; of Sandlot it
imports only `core.disk`.
"""
