from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.fuel.f3.cellnet.core_cell import Message as CellMessage
from nvflare.fuel.f3.cellnet.net_agent import NetAgent
from nvflare.fuel.sec.audit import AuditService
from nvflare.fuel.sec.authz import AuthorizationService, AuthzContext, Person
from nvflare.private.admin_defs import Message
from nvflare.private.defs import RequestHeader, SysCommandTopic, TrainingTopic
from nvflare.private.fed.client.admin import FedAdminAgent
from nvflare.private.fed.client.admin_commands import AdminCommands
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from fedcox.deployment.guard import guard_client, guard_job
from fedcox.deployment.job_launcher import GuardedJobLauncher, StudyLauncher

JOB = RequestHeader.JOB_ID


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's lists and authorizer, as a new process has them, given back afterwards."""
    for owner, name in (
        (ClientRequestProcessors, "request_processors"),
        (AdminCommands, "commands"),
    ):
        monkeypatch.setattr(owner, name, [copy(each) for each in getattr(owner, name)])
    for name, answers in list(vars(NetAgent).items()):
        if name.startswith("_do_"):
            monkeypatch.setattr(NetAgent, name, answers)
    monkeypatch.setattr(AuthorizationService, "the_authorizer", None)
    monkeypatch.setenv("NVFLARE_SECURE_LOGGING", "false")


class Engine:
    @contextmanager
    def new_context(self) -> Iterator[FLContext]:
        yield FLContext()

    def fire_event(self, *_: object) -> None: ...


def ask(place: Path, topic: str, body: str, **headers: str) -> str:
    """What a client's administration answers to a request of its server."""
    AuditService.initialize(str(place / "audit.log"))
    cell = SimpleNamespace(register_request_cb=lambda **_: None)
    agent = FedAdminAgent("admin_agent", cell, Engine())
    for processor in ClientRequestProcessors.request_processors:
        agent.register_processor(processor)
    request = Message(topic=topic, body=body)
    request.set_headers(headers)
    reply = agent._dispatch_request(CellMessage(payload=request))
    return str(reply.payload.body)


def test_a_server_cannot_read_a_hospitals_file(tmp_path: Path) -> None:
    patients = tmp_path / "patients.csv"
    patients.write_text("age,days\n63,412\n")
    asked = f"cat {patients}"
    # The engine by itself prints the file for a server that says nothing of authorization.
    assert "63,412" in ask(tmp_path, SysCommandTopic.SHELL, asked)
    guard_client()
    answer = ask(tmp_path, SysCommandTopic.SHELL, asked)
    assert "63,412" not in answer
    assert "invalid_request" in answer
    as_super = {RequestHeader.USER_ROLE: "super", RequestHeader.REQUIRE_AUTHZ: "true"}
    as_super |= {RequestHeader.ADMIN_COMMAND: "cat"}
    assert "63,412" not in ask(tmp_path, SysCommandTopic.SHELL, asked, **as_super)


@pytest.mark.parametrize(
    "topic",
    [
        SysCommandTopic.SYS_INFO,
        SysCommandTopic.REPORT_ENV,
        SysCommandTopic.CONFIGURE_SITE_LOG,
        TrainingTopic.SHUTDOWN,
        TrainingTopic.RESTART,
        TrainingTopic.DELETE_RUN,
        TrainingTopic.CONFIGURE_JOB_LOG,
        "info.show_errors",
        "info.show_stats",
    ],
)
def test_requests_that_no_study_needs_are_not_known(tmp_path: Path, topic: str) -> None:
    guard_client()
    assert "invalid_request" in ask(tmp_path, topic, "")


@pytest.mark.parametrize("job", ["local", "startup", "..", "../x", "x", "A" * 36])
@pytest.mark.parametrize(
    "topic", [TrainingTopic.DEPLOY, TrainingTopic.START_JOB, TrainingTopic.ABORT]
)
def test_what_is_no_number_of_a_job_is_not_taken_for_one(
    tmp_path: Path, topic: str, job: str
) -> None:
    guard_client()
    assert "not allowed at this center" in ask(tmp_path, topic, "", **{JOB: job})


def test_the_number_of_a_job_is_taken_for_one(tmp_path: Path) -> None:
    guard_client()
    answer = ask(tmp_path, TrainingTopic.DEPLOY, "", **{JOB: str(uuid4())})
    assert "not allowed at this center" not in answer


