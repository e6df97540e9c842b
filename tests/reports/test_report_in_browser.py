"""The page in a real browser: it fits a phone, knows dark and light, loads nothing, prints."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedcox.analysis.fitted import FittedStudy
from fedcox.reports.study_report import report_html
from tests import fitted_examples as examples

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        if (found := shutil.which(name))
    ),
    None,
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

PHONE, DESK = 390, 1100
SHAPES: dict[str, Callable[[], FittedStudy]] = {
    "lung": examples.lung,
    "sixty covariates": examples.wide,
    "separated": examples.separated,
    "a thousand centers": examples.many_centers,
}
# The page stands in frames of a phone's and a desk's width, and is measured from outside.
HARNESS = """<!DOCTYPE html><body><pre id="measured"></pre><script>
const pages = PAGES, widths = WIDTHS, measured = [];
let waiting = Object.keys(pages).length * widths.length;
for (const [name, text] of Object.entries(pages)) for (const width of widths) {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:800px;border:0`;
  frame.onload = () => {
    const page = frame.contentDocument, root = page.documentElement;
    const style = frame.contentWindow.getComputedStyle(page.body);
    measured.push({
      name, width, scroll: root.scrollWidth, height: root.scrollHeight,
      ground: style.backgroundColor, ink: style.color,
      loaded: frame.contentWindow.performance.getEntriesByType("resource").length,
      rows: page.querySelectorAll(".forest tbody tr").length,
      bars: [...page.querySelectorAll(".forest tbody svg .fbar")]
        .filter(bar => bar.getBoundingClientRect().width > 0).length,
      curves: [...page.querySelectorAll(".area path.c")]
        .filter(path => path.getTotalLength() > 0).length,
    });
    const shown = document.getElementById("measured");
    if (--waiting === 0) shown.textContent = JSON.stringify(measured);
  };
  frame.srcdoc = text;
  document.body.append(frame);
}
</script></body>"""


def browse(folder: Path, address: Path, *options: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    return subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr",
            *options,
            address.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def measure(folder: Path, scheme: str) -> list[dict[str, Any]]:
    pages = {name: report_html(make()) for name, make in SHAPES.items()}
    text = HARNESS.replace("PAGES", json.dumps(pages).replace("</", "<\\/"))
    address = folder / "harness.html"
    address.write_text(text.replace("WIDTHS", json.dumps([PHONE, DESK])), encoding="utf-8")
    dark = "0" if scheme == "dark" else "1"
    run = browse(
        folder,
        address,
        f"--blink-settings=preferredColorScheme={dark}",
        "--virtual-time-budget=5000",
        "--dump-dom",
    )
    assert "CONSOLE" not in run.stderr, run.stderr
    found = re.search(r'<pre id="measured">(.*?)</pre>', run.stdout, re.DOTALL)
    assert found is not None
    measured: list[dict[str, Any]] = json.loads(html.unescape(found.group(1)))
    return measured


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return measure(tmp_path_factory.mktemp("light"), "light")


@pytest.fixture(scope="module")
def dark(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return measure(tmp_path_factory.mktemp("dark"), "dark")


def brightness(color: str) -> float:
    red, green, blue = (int(part) for part in re.findall(r"\d+", color)[:3])
    return (red + green + blue) / 3


def test_nothing_is_wider_than_the_screen(light: list[dict[str, Any]]) -> None:
    assert len(light) == 2 * len(SHAPES)
    for page in light:
        assert page["scroll"] <= page["width"], page
        assert page["height"] > 1000


def test_every_ratio_has_its_bar_and_the_curves_are_drawn(light: list[dict[str, Any]]) -> None:
    for page in light:
        expected = {"lung": 6, "sixty covariates": 58, "separated": 2, "a thousand centers": 1}
        assert page["bars"] == expected[page["name"]]
        assert page["curves"] >= 2


def test_the_page_makes_no_request(light: list[dict[str, Any]]) -> None:
    assert [page["loaded"] for page in light] == [0] * len(light)


def test_the_page_follows_the_readers_dark_or_light(
    light: list[dict[str, Any]], dark: list[dict[str, Any]]
) -> None:
    for page in light:
        assert brightness(page["ground"]) > 200
        assert brightness(page["ink"]) < 80
    for page in dark:
        assert brightness(page["ground"]) < 50
        assert brightness(page["ink"]) > 200


def test_the_page_prints(tmp_path: Path) -> None:
    address = tmp_path / "report.html"
    address.write_text(report_html(examples.lung()), encoding="utf-8")
    browse(tmp_path, address, f"--print-to-pdf={tmp_path / 'report.pdf'}")
    pdf = (tmp_path / "report.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 3 <= pages <= 9
