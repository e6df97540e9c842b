"""phi once against the stack, gradients of single patients against autograd, and batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.errors import CohortError, InputError, WeightsError
from fedcox.models import network_patients
from fedcox.models.architecture import (
    AbstractArchitecture,
    OwnModule,
    Perceptron,
    TileScorer,
    TileScorerWithTable,
)
from fedcox.models.modules import size, start
from fedcox.models.network_patients import NetworkPatients
from fedcox.models.neural import NeuralModel
from fedcox.models.predictors.network import NetworkLink, Precision
from fedcox.survival.bags import Bags, SlideArray
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Derivatives
from fedcox.survival.time_at_risk import TimeAtRisk
from fedcox.survival.time_grid import CensoredInterval
from tests.models.network_examples import (
    ARCHITECTURES,
    COLUMNS,
    FEATURES,
    GRID,
    LINK_READINGS,
    LINKS,
    gap,
    patients_with_slides,
    placed,
    samples,
    stacked,
)

TOLERANCE: dict[Precision, float] = {"float32": 1e-6, "float64": 1e-10}


def weights(model: NeuralModel, seed: int = 3) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    theta = start(model.architecture, seed)
    return theta + 0.1 * rng.normal(size=theta.size), rng.normal(-1.5, 0.5, model.intervals)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize(
    ("link", "reading", "precision"),
    [
        *((*chosen, "float64") for chosen in LINK_READINGS),
        ("log", "include", "float32"),
        ("cloglog", "half", "float32"),
        ("logit", "half", "float32"),
    ],
)
@pytest.mark.parametrize(("balance", "share"), [(1.0, "slide"), (7.5, "patient")])
def test_phi_once_has_the_loss_and_gradients_of_the_stack(
    name: str,
    link: NetworkLink,
    reading: CensoredInterval,
    balance: float,
    share: str,
    precision: Precision,
) -> None:
    cohort = patients_with_slides(9)
    model = NeuralModel(
        ARCHITECTURES[name],
        link,
        GRID.intervals,
        balance,
        "patient" if share == "patient" else "slide",
        precision,
    )
    theta, alpha = weights(model)
    patients = model.lay_out(cohort, placed(cohort, reading, link))
    found = model.gradient(theta, alpha, patients)
    wanted = stacked(model, theta, alpha, cohort, reading)
    tolerance = TOLERANCE[precision]
    assert abs(found.loss - wanted.loss) <= tolerance * wanted.loss
    assert gap(found.beta, wanted.theta) <= tolerance
    assert gap(found.alpha, wanted.alpha) <= tolerance
    assert model.loss(theta, alpha, patients) == pytest.approx(found.loss, rel=tolerance)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("link", LINKS)
def test_gradients_of_single_patients_are_those_of_autograd(
    name: str, link: NetworkLink
) -> None:
    cohort = patients_with_slides(6)
    model = NeuralModel(ARCHITECTURES[name], link, GRID.intervals, 3.0, precision="float64")
    theta, alpha = weights(model)
    patients = model.lay_out(cohort, placed(cohort, "half", link))
    rows = np.array([4, 0, 5, 4, 2])
    found = np.concatenate(list(model.patient_gradients(theta, alpha, patients, rows)))
    assert found.shape == (rows.size, theta.size + alpha.size)
    for row, own in zip(rows, found, strict=True):
        alone = stacked(model, theta, alpha, cohort.take(np.array([row])), "half")
        wanted = np.concatenate([alone.theta, alone.alpha])
        assert gap(own, wanted) <= 1e-10
    whole = np.concatenate(list(model.patient_gradients(theta, alpha, patients))).sum(axis=0)
    summed = model.gradient(theta, alpha, patients)
    assert gap(whole, np.concatenate([summed.beta, summed.alpha])) <= 1e-10


@pytest.mark.parametrize("architecture", [TileScorer(32, 128), TileScorerWithTable(32, 3, 64)])
@pytest.mark.parametrize("link", LINKS)
def test_the_gradient_of_a_patient_has_the_same_bits_whoever_else_is_there(
    architecture: AbstractArchitecture, link: NetworkLink
) -> None:
    """A processor may round the ends of an array otherwise than its middle."""
    rng, many, intervals = np.random.default_rng(0), 40, 12
    slides = tuple(
        tuple(
            SlideArray(rng.normal(size=(int(rng.integers(5, 40)), 32)).astype(np.float16))
            for _ in range(int(rng.integers(1, 4)))
        )
        for _ in range(many)
    )
    event = rng.random(many) < 0.5
    cohort = Cohort(rng.normal(size=(many, 3)), np.ones(many), event, bags=Bags(slides, 32))
    part = rng.uniform(size=many) if link == "log" else np.zeros(many)
    at_risk = TimeAtRisk(rng.integers(0, intervals, many), event, part)
    model = NeuralModel(architecture, link, intervals, event_weight=3.7)
    theta, alpha = start(architecture, 1), rng.normal(-3.0, 0.5, intervals)
    patients = model.lay_out(cohort, at_risk)

    def gradients(rows: IntArray) -> FloatArray:
        return np.concatenate(list(model.patient_gradients(theta, alpha, patients, rows)))

    single = np.concatenate([gradients(np.array([row])) for row in range(many)])
    for rows in (np.arange(many), np.arange(1, many), rng.permutation(many)[:7]):
        assert gradients(rows).tobytes() == single[rows].tobytes()


@pytest.mark.parametrize("name", ["tile scorer", "tile scorer with table", "own, of bags"])
def test_scores_are_never_in_half_precision(name: str) -> None:
    cohort = patients_with_slides()
    found = {}
    choices: tuple[Precision, ...] = ("bfloat16", "float32")
    for precision in choices:
        model = NeuralModel(ARCHITECTURES[name], "logit", GRID.intervals, precision=precision)
        theta, _ = weights(model)
        patients = model.lay_out(cohort, placed(cohort))
        found[precision] = np.concatenate(model.slide_scores(theta, patients))
    assert found["bfloat16"].tolist() == found["float32"].tolist()


def test_blocks_of_single_patients_stay_true_when_other_weights_were_used_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cohort = patients_with_slides(5)
    model = NeuralModel(ARCHITECTURES["own, of a table"], "logit", GRID.intervals)
    theta, alpha = weights(model)
    patients = model.lay_out(cohort, placed(cohort))
    wanted = np.concatenate(list(model.patient_gradients(theta, alpha, patients)))
    monkeypatch.setattr("fedcox.models.neural._NUMBERS", 2 * (theta.size + alpha.size))
    blocks = []
    for block in model.patient_gradients(theta, alpha, patients):
        blocks.append(block)
        model.gradient(2 * theta, alpha, patients)
    assert len(blocks) == 3
    assert gap(np.concatenate(blocks), wanted) <= 1e-6


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("link", ["log", "cloglog"])
@settings(max_examples=4)
@given(center=st.lists(st.integers(0, 2), min_size=14, max_size=14))
def test_any_split_over_centers_sums_to_the_pooled_gradient(
    name: str, link: NetworkLink, center: list[int]
) -> None:
    cohort = patients_with_slides()
    model = NeuralModel(ARCHITECTURES[name], link, GRID.intervals, 2.0)
    theta, alpha = weights(model)

    def gradient(of: Cohort) -> Derivatives:
        return model.gradient(theta, alpha, model.lay_out(of, placed(of, link=link)))

    whole = gradient(cohort)
    own = [gradient(cohort.take(np.array(center) == k)) for k in range(3)]
    total = own[0] + own[1] + own[2]
    # Slides go one by one and are summed in float64; rows of a table share a product.
    tolerance = 1e-6 if ARCHITECTURES[name].inputs == "table" else 1e-12
    assert gap(total.beta, whole.beta) <= tolerance
    assert gap(total.alpha, whole.alpha) <= tolerance
    assert total.loss == pytest.approx(whole.loss, rel=tolerance)


@pytest.mark.parametrize("name", ["perceptron", "tile scorer", "own, of both"])
def test_a_patient_drawn_twice_counts_twice(name: str) -> None:
    cohort = patients_with_slides()
    model = NeuralModel(
        ARCHITECTURES[name],
        "logit",
        GRID.intervals,
        slide_weight="patient",
        precision="float64",
    )
    theta, alpha = weights(model)
    patients = model.lay_out(cohort, placed(cohort))
    found = model.gradient(theta, alpha, patients, np.array([3, 9, 3]))
    single = [model.gradient(theta, alpha, patients, np.array([row])) for row in (3, 9)]
    assert found.loss == pytest.approx(2 * single[0].loss + single[1].loss, rel=1e-12)
    assert gap(found.beta, 2 * single[0].beta + single[1].beta) <= 1e-12
    assert gap(found.alpha, 2 * single[0].alpha + single[1].alpha) <= 1e-12


@pytest.mark.parametrize("name", ["perceptron", "tile scorer", "own, of bags"])
@pytest.mark.parametrize(("link", "reading"), LINK_READINGS)
def test_all_cells_together_are_the_whole_loss_and_others_add_nothing(
    name: str, link: NetworkLink, reading: CensoredInterval
) -> None:
    cohort = patients_with_slides()
    model = NeuralModel(ARCHITECTURES[name], link, GRID.intervals, 4.0, precision="float64")
    theta, alpha = weights(model)
    patients = model.lay_out(cohort, placed(cohort, reading, link))
    rng = np.random.default_rng(1)
    cells = rng.permutation(cohort.patients * GRID.intervals)  # those not at risk among them
    rows, intervals = np.divmod(cells, GRID.intervals)
    found = model.cell_gradient(theta, alpha, patients, rows, intervals)
    whole = model.gradient(theta, alpha, patients)
    assert found.loss == pytest.approx(whole.loss, rel=1e-12)
    assert gap(found.beta, whole.beta) <= 1e-12
    assert gap(found.alpha, whole.alpha) <= 1e-12
    twice = model.cell_gradient(
        theta, alpha, patients, np.tile(rows[:5], 2), np.tile(intervals[:5], 2)
    )
    once = model.cell_gradient(theta, alpha, patients, rows[:5], intervals[:5])
    assert gap(twice.beta, 2 * once.beta) <= 1e-12


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_scores_of_slides_are_the_modules_own(name: str) -> None:
    from fedcox.models.modules import assign, build

    cohort = patients_with_slides(5)
    model = NeuralModel(ARCHITECTURES[name], "logit", GRID.intervals, precision="float64")
    theta, _ = weights(model)
    scores = model.slide_scores(theta, model.lay_out(cohort, None))
    module = build(model.architecture).double()
    assign(module, theta)
    for patient, own in enumerate(scores):
        wanted = samples(model.architecture, module, cohort, patient, torch.float64)
        assert own == pytest.approx(
            [float(one().detach()) for one in wanted], rel=1e-12, abs=1e-14
        )


def test_nobody_adds_nothing() -> None:
    cohort = patients_with_slides(3)
    nobody = cohort.take(np.zeros(3, dtype=np.bool_))
    for architecture in ARCHITECTURES.values():
        model = NeuralModel(architecture, "logit", GRID.intervals)
        theta, alpha = weights(model)
        empty = model.lay_out(nobody, placed(nobody))
        none = np.empty(0, dtype=np.int64)
        somebody = model.lay_out(cohort, placed(cohort))
        for found in (
            model.gradient(theta, alpha, empty),
            model.gradient(theta, alpha, somebody, none),
            model.cell_gradient(theta, alpha, somebody, none, none),
        ):
            assert found.loss == 0.0
            assert not found.beta.any()
            assert not found.alpha.any()
        assert model.slide_scores(theta, empty) == []
        assert list(model.patient_gradients(theta, alpha, empty)) == []
        assert model.cox_gradient(theta, empty).loss == 0.0


def test_half_precision_features_are_used_as_they_are() -> None:
    cohort = patients_with_slides(dtype=np.float16)
    assert cohort.bags is not None
    wide = tuple(
        tuple(SlideArray(slide.read().astype(np.float32)) for slide in own)
        for own in cohort.bags.slides
    )
    same = Cohort(cohort.covariates, cohort.time, cohort.event, bags=Bags(wide, FEATURES))
    for name in ("tile scorer", "own, of bags"):
        model = NeuralModel(ARCHITECTURES[name], "logit", GRID.intervals)
        theta, alpha = weights(model)
        left, right = (
            model.gradient(theta, alpha, model.lay_out(own, placed(own)))
            for own in (cohort, same)
        )
        assert np.array_equal(left.beta, right.beta)


@pytest.mark.parametrize("name", ["tile scorer", "own, of bags", "own, of both"])
def test_bfloat16_products_are_near_and_their_sums_are_float64(name: str) -> None:
    cohort = patients_with_slides(30, dtype=np.float16)
    coarse, exact = (
        NeuralModel(ARCHITECTURES[name], "logit", GRID.intervals, precision=precision)
        for precision in ("bfloat16", "float64")
    )
    theta, alpha = weights(exact)
    found = coarse.gradient(theta, alpha, coarse.lay_out(cohort, placed(cohort)))
    wanted = exact.gradient(theta, alpha, exact.lay_out(cohort, placed(cohort)))
    assert found.beta.dtype == np.float64
    assert 0 < gap(found.beta, wanted.beta) <= 0.03
    assert found.loss == pytest.approx(wanted.loss, rel=0.01)


def test_slides_that_do_not_fit_in_memory_are_read_and_give_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Counted:
        def __init__(self, inner: SlideArray) -> None:
            self.inner, self.reads = inner, 0

        @property
        def shape(self) -> tuple[int, int]:
            return self.inner.shape

        def read(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
            self.reads += 1
            return self.inner.read()  # type: ignore[return-value]

    cohort = patients_with_slides(4)
    assert cohort.bags is not None
    counted = [
        [Counted(slide) for slide in own if isinstance(slide, SlideArray)]
        for own in cohort.bags.slides
    ]
    bags = Bags(tuple(tuple(own) for own in counted), FEATURES)
    same = Cohort(cohort.covariates, cohort.time, cohort.event, bags=bags)
    model = NeuralModel(ARCHITECTURES["tile scorer"], "logit", GRID.intervals)
    theta, alpha = weights(model)
    wanted = model.gradient(theta, alpha, model.lay_out(cohort, placed(cohort)))
    kept = NetworkPatients.of(same, placed(same), None, inputs="bags")
    monkeypatch.setattr(network_patients, "_RESIDENT_BYTES", 10)
    read = NetworkPatients.of(same, placed(same), None, inputs="bags")
    assert [slide.reads for own in counted for slide in own] == [1] * bags_of(bags)
    for patients, reads in ((kept, 1), (read, 3)):
        for _ in range(2):
            found = model.gradient(theta, alpha, patients)
            assert np.array_equal(found.beta, wanted.beta)
        assert {slide.reads for own in counted for slide in own} == {reads}


def bags_of(bags: Bags) -> int:
    return sum(len(own) for own in bags.slides)


def test_a_network_of_slides_needs_slides_of_its_size() -> None:
    cohort = patients_with_slides(3)
    without = Cohort(cohort.covariates, cohort.time, cohort.event)
    with pytest.raises(CohortError, match="slides"):
        NeuralModel(TileScorer(FEATURES), "logit", 4).lay_out(without, None)
    with pytest.raises(CohortError, match="6 features per tile"):
        NeuralModel(TileScorer(7), "logit", 4).lay_out(cohort, None)
    with pytest.raises(CohortError, match="3 columns"):
        NeuralModel(Perceptron(2), "logit", 4).lay_out(cohort, None)


def test_a_missing_covariate_is_counted_not_trained_on() -> None:
    cohort = patients_with_slides(3)
    table = cohort.covariates.copy()
    table[1, 0] = np.nan
    with pytest.raises(CohortError, match=r"1 patient\(s\)"):
        NeuralModel(Perceptron(COLUMNS), "logit", 4).lay_out(cohort, None, table)


def test_weights_of_another_size_are_refused() -> None:
    cohort = patients_with_slides(3)
    model = NeuralModel(TileScorer(FEATURES), "logit", GRID.intervals)
    patients = model.lay_out(cohort, placed(cohort))
    theta = np.zeros(size(model.architecture) + 1)
    with pytest.raises(WeightsError, match="weights"):
        model.gradient(theta, np.zeros(GRID.intervals), patients)


def test_a_module_must_give_one_number_each() -> None:
    cohort = patients_with_slides(3)
    wide = OwnModule("wide", "table", lambda: torch.nn.Linear(COLUMNS, 2))
    model = NeuralModel(wide, "logit", GRID.intervals)
    with pytest.raises(WeightsError, match="one number"):
        model.slide_scores(start(wide, 0), model.lay_out(cohort, None))


def test_wrong_settings_are_all_named() -> None:
    with pytest.raises(InputError) as caught:
        NeuralModel(
            Perceptron(1),
            "probit",  # type: ignore[arg-type]
            3,
            -1.0,
            "tile",  # type: ignore[arg-type]
            "float8",  # type: ignore[arg-type]
        )
    assert len(caught.value.faults) == 4


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_its_name_is_refused() -> None:
    cohort = patients_with_slides(3)
    model = NeuralModel(Perceptron(COLUMNS), "logit", GRID.intervals, device="cuda")
    with pytest.raises(InputError, match="GPU"):
        model.lay_out(cohort, None)


def test_a_module_that_someone_keeps_is_left_as_it_is() -> None:
    kept = torch.nn.Linear(COLUMNS, 1)
    before = kept.weight.detach().clone()
    own = OwnModule("kept", "table", lambda: kept)
    cohort = patients_with_slides(4)
    model = NeuralModel(own, "logit", GRID.intervals, precision="float64")
    model.gradient(np.ones(COLUMNS + 1), np.zeros(4), model.lay_out(cohort, placed(cohort)))
    assert kept.weight.dtype == torch.float32
    assert torch.equal(kept.weight, before)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_same_question_has_the_same_bits_and_draws_nothing(name: str) -> None:
    cohort = patients_with_slides()
    before = torch.get_rng_state()
    first, again = (
        model.gradient(*weights(model), model.lay_out(cohort, placed(cohort)))
        for model in (NeuralModel(ARCHITECTURES[name], "logit", GRID.intervals),) * 2
    )
    assert np.array_equal(first.beta, again.beta)
    assert np.array_equal(first.alpha, again.alpha)
    assert first.loss == again.loss
    assert torch.equal(torch.get_rng_state(), before)
