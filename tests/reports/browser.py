"""Pages in a real browser: opened, measured and printed."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        if (found := shutil.which(name))
    ),
    None,
)
PHONE, DESK = 390, 1100
# The page stands in frames of a phone's and a desk's width, and is measured from outside.
HARNESS = """<!DOCTYPE html><body><pre id="measured"></pre><script>
const pages = PAGES, widths = WIDTHS, measured = [];
const overlapping = ticks => {
  const head = ticks.closest("thead");
  if (head !== null && head.offsetWidth <= 1) return false;  // for screen readers alone
  const marks = [...ticks.children].map(mark => mark.getBoundingClientRect());
  return marks.some((mark, i) => i > 0 && mark.width > 0 && mark.left < marks[i - 1].right);
};
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
      points: page.querySelectorAll(".forest tbody svg .fpoint path").length,
      curves: [...page.querySelectorAll(".area path.c")]
        .filter(path => path.getTotalLength() > 0).length,
      dots: page.querySelectorAll(".boxes circle").length,
      statements: [...page.querySelectorAll(".claims tbody th")].map(cell => cell.offsetWidth),
      wide: [...page.querySelectorAll("section > .scroll")]
        .filter(box => box.scrollWidth > box.clientWidth).map(box => box.ariaLabel),
      dashes: [...page.querySelectorAll(".legend")].map(legend =>
        [...legend.querySelectorAll("path")]
          .map(path => frame.contentWindow.getComputedStyle(path).strokeDasharray)),
      overlaps: [...page.querySelectorAll(".ticks")].filter(overlapping)
        .map(ticks => ticks.textContent),
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


def measure(pages: Mapping[str, str], folder: Path, scheme: str) -> list[dict[str, Any]]:
    """Every page at a phone's and a desk's width, under the reader's light or dark."""
    text = HARNESS.replace("PAGES", json.dumps(dict(pages)).replace("</", "<\\/"))
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


def brightness(color: str) -> float:
    red, green, blue = (int(part) for part in re.findall(r"\d+", color)[:3])
    return (red + green + blue) / 3
