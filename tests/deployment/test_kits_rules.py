from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from nvflare.apis.fl_exception import UnsafeComponentError
from nvflare.apis.workspace import Workspace
from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST
from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
from nvflare.fuel.sec.authz import AuthzContext, Person
from nvflare.security.security import COMMAND_CATEGORIES, FLAuthorizer

from fedcox.deployment import center_folder
from fedcox.deployment.center_folder import CenterFolder
from fedcox.deployment.certificates import COORDINATOR_ROLE, COORDINATOR_USER, ORGANISATION
from fedcox.deployment.job_launcher import OnlySettings
from fedcox.deployment.private_files import write_private_json
from fedcox.errors import DeploymentError
from tests.deployment.kit_examples import CENTERS, NOW, Made, make


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("rules") / "coordinator")


@pytest.fixture(scope="module")
def joined(made: Made, tmp_path_factory: pytest.TempPathFactory) -> CenterFolder:
    place = tmp_path_factory.mktemp("joined") / "a"
    return center_folder.join(made.kit("A"), made.passwords["A"], place, now=NOW)


@pytest.fixture
def own(joined: CenterFolder, tmp_path: Path) -> CenterFolder:
    """A copy that a test may change."""
    shutil.copytree(joined.path, tmp_path / "own")
    return CenterFolder.read(tmp_path / "own")


def content(file: Path) -> Any:
    return json.loads(file.read_bytes())


def provisioned(place: Path) -> Path:
    """The same participants by the engine's own provisioning."""
    from nvflare.lighter.entity import Project
    from nvflare.lighter.impl.cert import CertBuilder
    from nvflare.lighter.impl.static_file import StaticFileBuilder
    from nvflare.lighter.impl.workspace import WorkspaceBuilder
    from nvflare.lighter.provisioner import Provisioner

    class Silent:
        def info(self, text: str) -> None: ...

        debug = warning = error = info

    project = Project("lung", "")
    project.set_server("127.0.0.1", ORGANISATION, {"fed_learn_port": 18102})
    for name in CENTERS:
        project.add_client(name, ORGANISATION, {})
    project.add_admin(COORDINATOR_USER, ORGANISATION, {"role": COORDINATOR_ROLE})
    builders = [
        WorkspaceBuilder(),
        StaticFileBuilder(scheme="http", require_signed_jobs=True),
        CertBuilder(),
    ]
    context = Provisioner(str(place), builders).provision(project, logger=Silent())
    return Path(context.get_result_location())


def test_start_up_files_are_those_of_the_engines_own_provisioning(
    made: Made, joined: CenterFolder, tmp_path: Path
) -> None:
    theirs = provisioned(tmp_path / "provisioned")
    pairs = [
        (made.folder.server, "127.0.0.1", "fed_server.json"),
        (made.folder.admin, COORDINATOR_USER, "fed_admin.json"),
        (joined.flare, "A", "fed_client.json"),
    ]
    for ours, name, file in pairs:
        assert content(ours / "startup" / file) == content(theirs / name / "startup" / file)


def test_a_centers_rules_are_the_engines_but_for_what_protects_patients(
    joined: CenterFolder, tmp_path: Path
) -> None:
    theirs = content(
        provisioned(tmp_path / "provisioned") / "A" / "local" / "resources.json.default"
    )
    ours = content(joined.flare / "local" / "resources.json")
    assert ours["allow_log_streaming"] is False
    names = {each["id"] for each in ours["components"]}
    assert names == {each["id"] for each in theirs["components"]} - {"site_log_streamer"}
    assert ours["client"] == theirs["client"]
    assert ours["class_list_enforcement_mode"] == "enforce"
    assert set(ours) == set(theirs) | {"app_validator"}


