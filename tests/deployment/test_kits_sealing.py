from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.deployment.kit import LARGEST, new_password, seal, unseal
from fedcox.errors import DeploymentError

PASSWORD = "abcd-efgh-jkmn-pqrs-tuwx"
SECRET = b"the private key of a center, and where the coordinator is"
SEALED = seal(SECRET, PASSWORD)


@settings(max_examples=3)
@given(st.binary(max_size=2000))
def test_what_was_sealed_comes_out_again(content: bytes) -> None:
    assert unseal(seal(content, PASSWORD), PASSWORD) == content


@pytest.mark.parametrize(
    "typed", ["ABCD EFGH JKMN PQRS TUWX", " abcdefghjkmnpqrstuwx\n", PASSWORD.upper()]
)
def test_a_password_may_be_typed_as_it_was_heard(typed: str) -> None:
    assert unseal(SEALED, typed) == SECRET


@pytest.mark.parametrize("typed", ["", "abcd", PASSWORD[:-1], PASSWORD + "y", PASSWORD[1:]])
def test_a_wrong_password_is_told_as_one(typed: str) -> None:
    with pytest.raises(DeploymentError, match="password does not open") as caught:
        unseal(SEALED, typed)
    assert typed not in str(caught.value) or len(typed) < 5


@settings(max_examples=8)
@given(st.integers(0, len(SEALED) - 1), st.integers(1, 255))
def test_no_altered_byte_goes_unseen(place: int, change: int) -> None:
    altered = bytearray(SEALED)
    altered[place] ^= change
    with pytest.raises(DeploymentError):
        unseal(bytes(altered), PASSWORD)


def test_an_altered_content_is_told_as_such() -> None:
    altered = SEALED[:-1] + bytes([SEALED[-1] ^ 1])
    with pytest.raises(DeploymentError, match="altered on its way") as caught:
        unseal(altered, PASSWORD)
    assert "password is right" in str(caught.value)


@pytest.mark.parametrize("length", [0, 5, 20, 40, 70, len(SEALED) - 1])
def test_a_file_that_was_cut_is_refused(length: int) -> None:
    with pytest.raises(DeploymentError):
        unseal(SEALED[:length], PASSWORD)


def test_another_kind_of_file_is_told_as_such() -> None:
    with pytest.raises(DeploymentError, match="not a start-up kit"):
        unseal(b"PK\x03\x04 a zip archive", PASSWORD)


def test_a_file_that_is_too_large_is_refused_before_any_work() -> None:
    with pytest.raises(DeploymentError):
        unseal(SEALED + bytes(LARGEST), PASSWORD)
    with pytest.raises(ValueError, match="at most"):
        seal(bytes(LARGEST + 1), PASSWORD)


def test_the_secret_is_not_in_the_file_and_no_two_files_are_alike() -> None:
    assert SECRET not in SEALED
    assert SECRET[:8] not in SEALED
    other = seal(SECRET, PASSWORD)
    assert other != SEALED
    assert other[20:36] != SEALED[20:36]  # the salt


def test_a_password_is_long_random_and_easy_to_say() -> None:
    words = [new_password() for _ in range(200)]
    assert len(set(words)) == 200
    letters = {letter for word in words for letter in word.replace("-", "")}
    assert not letters & set("il1o0vABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert len(letters) == 30
    assert all([len(part) for part in word.split("-")] == [4] * 5 for word in words)