def test_what_a_study_needs_is_still_known() -> None:
    guard_client()
    topics = {
        topic
        for processor in ClientRequestProcessors.request_processors
        for topic in processor.get_topics()
    }
    assert {
        TrainingTopic.DEPLOY,
        TrainingTopic.START_JOB,
        TrainingTopic.CHECK_RESOURCE,
        TrainingTopic.CANCEL_RESOURCE,
        TrainingTopic.ABORT,
        TrainingTopic.CHECK_STATUS,
    } <= topics


@pytest.mark.parametrize("role", ["super", "project_admin", "lead", ""])
def test_rights_do_not_depend_on_a_role(role: str) -> None:
    guard_client()
    somebody = Person("somebody", "fedcox", role)

    def allowed(right: str) -> bool:
        return bool(AuthorizationService.authorize(AuthzContext(right, somebody, somebody))[0])

    assert allowed("submit_job")
    assert allowed("check_status")
    assert allowed("abort_job")
    for right in ("byoc", "server-predeployed-flwr", "cat", "shutdown", "download_job", "x"):
        assert not allowed(right), right


def test_the_engines_own_authorizer_comes_too_late() -> None:
    from nvflare.security.security import EmptyAuthorizer

    guard_client()
    kept, _ = AuthorizationService.initialize(EmptyAuthorizer())
    assert type(kept).__name__ == "ByRequest"


def test_a_job_process_gives_no_errors_away() -> None:
    assert AdminCommands.get_command("show_errors") is not None
    guard_job()
    for name in ("show_errors", "show_stats", "reset_errors", "configure_job_log"):
        assert AdminCommands.get_command(name) is None
    assert AdminCommands.get_command("abort") is not None


@pytest.mark.parametrize("guard", [guard_client, guard_job])
def test_an_exception_is_told_by_its_kind_alone(guard: Any) -> None:
    from nvflare.security.logging import secure_format_exception, secure_format_traceback

    guard()
    assert os.environ["NVFLARE_SECURE_LOGGING"] == "true"
    try:
        int("patient 12345")
    except ValueError as error:
        told = secure_format_exception(error) + secure_format_traceback()
    assert "ValueError" in told
    assert "12345" not in told


def test_a_version_of_the_engine_with_other_requests_is_not_started() -> None:
    ClientRequestProcessors.request_processors.pop(0)
    with pytest.raises(RuntimeError, match="version of the engine"):
        guard_client()


def context(workspace: str, module: str) -> FLContext:
    given = {
        JobProcessArgs.EXE_MODULE: ("-m", module),
        JobProcessArgs.JOB_ID: ("-n", "1234"),
        JobProcessArgs.WORKSPACE: ("-m", workspace),
        JobProcessArgs.STARTUP_CONFIG_FILE: ("-s", "fed.json"),
        JobProcessArgs.OPTIONS: ("--set", " secure_train=true uid=A print_conf=True"),
    }
    made = FLContext()
    made.set_prop(FLContextKey.JOB_PROCESS_ARGS, given, private=True, sticky=False)
    return made


def test_a_job_starts_guarded_and_in_a_folder_with_spaces() -> None:
    place = "dr o'neil's own/my center/flare"
    engines = "nvflare.private.fed.app.client.worker_process"
    words = shlex.split(GuardedJobLauncher().get_command({}, context(place, engines)), True)
    assert words[:3] == [sys.executable, "-m", "fedcox.deployment.guarded_job"]
    assert words[words.index(place) - 1] == "-m"
    assert words[-4:] == ["--set", "secure_train=true", "uid=A", "print_conf=True"]
    assert engines not in words


def test_a_study_starts_as_the_engine_would_start_it() -> None:
    engines = "nvflare.private.fed.app.server.runner_process"
    words = shlex.split(StudyLauncher().get_command({}, context("a b/server", engines)), True)
    assert words[:3] == [sys.executable, "-m", engines]
    assert "a b/server" in words


@pytest.mark.parametrize("guard", [guard_client, guard_job])
def test_nobody_learns_how_much_memory_a_process_takes(guard: Callable[[], None]) -> None:
    answers: dict[str, Callable[[CellMessage], CellMessage | None]] = {}

    def register(channel: str, topic: str, cb: Any) -> None:
        answers[topic] = cb

    def memory() -> str:
        NetAgent(SimpleNamespace(register_request_cb=register))
        told = answers["process_info"](CellMessage())
        return "" if told is None else str(told.payload)

    # The engine by itself tells it to whoever asks.
    assert "Memory Usage" in memory()
    guard()
    assert memory() == ""
    assert answers["change_root"](CellMessage(payload="http://elsewhere")) is None
    assert answers["config_vars"](CellMessage()) is None
