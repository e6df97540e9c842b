"""MINI for slides: the tile scorer under Cox's loss, on minibatches of pooled slides.

The paper's baseline: batches of 30 slides without replacement, 20 epochs, Adam with a learning
rate of 0.001. Every slide is a sample of its own; the risk set of an event is what the batch
holds of it. A batch without an event teaches nothing and moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcox.errors import CohortError
from fedcox.models.architecture import TileScorer
from fedcox.survival.bags import Bags, SlideFeatures
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.descent import AdamDescent


@dataclass(frozen=True)
class SlideMinibatch:
    """How MINI is trained; the numbers are the paper's."""

    epochs: int = 20
    batch_size: int = 30
    learning_rate: float = 1e-3
    hidden: int = 128

    def train(self, patients: Cohort, *, seed: int) -> TileRisk:
        """Adam on all patients' slides; `seed` decides the start and the batches."""
        from fedcox.models.modules import start
        from fedcox.models.neural import NeuralModel

        slides = _slide_by_slide(patients)
        if not slides.event.any():
            raise CohortError("No training patient has an event.")
        architecture = TileScorer(_bags(slides).features, self.hidden)
        model = NeuralModel(architecture, "logit", 0)
        samples = model.lay_out(slides, None)
        theta = start(architecture, seed)
        adam, rng = AdamDescent(theta.size), np.random.default_rng(seed)
        for _ in range(self.epochs):
            order = rng.permutation(slides.patients)
            for first in range(0, slides.patients, self.batch_size):
                batch = order[first : first + self.batch_size]
                if slides.event[batch].any():
                    found = model.cox_gradient(theta, samples, batch)
                    adam.step(theta, found.beta / batch.size, self.learning_rate)
        return TileRisk(architecture, theta)


@dataclass(frozen=True, eq=False)
class TileRisk:
    """A trained tile scorer: risk of patients, scores of tiles, both times `slope`."""

    architecture: TileScorer
    theta: FloatArray
    slope: float = 1.0

    def tile_scores(self, slides: Sequence[SlideFeatures]) -> list[FloatArray]:
        """The exact score of every tile, one array for each slide."""
        from fedcox.models.tile_scorer import tile_scores

        return [
            self.slope * tile_scores(slide.read(), self.architecture, self.theta)
            for slide in slides
        ]

    def risk(self, patients: Cohort) -> FloatArray:
        """The mean over a patient's slides of the mean over their tiles; higher is worse."""
        means = [
            [float(scores.mean()) for scores in self.tile_scores(own)]
            for own in _bags(patients).slides
        ]
        return np.array([np.mean(own) for own in means])


def _slide_by_slide(patients: Cohort) -> Cohort:
    """Every slide as if it were a patient of its own, with the patient's outcome."""
    bags = _bags(patients)
    owner = [row for row, own in enumerate(bags.slides) for _ in own]
    return Cohort(
        np.empty((len(owner), 0)),
        patients.time[owner],
        patients.event[owner],
        bags=Bags(tuple((slide,) for own in bags.slides for slide in own), bags.features),
    )


def _bags(patients: Cohort) -> Bags:
    if patients.bags is None:
        raise CohortError("These patients have no slides.")
    return patients.bags
