"""A network as phi: its loss and gradients over patients, computed once per sample.

The hazard of a sample in interval m is that of α_m + phi_θ(sample). All answers are sums over
patients in float64, whatever the precision of the network's own products; the loss itself is
always computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from threading import local
from typing import get_args
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from fedcox.errors import InputError
from fedcox.models.architecture import AbstractArchitecture
from fedcox.models.losses import (
    LossAndSlopes,
    cell_loss_and_slopes,
    cox_loss,
    loss_and_slopes,
    sample_slopes,
)
from fedcox.models.modules import check_theta, size
from fedcox.models.network_patients import (
    NetworkPatients,
    PlacedSamples,
    SampleBatch,
    check_fit,
)
from fedcox.models.phi import AbstractPhi, NetworkPhi
from fedcox.models.predictors.network import (
    NetworkLink,
    Precision,
    SlideWeight,
    score_precision,
)
from fedcox.models.recorded_step import RecordedSteps, recorded_steps
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Derivatives
from fedcox.survival.time_at_risk import TimeAtRisk

_NUMBERS = 2**22  # of single patients' gradients that are held together


@dataclass(frozen=True, eq=False)
class NeuralModel:
    """phi, the link, and how they are computed.

    `event_weight` balances the labels; it must come from the counts of the whole study.
    `precision` is that of the network: bfloat16 for the products over tiles alone.
    """

    architecture: AbstractArchitecture
    link: NetworkLink
    intervals: int
    event_weight: float = 1.0
    slide_weight: SlideWeight = "slide"
    precision: Precision = "float32"
    device: str = "cpu"
    _own: local = field(default_factory=local, repr=False)  # recorded steps, of each thread

    def __post_init__(self) -> None:
        faults = [
            f"{what} must be one of {', '.join(get_args(known))}; found {value!r}."
            for what, value, known in (
                ("link", self.link, NetworkLink),
                ("slide_weight", self.slide_weight, SlideWeight),
                ("precision", self.precision, Precision),
            )
            if value not in get_args(known)
        ]
        if not (np.isfinite(self.event_weight) and self.event_weight > 0):
            faults.append("event_weight must be positive and finite.")
        if faults:
            raise InputError("This network cannot be trained as asked.", faults)

    def lay_out(
        self, cohort: Cohort, placed: TimeAtRisk | None, scaled: FloatArray | None = None
    ) -> NetworkPatients:
        """The cohort ready for this model; see `NetworkPatients.of`."""
        check_fit(self.architecture, cohort, scaled)
        return NetworkPatients.of(
            cohort,
            placed,
            scaled,
            inputs=self.architecture.inputs,
            slide_weight=self.slide_weight,
            device=self.device,
            dtype=self._network.dtype,
        )

    def gradient(
        self,
        theta: FloatArray,
        alpha: FloatArray,
        patients: NetworkPatients,
        rows: IntArray | None = None,
    ) -> Derivatives:
        """Loss and gradient summed over all patients, or over those in `rows`.

        A patient who is there twice counts twice, and is looked at once.
        """
        played = self._played(theta, alpha, patients, rows)
        if played is not None:
            return played
        batch, placed = patients.weighed(rows)
        baseline = self._tensor(alpha)

        def slopes(phi: Tensor, part: slice) -> LossAndSlopes:
            return loss_and_slopes(
                phi,
                baseline,
                placed.take(part),
                link=self.link,
                event_weight=self.event_weight,
            )

        found = self._summed(self._network.at(theta, patients), batch, slopes)
        if not np.isfinite(found.loss):
            patients.check_features(batch.samples)
        return found

    def loss(
        self,
        theta: FloatArray,
        alpha: FloatArray,
        patients: NetworkPatients,
        rows: IntArray | None = None,
    ) -> float:
        """The loss alone, which takes half the work."""
        batch, placed = patients.weighed(rows)
        phi = self._network.at(theta, patients).scores(batch.samples)
        terms = loss_and_slopes(
            phi, self._tensor(alpha), placed, link=self.link, event_weight=self.event_weight
        )
        return float(terms.loss)

    def cell_gradient(
        self,
        theta: FloatArray,
        alpha: FloatArray,
        patients: NetworkPatients,
        rows: IntArray,
        intervals: IntArray,
    ) -> Derivatives:
        """Loss and gradient of single stacked rows: patient `rows`[k] in `intervals`[k].

        A cell of a patient is one of each of the patient's slides. A patient who has several
        cells is looked at once.
        """
        chosen, place = np.unique(rows, return_inverse=True)
        batch = patients.batch(chosen)
        placed = patients.placed_at(batch.samples)
        cells = batch.cells(place, intervals)
        baseline = self._tensor(alpha)

        def slopes(phi: Tensor, part: slice) -> LossAndSlopes:
            # Cells stand in order of their sample.
            here = slice(*np.searchsorted(cells[0], [part.start, part.stop]))
            sample, interval = (torch.from_numpy(own[here]).to(self.device) for own in cells)
            return cell_loss_and_slopes(
                phi,
                baseline,
                (sample - part.start, interval),
                placed.take(part),
                link=self.link,
                event_weight=self.event_weight,
            )

        return self._summed(self._network.at(theta, patients), batch, slopes)

    def cox_gradient(
        self, theta: FloatArray, patients: NetworkPatients, rows: IntArray | None = None
    ) -> Derivatives:
        """Cox's loss over these patients as one batch, and its gradient; α is empty.

        Each event is compared with the samples of the batch alone; all of them are held until
        the last score is known.
        """
        batch, placed = patients.weighed(rows)
        blocks = list(self._network.at(theta, patients).blocks(batch.samples))
        total = torch.zeros(size(self.architecture), dtype=torch.float64, device=self.device)
        if not blocks:
            return _answer(total.new_zeros(()), total, total[:0])
        samples = torch.from_numpy(batch.samples).to(self.device)
        phi = torch.cat([block.phi for _, block in blocks])
        terms = cox_loss(phi, patients.time[samples], patients.event[samples], placed.weight)
        for part, block in blocks:
            total += block.pull(terms.phi[part])
        return _answer(terms.loss, total, total[:0])

    def patient_gradients(
        self,
        theta: FloatArray,
        alpha: FloatArray,
        patients: NetworkPatients,
        rows: IntArray | None = None,
    ) -> Iterator[FloatArray]:
        """The gradient of each patient's own loss, θ then α, in blocks (patients, numbers).

        They come in the order of `rows`; all samples of a patient are added up. Never in half
        precision: how a GPU adds it up depends on who else is there, and no patient's share in
        a sum under noise may.
        """
        whole, baseline = patients.batch(rows), self._tensor(alpha)
        step = max(1, _NUMBERS // (theta.size + alpha.size))
        for first in range(0, whole.patients, step):
            batch = whole.part(first, min(first + step, whole.patients))
            # Between two blocks the caller may have put other weights into the module.
            phi = self._scorer.at(theta, patients)
            yield self._of_patients(phi, baseline, batch, patients.placed_at(batch.samples))

    def slide_scores(self, theta: FloatArray, patients: NetworkPatients) -> list[FloatArray]:
        """The score of each slide of each patient; of each patient where phi has no slides.

        Never in half precision.
        """
        if not patients.patients:
            return []
        samples = patients.batch().samples
        scores = self._scorer.at(theta, patients).scores(samples).cpu().numpy()
        patients.check_scores(samples, scores)
        return np.split(np.asarray(scores, dtype=np.float64), patients.first[1:-1])

    def _tensor(self, values: FloatArray) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, device=self.device)

    @cached_property
    def _network(self) -> NetworkPhi:
        return NetworkPhi(self.architecture, self.precision, self.device)

    @cached_property
    def _scorer(self) -> NetworkPhi:
        precision = score_precision(self.precision)
        if precision == self.precision:
            return self._network
        return NetworkPhi(self.architecture, precision, self.device)

    def _played(
        self,
        theta: FloatArray,
        alpha: FloatArray,
        patients: NetworkPatients,
        rows: IntArray | None,
    ) -> Derivatives | None:
        """The gradient by steps recorded on a GPU; None where there are no such."""
        if self.precision != "bfloat16" or torch.device(self.device).type != "cuda":
            return None
        check_theta(self.architecture, theta)
        kept = self._own.__dict__.setdefault("steps", WeakKeyDictionary())
        if patients not in kept:
            kept[patients] = recorded_steps(
                self.architecture,
                patients,
                intervals=self.intervals,
                link=self.link,
                event_weight=self.event_weight,
            )
        steps: RecordedSteps | None = kept[patients]
        if steps is None:
            return None
        batch, times = patients.distinct(rows)
        return steps.summed(theta, alpha, batch.samples, times)

    def _summed(
        self,
        phi: AbstractPhi,
        batch: SampleBatch,
        slopes: Callable[[Tensor, slice], LossAndSlopes],
    ) -> Derivatives:
        theta = torch.zeros(size(self.architecture), dtype=torch.float64, device=self.device)
        alpha, loss = theta.new_zeros(self.intervals), theta.new_zeros(())
        for part, block in phi.blocks(batch.samples):
            own = slopes(block.phi, part)
            theta += block.pull(own.phi)
            alpha += own.alpha
            loss += own.loss
        return _answer(loss, theta, alpha)

    def _of_patients(
        self, phi: AbstractPhi, alpha: Tensor, batch: SampleBatch, placed: PlacedSamples
    ) -> FloatArray:
        rows = torch.zeros(
            (batch.patients, size(self.architecture) + self.intervals),
            dtype=torch.float64,
            device=self.device,
        )
        for part, block in phi.blocks(batch.samples):
            own = self._own_slopes(block.phi, alpha, placed.take(part))
            each = torch.cat([own.sum(1, keepdim=True) * block.jacobian(), own], 1)
            for patient, sample in zip(batch.patient[part].tolist(), each, strict=True):
                rows[patient] += sample
        return np.asarray(rows.cpu().numpy(), dtype=np.float64)

    def _own_slopes(self, phi: Tensor, alpha: Tensor, placed: PlacedSamples) -> Tensor:
        """Each sample's slope in every interval: (samples, intervals).

        Slides one by one: how a processor rounds depends on where in an array a number stands,
        and so on who else is there. Rows of a table come in blocks of one size.
        """
        step = phi.numel() if self.architecture.inputs == "table" else 1
        parts = [slice(first, first + step) for first in range(0, phi.numel(), step)]
        each = [
            sample_slopes(
                phi[part],
                alpha,
                placed.take(part),
                link=self.link,
                event_weight=self.event_weight,
            ).alpha
            for part in parts
        ]
        return torch.cat(each)


def _answer(loss: Tensor, theta: Tensor, alpha: Tensor) -> Derivatives:
    # From a GPU all numbers come at once: each time it is asked for one, it is waited for.
    numbers = np.asarray(torch.cat([loss[None], theta, alpha]).cpu().numpy(), dtype=np.float64)
    ends = 1 + theta.numel()
    return Derivatives(float(numbers[0]), numbers[ends:], numbers[1:ends], None)
