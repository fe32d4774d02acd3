"""Models and policies: HTTP endpoints, the embedded engine, scripts and recordings.

- `policy/`: policies, which take the turns of a rollout. Read `policy/chat.py` first: a policy over any chat model.
- `endpoint/`: models behind HTTP, with retries, secrets and spend caps.
- `wire/`: the messages of OpenAI, Anthropic, vLLM and SGLang, both sides.
- `render/`: chat templates and tokenizers. A history is appended to, never rendered again.
- `engine/` and `nn/`: the embedded engine and the decoder it shares with the trainer. Both need the `torch` extra.
"""
