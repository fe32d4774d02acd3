"""Where turns come from: a model endpoint, an engine of our own, a script, a recording.

- `policy/`: what takes a turn in a rollout. Read `policy/chat.py` first: it makes a policy of any chat model.
- `endpoint/`: models behind HTTP, with retries, secrets and spend caps.
- `wire/`: the messages of OpenAI, Anthropic, vLLM and SGLang, both sides.
- `render/`: chat templates and tokenizers; history is appended to and never rendered again.
- `engine/` and `nn/`: the embedded engine and the decoder it shares with the trainer. Both need the `torch` extra.
"""
