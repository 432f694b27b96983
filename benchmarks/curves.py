"""Hit curves and laws of a pair as a record, from a calibration: what Figures 3 and 5 of the paper show.

    saguaro calibrate --target T --draft D --prompts benchmarks/prompts/humaneval benchmarks/prompts/gsm8k_test \\
        benchmarks/prompts/mt_bench --num-prompts 8 --out PROFILE.json
    python benchmarks/curves.py PROFILE.json

Nothing is run or fitted here. Writes results/curves.json, which `saguaro figures` draws and docs/reproduction.md shows.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lanes import RESULTS

from saguaro.calibrate.laws import FS
from saguaro.profile import Profile, load
from saguaro.records import write_record

KINDS = {"after_rejection": "after a rejection", "after_all": "after all accepted", "after_miss": "no proposal"}
GUESSES = (1, 2, 4, 8, 16)


def table(profile: Profile) -> dict[str, Any]:
    """Hits by number of guesses, and the power law of the misses."""
    rows = []
    for each in profile.details["temperatures"]:
        for name, words in KINDS.items():
            curve = each["curves"][name]
            hits, fit = curve["hits"], curve["fit"]
            shown = [f"{hits[guesses]:.3f}" if len(hits) > guesses else "–" for guesses in GUESSES]
            law = ["–", "–"]
            if fit is not None:
                law = [f"{fit[part]:.2f} ± {fit[f'{part}_error']:.2f}" for part in ("c", "r")]
            rows.append([f"{each['temperature']:g}", words, curve["rounds"], *shown, *law])
    return {
        "columns": ["T", "bonus tokens", "seen", *(f"F = {guesses}" for guesses in GUESSES), "c", "r"],
        "rows": rows,
    }


def main() -> None:
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("profile", type=Path)
    profile = load(known.parse_args().profile)
    pair, prompts = profile.pair, profile.prompts
    note = (
        f"{pair.target} with {pair.draft}, {pair.dtype}; {prompts['count']} prompts of "
        f"{', '.join(prompts['datasets'])} × {prompts['max_tokens']} tokens, K = {profile.details['lookahead']}; hits "
        "of F guesses, without the token that was sent"
    )
    record = {
        "table": table(profile), "note": note, "temperatures": profile.details["temperatures"],
        "laws": {name: {**each, "fan_outs": list(FS)} for name, each in profile.details["laws"].items()},
        "machine": profile.machine, "versions": profile.versions,
    }  # fmt: skip
    write_record(record, RESULTS / "curves.json")


if __name__ == "__main__":
    main()
