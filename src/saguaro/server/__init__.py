"""The HTTP server: an OpenAI-compatible face over `AsyncLLM` (`saguaro serve`, docs/serving.md).

    wire/        requests and responses on the wire         translate.py  a request becomes prompts and parameters
    endpoints/   one file a group of paths                  render.py     completions and deltas become JSON
    parsers/     reasoning and calls in a model's text      streaming.py  server-sent events
    front.py     what all endpoints share                   doorway.py    ids, keys, sizes, logging
    serving.py   the process: socket, signals, drain        app.py        puts the parts together

Nothing here imports FastAPI before a server is built. Tests: tests/server/.
"""
