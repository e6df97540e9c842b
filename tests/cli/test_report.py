from __future__ import annotations

from tests.cli.conftest import Files, Run


def test_the_page_is_written_again_from_fit_json_and_ledger(
    fitted_files: Files, fedcox: Run
) -> None:
    page = fitted_files.run / "report.html"
    first = page.read_text(encoding="utf-8")
    others = {
        path.name: path.read_bytes() for path in fitted_files.run.iterdir() if path != page
    }
    page.unlink()
    ended = fedcox("report", fitted_files.run)
    assert ended.status == 0
    assert "hazard ratio" in ended.out
    again = page.read_text(encoding="utf-8")
    assert "stage" in again
    # All but the command line that made the fit, which no file keeps.
    assert abs(len(again) - len(first)) < 1000
    assert {path.name for path in fitted_files.run.iterdir()} == {*others, "report.html"}
    assert all((fitted_files.run / name).read_bytes() == old for name, old in others.items())


def test_the_page_may_go_elsewhere(fitted_files: Files, fedcox: Run) -> None:
    before = (fitted_files.run / "report.html").read_bytes()
    page = fitted_files.folder / "meeting.html"
    assert fedcox("report", fitted_files.run / "fit.json", "--out", page).status == 0
    assert page.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")
    assert (fitted_files.run / "report.html").read_bytes() == before


def test_a_page_needs_no_ledger(fitted_files: Files, fedcox: Run) -> None:
    (fitted_files.run / "ledger.jsonl").unlink()
    assert fedcox("report", fitted_files.run).status == 0


def test_a_folder_without_a_fit_is_told(fitted_files: Files, fedcox: Run) -> None:
    before = fitted_files.listing()
    ended = fedcox("report", fitted_files.folder)
    assert ended.status == 2
    assert "there is no fit here" in ended.err
    assert "fedcox fit" in ended.err
    assert fitted_files.listing() == before


def test_a_damaged_ledger_is_told(fitted_files: Files, fedcox: Run) -> None:
    (fitted_files.run / "ledger.jsonl").write_text('{"round": 1}\n', encoding="utf-8")
    ended = fedcox("report", fitted_files.run)
    assert ended.status == 2
    assert "Line 1" in ended.err


def test_a_damaged_fit_is_told(fitted_files: Files, fedcox: Run) -> None:
    (fitted_files.run / "fit.json").write_text('{"version": 2}', encoding="utf-8")
    ended = fedcox("report", fitted_files.run)
    assert ended.status == 2
    assert "not a complete fit.json" in ended.err
