"""Lines that one process writes and another reads."""

from __future__ import annotations

from pathlib import Path

from fedcox.files.followed import FollowedFile, append_rows


def test_what_a_full_disk_left_of_a_line_harms_no_other(tmp_path: Path) -> None:
    file = tmp_path / "ledger.jsonl"
    append_rows(file, [{"question": "gradient"}])
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"question": "hes')
    append_rows(file, [{"question": "information"}, {"question": "a\u2028b"}])
    followed = FollowedFile(file, from_start=True)
    assert [row["question"] for row in followed.rows()] == [
        "gradient",
        "information",
        "a\u2028b",
    ]
    assert followed.unreadable == 1
    assert followed.rows() == []


def test_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "progress.jsonl"
    followed = FollowedFile(file)
    file.write_text('{"kind": "co', encoding="utf-8")
    assert followed.rows() == []
    with file.open("a", encoding="utf-8") as stream:
        stream.write('de"}\n')
    assert followed.rows() == [{"kind": "code"}]
