"""The public test kit: drafts that do what a test says, loaded into the *real* worker processes by dotted path.

    LLM(target, draft=target, drafter="saguaro.testing.drafters:ScriptedDrafter", drafter_options={"script": "mixed"})

May import every floor; imported by tests only.
"""