def test_the_servers_rules_keep_everything_in_the_folder(made: Made) -> None:
    made.folder.write_rules()
    rules = content(made.folder.server / "local" / "resources.json")
    named = {each["id"]: each["args"] for each in rules["components"]}
    snapshots = rules["snapshot_persistor"]["args"]["storage"]["args"]
    assert named["job_manager"]["uri_root"] == str(made.folder.store / "jobs")
    assert snapshots["root_dir"] == str(made.folder.store / "snapshots")
    assert "log_receiver" not in named
    for side in (made.folder.server, made.folder.admin):
        assert not list(side.rglob("*.default"))


def allowed(workspace: Path, right: str, role: str, org: str = ORGANISATION) -> bool:
    """What the engine's own authorizer reads in the rules."""
    rules = content(workspace / "local" / "authorization.json")
    user = Person("somebody", org, role)
    answer, _ = FLAuthorizer(ORGANISATION, rules).authorize(AuthzContext(right, user, user))
    return bool(answer)


def test_at_a_center_a_job_may_be_run_and_nothing_else(joined: CenterFolder) -> None:
    for right, category in COMMAND_CATEGORIES.items():
        expected = category in ("manage_job", "view")
        assert allowed(joined.flare, right, COORDINATOR_ROLE) is expected, right
    for right in ("byoc", "server-predeployed-flwr", "clone_job"):
        assert not allowed(joined.flare, right, COORDINATOR_ROLE)


@pytest.mark.parametrize("role", ["org_admin", "lead", "member", "", "owner"])
def test_no_other_role_has_any_right(made: Made, joined: CenterFolder, role: str) -> None:
    for right in (*COMMAND_CATEGORIES, "byoc", "submit_job", "clone_job"):
        for workspace in (joined.flare, made.folder.server):
            assert not allowed(workspace, right, role), right


def test_nobody_brings_code_to_the_server_or_runs_commands_on_it(made: Made) -> None:
    assert allowed(made.folder.server, "submit_job", COORDINATOR_ROLE)
    assert allowed(made.folder.server, "shutdown", COORDINATOR_ROLE)
    for right in ("byoc", "cat", "ls", "grep", "head", "tail", "pwd", "download_job"):
        assert not allowed(made.folder.server, right, COORDINATOR_ROLE), right


def buildable(workspace: Path, path: str) -> bool:
    try:
        ComponentPathAuthorizer().authorize_component_config(
            {"path": path, "args": {}}, workspace=Workspace(str(workspace))
        )
    except UnsafeComponentError:
        return False
    return True


def test_a_job_may_name_our_classes_only(made: Made, joined: CenterFolder) -> None:
    job = "fedcox.deployment."
    collab = "nvflare.collab.runtime."
    assert buildable(joined.flare, job + "center_job.CenterJob")
    assert buildable(joined.flare, collab + "executor.CollabExecutor")
    assert buildable(made.folder.server, job + "study_job.StudyJob")
    assert buildable(made.folder.server, "fedcox.deployment.study_job.StudyController")
    others = [*DEFAULT_CLASS_ALLOW_LIST, "os.system", "subprocess.Popen", "builtins.eval"]
    others += [job + "center_job.CenterJobs", job + "jobs.submit", "fedcox.cli.main.main"]
    for workspace in (joined.flare, made.folder.server):
        assert not [path for path in others if buildable(workspace, path)]


@pytest.mark.parametrize(
    "name", ["startup/evil__resources.json", "local/custom", "local/resources.json.default"]
)
def test_a_foreign_file_that_the_engine_would_obey_stops_the_start(
    own: CenterFolder, name: str
) -> None:
    own.write_rules()
    foreign = own.flare / name
    foreign.write_text("{}")
    with pytest.raises(DeploymentError, match=foreign.name):
        own.write_rules()
    assert foreign.exists()


@pytest.mark.parametrize(
    "name", ["startup/.client.crt.4711.part", "local/.resources.json.4711.part"]
)
def test_what_a_power_cut_left_of_our_own_file_does_not_stop_the_start(
    own: CenterFolder, name: str
) -> None:
    part = own.flare / name
    part.write_text("{")
    own.write_rules()
    assert not part.exists()


