"""One of the small studies of `fedcox reproduce`: its numbers and its page in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedcox.cli.own_command import own_command
from fedcox.cli.progress import progress_bar
from fedcox.cli.say import say


def run_study(
    out: Path,
    name: str,
    overwrite: bool,
    quick: bool,
    run: Callable[..., Any],
    write_page: Callable[..., None],
) -> None:
    """Run one of the small studies, and write its numbers and its page."""
    from fedcox.files.writing import check_folder, whole_folder

    files = {f"{name}.json", f"{name}.html"}
    check_folder(
        out,
        overwrite=overwrite,
        is_ours=lambda path: path.name in files and path.is_file(),
        what="reproduction",
    )
    with progress_bar() as progress:
        task = progress.add_task(name)

        def watch(done: int, total: int, words: str) -> None:
            progress.update(task, completed=done, total=total, description=words or name)

        result = run(quick, watch)
    with whole_folder(out) as folder:
        text = json.dumps(result.to_json(), indent=2, allow_nan=False, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        write_page(folder / f"{name}.html", result, command=own_command())
    say(f"The page to read: {out / f'{name}.html'}")
