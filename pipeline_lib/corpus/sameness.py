"""Whether an unfinished run may be continued: same recipe, same source, same versions.

Every difference is an error that shows the old and the new value and the way out.
"""

from typing import Any

from pipeline_lib.corpus.pinned import Pinned, versions
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.errors import ResumeRefused, SourceChanged


def check_same_run(fields: dict[str, Any], pinned: Pinned) -> None:
    """``ResumeRefused`` / ``SourceChanged`` unless a checkpoint is of this recipe, source and
    set of package versions; every difference is shown with old and new value."""
    try:
        recorded = Recipe.from_fields(fields["recipe"])
    except (ValueError, TypeError) as error:
        raise ResumeRefused(f"the recorded recipe can not be used: {error}") from error
    _check_files(fields["reader"], pinned)
    different = [
        f"{name}: was {old!r}, is {new!r}" for name, old, new in recorded.differences(pinned.recipe)
    ]
    if different:
        raise ResumeRefused(
            f"the unfinished run has another recipe ({'; '.join(different)}); give the recorded "
            "values or leave them out, or choose another output folder"
        )
    _check_versions(fields["versions"])
    if fields["tokenizer"] != pinned.tokenizer.metadata():
        raise ResumeRefused(
            f"the tokenizer was {fields['tokenizer']}, is {pinned.tokenizer.metadata()}; restore it"
        )


def _check_files(reader: dict[str, Any], pinned: Pinned) -> None:
    footers = reader["footers"]
    recorded = {name: (size, footers.get(name)) for name, size in reader["sizes"].items()}
    now = {file["name"]: (file["size"], file.get("footer")) for file in pinned.source.files}
    changed = [
        f"{name}: was {_shown(recorded.get(name))}, is {_shown(now.get(name))}"
        for name in sorted(recorded.keys() | now.keys())
        if recorded.get(name) != now.get(name)
    ]
    if changed:
        raise SourceChanged(
            f"the source changed since the run began ({'; '.join(changed[:5])}); restore the "
            "files, or start a fresh run in another output folder"
        )


def _shown(file: tuple[int, str | None] | None) -> str:
    if file is None:
        return "absent"
    size, footer = file
    return f"{size} bytes" + (f" with footer {footer[:12]}" if footer else "")


def _check_versions(recorded: dict[str, str]) -> None:
    now = versions()
    changed = [name for name in now if recorded.get(name) != now[name]]
    if not changed:
        return
    pins = " ".join(f"{n}=={recorded[n]}" for n in changed if n != "python" and n in recorded)
    shown = "; ".join(f"{name}: was {recorded.get(name)}, is {now[name]}" for name in changed)
    way_out = f"restore them with: pip install {pins}" if pins else "use the recorded ones"
    raise ResumeRefused(f"the run began with other versions ({shown}); {way_out}")
