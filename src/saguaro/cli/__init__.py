"""The command line: options in, text out. One short file a sub-command; torch and rich are imported when needed.

`main.py` dispatches and turns errors into exit statuses, `options.py` makes flags of `EngineConfig` and
`SamplingParams`, `checks.py` refuses bad input before any weights load. The only place that prints and that reads
environment variables. Tests: tests/cli/.
"""
