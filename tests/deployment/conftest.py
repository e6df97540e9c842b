"""A server and three centers on this machine, for all tests that leave them whole."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from fedcox.data.synthetic import simulate_hospitals
from fedcox.deployment import client, jobs, processes, server
from fedcox.deployment.approval import Approvals, study_code
from fedcox.deployment.center_folder import NO_LIMITS, CenterFolder, CenterSettings, join
from fedcox.deployment.coordinator_folder import CoordinatorFolder, make_folder
from fedcox.deployment.kit import Participants
from fedcox.deployment.runs import RunFolder, begin
from fedcox.privacy.identity import Identity
from fedcox.study.simulation import clinical_study, write_simulation
from fedcox.study.study import Study

NAMES = ("A", "B", "C")
#: Seconds that processes on a busy machine may take; nothing waits that long when all is well.
PATIENCE = 120.0
#: Sums as they are, which those of these simulated patients may be.
EXACT = {"secure_sums": False, "noise": "none"}


@dataclass
class LiveFederation:
    """The folders of a coordinator and its centers, whose processes run."""

    folder: Path
    home: CoordinatorFolder
    centers: dict[str, CenterFolder]
    study: Study
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.centers)

    def start_center(self, name: str) -> None:
        self.started[name] = client.run(self.centers[name])

    def stop_center(self, name: str) -> None:
        client.stop(self.centers[name])
        started = self.started.pop(name, None)
        if started is not None:
            started.communicate()

    @contextmanager
    def connected(self) -> Iterator[None]:
        """All processes run, and none is left."""
        try:
            server.start(self.home)
            for name in self.names:
                self.start_center(name)
            self.wait_for(*self.names)
            yield
        finally:
            for name in self.names:
                self.stop_center(name)
            server.stop(self.home)
        assert self.pids() == set()

    def wait_for(self, *names: str) -> None:
        """Until exactly these centers are connected."""
        with jobs.session(self.home) as line:
            wait_until(lambda: line.connected() == sorted(names))

    def pids(self) -> set[int]:
        """Every process of this federation."""
        places = [self.home.server, *(center.flare for center in self.centers.values())]
        return {process.pid for place in places for process in processes.belonging(place)}

    def named(self, name: str) -> Study:
        """The study under another name, so that each test has a run of its own."""
        text = self.study.to_toml().replace(self.study.name, name)
        return Study.parse(text, source=name)

    def run(
        self, line: jobs.ServerSession, study: Study, *, overwrite: bool = False
    ) -> tuple[RunFolder, jobs.JobState]:
        """Run a study that every center approves, to its end."""
        self.approve(study)
        run, job = self.begin(line, study, overwrite=overwrite)
        return run, ended(line, job)

    def begin(
        self, line: jobs.ServerSession, study: Study, *, overwrite: bool = False
    ) -> tuple[RunFolder, str]:
        """Begin a run; its folder, and the number of its job."""
        run = begin(self.home, study, "", resume=False, overwrite=overwrite, wait=PATIENCE)
        return run, line.submit(run.path.name, len(self.names))

    def code(self, study: Study) -> str:
        """By which hospitals know the study."""
        identities = {
            name: Identity.load(center.identity).public.to_text()
            for name, center in self.centers.items()
        }
        return study_code(study.between_hospitals(len(self.names)), self.names, identities)

    def approve(self, study: Study) -> None:
        """Every center's data manager says yes to the study, whether it was shown or not."""
        for name in self.names:
            self.approvals(name).decide(self.code(study), approve=True, unseen=True)

    def approvals(self, name: str) -> Approvals:
        return Approvals(self.centers[name].pending, self.centers[name].approved)


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            pytest.fail("what was waited for did not happen")
        time.sleep(0.1)


def ended(line: jobs.ServerSession, job: str) -> jobs.JobState:
    wait_until(lambda: line.state(job).name in ("finished", "failed"))
    return line.state(job)


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
    return port


def make_federation(
    folder: Path,
    port: int,
    names: Sequence[str] = NAMES,
    policy: str = NO_LIMITS,
    privacy: Mapping[str, object] = EXACT,
) -> LiveFederation:
    """Folders of a coordinator and its centers, made from kits; no process runs yet."""
    study = Study.from_dict({**clinical_study().to_dict(), "privacy": dict(privacy)})
    simulated = simulate_hospitals(100 * len(names), len(names), rng=np.random.default_rng(1))
    write_simulation(folder / "patients", study, simulated)
    now = datetime.now(UTC)
    participants = Participants("trial", "127.0.0.1", port, tuple(names))
    passwords = make_folder(folder / "coordinator", participants, days=2, now=now)
    home = CoordinatorFolder.read(folder / "coordinator")
    centers = {}
    for number, name in enumerate(names, start=1):
        kit = home.kits / f"{name}.kit"
        centers[name] = join(kit, passwords[name], folder / f"center {name}", now=now)
        data = folder / "patients" / f"hospital_{number}.csv"
        CenterSettings(str(data), policy).write(centers[name].settings)
    return LiveFederation(folder, home, centers, study)


@pytest.fixture(scope="session")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveFederation]:
    """A server and three centers, connected, in folders with spaces in their names."""
    live = make_federation(tmp_path_factory.mktemp("live federation"), free_port())
    with live.connected():
        yield live
