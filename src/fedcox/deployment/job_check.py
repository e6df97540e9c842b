"""May this job run here? Only one that is nothing but settings."""

from __future__ import annotations

from pathlib import Path

from nvflare.apis.app_validation import AppValidator

# What `fedcox coordinator run` submits; the engine adds its signatures to each folder.
_SIGNATURES = frozenset({".__nvfl_sig.json", ".__nvfl_submitter.crt"})
_SETTINGS = frozenset({"config_fed_server.json", "config_fed_client.json"})
_LARGEST = 1 << 16


class OnlySettings(AppValidator):  # type: ignore[misc]  # the engine's classes have no types
    """Refuses a job that brings anything but its two files of settings.

    The engine asks for it by name in `local/resources.json`, before a job is used. Code in a
    job is then refused whoever submits it, and whatever role he is said to have.
    """

    def validate(self, app_folder: str) -> tuple[str, dict[str, bool]]:
        """The engine's question: an error in words, or none."""
        root = Path(app_folder)
        if all(_expected(path, path.relative_to(root)) for path in root.rglob("*")):
            return "", {}
        return "the job brings more than settings; it is refused", {}


def _expected(path: Path, within: Path) -> bool:
    if path.is_symlink():
        return False
    if path.is_dir():
        return within == Path("config")
    folder, name = within.parent, within.name
    settings = folder == Path("config") and name in _SETTINGS
    signature = folder in (Path(), Path("config")) and name in _SIGNATURES
    return (settings or signature) and path.is_file() and path.stat().st_size <= _LARGEST
