"""A profile as a report for people: one Markdown page and four pictures.

matplotlib is imported when a report is written and not before (extra `figures`). Must not know: engines, terminals.
Tests: tests/calibrate/test_run.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saguaro.errors import ConfigError
from saguaro.profile import Best, Profile
from saguaro.theory.fan_out import PowerLaw

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = ("hit-curves", "acceptance", "policies", "step-times")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
CURVES = {"after_rejection": "after a rejection", "after_all": "after all accepted", "after_miss": "no proposal"}
TIMES = {
    "verify_alone": "verification, alone",
    "verify_together": "verification, draft at work",
    "step_alone": "draft step, alone",
    "step_together": "draft step, target at work",
}


def check_drawing() -> None:
    """Make sure that pictures can be drawn.

    Raises:
        ConfigError: when matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ConfigError(
            "a report needs matplotlib, which is not installed here; pip install 'saguaro-llm[figures]' brings it."
        ) from None


def write_report(profile: Profile, folder: Path) -> Path:
    """Write `report.md` and its pictures into a folder, which is made; returns the page.

    Raises:
        ConfigError: when matplotlib is not installed.
    """
    check_drawing()
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in zip(PICTURES, (_hit_curves, _acceptance, _policies, _step_times), strict=True):
        _picture(profile, folder / f"{name}.svg", draw)
    page = folder / "report.md"
    page.write_text(page_of(profile), encoding="utf-8")
    return page


def page_of(profile: Profile) -> str:
    """The page."""
    pair, details = profile.pair, profile.details
    parts = [
        f"# {pair.target} with {pair.draft}",
        f"{pair.dtype}, draft {pair.draft_dtype}; {' + '.join(profile.devices)}; {profile.machine.get('cpu', '')}; "
        f"{profile.prompts.get('count')} prompts of {', '.join(profile.prompts.get('datasets', []))} × "
        f"{profile.prompts.get('max_tokens')} tokens; {profile.created}",
        "## Best settings",
        _table(*_best_rows(profile)),
        *([_checked(details["checked"])] if "checked" in details else []),
        "Speeds of all requests together, as theory promises them from the parts below"
        + (" (one request: measured)." if "checked" in details else "; `--check` measures the best."),
        "## Acceptance",
        "![acceptance](acceptance.svg)",
        _table(*_acceptance_rows(details["temperatures"])),
        "## How often the bonus token is foreseen",
        "![hit curves](hit-curves.svg)",
        "Misses follow c · F^-r for F guesses (± standard error). After a rejection the sent token is no guess. "
        "Branches and neural fallbacks draw the same tokens, so rounds after a hit and after a neural answer have one "
        "law; after a miss that was answered by nothing (or random tokens) the text's next token is the only outcome.",
        _table(*_fit_rows(details["temperatures"])),
        "## Hit rate by policy and budget",
        "![policies](policies.svg)",
        f"In lockstep, K = {details['lookahead']}, exact on the recorded rounds.",
        _table(*_policy_rows(details["temperatures"])),
        "## Step times",
        "![step times](step-times.svg)",
        _table(*_time_rows(profile.times)),
        "## Saguaro sampling",
        _saguaro(details),
    ]
    return "\n\n".join(parts) + "\n"


# -- tables -----------------------------------------------------------------------------------------------------------


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*head, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _settings(each: Best) -> str:
    if each.mode == "ar":
        return "–"
    return f"K = {each.lookahead}" + (f", B = {each.budget}, {each.fan_out}" if each.mode == "ssd" else "")


def _best_rows(profile: Profile) -> tuple[list[str], list[list[Any]]]:
    batches = sorted({each.batch for each in profile.best})
    rows = []
    for batch in batches:
        row: list[Any] = [batch]
        for mode in ("ar", "sd", "ssd"):
            own = next((each for each in profile.best if (each.mode, each.batch) == (mode, batch)), None)
            row += ["–", "–"] if own is None else [_settings(own), _number(own.tokens_per_second, 1)]
        rows.append([row[0], *row[2:]])
    return ["requests at once", "AR tokens/s", "SD", "tokens/s", "SSD", "tokens/s"], rows