@pytest.mark.parametrize(
    "name",
    [".evil.json.4711.part", ".resources.json.x.part", ".resources.json.4711.part.json"],
)
def test_what_only_looks_like_a_part_of_ours_stops_the_start(
    own: CenterFolder, name: str
) -> None:
    foreign = own.flare / "local" / name
    foreign.write_text("{}")
    with pytest.raises(DeploymentError, match="holds more than fedcox wrote"):
        own.write_rules()
    assert foreign.exists()


def test_a_part_of_a_process_of_the_same_number_is_written_over(own: CenterFolder) -> None:
    file = own.path / "center.json"
    part = file.with_name(f".center.json.{os.getpid()}.part")
    part.write_text("{")
    write_private_json(file, {"version": 1})
    assert content(file) == {"version": 1}
    assert not part.exists()


def test_rules_that_were_changed_are_written_again(own: CenterFolder) -> None:
    for name in ("resources.json", "authorization.json"):
        file = own.flare / "local" / name
        before = file.read_bytes()
        file.write_text('{"class_allow_list": ["*"]}')
        own.write_rules()
        assert file.read_bytes() == before


def test_a_missing_certificate_is_told_before_the_start(own: CenterFolder) -> None:
    (own.flare / "startup" / "client.key").unlink()
    with pytest.raises(DeploymentError, match=r"client\.key"):
        own.write_rules()


def a_job(place: Path) -> Path:
    (place / "config").mkdir(parents=True)
    (place / "config" / "config_fed_client.json").write_text("{}")
    for folder in (place, place / "config"):
        (folder / ".__nvfl_sig.json").write_text("{}")
        (folder / ".__nvfl_submitter.crt").write_text("x")
    return place


def test_a_job_of_settings_alone_is_taken(tmp_path: Path) -> None:
    assert OnlySettings().validate(str(a_job(tmp_path / "job"))) == ("", {})


@pytest.mark.parametrize(
    "name",
    [
        "custom/evil.py",
        "evil.py",
        "config/evil.py",
        "config/config_fed_client.conf",
        "config/custom/x.json",
        "config/comm_config.json",
        "resources.json",
        "a/b/c.json",
    ],
)
def test_a_job_that_brings_anything_else_is_refused(tmp_path: Path, name: str) -> None:
    job = a_job(tmp_path / "job")
    (job / name).parent.mkdir(parents=True, exist_ok=True)
    (job / name).write_text("{}")
    error, found = OnlySettings().validate(str(job))
    assert "refused" in error
    assert found == {}


def test_a_job_with_links_empty_folders_or_large_files_is_refused(tmp_path: Path) -> None:
    linked, empty, large = (a_job(tmp_path / name) for name in ("linked", "empty", "large"))
    settings = linked / "config" / "config_fed_client.json"
    settings.unlink()
    settings.symlink_to("/etc/hostname")
    (empty / "custom").mkdir()
    (large / "config" / "config_fed_server.json").write_text(" " * 100_000)
    for job in (linked, empty, large):
        assert OnlySettings().validate(str(job))[0]


def test_the_engine_finds_the_classes_that_the_rules_name(
    made: Made, joined: CenterFolder
) -> None:
    from nvflare.apis.app_validation import AppValidator
    from nvflare.apis.job_launcher_spec import JobLauncherSpec

    from fedcox.deployment.job_launcher import GuardedJobLauncher, StudyLauncher

    assert issubclass(OnlySettings, AppValidator)
    for workspace, launcher in (
        (joined.flare, GuardedJobLauncher),
        (made.folder.server, StudyLauncher),
    ):
        rules = content(workspace / "local" / "resources.json")
        named = {each["id"]: each["path"] for each in rules["components"]}
        full = f"{launcher.__module__}.{launcher.__name__}"
        assert named["process_launcher"] == full
        assert issubclass(launcher, JobLauncherSpec)
        own = OnlySettings
        assert rules["app_validator"]["path"] == f"{own.__module__}.{own.__name__}"
