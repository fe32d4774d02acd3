"""Wire formats: OpenAI and Anthropic messages, token requests of vLLM and SGLang, tool calls in text, HTTP serving."""