def _checked(rows: Sequence[Mapping[str, Any]]) -> str:
    found = []
    for row in rows:
        each = Best(**{name: value for name, value in row.items() if name != "measured"})
        cells = [each.mode.upper(), _settings(each), _number(each.tokens_per_second, 1), _number(row["measured"], 1)]
        found.append(cells)
    return _table(["one request", "settings", "promised tokens/s", "measured"], found)


def _acceptance_rows(temperatures: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    deepest = max(len(each["acceptance"]) for each in temperatures)
    columns = ["temperature", "rounds", *(f"position {place + 1}" for place in range(deepest)), "tokens a round by K"]
    rows = []
    for each in temperatures:
        known = [*each["acceptance"], *[None] * (deepest - len(each["acceptance"]))]
        tokens = " ".join(_number(value) for value in each["tokens_a_round"][1:])
        rows.append([f"{each['temperature']:g}", each["rounds"], *map(_number, known), tokens])
    return columns, rows


def _fit_rows(temperatures: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    rows = []
    for each in temperatures:
        for name, words in CURVES.items():
            curve = each["curves"][name]
            hits, fit = curve["hits"], curve["fit"]
            shown = [_number(hits[guesses]) if len(hits) > guesses else "–" for guesses in (1, 2, 4, 8)]
            law = ["–", "–"]
            if fit is not None:
                law = [f"{fit[part]:.2f} ± {fit[f'{part}_error']:.2f}" for part in ("c", "r")]
            rows.append([f"{each['temperature']:g}", words, curve["rounds"], *shown, *law])
    return ["temperature", "", "rounds", "F = 1", "2", "4", "8", "c", "r"], rows


def _policy_rows(temperatures: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    rows = []
    for each in temperatures:
        rates = each["hit_rates"]
        for policy, own in rates["policies"].items():
            rows.append([f"{each['temperature']:g}", policy, *map(_number, own.values())])
        long_run = rates["long_run_without_fallback"]
        budgets = rates["after_nothing"]
        rows.append([f"{each['temperature']:g}", "p_hit,b, answered by nothing", *map(_number, budgets.values())])
        own = [_number(long_run.get(budget)) for budget in budgets]
        rows.append([f"{each['temperature']:g}", "ranked, misses answered by nothing", *own])
    return ["temperature", "B", *next(iter(temperatures[0]["hit_rates"]["policies"].values()))], rows


def _time_rows(times: Mapping[str, Mapping[int, float]]) -> tuple[list[str], list[list[Any]]]:
    rows = sorted({rows for each in times.values() for rows in each})
    found = []
    for name, words in TIMES.items():
        known = (times[name].get(count) for count in rows)
        found.append([words, *(_number(None if each is None else 1000 * each, 1) for each in known)])
    return ["ms by rows", *map(str, rows)], found


def _saguaro(details: Mapping[str, Any]) -> str:
    if not details["laws"]:
        return "Only temperature 0 was recorded, where there is nothing to scale."
    best = details["saguaro_sampling"]
    rows = [
        [f"{row[0]:g}", row[1], *map(_number, row[2:6]), _number(row[6], 1)]
        for row in best["rows"]
        if row[1] in (best["fan_out"], 3) or row[0] == best["c"]
    ]
    columns = ["C", "F", "acceptance", "foreseen after a rejection", "after all", "hit rate", "tokens/s"]
    shared = [
        f"temperature {name}: acceptance {each['shared_noise']['acceptance']:.2f}, foreseen with F = 3 "
        f"{each['shared_noise']['after_rejection'][2]:.2f} and {each['shared_noise']['after_all'][2]:.2f}"
        for name, each in details["laws"].items()
    ]
    return "\n\n".join(
        [
            f"Under `rejection` C = {best['c']:g} with F = {best['fan_out']} promises the most; exact sums over the "
            "vocabulary, mean over temperatures.",
            _table(columns, rows),
            f"Shared noise on the same texts: {'; '.join(shared)}.",
        ]
    )


# -- pictures ---------------------------------------------------------------------------------------------------------


def _picture(profile: Profile, path: Path, draw: Any) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    # The same profile gives the same bytes: no date, no random ids.
    with matplotlib.rc_context({"svg.hashsalt": "saguaro", "font.size": 9.5, "axes.axisbelow": True}):
        figure = Figure(layout="constrained")
        draw(profile, figure)
        figure.savefig(path, metadata={"Date": None})


def _panels(figure: Figure, count: int, *, logarithmic: bool = False) -> list[Axes]:
    figure.set_size_inches(3.6 * count + 1.6, 3.6)
    every = list(figure.subplots(1, count, sharey=True, squeeze=False)[0])
    for axes in every:
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        if logarithmic:
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
    return every


def _hit_curves(profile: Profile, figure: Figure) -> None:
    temperatures = profile.details["temperatures"]
    every = _panels(figure, len(temperatures), logarithmic=True)
    for axes, each in zip(every, temperatures, strict=True):
        for colour, (name, words) in zip(COLOURS, CURVES.items(), strict=False):
            curve = each["curves"][name]
            points = [(f, 1 - hit) for f, hit in enumerate(curve["hits"]) if f and hit < 1]
            if points:
                axes.plot(*zip(*points, strict=True), "o", color=colour, markersize=4, label=words)
            if curve["fit"] is not None:
                law = PowerLaw(curve["fit"]["c"], curve["fit"]["r"])
                sizes = range(1, len(curve["hits"]))
                axes.plot(sizes, [law.miss(f) for f in sizes], "-", color=colour, linewidth=1.2)
        axes.set_title(f"temperature {each['temperature']:g}", fontsize=9.5)
        axes.set_xlabel("guesses F")
    every[0].set_ylabel("bonus token not among them")
    _legend(figure, every[0])


def _acceptance(profile: Profile, figure: Figure) -> None:
    [axes] = _panels(figure, 1)
    for colour, each in zip(COLOURS, profile.details["temperatures"], strict=False):
        known = [(place + 1, rate) for place, rate in enumerate(each["acceptance"]) if rate is not None]
        if known:
            axes.plot(*zip(*known, strict=True), "o-", color=colour, label=f"temperature {each['temperature']:g}")
    axes.set_ylim(0, 1)
    axes.set_xlabel("position in the proposal")
    axes.set_ylabel("accepted, given all before it")
    _legend(figure, axes)


def _policies(profile: Profile, figure: Figure) -> None:
    temperatures = profile.details["temperatures"]
    every = _panels(figure, len(temperatures))
    for axes, each in zip(every, temperatures, strict=True):
        for colour, (policy, own) in zip(COLOURS, each["hit_rates"]["policies"].items(), strict=False):
            axes.plot([int(budget) for budget in own], list(own.values()), "o-", color=colour, label=policy)
        axes.set_title(f"temperature {each['temperature']:g}", fontsize=9.5)
        axes.set_xlabel("budget B")
    every[0].set_ylabel("hit rate in lockstep")
    _legend(figure, every[0])


def _step_times(profile: Profile, figure: Figure) -> None:
    [axes] = _panels(figure, 1, logarithmic=True)
    for (name, words), colour in zip(TIMES.items(), ("#0072B2", "#0072B2", "#D55E00", "#D55E00"), strict=True):
        own = profile.times[name]
        dashes = "o--" if name.endswith("together") else "o-"
        axes.plot(list(own), [1000 * each for each in own.values()], dashes, color=colour, markersize=4, label=words)
    axes.set_xlabel("rows")
    axes.set_ylabel("milliseconds")
    _legend(figure, axes)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8.5)
